"""Deletion of records from every table inside a transaction, with what was derived from them, and redaction.

To forget a source or a session is to undo it: its versions go from every history, a record that was its own goes, and one that
had another source or session before shows what was said there. What rests on something forgotten goes too, version by version,
unless it was said elsewhere as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from keepstone.ports.values import ImportRow, Selector
from keepstone.stores.common import lineage
from keepstone.stores.common.archiving import archive, find_living, restore
from keepstone.stores.common.rows import content_hash, packed, unpacked
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import State, WriteContext, audit
from keepstone.stores.common.writes import Index, add_passages, change, head_stop, remove_words
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import MESSAGE

_DERIVED = ("it was derived from something forgotten",)


@dataclass(slots=True)
class Forgotten:
    """What was deleted: ids, every text that must not stay in the file, and row counts by table."""

    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    places: Counter[str] = field(default_factory=Counter)
    sessions: set[str] = field(default_factory=set)  # of deleted messages
    summarised: list[str] = field(default_factory=list)  # sessions whose summary was deleted with one of its messages


def forget(db: Transaction, context: WriteContext, selector: Selector) -> Forgotten:
    """Delete the selected records and what was derived from them from every table."""
    chosen = {
        "scope": context.scope, "everything": selector.everything, "id": selector.id, "key": selector.key,
        "ids": None if selector.ids is None else packed(list(selector.ids)),
        "session": selector.session, "source": selector.source, "kind": selector.kind, "aside": selector.archived,
    }  # fmt: skip
    gone = Forgotten()
    cleaned: set[int] = set()
    undoing = selector.source is not None or selector.session is not None
    if undoing:
        for sequence, version, content, metadata in db.all("forget_versions", chosen):
            _drop_version(db, gone, sequence, version, content, metadata)
            cleaned.add(sequence)
    by_id = selector.id is not None or selector.ids is not None  # the queries of ids and of a session read no other record
    query = "forget_find_ids" if by_id else "forget_find" if selector.session is None else "forget_find_session"
    for sequence, id in db.all(query, chosen):
        cleaned.discard(sequence)
        if id in gone.ids and db.one("record_sequence", (context.scope, id)) is None:
            continue
        if selector.session is not None and _keep_in_other_session(db, context, sequence, selector.session):
            continue
        _take_back(db, context, gone, id, undoing)
    for sequence in sorted(cleaned):
        id, version = db.one("record_name", (sequence,))
        number = audit(db, context, "unsay", "forgotten", sequence, id, version, "system")
        db.run("record_changed", (sequence, number))  # an index entry may show the old version
        gone.ids.append(id)
    if selector.session is not None and selector.kind is None:
        for sequence, version, support in db.all("lineage_of_session", (context.scope, selector.session)):
            if len(lineage.supports(db, sequence, version)) > 1:
                lineage.drop_support(db, sequence, version, support)
                _promote(db, context, sequence, version)
    _cascade(db, context, gone, keep="all" if selector.keep_derived else "facts" if selector.keep_facts else "none")
    _clear_states_and_jobs(db, context, selector, gone)
    gone.ids[:] = dict.fromkeys(gone.ids)
    gone.summarised[:] = dict.fromkeys(gone.summarised)
    return gone


def retract(db: Transaction, context: WriteContext, id: str) -> None:
    """Delete a record that was made from others and restore those."""
    gone = Forgotten()
    _take_back(db, context, gone, id, undoing=False)
    _cascade(db, context, gone)


def release(db: Transaction, context: WriteContext, id: str, by: str, settled: str) -> bool:
    """Make a quarantined record active. It supersedes the record that holds its key; if an active record has its content, it is
    deleted. Returns whether it was quarantined."""
    row = db.one("record_state", (context.scope, id))
    state = None if row is None else State(*row)
    if state is None or state.status != "quarantined":
        return False
    number = audit(db, context, "review", settled, state.sequence, id, state.version, by, ("quarantined",))
    db.run("review_close", (state.sequence, "quarantined", settled))
    held = None
    if state.key is not None:
        held = find_living(db, context, "record_state_by_key", (context.scope, state.key))
    elif state.kind != MESSAGE:
        held = find_living(db, context, "record_same", (context.scope, state.hash, state.kind, state.tag))
    if held is None:
        db.run("record_release", (state.sequence, number))
        return True
    present = held
    if state.key is not None:
        terms = record_terms(state.content, state.key)
        blob = db.one("record_vector", (state.sequence, context.model))
        vector = None if blob is None or context.dimension is None else db.read([blob[0]], context.dimension)[0]
        changed = state._replace(
            sequence=present.sequence, id=present.id, version=present.version + 1, status="active", expires_at=None,
            action="superseded",
        )  # fmt: skip
        change(db, context, "review", present, changed, Index(terms, vector), rests_on=unpacked(state.parents))
    retract(db, context, id)
    return True


def _drop_version(db: Transaction, gone: Forgotten, sequence: int, version: int, content: str, metadata: str) -> None:
    db.run("history_delete_version", (sequence, version))
    db.run("lineage_drop_version", (sequence, version))
    gone.texts += [content, metadata]
    gone.places["versions"] += 1


def _keep_in_other_session(db: Transaction, context: WriteContext, sequence: int, session: str) -> bool:
    """Move a record to another session that also stated it. Returns whether there is one."""
    id, version = db.one("record_name", (sequence,))
    held = lineage.supports(db, sequence, version)
    if len({where for _, _, where in held}) < 2:
        return False
    for support, _, where in held:
        if where == session:
            lineage.drop_support(db, sequence, version, support)
    lineage.promote_support(db, context, sequence, version)
    db.run("record_changed", (sequence, audit(db, context, "unsay", "forgotten", sequence, id, version, "system")))
    return True


def _take_back(db: Transaction, context: WriteContext, gone: Forgotten, id: str, undoing: bool, derived: bool = False) -> None:
    """Restore the last version of another source, or delete the record from every table."""
    state = State(*db.one("record_state", (context.scope, id)))
    sequence = state.sequence
    gone.ids.append(id)
    others = db.one("forget_texts", (sequence,))
    gone.texts += [text for text in (state.content, state.key, state.session, state.metadata, *others) if text]
    if state.kind == MESSAGE:
        gone.sessions.add(state.session or "")
    earlier = db.one("history_last", (sequence,)) if undoing else None
    if earlier is not None and not _taken(db, context, state, earlier):
        _restore_version(db, context, state, earlier)
        gone.places["versions"] += 1
        return
    rested_on = unpacked(state.parents)
    how = db.one("archived_how", (sequence,))
    past = db.all("history_list", (sequence,))
    gone.texts += [text for row in past for text in row[1:3]]
    audit(db, context, "forget", "forgotten", sequence, id, state.version, "system", _DERIVED if derived else ())
    remove_words(db, context, sequence, state.content, state.key)
    vector = db.one("vector_kept", (sequence,))
    for place, statement in (
        ("vectors", "vector_delete"), ("versions", "history_delete"), ("reads", "access_delete"),
        ("records", "record_delete"), ("reviews", "review_drop"), ("", "lineage_drop"), ("", "next_delete"),
    ):  # fmt: skip
        if not place:
            db.run(statement, (sequence,))
        elif (went := db.count(statement, (sequence,))) and (place != "vectors" or vector is not None):
            gone.places[place] += went
    gone.places["words"] += 1
    if derived:
        gone.places["summaries" if state.kind == "summary" else "derived"] += 1
        if state.kind == "summary" and state.session is not None:
            gone.summarised.append(state.session)
    if receipts := db.count("idempotency_forget", (context.scope, id)):
        gone.places["receipts"] += receipts
    originals = [each for each in rested_on if each not in gone.ids]
    if state.status == "archived":
        for original in originals:  # archived with their digest
            db.run("archived_reason_change", (context.scope, original, *how))
        return
    compacted = [each for each in originals if db.one("archived_as_compacted", (context.scope, each)) is not None]
    restore(db, context, compacted)  # the originals of a digest


def _cascade(db: Transaction, context: WriteContext, gone: Forgotten, keep: str = "none") -> None:
    """Remove the support of what was derived from deleted records; a version without support is deleted. Records that are kept
    all the same (everything, or all but summaries) lose their parents."""
    done: set[str] = set()
    while waiting := [id for id in gone.ids if id not in done]:
        for parent in waiting:
            done.add(parent)
            children = sorted(db.all("lineage_children", (context.scope, parent)))  # older versions first
            for sequence, version, support in children:
                kind = db.one("record_kind", (sequence,))
                if kind is not None and (keep == "all" or (keep == "facts" and kind != ("summary",))):
                    db.run("lineage_drop_parent", (context.scope, parent, sequence, version, support))
                    if lineage.supports(db, sequence, version):
                        _promote(db, context, sequence, version)
                    else:
                        db.run("record_clear_parents", (sequence, version))
                else:
                    _unsupport(db, context, gone, sequence, version, support)


def _unsupport(db: Transaction, context: WriteContext, gone: Forgotten, sequence: int, version: int, support: int) -> None:
    left = lineage.drop_support(db, sequence, version, support)
    row = db.one("record_name", (sequence,))
    if row is None:
        return
    if left:
        _promote(db, context, sequence, version)
    elif row[1] == version:
        _take_back(db, context, gone, row[0], undoing=True, derived=True)
    else:
        old = db.one("history_texts", (sequence, version))
        if old is not None:
            _drop_version(db, gone, sequence, version, *old[:2])
            number = audit(db, context, "unsay", "forgotten", sequence, row[0], version, "system", _DERIVED)
            db.run("record_changed", (sequence, number))
            gone.ids.append(row[0])  # records derived from it may rest on that wording


def _promote(db: Transaction, context: WriteContext, sequence: int, version: int) -> None:
    """Set the parents of a record's current version to its remaining support."""
    id, present = db.one("record_name", (sequence,)) or (None, None)
    if present == version:
        lineage.promote_support(db, context, sequence, version)
        number = audit(db, context, "unsay", "forgotten", sequence, id, version, "system", ("another support of it is left",))
        db.run("record_changed", (sequence, number))


