"""Compaction: old, related memories of a scope are condensed into fewer.

Each group becomes one memory, a digest, and its originals are archived in the same transaction; `undo` restores them. A model
rewords the digest, and its answer is refused where a name or a number is lost; otherwise the digest consists of the originals'
own sentences.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from statistics import median

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import ModelError, ValidationError
from keepstone.maintenance import clusters, digest
from keepstone.ports.chat import ChatModel
from keepstone.ports.stores import Clock, Progress, Store
from keepstone.ports.values import ListQuery, Selector
from keepstone.text.times import lifetime
from keepstone.text.token_count import estimate_tokens
from keepstone.types import MESSAGE, Metadata, Receipt, Record, Scope, Usage, clean_name
from keepstone.write.flow import WriteFlow
from keepstone.write.request import WriteRequest

SOURCE = "compaction"  # the detail of a digest's source: "user:compaction"
COUNT = "compacted"  # of a digest's metadata: how many memories it was made of
_IGNORED_METADATA = (COUNT, "confidence")  # does not keep two memories apart
_TARGET_SHARE = 0.45  # of a digest's maximum size: short digests bring less unrelated text into a recall
_MIN_PAIR_FACTOR = 2.2  # times the median memory, so that two long memories can be joined
_SESSION_DISTANCE = 10  # positions between two sessions
_PAGE_SIZE = 1000
_MAX_MEMORIES = 10_000  # in one call, the oldest
_MAX_MODEL_FAILURES = 3  # in a row
_MAX_PROBLEMS = 50
_DAY_MICROS = 86_400_000_000


@dataclass(frozen=True, slots=True)
class CompactReport:
    """The result of a compaction. `before` and `after` count the active memories that were old enough; `groups` are the
    originals of each digest, or with a dry run of each extractive digest. `problems` hold no content."""

    before: int
    after: int
    digests: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...]
    tokens_before: int
    tokens_after: int
    tickets: tuple[int, ...] = ()
    dry_run: bool = False
    usage: Usage = Usage()
    problems: tuple[str, ...] = ()


@dataclass(slots=True)
class _Run:
    """The state of one compaction."""

    digests: list[str] = field(default_factory=list)
    groups: list[tuple[str, ...]] = field(default_factory=list)
    tickets: list[int] = field(default_factory=list)
    saved: int = 0  # tokens
    usage: Usage = Usage()
    problems: list[str] = field(default_factory=list)
    failures: int = 0

    def note_problem(self, group: Sequence[Record], what: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(f"{len(group)} memories from {group[0].id}: {what}.")


class Compactor:
    """Condenses the old memories of a scope."""

    def __init__(self, store: Store, writing: WriteFlow, model: ChatModel | None, clock: Clock) -> None:
        self._store = store
        self._writing = writing
        self.model = model
        self._clock = clock

    def compact(
        self,
        scope: Scope,
        *,
        older_than: timedelta | float,
        kinds: Collection[str] = ("fact", "note"),
        tag: str | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CompactReport:
        """Condense related memories that were not changed for `older_than`: the oldest 10,000 of these kinds, of one tag or of
        each. Those under a key, those that will expire and those that hold sensitive data stay as they are. A group that changes
        meanwhile is left alone, and so is one that a write limit refuses; run it again later."""
        wanted = _kinds(kinds)
        tag = None if tag is None else clean_name(tag, "tag")
        found = self._list_old(scope, self._clock() - lifetime(older_than, "older_than", may_be_zero=True), wanted, tag)
        groups = [group for part in _partition(found) for group in self._group_related(scope, part)]
        run = _Run()
        for done, group in enumerate(groups):
            if progress is not None:
                progress(done, len(groups))
            self._condense(scope, group, run, dry_run)
        if progress is not None:
            progress(len(groups), len(groups))
        tokens = sum(estimate_tokens(record.content) for _, record in found)
        return CompactReport(
            before=len(found),
            after=len(found) - sum(len(group) - 1 for group in run.groups),
            digests=tuple(run.digests),
            groups=tuple(run.groups),
            tokens_before=tokens,
            tokens_after=tokens - run.saved,
            tickets=tuple(run.tickets),
            dry_run=dry_run,
            usage=run.usage,
            problems=tuple(run.problems),
        )

    # -- grouping -------------------------------------------------------------------------------------------------
    def _list_old(self, scope: Scope, before: datetime, kinds: Sequence[str], tag: str | None) -> list[tuple[int, Record]]:
        """The oldest memories that may be condensed, with their sequences, oldest first."""
        found: list[tuple[int, Record]] = []
        for kind in kinds:
            kept: deque[tuple[int, Record]] = deque(maxlen=_MAX_MEMORIES)
            kept.extend(each for each in self._list_kind(scope, kind, tag) if _is_compactable(each[1], before))
            found += kept
        return sorted(found, key=lambda each: each[0])[:_MAX_MEMORIES]

    def _list_kind(self, scope: Scope, kind: str, tag: str | None) -> Iterator[tuple[int, Record]]:
        query = ListQuery(tag=tag, kind=kind, limit=_PAGE_SIZE)
        while page := self._store.list(scope, query):
            yield from page
            query = replace(query, before=page[-1][0])

    def _group_related(self, scope: Scope, part: Sequence[tuple[int, Record]]) -> list[list[Record]]:
        """Groups of memories that could stand in one, each fitting a digest."""
        rows = self._store.index_rows(scope, [sequence for sequence, _ in part])
        records = dict(part)
        still = [records[int(sequence)] for sequence in rows.sequences]
        vectors = clusters.features(rows.vectors, rows.terms, rows.ends, rows.occurred // _DAY_MICROS)
        costs = [digest.share(record.content) for record in still]
        room = min(1.0, max(_TARGET_SHARE, _MIN_PAIR_FACTOR * median(costs))) if costs else 1.0
        found = clusters.groups(vectors, costs, room=room, places=_positions(still))
        return [[still[row] for row in group] for group in found]

    # -- one group ------------------------------------------------------------------------------------------------
    def _condense(self, scope: Scope, group: list[Record], run: _Run, dry_run: bool) -> None:
        """Make a digest of a group and store it in its originals' place, or leave them."""
        group = sorted(group, key=lambda record: record.occurred_at)  # of the same time the one that was stored first
        text = digest.extract(_originals(group))
        if not digest.fits(text) or any(text == record.content for record in group):
            return  # the latter: one says all that the others do, and would take its own digest for a repetition
        if self.model is not None and not dry_run and run.failures < _MAX_MODEL_FAILURES:
            text = self._ask_model(self.model, group, run) or text
        if not dry_run:
            receipt = self._writing.remember(scope, [_request(group, text)])[0]
            if receipt.action != "added":
                run.note_problem(group, self._discard(scope, receipt, group))
                return
            run.digests.append(receipt.id or "")
            ticket = self._store.sequence_of(scope, receipt.id or "") or 0
            run.tickets.append(self._store.audit_log.places(scope, [ticket])[ticket])
        run.groups.append(tuple(record.id for record in group))
        run.saved += sum(estimate_tokens(record.content) for record in group) - estimate_tokens(text)

    def _discard(self, scope: Scope, receipt: Receipt, group: Sequence[Record]) -> str:
        """Undo a digest that the guard quarantined or redacted. Returns why the group stays as it is."""
        made = None if receipt.id is None else self._store.get(scope, receipt.id)
        if made is not None and made.parents == tuple(record.id for record in group):
            self._store.retention.undo(scope, self._store.sequence_of(scope, made.id) or 0)
            self._store.forget(scope, Selector(id=made.id))  # where it had archived nothing
        told = "; ".join(receipt.reasons) if receipt.action == "refused" else f"their digest was {receipt.action}"
        return f"left as they are, {told or 'refused'}"

    def _ask_model(self, model: ChatModel, group: Sequence[Record], run: _Run) -> str | None:
        """The model's digest; None where it fails or loses something."""
        from keepstone.prompts import compaction as prompt

        memories = [prompt.Memory(record.content, record.occurred_at) for record in group]
        try:
            answer = model.ask(prompt.render(memories))
        except ModelError as error:
            run.failures += 1
            run.note_problem(group, f"an extractive digest was made, {str(error).rstrip('.')}")
            if run.failures == _MAX_MODEL_FAILURES:
                run.problems.append(
                    f"The model failed {_MAX_MODEL_FAILURES} times in a row and was not asked again: check it, then run again."
                )
            return None
        run.failures = 0
        run.usage += answer.usage
        found = prompt.read(answer.text, memories)
        if found is None or found.problem is not None:
            why = "the answer is not the JSON that was asked for" if found is None else found.problem
            run.note_problem(group, f"an extractive digest was made, {why}")
            return None
        originals = _originals(group)
        text = digest.compose([(each.text, [number - 1 for number in each.memories]) for each in found.statements], originals)
        if not digest.fits(text) or estimate_tokens(text) > estimate_tokens(digest.extract(originals)):
            run.note_problem(group, "an extractive digest was made, the statements are longer than these")
            return None
        return text


