"""Builders of writes and readers of results for all contracts."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pytest

from keepstone.ports.stores import Store
from keepstone.ports.values import Draft, IndexRows, ListQuery, Merge, MergeCheck, Revision, Vector, Write
from keepstone.text.times import FOREVER, micros
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import Receipt, Record, Scope, Version

EMBEDDER = "fake-8"
DIMENSION = 8
HOME = Scope("local", "default", "dana")
AWAY = Scope("local", "default", "erik")
# Scopes that one who joins, folds or matches names takes for one another; in one name the second letter is Cyrillic.
ALIKE = tuple(
    Scope(*names)
    for names in (
        ("a", "b", "c"), ("a", "b", ""), ("a", "c", "b"), ("b", "b", "c"), ("b", "a", "c"), ("A", "b", "c"), ("a", "bc", ""),
        ("ab", "c", ""), ("a:b", "c", ""), ("a", "b:c", ""), ("a b", "c", ""), ("a", "b c", ""), ("a", "b/c", "d"),
        ("a/b", "c", "d"), ("a", "b|c", "d"), ("a|b", "c", "d"), ("1", "1", "11"), ("1", "11", "1"), ("a", "b", "dana"),
        ("a", "b", "Dana"), ("a", "b", "dana "), ("a", "b", "dаna"), ("a", "b", "ß"), ("a", "b", "ss"), ("a", "b", "d%"),
        ("a", "b", "*"), ("a", "b", "' OR '1'='1"),
    )
)  # fmt: skip
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LONG_AGO = datetime(2001, 1, 1, tzinfo=UTC)

T = TypeVar("T")


class NeedsStore:
    """Fixtures of every store contract: the adapter's `store`, and that store with an embedder."""

    @pytest.fixture
    def bound(self, store: Store) -> Store:
        store.bind_embedder(EMBEDDER, DIMENSION)
        return store


def vector(text: str, dimension: int = DIMENSION) -> Vector:
    """A unit vector that the text alone decides.

    >>> bool(np.array_equal(vector("tea"), vector("tea"))), round(float(np.linalg.norm(vector("tea"))), 2)
    (True, 1.0)
    """
    digest = hashlib.shake_256(text.encode("utf-8", "surrogatepass")).digest(dimension * 2)
    raw = np.frombuffer(digest, dtype="<u2").astype(np.float32) - np.float32(32767.5)
    unit: Vector = (raw / np.linalg.norm(raw)).astype(np.float16).astype(np.float32)  # engines may keep halves
    return unit


def draft(content: str, **overrides: Any) -> Draft:
    """A draft as the write path would hand it over; `vector=None` leaves it waiting for its embedding.

    >>> draft("Dana likes tea", key="drink").terms
    ('drink', 'dana', 'like', 'tea')
    """
    fields: dict[str, Any] = {
        "kind": "fact",
        "tag": "general",
        "key": None,
        "importance": 0.5,
        "metadata": {},
        "source": "user",
        "trust": 1.0,
        "session": None,
        "role": None,
        "name": None,
        "occurred_at": NOON,
        "expires_at": None,
        "vector": vector(content),
    } | overrides
    fields.setdefault("terms", record_terms(content, fields["key"]))
    return Draft(content=content, **fields)


def merging(replace: bool = True, reason: str = "same") -> MergeCheck:
    """A merge check that accepts every record."""
    return lambda record: Merge(replace, reason)


def wording(content: str, key: str | None = None, **rest: Any) -> Revision:
    """A revision to new content, of a record with this key; `vector=None` leaves it waiting for its embedding."""
    return Revision(content=content, terms=record_terms(content, key), **({"vector": vector(content)} | rest))


def add(store: Store, content: str, scope: Scope = HOME, **overrides: Any) -> Receipt:
    """Write one draft."""
    return store.write(scope, [Write(draft(content, **overrides))])[0]


def add_id(store: Store, content: str, scope: Scope = HOME, **overrides: Any) -> str:
    """Write one draft that must be new; its id."""
    receipt = add(store, content, scope, **overrides)
    assert receipt.action == "added", receipt
    assert receipt.id is not None
    return receipt.id


def present(store: Store, id: str | None, scope: Scope = HOME) -> Record:
    """A record that must be there."""
    assert id is not None
    record = store.get(scope, id)
    assert record is not None, f"record {id} is not in {scope}"
    return record


def past(store: Store, id: str, scope: Scope = HOME) -> list[Version]:
    """The history of a record that must be there."""
    versions = store.history(scope, id)
    assert versions is not None, f"record {id} has no history in {scope}"
    return list(versions)


