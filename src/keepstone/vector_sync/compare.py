"""The entries of a scope in an index, and where they differ from the store's records.

An entry is a record, or a further passage of a long one under the passage's number. The store is read newest first by pages of
its list, the index by its vector hashes. Only the numbers of those that differ are gathered, never vectors. A record that has
expired and is not archived yet may be in the index or not: neither is a difference.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import EmbedderMismatch
from keepstone.ports.caches import Entry, VectorIndex
from keepstone.ports.stores import Store
from keepstone.ports.values import IndexRows, ListQuery, Vector
from keepstone.text.sentences import is_long
from keepstone.types import Scope

T = TypeVar("T")


def hash_vector(vector: Vector) -> str:
    """A short hash of a vector, the same in single and half precision, since some stores keep half precision.

    >>> whole = np.array([0.1, 0.9], dtype=np.float32)
    >>> hash_vector(whole) == hash_vector(whole.astype(np.float16).astype(np.float32)) != hash_vector(whole[::-1])
    True
    """
    with np.errstate(over="ignore"):
        halves = np.ascontiguousarray(vector).astype("<f2")
    return hashlib.blake2b(halves.tobytes(), digest_size=8).hexdigest()


def space_name(store: str, embedder: tuple[str, int]) -> str:
    """The name of the space that holds the vectors of one store by one embedder.

    >>> space_name("a", ("static-1", 256)) == space_name("a", ("static-1", 256)) != space_name("a", ("static-2", 256))
    True
    """
    identity = "\0".join((store, embedder[0], str(embedder[1])))
    return "keepstone-" + hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def indexable(rows: IndexRows) -> NDArray[np.bool_]:
    """Which rows belong in an index: those that are active and have a vector."""
    mask: NDArray[np.bool_] = rows.active & rows.embedded
    return mask


def make_entries(rows: IndexRows, positions: Sequence[int]) -> list[Entry]:
    """The entries of some of the rows."""
    return [
        Entry(
            rows.number(position),
            rows.vectors[position],
            hash_vector(rows.vectors[position]),
            rows.kinds[position],
            rows.tags[position],
            rows.sessions[position],
        )
        for position in positions
    ]


@dataclass(frozen=True, slots=True)
class Difference:
    """Sequences that the index lacks, that it should not have, and that have another vector in it."""

    missing: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    different: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.different)

    def without(self, sequences: set[int]) -> Difference:
        """The difference with some sequences left out."""
        return Difference(
            *([sequence for sequence in part if sequence not in sequences] for part in (self.missing, self.extra, self.different))
        )


def compare(
    store: Store, index: VectorIndex, scope: Scope, dimension: int, size: int, before_chunk: Callable[[], None]
) -> Difference:
    """Compare a scope's entries with its records, `size` at a time."""
    difference = Difference()
    hashes, has_entries = index.vector_hashes(scope), False
    while chunk := dict(islice(hashes, size)):
        has_entries = True
        before_chunk()
        expected = expected_hashes(store, scope, list(chunk), dimension)
        for sequence, vector_hash in chunk.items():
            if sequence not in expected:
                difference.extra.append(sequence)
            elif expected[sequence] != vector_hash:
                difference.different.append(sequence)
    for page, long in _list_pages(store, scope, size):
        before_chunk()
        existing = index.existing(scope, page) if has_entries else set()
        absent = [sequence for sequence in page if sequence not in existing]
        if absent:
            difference.missing.extend(number for number in expected_hashes(store, scope, absent, dimension) if number > 0)
        further = [number for number in expected_hashes(store, scope, long, dimension, whole=True) if number < 0] if long else []
        there = index.existing(scope, further) if has_entries and further else set()
        difference.missing.extend(number for number in further if number not in there)
    return difference


def expected_hashes(store: Store, scope: Scope, numbers: Sequence[int], dimension: int, *, whole: bool = False) -> dict[int, str]:
    """Which of these records and passages belong in the index, with the hash of each vector; `whole`: with all passages of the
    records."""
    rows = check_width(store.index_rows(scope, numbers, whole=whole), dimension)
    return {rows.number(at): hash_vector(rows.vectors[at]) for at in indexable(rows).nonzero()[0].tolist()}


def check_width(rows: IndexRows, dimension: int) -> IndexRows:
    """The rows, if their vectors are of the store's embedder. A store opened with another embedder, or with none, returns no
    vectors, which does not mean that the records have none."""
    if len(rows) and rows.vectors.shape[1] != dimension:
        raise EmbedderMismatch(
            "the store was opened without the embedder of its vectors, so they cannot be compared with the index: open it with "
            "its embedder."
        )
    return rows


def _list_pages(store: Store, scope: Scope, size: int) -> Iterator[tuple[list[int], list[int]]]:
    """The sequences of records by pages, and of those with more than one passage."""
    before: int | None = None
    while page := store.list(scope, ListQuery(limit=size, before=before)):
        yield [sequence for sequence, _ in page], [sequence for sequence, record in page if is_long(record.content)]
        before = page[-1][0]
