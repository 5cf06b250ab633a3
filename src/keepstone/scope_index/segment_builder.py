"""Making a segment of a large scope: its records a page at a time, so that building takes little more memory than the segment."""

from __future__ import annotations

from collections.abc import Callable, Iterable
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


class BuildStopped(Exception):  # no error: the segment is not needed any more
    """Building was given up."""


def build_segment(pages: Iterable[IndexRows], about: dict[str, Any], stopped: Callable[[], bool] = lambda: False) -> Segment:
    """A segment of some pages of rows, which come in the order of their sequences."""
    gathered = _Gathered()
    for rows in pages:
        if stopped():
            raise BuildStopped
        gathered.add(rows)
    arrays = gathered.columns()
    vectors, scales = gathered.vectors()
    arrays |= {"vectors": vectors, "scales": scales}
    arrays |= segment.encode_names(gathered.codes, gathered.speakers)
    dimension = gathered.dimension or (about.get("embedder") or (None, 0))[1]  # an empty scope may be filled later
    made = {**about, "dimension": dimension, "size": gathered.size}
    arrays |= make_run(gathered.terms(), np.repeat(np.arange(len(arrays["lengths"])), arrays["lengths"]))._asdict()
    if stopped():
        raise BuildStopped
    _codes(arrays, dimension)
    if stopped():
        raise BuildStopped
    _chains(arrays, gathered)
    made["sessions"] = len(arrays["last_slots"])
    return Segment.of(made, arrays)


class _Gathered:
    """What the pages brought, in as few bytes as it will have in the segment."""

    def __init__(self) -> None:
        self.codes: dict[str | None, int] = {None: 0}  # always: what is overwritten has no owner
        self.speakers: set[str] = set()
        self.dimension = 0
        self.size = 0
        self._parts: dict[str, list[NDArray[Any]]] = {name: [] for name in (*PLAIN, *CODED, "lengths", "sums")}
        self._terms: list[NDArray[np.uint32]] = []
        self._vectors: list[NDArray[np.int8]] = []
        self._scales: list[NDArray[np.float32]] = []

    def add(self, rows: IndexRows) -> None:
        if not len(rows):
            return
        self.size += len(rows)
        self.dimension = rows.vectors.shape[1]
        for name in PLAIN:
            self._parts[name].append(np.asarray(getattr(rows, name), dtype=TYPES[name]))
        for name in CODED:
            texts: list[str | None] = getattr(rows, name)
            for text in set(texts):
                self.codes.setdefault(text, len(self.codes))
            self._parts[name].append(np.fromiter(map(self.codes.__getitem__, texts), dtype=np.int32, count=len(texts)))
        self.speakers.update(name for name in set(rows.names) if name is not None)
        self._parts["lengths"].append(np.diff(rows.ends, prepend=0).astype(np.int32))
        self._parts["sums"].append(checksums(rows))
        self._terms.append(rows.terms)
        whole, scales = segment.quantise(rows.vectors)
        self._vectors.append(whole)
        self._scales.append(scales)

    def columns(self) -> Arrays:
        found = {name: np.concatenate(parts) if parts else np.empty(0, TYPES[name]) for name, parts in self._parts.items()}
        self._parts.clear()
        return found

    def vectors(self) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
        if not self._vectors:
            return np.zeros((0, 0), dtype=np.int8), np.zeros((0, 0), dtype=np.float32)
        found = np.concatenate(self._vectors), np.concatenate(self._scales)
        self._vectors, self._scales = [], []
        return found

    def terms(self) -> NDArray[np.uint32]:
        found = np.concatenate(self._terms) if self._terms else np.empty(0, dtype=np.uint32)
        self._terms = []
        return found


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
