"""The rules of writing inside a transaction: add, supersede, merge, revise, and rate limits.

Every function leaves committing to the driver. Each writes one audit entry for each record it changes; its number is the
record's new change number, and a new record's sequence. The token buckets of rate limits are in the store, so that all
processes share them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from keepstone.errors import Conflict, NotFound
from keepstone.ports.values import Draft, Limit, Merge, Revision, Screening, Vector, Write
from keepstone.stores.common import lineage
from keepstone.stores.common.archiving import archive, find_living, flag
from keepstone.stores.common.rows import content_hash, new_id, packed, record_of, unpacked
from keepstone.stores.common.transaction import Lookup, Transaction
from keepstone.stores.common.write_context import State, WriteContext, audit
from keepstone.text.passages import Passage, further_passages, passage_number, passage_range
from keepstone.text.sentences import MAX_PASSAGE_CHARS, first_stop, is_long
from keepstone.text.times import micros
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import MESSAGE, UNTRUSTED, Action, Receipt, Scope

_CLOCK_TOLERANCE_US = 60_000_000  # times closer than this are taken as equal
_USER_TRUST = 0.9  # trust of the user's own statements


def lookups(scope: int | None, items: Sequence[Write], now: int) -> list[Lookup]:
    """The queries that the write of one active memory begins with."""
    draft = items[0].draft if len(items) == 1 else None
    if scope is None or draft is None or draft.status != "active" or draft.kind == MESSAGE:
        return []
    if draft.key is not None:
        return [("record_state_by_key", (scope, draft.key))]
    same = ("record_same", (scope, content_hash(draft.content), draft.kind, draft.tag))
    alike = ("record_alike", (scope, draft.dedup_key, draft.kind, draft.tag, now))
    return [same] if items[0].merge_check is None or draft.dedup_key is None else [same, alike]


def write(db: Transaction, context: WriteContext, scope: Scope, item: Write) -> Receipt:
    """Apply the rules of `Store.write` to one draft."""
    if item.idempotency_key is not None:
        known = db.one("idempotency_find", (context.scope, item.idempotency_key))
        if known is not None:
            return _stored_receipt(item, *known)
    screening = item.screening or Screening()
    denied = refusal(db, context, "remember", item.draft.source, None, screening, item.limits)
    if denied is not None:
        return denied
    if screening.reasons:
        item = replace(item, reasons=(*screening.reasons, *item.reasons))
    if screening.redacted:
        context = replace(context, redacted=True)
    receipt = _apply_rules(db, context, scope, item)
    if item.reasons and not (receipt.action == "duplicate" and item.draft.status != "active"):
        action = cast(Action, context.stored_action(receipt.action))
        receipt = replace(receipt, action=action, reasons=(*item.reasons, *receipt.reasons))
    if receipt.action not in ("duplicate", "refused"):
        take_tokens(db, context, item.limits)
    if item.idempotency_key is not None and receipt.action != "refused":
        stored = packed([receipt.action, receipt.id, receipt.version, list(receipt.reasons)])
        db.run("idempotency_add", (context.scope, item.idempotency_key, item.fingerprint, stored, receipt.id, context.now))
    return receipt


def refusal(db: Transaction, context: WriteContext, verb: str, source: str, id: str | None, screening: Screening,
            wanted: Sequence[Limit]) -> Receipt | None:  # fmt: skip
    """Audit a write that the guard or a limit refuses and return its receipt; None if it is not refused."""
    seconds, limit = (0.0, None) if screening.refused else wait_for_tokens(db, context, wanted)
    if not screening.refused and limit is None:
        return None
    reasons = screening.reasons if limit is None else (limit.description,)
    audit(db, context, verb, "refused", None, id, 0, source, reasons)
    if limit is None:
        return Receipt("refused", None, 0, reasons)
    return Receipt(
        "refused", None, 0, (f"{limit.description}: try again in {max(seconds, 0.1):.1f} seconds",), retry_after=seconds
    )


def _refuse(db: Transaction, context: WriteContext, draft: Draft, reason: str, told: str | None = None) -> Receipt:
    """The receipt of a write whose parents or key changed."""
    audit(db, context, "remember", "refused", None, None, 0, draft.source, (reason,))
    return Receipt("refused", None, 0, (told or reason,))


def _stored_receipt(item: Write, fingerprint: str, stored: str) -> Receipt:
    if fingerprint != item.fingerprint:
        raise Conflict(
            f"idempotency key {item.idempotency_key!r} was used before for another body: use a new key for a new write."
        )
    action, id, version, reasons = json.loads(stored)
    return Receipt(action, id, version, tuple(reasons))


def _apply_rules(db: Transaction, context: WriteContext, scope: Scope, item: Write) -> Receipt:
    if any(db.one("record_version", (context.scope, id)) != (version,) for id, version in item.made_from):
        return _refuse(db, context, item.draft, "what it was made from has been forgotten or reworded")
    if any(db.one("record_with_status", (context.scope, id, "active")) is None for id in item.replaces):
        return _refuse(db, context, item.draft, "what it was to replace has been put aside already")
    if item.draft.parents:
        least = db.one("record_least_trust", (context.scope, packed(list(item.draft.parents))))[0]
        if least is not None and least < item.draft.trust:
            item = replace(item, draft=replace(item.draft, trust=least))
    draft = item.draft
    digest = content_hash(draft.content)
    if draft.status == "active" and draft.trust < _USER_TRUST and db.one("review_same", (context.scope, digest)) is not None:
        reasons = (*item.reasons, "the same text waits for a review")
        item = replace(item, draft=replace(draft, status="quarantined"), reasons=reasons)
        return replace(_add(db, context, item, digest), reasons=reasons[-1:])
    if draft.status != "active":  # it neither supersedes nor repeats an active record
        same = None if draft.kind == MESSAGE else db.one("review_same", (context.scope, digest))
        if same is not None:
            audit(db, context, "remember", "duplicate", None, same[0], same[1], draft.source, item.reasons)
            return Receipt("duplicate", same[0], same[1], ("the same text is in quarantine already",))
        if draft.kind != MESSAGE and draft.key is None:
            known = find_living(db, context, "record_same", (context.scope, digest, draft.kind, draft.tag))
            if known is not None:
                audit(db, context, "remember", "duplicate", None, known.id, known.version, draft.source)
                return Receipt("duplicate", known.id, known.version, ("the same text is stored already",))
        return _add(db, context, item, digest)
    if draft.key is not None:
        state = find_living(db, context, "record_state_by_key", (context.scope, draft.key))
        if (
            state is not None
            and item.made_from
            and draft.kind == state.kind == "fact"
            and _is_outdated(db, context, draft, state)
        ):
            return _refuse(db, context, draft, "its key holds something newer", f"key {draft.key!r:.60} holds something newer")
        if state is not None:
            return _supersede(db, context, item, state, digest)
    elif draft.kind != MESSAGE:
        state = find_living(db, context, "record_same", (context.scope, digest, draft.kind, draft.tag))
        if state is not None:
            return _repeat(db, context, item, state)
        if item.merge_check is not None and draft.dedup_key is not None:
            for row in db.all("record_alike", (context.scope, draft.dedup_key, draft.kind, draft.tag, context.now)):
                merge = item.merge_check(record_of(row, scope)[1])
                if merge is not None:
                    return _merge(db, context, item, State(*db.one("record_state", (context.scope, row[1]))), merge, digest)
    return _add(db, context, item, digest)


def _is_outdated(db: Transaction, context: WriteContext, draft: Draft, state: State) -> bool:
    """Whether the value of a key is newer than the derived one: by time, or by the order of messages if the times are close (a
    clock may step back a little, and nothing lies in the future)."""
    gap = micros(draft.occurred_at) - min(state.valid_from, context.now)
    if abs(gap) > _CLOCK_TOLERANCE_US:
        return gap < 0
    held, new = (db.one("record_newest", (context.scope, parents))[0] for parents in (state.parents, packed(draft.parents)))
    return held is not None and new is not None and held > new


def _repeat(db: Transaction, context: WriteContext, item: Write, state: State) -> Receipt:
    """The same content again: update the record by what the repetition brings and add a support."""
    draft = item.draft
    was = (unpacked(state.parents), state.session)
    lineage.add_support(db, context, state.sequence, state.version, was, (draft.parents, draft.session))
    known = json.loads(state.metadata)
    changed = state._replace(
        metadata=packed({**known, **draft.metadata}) if {**known, **draft.metadata} != known else state.metadata,
        importance=max(state.importance, draft.importance),
        expires_at=_longer(state.expires_at, draft),
    )
    if draft.trust > state.trust:
        changed = changed._replace(source=draft.source, trust=draft.trust)
    taken = [name for name in ("metadata", "importance", "source") if getattr(changed, name) != getattr(state, name)]
    reasons = ["the same content is remembered already"]
    if changed.expires_at != state.expires_at:
        reasons.append("it is now kept for longer")
    if taken:
        reasons.append(f"taken over from this write: {', '.join(taken)}")
        changed = changed._replace(version=state.version + 1, action="merged")
        change(db, context, "remember", state, changed, None, item.reasons, draft.source)
        return Receipt("merged", state.id, changed.version, tuple(reasons))
    number = audit(db, context, "remember", "duplicate", state.sequence, state.id, state.version, draft.source, item.reasons)
    again = micros(draft.occurred_at)
    if changed.expires_at != state.expires_at or again > state.occurred_at:
        db.run("record_extend", (state.sequence, number, changed.expires_at, max(again, state.occurred_at)))
    return Receipt("duplicate", state.id, state.version, tuple(reasons))


def _longer(expires: int | None, draft: Draft) -> int | None:
    if expires is None or draft.expires_at is None:
        return None
    return max(expires, micros(draft.expires_at))


def _add(db: Transaction, context: WriteContext, item: Write, digest: bytes) -> Receipt:
    """Store a new record with its words, vector and audit entry."""
    draft = item.draft
    vector = context.kept(db, draft.vector)
    id = new_id()
    action: Action = "quarantined" if draft.status == "quarantined" else "added"
    sequence = audit(db, context, "remember", action, None, id, 1, draft.source, item.reasons)
    occurred = micros(draft.occurred_at)
    expires = None if draft.expires_at is None else micros(draft.expires_at)
    db.run("record_add", (
        sequence, context.scope, id, draft.kind, draft.tag, draft.key, draft.content, digest, packed(draft.metadata),
        draft.importance, draft.source, draft.trust, draft.session, draft.role, draft.name, occurred, context.now,
        occurred, expires, draft.status, packed(draft.parents), draft.dedup_key, draft.blocks, packed(draft.sensitive),
    ))  # fmt: skip
    lineage.add_first_support(db, context, sequence, 1, draft.parents, draft.session)
    db.run("vector_add", (sequence, 1, term_hashes(draft.terms).tobytes(), *vector, None, head_stop(draft.content)))
    db.run("words_add", (sequence, context.token, " ".join(draft.terms)))
    add_passages(db, context, sequence, 1, draft.content, draft.key, draft.passages)
    if draft.status == "quarantined":
        reason = item.reasons[-1] if item.reasons else "it may not replace what is trusted more"
        flag(db, context, sequence, 1, "quarantined", reason)
    if item.replaces and draft.status == "active":
        archive(db, context, item.replaces, "compacted", sequence)
    return Receipt(action, id, 1)


def _supersede(db: Transaction, context: WriteContext, item: Write, state: State, digest: bytes) -> Receipt:
    draft = item.draft
    facts = (packed(draft.metadata), draft.importance, draft.tag, draft.kind)
    if digest == state.hash and facts == (state.metadata, state.importance, state.tag, state.kind):
        return _repeat(db, context, item, state)
    if draft.trust < min(UNTRUSTED, state.trust):
        reason = f"{draft.source!r:.60} is trusted less than what key {draft.key!r:.60} holds, so it may not replace it"
        reasons = (*item.reasons, "its source may not replace what its key holds")
        receipt = _add(db, context, replace(item, draft=replace(draft, status="quarantined"), reasons=reasons), digest)
        return replace(receipt, reasons=(reason,))  # not in the audit log: it names the key, which must be forgettable
    occurred = micros(draft.occurred_at)
    changed = state._replace(
        content=draft.content, hash=digest, metadata=packed(draft.metadata), importance=draft.importance, tag=draft.tag,
        source=draft.source, trust=draft.trust, session=draft.session, role=draft.role, name=draft.name,
        occurred_at=occurred, valid_from=occurred, kind=draft.kind, parents=packed(draft.parents),
        expires_at=None if draft.expires_at is None else micros(draft.expires_at), action="superseded",
        version=state.version + 1, sensitive=packed(draft.sensitive),
    )  # fmt: skip
    index = Index(draft.terms, draft.vector, draft.passages)
    change(db, context, "remember", state, changed, index, item.reasons, rests_on=draft.parents)
    reason = f"key {draft.key!r} had another value; it is kept as version {state.version}"
    return Receipt("superseded", state.id, changed.version, (reason,))


def _merge(db: Transaction, context: WriteContext, item: Write, state: State, merge: Merge, digest: bytes) -> Receipt:
    draft = item.draft
    changed = state._replace(
        importance=max(state.importance, draft.importance), expires_at=_longer(state.expires_at, draft), action="merged"
    )
    if draft.trust > state.trust:
        changed = changed._replace(source=draft.source, trust=draft.trust)
    if merge.replace or draft.trust > state.trust:  # a source's trust does not apply to another's wording
        changed = changed._replace(
            content=draft.content, hash=digest, dedup_key=draft.dedup_key, version=state.version + 1, source=draft.source,
            trust=draft.trust, session=draft.session, role=draft.role, name=draft.name, parents=packed(draft.parents),
            sensitive=packed(draft.sensitive),
        )  # fmt: skip
        index = Index(draft.terms, draft.vector, draft.passages)
        change(db, context, "remember", state, changed, index, item.reasons, draft.source, draft.parents)
    else:
        changed = changed._replace(version=state.version + 2)
        change(db, context, "remember", state, changed, None, item.reasons, draft.source)
        db.run("history_put", (
            state.sequence, state.version + 1, draft.content, digest, packed(draft.metadata), draft.importance, draft.kind,
            draft.tag, draft.source, draft.trust, draft.session, draft.role, draft.name, micros(draft.occurred_at),
            micros(draft.occurred_at), context.now, state.expires_at, "merged", term_hashes(draft.terms).tobytes(),
        ))  # fmt: skip
        lineage.add_first_support(db, context, state.sequence, state.version + 1, draft.parents, draft.session)
    return Receipt("merged", state.id, changed.version, (merge.reason,))


def revise(db: Transaction, context: WriteContext, id: str, revision: Revision) -> Receipt:
    """Change one record's content, importance or metadata."""
    row = db.one("record_state", (context.scope, id))
    if row is None:
        raise NotFound(f"there is no record {id!r:.80} in this scope: list shows its records.")
    state = State(*row)
    if state.status == "archived":
        raise Conflict(f"record {id} is archived: restore it first with upkeep.restore([{id!r}]).")
    if revision.expected_version is not None and revision.expected_version != state.version:
        raise Conflict(f"record {id} is at version {state.version}, not {revision.expected_version}: read it again, then decide.")
    screening = revision.screening or Screening()
    denied = refusal(db, context, "update", revision.source or state.source, id, screening, revision.limits)
    if denied is not None:
        return denied
    new = revision.content is not None and revision.content != state.content
    changed = state._replace(
        content=revision.content if revision.content is not None else state.content,
        importance=state.importance if revision.importance is None else revision.importance,
        metadata=state.metadata if revision.metadata is None else packed(revision.metadata),
        tag=state.tag if revision.tag is None else revision.tag,
        version=state.version + 1,
        action="updated",
        valid_from=_since(context, revision, new, state),
        sensitive=state.sensitive if revision.sensitive is None else packed(revision.sensitive),
        source=state.source if revision.source is None else revision.source,
        trust=state.trust if revision.trust is None else min(state.trust, revision.trust),
    )
    moved = revision.valid_from is not None and changed.valid_from != state.valid_from
    if changed[2:7] == state[2:7] and not moved:
        return Receipt("duplicate", id, state.version, ("nothing differs from what is stored",))
    if new:
        changed = changed._replace(hash=content_hash(changed.content), dedup_key=revision.dedup_key)
        if state.kind == MESSAGE:
            db.all("state_derived", (context.scope, state.session or "", True))  # states made from the previous content
    if (new or changed.tag != state.tag) and state.key is None and state.kind != MESSAGE and state.status == "active":
        same = find_living(db, context, "record_same", (context.scope, changed.hash, state.kind, changed.tag))
        if same is not None:
            raise Conflict(f"record {same.id} has this content already: forget one of the two instead.")
    index = Index(revision.terms, revision.vector, revision.passages) if new else None
    context = replace(context, redacted=screening.redacted)
    change(db, context, "update", state, changed, index, screening.reasons)
    take_tokens(db, context, revision.limits)
    reasons = (*screening.reasons, f"what it was is kept as version {state.version}")
    return Receipt(cast(Action, context.stored_action("updated")), id, changed.version, reasons)


