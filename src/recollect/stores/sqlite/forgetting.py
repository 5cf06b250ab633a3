"""Taking records out of every table, inside a transaction. Imports: ports, writes, words.

To forget a source or a session is to undo it: its versions go from every history, a record that was its own goes, and one that
had another source or session before shows what was said there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import apsw

from recollect.ports import Selector
from recollect.stores.sqlite.driver import all_rows, one_row
from recollect.stores.sqlite.writes import Moment, State, audit, sql, take_words_out
from recollect.types import MESSAGE
from recollect.words import record_terms


@dataclass(slots=True)
class Forgotten:
    """What was deleted: the ids, and every text that must not be found in the file afterwards."""

    ids: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)


def forget(db: apsw.Connection, at: Moment, selector: Selector) -> Forgotten:
    """Delete what a selector means from every table."""
    chosen = {
        "scope": at.scope, "everything": selector.everything, "id": selector.id, "key": selector.key,
        "session": selector.session, "source": selector.source, "kind": selector.kind,
    }  # fmt: skip
    gone = Forgotten()
    cleaned: set[int] = set()
    undoing = selector.source is not None or selector.session is not None
    if undoing:
        for sequence, version, content, metadata in all_rows(db, sql.forget_versions, chosen):
            db.execute(sql.history_delete_version, (sequence, version))
            gone.texts += [content, metadata]
            cleaned.add(sequence)
    sessions: set[str] = set()
    made: dict[str, None] = {}  # summaries of what goes
    for sequence, id, version, kind, session, content, key, *others in all_rows(db, sql.forget_find, chosen):
        cleaned.discard(sequence)
        gone.ids.append(id)
        gone.texts += [content, *(text for text in (key, session, *others) if text)]
        if kind == MESSAGE:
            sessions.add(session or "")
            made.update(dict.fromkeys(row[0] for row in all_rows(db, sql.summaries_of, (at.scope, id))))
        state = State(*one_row(db, sql.record_state, (at.scope, id)))
        earlier = one_row(db, sql.history_last, (sequence,)) if undoing else None
        if earlier is not None and not _said_elsewhere(db, at, state, earlier):
            _bring_back(db, at, state, earlier)
            continue
        gone.texts += [text for row in all_rows(db, sql.history_list, (sequence,)) for text in row[1:3]]
        audit(db, at, "forget", "forgotten", sequence, id, version, "system")
        take_words_out(db, at, sequence, content, key)
        for statement in (sql.vector_delete, sql.history_delete, sql.access_delete, sql.record_delete):
            db.execute(statement, (sequence,))
        db.execute(sql.idempotency_forget, (at.scope, id))
    for sequence in sorted(cleaned):
        id, version = one_row(db, sql.record_name, (sequence,))
        audit(db, at, "unsay", "forgotten", sequence, id, version, "system")
        gone.ids.append(id)
    for id in [each for each in made if each not in gone.ids]:
        also = forget(db, at, Selector(id=id))
        gone.ids += also.ids
        gone.texts += also.texts
    _clear_desk(db, at, selector, sessions, gone)
    return gone


def _clear_desk(db: apsw.Connection, at: Moment, selector: Selector, sessions: set[str], gone: Forgotten) -> None:
    """Drop the states that were made from forgotten messages, and the work that was to be done on them."""
    whole = selector.everything and selector.kind is None
    named = {selector.session} if selector.session is not None and selector.kind in (None, MESSAGE) else set()
    for session in [None] if whole else sorted(sessions | named):
        for value, name in all_rows(db, sql.state_derived, (at.scope, session, bool(sessions))):
            gone.texts += [value, name]
    if selector.kind in (None, MESSAGE) and (selector.everything or selector.session is not None):
        for row in all_rows(db, sql.job_forget, (at.scope, selector.session)):
            gone.texts += filter(None, row)


def _said_elsewhere(db: apsw.Connection, at: Moment, state: State, earlier: Sequence[Any]) -> bool:
    """Whether another record has the earlier content by now."""
    if state.key is not None or state.kind == MESSAGE or state.status != "active":
        return False
    digest, kind, tag = earlier[2], earlier[5], earlier[6]
    same = one_row(db, sql.record_same, (at.scope, digest, kind, tag))
    return same is not None and same[0] != state.sequence


def _bring_back(db: apsw.Connection, at: Moment, state: State, earlier: Sequence[Any]) -> None:
    """Make the last version of another source the present one."""
    (_, content, digest, metadata, importance, kind, tag, source, trust, session, role, name, occurred, valid, expires, terms,
     model, vector) = earlier  # fmt: skip
    version = state.version + 1
    number = audit(db, at, "unsay", "forgotten", state.sequence, state.id, version, "system")
    take_words_out(db, at, state.sequence, state.content, state.key)
    db.execute(sql.record_change, (
        state.sequence, number, content, digest, metadata, importance, tag, source, trust, session, role, name, occurred, at.now,
        valid, expires, version, "restored", kind, "[]", None,
    ))  # fmt: skip
    db.execute(sql.idempotency_forget, (at.scope, state.id))  # its receipt tells of what is gone
    db.execute(sql.words_add, (state.sequence, at.token, " ".join(record_terms(content, state.key))))
    usable = model == at.model and vector is not None
    db.execute(sql.vector_change, (state.sequence, version, terms, model if usable else None, vector if usable else None))
