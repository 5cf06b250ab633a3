"""Making a segment of a large scope: its records a page at a time, so that building takes little more memory than the segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import IndexRows
from keepstone.scope_index import codes, message_links, segment
from keepstone.scope_index.columns import CODED, PLAIN, TYPES, checksums
from keepstone.scope_index.postings import make_run
from keepstone.scope_index.segment import Arrays, Segment
from keepstone.types import MESSAGE

_TRAINED = 40_000  # vectors that the centres are found with
_CHUNK = 16_384
_SORTED = 1_000_000  # terms of records at a time


class BuildStopped(Exception):  # no error: the segment is not needed any more
    """Building was given up."""


def build_segment(pages: Iterable[IndexRows], about: dict[str, Any], stopped: Callable[[], bool] = lambda: False) -> Segment:
    """A segment of some pages of rows, which come in the order of their sequences."""
    gathered = _Gathered()
    for rows in pages:
        if stopped():
            raise BuildStopped
        gathered.add(rows)
        del rows
    arrays = gathered.columns
    arrays |= segment.encode_names(gathered.codes, gathered.speakers)
    dimension = gathered.dimension or (about.get("embedder") or (None, 0))[1]  # an empty scope may be filled later
    made = {**about, "dimension": dimension, "size": gathered.size}
    _words(arrays, gathered.terms)
    del gathered.terms
    if stopped():
        raise BuildStopped
    _codes(arrays, dimension)
    if stopped():
        raise BuildStopped
    _chains(arrays, gathered)
    made["sessions"] = len(arrays["last_slots"])
    return Segment.of(made, arrays)


class _Gathered:
    """What the pages brought, in as few bytes as it will have in the segment. Each array grows where it is: parts that are joined
    at the end would need the memory twice."""

    def __init__(self) -> None:
        self.codes: dict[str | None, int] = {None: 0}  # always: what is overwritten has no owner
        self.speakers: set[str] = set()
        self.dimension = 0
        self.size = 0
        self.terms = np.empty(0, dtype=np.uint32)
        self.columns: Arrays = {name: np.empty(0, TYPES[name]) for name in (*PLAIN, *CODED, "lengths", "sums")}
        self.columns |= {"vectors": np.zeros((0, 0), dtype=np.int8), "scales": np.zeros((0, 0), dtype=np.float32)}

    def add(self, rows: IndexRows) -> None:
        if not len(rows):
            return
        self.size += len(rows)
        self.dimension = rows.vectors.shape[1]
        for name in PLAIN:
            _extend(self.columns[name], getattr(rows, name))
        for name in CODED:
            texts: list[str | None] = getattr(rows, name)
            for text in set(texts):
                self.codes.setdefault(text, len(self.codes))
            _extend(self.columns[name], np.fromiter(map(self.codes.__getitem__, texts), dtype=np.int32, count=len(texts)))
        self.speakers.update(name for name in set(rows.names) if name is not None)
        _extend(self.columns["lengths"], np.diff(rows.ends, prepend=0))
        _extend(self.columns["sums"], checksums(rows))
        _extend(self.terms, rows.terms)
        vectors, scales = segment.quantise(rows.vectors)
        _extend(self.columns["vectors"], vectors)
        _extend(self.columns["scales"], scales)


def _extend(array: NDArray[Any], part: NDArray[Any]) -> None:
    """Add rows to an array, in place."""
    size = len(array)
    array.resize((size + len(part), *part.shape[1:]), refcheck=False)
    array[size:] = part


def _words(arrays: Arrays, terms: NDArray[np.uint32]) -> None:
    """Of each term its slots, from the terms of each slot; some terms at a time, so that little memory is needed for sorting."""
    slots = np.repeat(np.arange(len(arrays["lengths"]), dtype=np.uint32), arrays["lengths"])
    bounds = np.linspace(0, 1 << 32, len(terms) // _SORTED + 2).astype(np.int64).tolist()
    found: dict[str, list[NDArray[Any]]] = {name: [] for name in ("slots", "counts", "terms", "ends")}
    size = 0
    for low, high in pairwise(bounds):
        chosen = np.flatnonzero((terms >= low) & (terms <= high - 1))
        run = make_run(terms[chosen], slots[chosen])
        for name, part in run._replace(ends=run.ends + size)._asdict().items():
            found[name].append(part)
        size += len(run.slots)
    arrays |= {name: np.concatenate(parts) for name, parts in found.items()}


def _codes(arrays: Arrays, dimension: int) -> None:
    """Every vector as a code."""
    embedded = np.flatnonzero(arrays["embedded"])
    size = len(arrays["embedded"])
    if not len(embedded) or not dimension:
        empty = np.zeros((0, max(dimension, 1)), dtype=np.float32)
        made = codes.Codes(
            empty, np.zeros(1, np.int64), np.zeros((1, 0), np.uint64), np.empty(0, np.float32), np.empty(0, np.uint32)
        )
    else:
        chosen = np.random.default_rng(7).choice(len(embedded), min(_TRAINED, len(embedded)), replace=False)
        sample = embedded[np.sort(chosen)]
        centres = codes.find_centres(segment.dequantise(arrays, sample, dimension), codes.count_lists(len(embedded)))
        nearest = np.full(size, -1, dtype=np.int64)
        words: NDArray[np.uint64] | None = None
        spreads = np.zeros(size, dtype=np.float32)
        for start in range(0, len(embedded), _CHUNK):
            slots = embedded[start : start + _CHUNK]
            vectors = segment.dequantise(arrays, slots, dimension)
            nearest[slots] = codes.assign_centres(vectors, centres)
            signs, spreads[slots] = codes.encode_vectors(vectors, centres, nearest[slots])
            words = np.zeros((size, signs.shape[1]), dtype=np.uint64) if words is None else words
            words[slots] = signs
        assert words is not None
        made = codes.build_codes(words, spreads, nearest, centres)
    arrays |= {
        "centres": made.centres, "starts": made.starts, "planes": made.planes, "spreads": made.spreads, "code_slots": made.slots,
    }  # fmt: skip


def _chains(arrays: Arrays, gathered: _Gathered) -> None:
    """Which message follows which, and of each session the last."""
    message, none = gathered.codes.get(MESSAGE, -1), gathered.codes.get(None, -1)
    linked = np.flatnonzero((arrays["kinds"] == message) & (arrays["sessions"] != none) & (arrays["places"] == 0))
    last = message_links.link_all(arrays, lambda slots: segment.dequantise(arrays, slots, gathered.dimension), linked)
    arrays["last_sessions"] = np.fromiter(last.keys(), dtype=np.int32, count=len(last))
    arrays["last_slots"] = np.fromiter(last.values(), dtype=np.int32, count=len(last))
