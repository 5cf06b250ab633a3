"""Searches for scopes too large to hold in memory: by words, and by vectors with the scope's own index where it has one."""

from __future__ import annotations

from collections.abc import Sequence

from keepstone.ports.values import SearchFilter, Vector
from keepstone.stores.common.ranking_reads import filter_values
from keepstone.stores.postgres.transaction import PostgresTransaction


def _quoted(term: str) -> str:
    """A term as a query has it."""
    return "'" + term.replace("\\", "\\\\").replace("'", "''") + "'"


def search_words(
    db: PostgresTransaction, scope: int | None, terms: Sequence[str], limit: int, now: int, search_filter: SearchFilter
) -> list[int]:
    """The scope's best matches for any of the terms."""
    terms = [term for term in dict.fromkeys(terms) if term]
    if not terms or scope is None:
        return []
    found = document_frequencies(db, scope, terms)
    population = int(db.one("index_size", (scope,))[0])
    filter, values = filter_values(db, scope, now, search_filter)
    asked = {"match": " | ".join(map(_quoted, terms)), "terms": terms, "found": found, "population": population, "limit": limit}
    return [row[0] for row in db.all("words_search", {**values, **asked}, filter=filter)]


def document_frequencies(db: PostgresTransaction, scope: int | None, terms: Sequence[str]) -> list[int]:
    """In how many of the scope's records each term stands."""
    words = [term for term in terms if term]
    if not words:
        return [0 for _ in terms]
    quoted = list(map(_quoted, words))
    counted = db.all("words_count", (scope, quoted, " | ".join(quoted)))
    found = dict(zip(words, (int(row[1]) for row in counted), strict=True))
    return [found.get(term, 0) for term in terms]


def search_vectors(
    db: PostgresTransaction, scope: int | None, vector: Vector, model: int, limit: int, now: int, search_filter: SearchFilter
) -> list[int]:
    """The scope's nearest records."""
    if limit <= 0:
        return []
    filter, values = filter_values(db, scope, now, search_filter)
    asked = {**values, "vector": db.stored(vector), "model": model, "limit": limit}
    return [row[0] for row in db.all("vectors_search", asked, filter=filter, dimension=str(len(vector)))]