def _clear_states_and_jobs(db: Transaction, context: WriteContext, selector: Selector, gone: Forgotten) -> None:
    """Delete the states made from forgotten messages and the jobs on them."""
    whole = selector.everything and selector.kind is None
    named = {selector.session} if selector.session is not None and selector.kind in (None, MESSAGE) else set()
    for session in [None] if whole else sorted(gone.sessions | named):
        for value, name in db.all("state_derived", (context.scope, session, bool(gone.sessions))):
            gone.texts += [value, name]
            gone.places["states"] += 1
    if selector.kind in (None, MESSAGE) and (selector.everything or selector.session is not None):
        for row in db.all("job_forget", (context.scope, selector.session)):
            gone.texts += filter(None, row)
            gone.places["jobs"] += 1
    for number, ids, problem in db.all("jobs_naming", (context.scope, packed(gone.ids))):
        left = [id for id in unpacked(ids) if id not in gone.ids]
        db.run(*(("job_without", (number, packed(left))) if left else ("job_drop", (context.scope, number))))
        gone.texts += [problem] if problem else []
        gone.places["jobs"] += 1


def _taken(db: Transaction, context: WriteContext, state: State, earlier: Sequence[Any]) -> bool:
    """Whether another record has the earlier content."""
    if state.key is not None or state.kind == MESSAGE or state.status != "active":
        return False
    digest, kind, tag = earlier[2], earlier[5], earlier[6]
    same = db.one("record_same", (context.scope, digest, kind, tag))
    return same is not None and same[0] != state.sequence