def _since(context: WriteContext, revision: Revision, new: bool, state: State) -> int:
    """The valid_from of a revised record."""
    if revision.valid_from is not None:
        return micros(revision.valid_from)
    return context.now if new else state.valid_from


@dataclass(frozen=True, slots=True)
class Index:
    """Terms and vector of a new content, and its further passages."""

    terms: Sequence[str]
    vector: Vector | None
    passages: Sequence[Passage] = ()


def head_stop(content: str) -> int | None:
    """Where the first passage of a long text ends; None for a text that is one passage."""
    return first_stop(content) if len(content) > MAX_PASSAGE_CHARS else None


def add_passages(db: Transaction, context: WriteContext, sequence: int, version: int, content: str, key: str | None,
                 passages: Sequence[Passage] = ()) -> None:  # fmt: skip
    """Store the further passages of a long text, which are made here if they are not given."""
    if len(content) <= MAX_PASSAGE_CHARS:
        return
    for place, passage in enumerate(passages or further_passages(content, key), 1):
        number, vector = passage_number(sequence, place), context.kept(db, passage.vector)
        db.run("vector_add", (number, version, passage.hashes, *vector, passage.start, passage.stop))
        db.run("words_add", (number, context.token, passage.words))


def remove_words(db: Transaction, context: WriteContext, sequence: int, content: str, key: str | None) -> None:
    """Remove a record's words from the index, which holds no text and needs to be given them; with the further passages of a long
    text."""
    passages = further_passages(content, key)
    words = [" ".join(record_terms(content, key)), *(passage.words for passage in passages)]
    db.remove_words([(passage_number(sequence, place), context.token, text) for place, text in enumerate(words)])
    if passages:
        db.run("passages_delete", (context.scope, *passage_range(sequence)))
        db.run("next_delete_passages", passage_range(sequence))