def at(store: Store, id: str, scope: Scope = HOME) -> int:
    """The sequence of a record that must be there."""
    sequence = store.sequence_of(scope, id)
    assert sequence is not None, f"record {id} has no sequence in {scope}"
    return sequence


def contents(store: Store, scope: Scope = HOME, **query: Any) -> list[str]:
    """The contents that `list` gives, newest first."""
    return [record.content for _, record in store.list(scope, ListQuery(**({"limit": 1000} | query)))]


def together(count: int, job: Callable[[int], T]) -> list[T]:
    """Run the job in so many threads that all start at the same moment; what each gave, in order."""
    barrier = threading.Barrier(count)

    def run(number: int) -> T:
        barrier.wait(timeout=60)
        return job(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


class Row(NamedTuple):
    """One row of `IndexRows`, in plain values that compare with ==."""

    columns: tuple[object, ...]
    terms: tuple[int, ...]
    vector: tuple[float, ...] | None


def unpacked(rows: IndexRows) -> dict[int, Row]:
    """Index rows by sequence. Checks on the way that the columns fit together."""
    assert len(set(rows.sequences.tolist())) == len(rows), "a sequence stands twice in the index rows"
    assert len(rows.ends) == len(rows.vectors) == len(rows.embedded) == len(rows)
    assert rows.terms.dtype == np.uint32
    assert rows.vectors.dtype == np.float32
    starts = np.concatenate(([0], rows.ends[:-1])) if len(rows) else rows.ends
    assert len(rows.terms) == (int(rows.ends[-1]) if len(rows) else 0), "terms beyond the last row's end"
    assert not np.any(rows.vectors[~rows.embedded]), "a row that is not embedded must have a zero vector"
    texts = zip(rows.kinds, rows.tags, rows.sessions, rows.roles, rows.names, strict=True)
    numbers = (rows.importances, rows.trusts, rows.occurred, rows.valid_from, rows.expires, rows.active)
    columns = [
        (*text, *number) for text, number in zip(texts, zip(*(each.tolist() for each in numbers), strict=True), strict=True)
    ]
    return {
        int(rows.sequences[i]): Row(
            columns[i],
            tuple(rows.terms[starts[i] : rows.ends[i]].tolist()),
            tuple(rows.vectors[i].tolist()) if rows.embedded[i] else None,
        )
        for i in range(len(rows))
    }


def row_of(record: Record, terms: Iterable[str], vector: Vector | None) -> Row:
    """The index row that a record must have."""
    texts = (record.kind, record.tag, record.session, record.role, record.name)
    weights = (float(np.float32(record.importance)), float(np.float32(record.trust)))
    expires = FOREVER if record.expires_at is None else micros(record.expires_at)
    moments = (micros(record.occurred_at), micros(record.valid_from), expires)
    columns = (*texts, *weights, *moments, record.status == "active")
    return Row(columns, tuple(term_hashes(terms).tolist()), None if vector is None else tuple(vector.tolist()))


def message(store: Store, text: str, session: str | None = "s1", scope: Scope = HOME, **rest: Any) -> str:
    """Store a message; returns its id."""
    return add_id(store, text, scope, **({"kind": "message", "session": session, "role": "user"} | rest))


def learned(store: Store, text: str, *parents: str, scope: Scope = HOME, **rest: Any) -> str:
    """Something is learned from other records, for the first time or again; the id of the record that holds it."""
    receipt = add(store, text, scope, parents=parents, **rest)
    assert receipt.action in ("added", "duplicate", "merged", "superseded"), receipt
    assert receipt.id is not None
    return receipt.id


def compacted(store: Store, text: str, ids: Sequence[str], scope: Scope = HOME, **rest: Any) -> tuple[str, int]:
    """A digest in the place of other records: its id, and the ticket they were archived with."""
    made = store.write(scope, [Write(draft(text, parents=tuple(ids), **rest), replaces=tuple(ids))])[0]
    assert made.action == "added", made
    tickets = {each.ticket for each in store.retention.archived(scope) if each.record.id in ids}
    assert len(tickets) == 1, "records archived together have one ticket"
    return made.id or "", tickets.pop()


def acts(store: Store, verb: str, scope: Scope = HOME) -> list[str]:
    """The audited actions of a verb, oldest first."""
    return [row.action for row in reversed(store.audit(scope, limit=1000)) if row.verb == verb]


def healthy(store: Store) -> None:
    """The doctor finds nothing."""
    diagnosis = store.doctor(record_terms)
    assert diagnosis.healthy, diagnosis.findings
