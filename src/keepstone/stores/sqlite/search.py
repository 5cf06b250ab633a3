"""Searches for scopes too large to hold in memory: FTS5 for words, a streamed scan for vectors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from keepstone.ports.values import SearchFilter, Vector
from keepstone.stores.common.ranking_reads import filter_values
from keepstone.stores.sqlite.transaction import SqliteTransaction, sql

_CHUNK = 4096


def _match(scope: int | None, terms: Sequence[str]) -> str:
    either = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
    return f'scope : "s{scope}" AND text : ({either})'


def search_words(
    db: SqliteTransaction, scope: int | None, terms: Sequence[str], limit: int, now: int, search_filter: SearchFilter
) -> list[int]:
    """The scope's best matches for any of the terms."""
    if not terms:
        return []
    filter, values = filter_values(db, scope, now, search_filter)
    return [row[0] for row in db.all("words_search", {**values, "match": _match(scope, terms), "limit": limit}, filter=filter)]


def document_frequencies(db: SqliteTransaction, scope: int | None, terms: Sequence[str]) -> list[int]:
    """In how many of the scope's records each term stands."""
    return [int(db.one("words_count", (_match(scope, [term]),))[0]) for term in terms]


def search_vectors(
    db: SqliteTransaction, scope: int | None, vector: Vector, limit: int, now: int, search_filter: SearchFilter
) -> list[int]:
    """The scope's nearest records by an exact scan, a chunk at a time, so that memory stays small."""
    if limit <= 0:
        return []
    best_scores = np.empty(0, dtype=np.float32)
    best = np.empty(0, dtype=np.int64)
    filter, values = filter_values(db, scope, now, search_filter)
    cursor = db.db.execute(sql.vectors_walk.replace("{filter}", filter), values)
    while chunk := list(islice(cursor, _CHUNK)):
        matrix = db.read([row[1] for row in chunk], len(vector))
        scores = np.concatenate([best_scores, matrix @ vector])
        sequences = np.concatenate([best, np.array([row[0] for row in chunk], dtype=np.int64)])
        keep = np.argsort(-scores, kind="stable")[:limit]
        best_scores, best = scores[keep], sequences[keep]
    return [int(sequence) for sequence in best]
