"""From signals to one score. Pure. Imports: signals, numpy.

Each signal is measured in standard deviations above what is usual for this query in this scope, so that a rare strong
match counts whatever the embedder's own scale is, and the two are added. Small scopes have no statistics of their own:
there the usual values of our own embedder and of BM25 stand in, and weigh as much as `_PRIOR` records.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from recollect.recall.signals import Column, Signals

MEANING, WORDS = 0.7, 0.3
_PRIOR = 30.0
_USUAL_MEANING = (0.10, 0.12)  # mean and deviation of the cosine of unrelated texts
_USUAL_WORDS = (0.02, 0.08)
_CERTAIN = 2.0  # fused deviations at which the score is one half
_COVERED = 0.6  # how much sharing every word of the query says about relevance, without any likeness of meaning


_CHANCE = (0.10, 0.05, 0.025)  # constant, and factors of the decades and of their square
_CHANCE_MOST = 0.48


def chance(size: int) -> float:
    """The relevance that the best of so many unrelated memories reaches by chance in every third or fourth question:
    below it a memory is not recalled unless the caller says otherwise. Measured on chat turns, that is .08 to .13 for 3 of
    them, .28 to .35 for 100, .41 to .51 for 1,000; it is held at .48, where it begins to cost answers.

    >>> [round(chance(size), 2) for size in (1, 10, 100, 1000, 100_000)]
    [0.1, 0.18, 0.3, 0.47, 0.48]
    """
    decades = math.log10(max(size, 1))
    return min(_CHANCE_MOST, _CHANCE[0] + _CHANCE[1] * decades + _CHANCE[2] * decades**2)


def fused(signals: Signals, usable: NDArray[np.bool_]) -> Column:
    """The fused deviations of every slot; the statistics are taken over the usable ones. A record that waits for its
    vector is judged by its words alone."""
    if not signals.has_vector:
        return _deviations(signals.words, usable, _USUAL_WORDS)
    meaning = _deviations(signals.meaning, usable & signals.embedded, _USUAL_MEANING)
    if not signals.has_words:
        return meaning
    words = _deviations(signals.words, usable, _USUAL_WORDS)
    return MEANING * np.where(signals.embedded, meaning, words) + WORDS * words


def _deviations(values: Column, usable: NDArray[np.bool_], usual: tuple[float, float]) -> Column:
    counted = values[usable]
    size = len(counted)
    mean = (float(counted.sum()) + _PRIOR * usual[0]) / (size + _PRIOR)
    spread = float(np.square(counted - mean).sum()) + _PRIOR * (usual[1] ** 2 + (usual[0] - mean) ** 2)
    deviation = float(np.sqrt(spread / (size + _PRIOR)))
    standardised: Column = (values - np.float32(mean)) / np.float32(deviation + 1e-6)
    return standardised


def score(deviations: Column) -> Column:
    """Deviations as a number from 0 to 1."""
    found: Column = 1 / (1 + np.exp(_CERTAIN - deviations))
    return found


def similarity(signals: Signals) -> Column:
    """How relevant a record is to the query on its own, from 0 to 1, whatever else is in the scope: the likeness of
    meaning, raised by the share of the query's words that the record holds; where there is no vector that share alone.
    `min_similarity` is compared with this."""
    meaning = np.clip(signals.meaning, 0, 1)
    together = 1 - (1 - meaning) * (1 - np.float32(_COVERED) * signals.coverage)
    found: Column = np.where(signals.embedded, together, signals.coverage)
    return found
