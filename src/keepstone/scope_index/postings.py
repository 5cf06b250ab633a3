"""Which record holds which word: sorted runs of (term, slot) numbers that take new records cheaply.

A key is term << 32 | slot. New keys collect in a tail; a full tail becomes a sorted run, and runs of like size are merged,
so that there are only a few. Slots of records that are gone stay in the runs until the index is rebuilt; the caller
leaves them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_TAIL = 1024  # keys that are sorted anew when a query comes
_RATIO = 4  # each run is at least so many times as long as the next
Keys = NDArray[np.uint64]
Counts = NDArray[np.uint8]
Run = tuple[Keys, Counts]
_SLOT = np.uint64(0xFFFFFFFF)  # the part of a key that is the slot
NO_POSTINGS: Final[tuple[NDArray[np.int64], Counts]] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8))


def make_run(terms: NDArray[np.uint32], slots: NDArray[np.int64] | NDArray[np.uint32]) -> Run:
    """Each distinct (term, slot) as a key, sorted, and how often it occurs."""
    keys = terms.astype(np.uint64) << np.uint64(32)
    keys |= slots.astype(np.uint64)
    keys.sort()
    edges = np.ones(len(keys) + 1, dtype=np.bool_)  # where a distinct key begins, and the end
    np.not_equal(keys[1:], keys[:-1], out=edges[1 : len(keys)])
    starts = np.flatnonzero(edges)
    return keys[starts[:-1]], np.minimum(starts[1:] - starts[:-1], 255).astype(np.uint8)


def _merged(left: Run, right: Run) -> Run:
    keys = np.concatenate([left[0], right[0]])
    order = np.argsort(keys, kind="stable")  # two sorted runs: this merges them
    return keys[order], np.concatenate([left[1], right[1]])[order]


class Postings:
    """The words of one scope. Runs are replaced, never changed, so a reader may keep the list it was given."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._tail: list[tuple[NDArray[np.uint32], NDArray[np.int64]]] = []
        self._tail_size = 0
        self._sorted_tail: Run | None = None

    def add(self, terms: NDArray[np.uint32], slots: NDArray[np.int64]) -> None:
        """Add terms, each with the slot of the record it stands in."""
        if not len(terms):
            return
        self._tail.append((terms, slots))
        self._tail_size += len(terms)
        self._sorted_tail = None
        if self._tail_size >= _TAIL:
            runs = [*self._runs, self._tail_run()]
            while len(runs) > 1 and len(runs[-2][0]) < _RATIO * len(runs[-1][0]):
                right, left = runs.pop(), runs.pop()
                runs.append(_merged(left, right))
            self._runs, self._tail, self._tail_size, self._sorted_tail = runs, [], 0, None

    def _tail_run(self) -> Run:
        terms = np.concatenate([each[0] for each in self._tail])
        return make_run(terms, np.concatenate([each[1] for each in self._tail]))

    def runs(self) -> list[Run]:
        """Everything added so far, as sorted runs."""
        if self._tail and self._sorted_tail is None:
            self._sorted_tail = self._tail_run()
        return [*self._runs, self._sorted_tail] if self._sorted_tail is not None else self._runs

    def nbytes(self) -> int:
        return sum(keys.nbytes + counts.nbytes for keys, counts in self._runs) + self._tail_size * 12


def find_term(runs: list[Run], term: int) -> tuple[NDArray[np.int64], Counts]:
    """The slots a term stands in, and how often in each."""
    return find_terms(runs, [term])[0]


def find_terms(runs: list[Run], terms: Sequence[int]) -> list[tuple[NDArray[np.int64], Counts]]:
    """The same for many terms at once."""
    low = np.array(terms, dtype=np.uint64) << np.uint64(32)
    edges = np.concatenate([low, low | _SLOT])  # no slot is that high
    found = [NO_POSTINGS] * len(terms)
    for keys, counts in runs:
        bounds = keys.searchsorted(edges).tolist()
        for at, (start, end) in enumerate(zip(bounds, bounds[len(terms) :], strict=False)):
            if end > start:  # most relatives of a word stand nowhere
                slots, times = (keys[start:end] & _SLOT).view(np.int64), counts[start:end]
                before = found[at]
                found[at] = (np.append(before[0], slots), np.append(before[1], times)) if len(before[0]) else (slots, times)
    return found
