"""What speaks for each record, as arrays over a view: meaning, words, coverage. Pure. Imports: index, postings, numpy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from recollect.ports import Vector
from recollect.scopeindex.columns import View
from recollect.scopeindex.postings import find
from recollect.words import term_hashes

Column = NDArray[np.float32]
K1, B = 1.2, 0.6  # BM25: how fast repetition stops counting, how much length counts

_BACKGROUND = 20  # records without the word that are imagined: in a scope of three, a word that all have still says something


@dataclass(frozen=True, slots=True)
class Signals:
    """One number a record and signal, each in about 0..1.

    meaning: cosine of query and record (0 where there is no vector). words: BM25 as a share of the best possible.
    coverage: the share of the query's words, weighted by rarity, that the record holds."""

    meaning: Column
    words: Column
    coverage: Column
    embedded: NDArray[np.bool_]  # where meaning could be measured at all
    has_vector: bool
    has_words: bool


def measure(
    view: View,
    terms: Sequence[str],
    vector: Vector | None,
    frequencies: Sequence[int] | None = None,
    population: int | None = None,
) -> Signals:
    """The signals of every slot. `frequencies` and `population` are the scope's own, where the view is only a part."""
    if vector is not None and view.vectors.shape[1] == len(vector):
        meaning: Column = view.vectors @ vector
        embedded: NDArray[np.bool_] = view.embedded
    else:
        meaning, vector = np.zeros(view.size, dtype=np.float32), None
        embedded = np.zeros(view.size, dtype=np.bool_)
    words, coverage = _words(view, terms, frequencies, population)
    return Signals(meaning, words, coverage, embedded, vector is not None, bool(terms))


def _words(view: View, terms: Sequence[str], frequencies: Sequence[int] | None, population: int | None) -> tuple[Column, Column]:
    words = np.zeros(view.size, dtype=np.float32)
    coverage = np.zeros(view.size, dtype=np.float32)
    if not terms or not view.size:
        return words, coverage
    active = view.active
    live = int(active.sum())
    count = _BACKGROUND + (live if population is None else population)
    average = float(view.lengths[active].mean()) if live else 1.0
    total = 0.0
    for at, hashed in enumerate(term_hashes(terms).tolist()):
        slots, times = find(view.runs, hashed)
        held = int(active[slots].sum()) if frequencies is None else frequencies[at]
        rarity = float(np.log1p((max(count, held) - held + 0.5) / (held + 0.5)))
        total += rarity
        if len(slots):
            length = view.lengths[slots] / max(average, 1.0)
            words[slots] += rarity * times / (times + K1 * (1 - B + B * length))
            coverage[slots] += rarity
    return words / np.float32(total), coverage / np.float32(total)