def _kinds(kinds: Collection[str]) -> tuple[str, ...]:
    if isinstance(kinds, str) or not isinstance(kinds, Iterable):
        raise ValidationError(f"kinds must be a list of kinds, got {kinds!r:.40}: use ['fact'].")
    wanted = tuple(dict.fromkeys(clean_name(kind, "kind") for kind in kinds))
    if MESSAGE in wanted:
        raise ValidationError("messages cannot be compacted, a conversation's summary does that: leave 'message' out of kinds.")
    return wanted


def _is_compactable(record: Record, before: datetime) -> bool:
    """Whether a memory is old and has no key, expiry or sensitive data."""
    plain = record.status == "active" and record.key is None and record.expires_at is None and not record.sensitive
    return plain and record.updated_at <= before


def _partition(found: Sequence[tuple[int, Record]]) -> list[list[tuple[int, Record]]]:
    """Memories by what must be equal in a group: kind, tag, metadata, whose words they are and how far those are trusted."""
    parts: dict[tuple[object, ...], list[tuple[int, Record]]] = {}
    for sequence, record in found:
        said = json.dumps(_shared(record.metadata), sort_keys=True)
        same = (record.kind, record.tag, said, record.source.partition(":")[0], round(record.trust, 1))
        parts.setdefault(same, []).append((sequence, record))
    return list(parts.values())