def _restore_version(db: Transaction, context: WriteContext, state: State, earlier: Sequence[Any]) -> None:
    """Make an earlier version the current one."""
    (before, content, digest, metadata, importance, kind, tag, source, trust, session, role, name, occurred, valid, expires,
     terms, model, vector) = earlier  # fmt: skip
    version = state.version + 1
    number = audit(db, context, "unsay", "forgotten", state.sequence, state.id, version, "system")
    remove_words(db, context, state.sequence, state.content, state.key)
    db.run("lineage_drop_version", (state.sequence, state.version))
    lineage.copy_supports(db, state.sequence, before, version)
    held = lineage.supports(db, state.sequence, version)
    db.run("record_change", (
        state.sequence, number, content, digest, metadata, importance, tag, source, trust, session, role, name, occurred,
        context.now, valid, expires, version, "restored", kind, packed(list(held[0][1]) if held else []), None, "[]",
    ))  # fmt: skip
    db.run("idempotency_forget", (context.scope, state.id))  # its receipt describes the deleted version
    db.run("words_add", (state.sequence, context.token, " ".join(record_terms(content, state.key))))
    usable = model == context.model and vector is not None
    kept = (model, vector) if usable else (None, None)
    db.run("vector_change", (state.sequence, version, terms, *kept, head_stop(content)))
    add_passages(db, context, state.sequence, version, content, state.key)  # to be embedded again


