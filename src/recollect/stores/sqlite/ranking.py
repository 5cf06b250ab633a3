"""What ranking reads from the file: the change feed, past views, and searches for scopes too large to hold in memory.
Imports: ports, types, rows, numpy."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from itertools import islice
from typing import Any

import apsw
import numpy as np

from recollect.ports import Changes, IndexRows, Narrow, Snapshot, Vector
from recollect.stores.sqlite.conditions import Conditions
from recollect.stores.sqlite.driver import all_rows, one_row
from recollect.stores.sqlite.moment import sql
from recollect.stores.sqlite.rows import index_rows, packed, snapshot_record
from recollect.times import FOREVER, micros
from recollect.types import Scope

ROW_BYTES = 320  # about what a record takes in memory besides its vector: columns and postings
_CHUNK = 4096


def changes(db: apsw.Connection, scope: int | None, after: int, dimension: int) -> Changes:
    """What happened in a scope after a change number. The caller's transaction makes the two queries one view."""
    removed = all_rows(db, sql.index_removed, (scope, after)) if after else []
    latest = max(after, removed[-1][1] if removed else 0, one_row(db, sql.index_latest, (scope,))[0] or 0)
    rows = index_rows(db.execute(sql.index_changed, (scope, after)), dimension)
    return Changes(latest, rows, tuple(row[0] for row in removed))


def index_rows_of(db: apsw.Connection, scope: int | None, sequences: Sequence[int], dimension: int) -> IndexRows:
    """The ranking columns of some records; those that are gone are left out."""
    found = (one_row(db, sql.index_one, (scope, sequence)) for sequence in sequences)
    return index_rows([row for row in found if row is not None], dimension)


def neighbours(db: apsw.Connection, scope: int | None, sequences: Sequence[int], reach: int) -> list[int]:
    """The messages that stand up to `reach` before and after these in their sessions."""
    found: set[int] = set()
    for sequence in sequences:
        found.update(row[0] for row in db.execute(sql.neighbours, {"scope": scope, "sequence": sequence, "reach": reach}))
    return sorted(found)


def snapshot(
    db: apsw.Connection, scope: Scope, number: int | None, as_of: datetime | None, known_at: datetime | None, dimension: int
) -> Snapshot:
    """The records as they were valid at one time and known at another."""
    values = {"scope": number, "as_of": _bound(as_of), "known_at": _bound(known_at)}
    rows = all_rows(db, sql.snapshot, values)
    return Snapshot(index_rows([row[:14] for row in rows], dimension), tuple(snapshot_record(row, scope) for row in rows))


def _bound(at: datetime | None) -> int:
    return FOREVER if at is None else micros(at)


def _match(scope: int | None, terms: Sequence[str]) -> str:
    either = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    return f'scope : "s{scope}" AND text : ({either})'


def _narrowed(statement: str, scope: int | None, now: int, narrow: Narrow) -> tuple[str, dict[str, Any]]:
    """A search with its conditions, and their values."""
    conditions = Conditions()
    filter = conditions.of(narrow.filter)
    values = {
        "scope": scope, "now": now, "kinds": None if narrow.kinds is None else packed(narrow.kinds), "tag": narrow.tag,
        "session": narrow.session, "min_importance": narrow.min_importance, "min_trust": narrow.min_trust,
        "steps": narrow.steps,
    }  # fmt: skip
    return statement.replace("{filter}", filter), {**values, **conditions.values}


def search_words(db: apsw.Connection, scope: int | None, terms: Sequence[str], limit: int, now: int, narrow: Narrow) -> list[int]:
    """The scope's best matches for any of the terms."""
    if not terms:
        return []
    statement, values = _narrowed(sql.words_search, scope, now, narrow)
    return [row[0] for row in all_rows(db, statement, {**values, "match": _match(scope, terms), "limit": limit})]


def search_recent(db: apsw.Connection, scope: int | None, limit: int, now: int, narrow: Narrow) -> list[int]:
    """The scope's newest records."""
    statement, values = _narrowed(sql.recent_search, scope, now, narrow)
    return [row[0] for row in all_rows(db, statement, {**values, "limit": limit})]


def document_frequencies(db: apsw.Connection, scope: int | None, terms: Sequence[str]) -> list[int]:
    """In how many of the scope's records each term stands."""
    return [int(one_row(db, sql.words_count, (_match(scope, [term]),))[0]) for term in terms]


def search_vectors(db: apsw.Connection, scope: int | None, vector: Vector, limit: int, now: int, narrow: Narrow) -> list[int]:
    """The scope's nearest records by an exact scan, a chunk at a time, so that memory stays small."""
    if limit <= 0:
        return []
    best_scores = np.empty(0, dtype=np.float32)
    best = np.empty(0, dtype=np.int64)
    statement, values = _narrowed(sql.vectors_walk, scope, now, narrow)
    cursor = db.execute(statement, values)
    while chunk := list(islice(cursor, _CHUNK)):
        matrix = np.frombuffer(b"".join(row[1] for row in chunk), dtype="<f4").reshape(len(chunk), len(vector))
        scores = np.concatenate([best_scores, matrix @ vector])
        sequences = np.concatenate([best, np.array([row[0] for row in chunk], dtype=np.int64)])
        keep = np.argsort(-scores, kind="stable")[:limit]
        best_scores, best = scores[keep], sequences[keep]
    return [int(sequence) for sequence in best]