def _positions(records: Sequence[Record]) -> NDArray[np.int64]:
    """Where each memory stands in the order of time; those of another session, or else of another day, are far away."""
    places = np.zeros(len(records), np.int64)
    place, last = 0, None
    for at in sorted(range(len(records)), key=lambda at: (records[at].occurred_at, at)):
        together = records[at].session or records[at].occurred_at.date()
        place += 1 if together == last else _SESSION_DISTANCE
        places[at], last = place, together
    return places


def _shared(metadata: Metadata) -> dict[str, object]:
    return {name: value for name, value in metadata.items() if name not in _IGNORED_METADATA}


def _originals(group: Sequence[Record]) -> list[digest.Original]:
    return [digest.Original(record.content, record.occurred_at, dated=record.source.endswith(f":{SOURCE}")) for record in group]


def _request(group: Sequence[Record], text: str) -> WriteRequest:
    """A digest as a write: no more trusted than the least trusted of its originals, as important as the most important."""
    least = min(group, key=lambda record: record.trust)
    sessions = {record.session for record in group}
    ids = tuple(record.id for record in group)
    return WriteRequest(
        text,
        kind=least.kind,
        tag=least.tag,
        importance=max(record.importance for record in group),
        metadata={**_shared(least.metadata), COUNT: len(group)},
        source=f"{least.source.partition(':')[0][:200]}:{SOURCE}",
        session=sessions.pop() if len(sessions) == 1 else None,
        occurred_at=max(record.occurred_at for record in group),
        parents=ids,
        made_from=tuple((record.id, record.version) for record in group),
        replaces=ids,
        trust=least.trust,
    )