def redact(db: Transaction, context: WriteContext, row: ImportRow) -> list[str]:
    """Overwrite a record and its versions by those of the row. Returns the texts that must not be found any more. A record that
    changed meanwhile is left alone."""
    record = row.archive.record
    found = db.one("record_state", (context.scope, record.id))
    state = None if found is None else State(*found)
    if state is None or state.version != record.version:
        return []
    texts = [state.content, state.metadata, state.key, state.session, *db.one("forget_texts", (state.sequence,))]
    digest = content_hash(record.content)
    reasons = () if row.screening is None else row.screening.reasons
    number = audit(db, context, "redact", "redacted", state.sequence, record.id, state.version, "system", reasons)
    if state.status == "active" and state.key is None and state.kind != MESSAGE:
        same = find_living(db, context, "record_same", (context.scope, digest, state.kind, state.tag))
        if same is not None and same.sequence != state.sequence:  # redacted, the two have the same content
            archive(db, context, [record.id], "duplicate")
    remove_words(db, context, state.sequence, state.content, state.key)
    terms = record_terms(record.content, record.key)
    db.run("record_rewrite", (
        state.sequence, number, record.content, digest, packed(record.metadata), row.dedup_key,
        None if record.blocks is None else packed(record.blocks), packed(record.sensitive), record.kind, record.tag, record.key,
        record.source, record.session, record.role, record.name,
    ))  # fmt: skip
    db.run("words_add", (state.sequence, context.token, " ".join(terms)))
    vector = context.kept(db, row.vector)
    hashes = term_hashes(terms).tobytes()
    db.run("vector_change", (state.sequence, state.version, hashes, *vector, head_stop(record.content)))
    add_passages(db, context, state.sequence, state.version, record.content, record.key, row.passages)
    db.run("next_delete", (state.sequence,))
    for version in row.archive.versions[:-1]:
        old = db.one("history_texts", (state.sequence, version.version))
        if old is not None:
            texts += old
            hashes = term_hashes(record_terms(version.content, record.key)).tobytes()
            db.run("history_rewrite", (
                state.sequence, version.version, version.content, content_hash(version.content), packed(version.metadata), hashes,
                version.kind, version.tag, version.source, version.session, version.role, version.name,
            ))  # fmt: skip
    if state.kind == MESSAGE:
        texts += [value for value, _ in db.all("state_derived", (context.scope, state.session or "", True))]
    kept = {record.content, packed(record.metadata), record.key, record.session, record.tag, record.source, record.name}
    return [text for text in texts if text and text not in kept]