def change(db: Transaction, context: WriteContext, verb: str, state: State, changed: State, index: Index | None,
           reasons: Sequence[str] = (), by: str | None = None,
           rests_on: Sequence[str] | None = None) -> None:  # fmt: skip
    """Move a record to a new state and the old one to the history. `by`: the actor, if not the record's source; `rests_on`: the
    parents of the new state, if they differ."""
    source = changed.source if by is None else by
    number = audit(db, context, verb, changed.action, state.sequence, state.id, changed.version, source, reasons)
    db.run("history_add", (state.sequence,))
    db.run("record_change", (
        state.sequence, number, changed.content, changed.hash, changed.metadata, changed.importance, changed.tag,
        changed.source, changed.trust, changed.session, changed.role, changed.name, changed.occurred_at, context.now,
        changed.valid_from, changed.expires_at, changed.version, changed.action, changed.kind, changed.parents,
        changed.dedup_key, changed.sensitive,
    ))  # fmt: skip
    if rests_on is None:
        lineage.copy_supports(db, state.sequence, state.version, changed.version)
    else:
        lineage.add_first_support(db, context, state.sequence, changed.version, rests_on, changed.session)
    if index is None:
        db.run("vector_version", (state.sequence, changed.version))
        if is_long(state.content):
            db.run("passages_version", (context.scope, *passage_range(state.sequence), changed.version))
        return
    vector = context.kept(db, index.vector)
    remove_words(db, context, state.sequence, state.content, state.key)
    db.run("words_add", (state.sequence, context.token, " ".join(index.terms)))
    hashes = term_hashes(index.terms).tobytes()
    db.run("vector_change", (state.sequence, changed.version, hashes, *vector, head_stop(changed.content)))
    add_passages(db, context, state.sequence, changed.version, changed.content, changed.key, index.passages)


