"""Where an index and the store differ in one scope, without holding the scope in memory.

The store is walked newest first by pages of its list, the index by its hashes, both a chunk at a time; what is gathered are the
numbers of records that differ, never vectors. A record whose time to live has passed and that nobody has put aside yet may be in
the index or not: neither is a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from keepstone.errors import EmbedderMismatch
from keepstone.ports.caches import VectorIndex
from keepstone.ports.stores import Store
from keepstone.ports.values import IndexRows, ListQuery
from keepstone.types import Scope
from keepstone.vector_sync.entries import living, print_of

Step = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """Sequences that the index lacks, that it should not have, and whose vector is another in it."""

    missing: list[int] = field(default_factory=list)
    extra: list[int] = field(default_factory=list)
    different: list[int] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.missing or self.extra or self.different)

    def without(self, sequences: set[int]) -> Difference:
        """What is left when some sequences do not count."""
        return Difference(
            *([each for each in part if each not in sequences] for part in (self.missing, self.extra, self.different))
        )


def compare(store: Store, index: VectorIndex, scope: Scope, dimension: int, size: int, step: Step) -> Difference:
    """Compare a scope's entries with its records, `size` at a time; `step` is called before each chunk."""
    found = Difference()
    some = _look_at_entries(store, index, scope, dimension, size, step, found)
    for page in _pages(store, scope, size):
        step()
        there = index.existing(scope, page) if some else set()
        absent = [sequence for sequence in page if sequence not in there]
        if absent:
            found.missing.extend(alive(store, scope, absent, dimension))
    return found


def _look_at_entries(
    store: Store, index: VectorIndex, scope: Scope, dimension: int, size: int, step: Step, found: Difference
) -> bool:
    """Find entries that should not be there or are not what they should be. Whether there were any entries at all."""
    hashes, some = index.vector_hashes(scope), False
    while chunk := dict(islice(hashes, size)):
        some = True
        step()
        right = alive(store, scope, list(chunk), dimension)
        for sequence, given in chunk.items():
            if sequence not in right:
                found.extra.append(sequence)
            elif right[sequence] != given:
                found.different.append(sequence)
    return some


def alive(store: Store, scope: Scope, sequences: Sequence[int], dimension: int) -> dict[int, str]:
    """Which of these records belong into the index, and the print that each has there."""
    rows = usable(store.index_rows(scope, sequences), dimension)
    return {int(rows.sequences[place]): print_of(rows.vectors[place]) for place in living(rows).nonzero()[0]}


def usable(rows: IndexRows, dimension: int) -> IndexRows:
    """Rows with vectors of the store's embedder; a store that was opened with another one, or with none, gives none out, which
    must not be taken for records that have none."""
    if len(rows) and rows.vectors.shape[1] != dimension:
        raise EmbedderMismatch(
            "the store was opened without the embedder its vectors are of, so they cannot be compared with those of the index: "
            "open it with its embedder."
        )
    return rows


def _pages(store: Store, scope: Scope, size: int) -> Iterator[list[int]]:
    before: int | None = None
    while page := [sequence for sequence, _ in store.list(scope, ListQuery(limit=size, before=before))]:
        yield page
        before = page[-1]
