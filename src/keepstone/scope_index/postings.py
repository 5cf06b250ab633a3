"""Which record holds which word: sorted runs of terms and slots that take new records cheaply.

New records collect in a tail; a full tail becomes a sorted run, and runs of like size are merged, so that there are only a few.
Slots of records that are gone stay in the runs until the index is rebuilt; the caller leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

_TAIL = 1024  # terms of records that are sorted anew when a query comes
_RATIO = 4  # each run is at least so many times as long as the next
Counts = NDArray[np.uint8]
NO_POSTINGS: Final[tuple[NDArray[np.int64], Counts]] = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint8))


class Run(NamedTuple):
    """Distinct terms, ascending; where the postings of each end; and of each posting the slot, ascending, and how often the term
    stands there."""

    terms: NDArray[np.uint32]
    ends: NDArray[np.int64]
    slots: NDArray[np.uint32]
    counts: Counts

    def find(self, terms: Sequence[int]) -> list[tuple[int, NDArray[np.uint32], Counts]]:
        """The place of each term that it holds among those asked for, the slots it stands in, and how often in each."""
        if not len(self.terms):
            return []
        wanted = np.array(terms, dtype=np.uint32)
        places = self.terms.searchsorted(wanted)
        here = (self.terms.take(places, mode="clip") == wanted).nonzero()[0]
        found = []
        for at, place in zip(here.tolist(), places[here].tolist(), strict=True):
            start, end = self.ends[place - 1] if place else 0, self.ends[place]
            found.append((at, self.slots[start:end], self.counts[start:end]))
        return found

    def keys(self) -> NDArray[np.uint64]:
        """The term and the slot of each posting as one number."""
        return _join(np.repeat(self.terms, np.diff(self.ends, prepend=0)), self.slots)


def _join(terms: NDArray[np.uint32], slots: NDArray[np.generic]) -> NDArray[np.uint64]:
    keys = terms.astype(np.uint64) << np.uint64(32)
    keys |= slots.astype(np.uint64)
    return keys


def _find_edges(values: NDArray[Any]) -> NDArray[np.int64]:
    """Where each stretch of equal values begins, and the end of the last."""
    return np.concatenate([np.arange(len(values[:1])), (values[1:] != values[:-1]).nonzero()[0] + 1, [len(values)]])


def _split(keys: NDArray[np.uint64], counts: Counts) -> Run:
    """A run of distinct sorted keys."""
    terms = (keys >> np.uint64(32)).astype(np.uint32)
    edges = _find_edges(terms)
    return Run(terms[edges[:-1]], edges[1:], keys.astype(np.uint32), counts)


def make_run(terms: NDArray[np.uint32], slots: NDArray[np.int64] | NDArray[np.uint32]) -> Run:
    """A run of terms, each with the slot that it stands in."""
    keys = _join(terms, slots)
    keys.sort()
    edges = _find_edges(keys)
    return _split(keys[edges[:-1]], np.minimum(edges[1:] - edges[:-1], 255).astype(np.uint8))


def _merged(left: Run, right: Run) -> Run:
    keys = np.concatenate([left.keys(), right.keys()])
    order = np.argsort(keys, kind="stable")  # two sorted runs: this merges them
    return _split(keys[order], np.concatenate([left.counts, right.counts])[order])


class Postings:
    """The words of one scope. Runs are replaced, never changed, so a reader may keep the list it was given."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._tail: list[tuple[NDArray[np.uint32], NDArray[np.int64]]] = []
        self._tail_size = 0

    def add(self, terms: NDArray[np.uint32], slots: NDArray[np.int64]) -> None:
        """Add terms, each with the slot of the record it stands in."""
        if not len(terms):
            return
        self._tail.append((terms, slots))
        self._tail_size += len(terms)
        if self._tail_size >= _TAIL:
            runs = self.runs()
            while len(runs) > 1 and len(runs[-2].slots) < _RATIO * len(runs[-1].slots):
                right, left = runs.pop(), runs.pop()
                runs.append(_merged(left, right))
            self._runs, self._tail, self._tail_size = runs, [], 0

    def runs(self) -> list[Run]:
        """Everything added so far, as sorted runs."""
        return self.snapshot()()

    def snapshot(self) -> Callable[[], list[Run]]:
        """What gives everything added so far as sorted runs; the tail is sorted when they are first needed."""
        runs, tail = self._runs, tuple(self._tail)
        return lambda: [*runs, make_run(*map(np.concatenate, zip(*tail, strict=True)))] if tail else [*runs]

    def nbytes(self) -> int:
        return sum(column.nbytes for run in self._runs for column in run) + self._tail_size * 12


def find_terms(runs: list[Run], terms: Sequence[int]) -> dict[int, tuple[NDArray[np.int64], Counts]]:
    """Of each term that some record holds the slots it stands in, and how often in each."""
    found: dict[int, tuple[NDArray[np.int64], Counts]] = {}
    for run in runs:
        for at, slots, counts in run.find(terms):
            before, there = found.get(terms[at]), slots.astype(np.int64)
            found[terms[at]] = (there, counts) if before is None else (np.append(before[0], there), np.append(before[1], counts))
    return found