def wait_for_tokens(db: Transaction, context: WriteContext, limits: Sequence[Limit]) -> tuple[float, Limit | None]:
    """(seconds until every bucket has a token, the limit that takes longest); (0, None) if all have one."""
    longest, which = 0.0, None
    for limit in limits:
        tokens, since = _bucket(db, context, limit)
        # Without a refill only the interval counts.
        missing = max(0.0, 1.0 - tokens) / limit.per_second if limit.per_second > 0 else 0.0
        seconds = max(missing, limit.interval - since) if since is not None else missing
        if seconds > 1e-9 and seconds > longest:
            longest, which = seconds, limit
    return longest, which


def take_tokens(db: Transaction, context: WriteContext, limits: Sequence[Limit]) -> None:
    """Take a token out of every bucket."""
    for limit in limits:
        tokens, _ = _bucket(db, context, limit)
        db.run("bucket_put", (context.scope, limit.name, tokens - 1.0, context.now))


def _bucket(db: Transaction, context: WriteContext, limit: Limit) -> tuple[float, float | None]:
    """(tokens in a bucket, seconds since the last was taken, None if none ever was)."""
    row = db.one("bucket_get", (context.scope, limit.name))
    if row is None or row[1] > context.now + _CLOCK_TOLERANCE_US:  # never used, or written by a clock that ran ahead
        return limit.burst, None
    since = max(0.0, (context.now - row[1]) / 1e6)
    return min(limit.burst, row[0] + since * limit.per_second), since
