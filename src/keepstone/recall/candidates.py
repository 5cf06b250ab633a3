"""The first look at a scope: every record by its own meaning and words, and the few hundred worth a closer one.
Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Vector
from keepstone.recall.question import Asked, Question
from keepstone.scope_index.columns import View
from keepstone.scope_index.postings import Counts, find_all
from keepstone.text.words import term_hashes

Column = NDArray[np.float32]
Slots = NDArray[np.int64]
Standing = dict[int, tuple[Slots, Counts]]  # of each term the slots it stands in, and how often
CLOSER = 256  # records that are looked at closely, and besides them their neighbours

K1, B = 1.2, 0.6  # BM25: how fast repetition stops counting, how much length counts
_BACKGROUND = 20  # records without the word that are imagined: in a scope of three, a word that all have still says something
_USUAL_DEVIATION = 0.09  # of the cosine of unrelated texts, with the default embedder: what the weights are made for
_PRIOR = 30.0  # records whose deviation is taken to be that, until a scope has its own statistics
_COMMON = 2000  # a related word that stands in more records than this, and in every tenth, tells nothing
_WORDS_ALONE = (0.1, 0.45)  # the meaning that a record without a vector is taken to have: constant, and share of its coverage


@dataclass(frozen=True, slots=True)
class Found:
    """Where one word of the question stands: of each slot from 0 to 1 how well it holds it, and after the last a 0 for no slot;
    None where nothing has it. `exact` and `times` are the word itself and how often."""

    rarity: float
    held: Column | None
    exact: Slots
    times: Counts


@dataclass(frozen=True, slots=True)
class Glance:
    """Every slot by itself. meaning: cosine with the question (scaled to the default embedder's spread). words: BM25 as a
    share of the best possible. coverage: the share of the question's words, weighted by how much they say, that a
    record holds, related words counting in part."""

    meaning: Column
    words: Column
    coverage: Column
    found: tuple[Found, ...]
    total: float
    has_vector: bool


def glance(
    view: View,
    question: Question,
    vector: Vector | None,
    usable: NDArray[np.bool_],
    deviation: float | None = None,
    frequencies: Sequence[int] | None = None,
    population: int | None = None,
) -> Glance:
    """Look at every slot. `deviation` is the embedder's own; measured on the scope where it has none. `frequencies` and
    `population` are the scope's, where the view is only a part."""
    live = view.live
    gone = live < view.size
    count = _BACKGROUND + (live if population is None else population)
    asked = term_hashes(question.terms).tolist()
    wanted = list(dict.fromkeys([*asked, *(each for word in question.words if not word.names for each in word.relatives.hashes)]))
    held = dict(zip(wanted, find_all(view.runs, wanted), strict=True))
    found = tuple(
        _find(view, word, held, hashed, count, live, gone, None if frequencies is None else frequencies[at])
        for at, (word, hashed) in enumerate(zip(question.words, asked, strict=True))
    )
    total = sum(each.rarity for each in found) or 1.0
    words, coverage = _words(view, found, total)
    has_vector = vector is not None and view.vectors.shape[1] == len(vector)
    if vector is None or not has_vector:
        return Glance(_guessed(coverage), words, coverage, found, total, False)
    meaning: Column = np.vecdot(view.vectors, vector)  # row by row, in one thread: the same whatever else is in the scope
    scale = _USUAL_DEVIATION / (deviation or _deviation(meaning, usable & view.embedded))
    if scale != 1.0:
        meaning *= np.float32(scale)
    if not view.all_embedded:
        meaning = np.where(view.embedded, meaning, _guessed(coverage))
    return Glance(meaning, words, coverage, found, total, True)


def _guessed(coverage: Column) -> Column:
    """The meaning that records are taken to have by their words."""
    found: Column = np.float32(_WORDS_ALONE[0]) + np.float32(_WORDS_ALONE[1]) * coverage
    return found


def _deviation(meaning: Column, usable: NDArray[np.bool_]) -> float:
    """How far apart the cosines of this scope lie."""
    counted = meaning[usable]
    size = len(counted)
    variance = float(counted.var()) if size else 0.0
    return float(np.sqrt((size * variance + _PRIOR * _USUAL_DEVIATION**2) / (size + _PRIOR)))


def _find(
    view: View, word: Asked, standing: Standing, hashed: int, count: int, live: int, gone: bool, frequency: int | None
) -> Found:
    exact, times = standing[hashed]
    if gone:  # some slots are of records that are no more, or are not active
        there = view.active[exact]
        exact, times = exact[there], times[there]
    parts: list[tuple[Slots, float]] = []
    if word.names:
        # The name of one who speaks here: their own turns count as having it, and records that nobody speaks.
        exact_here = view.names[exact] == view.code(None)
        exact, times = exact[exact_here], times[exact_here]
        spoken = np.flatnonzero(np.isin(view.names, list(word.names)) & view.active)
        parts.append((spoken, 1.0))
        held = len(spoken) + len(exact)
    else:
        held = len(exact) if frequency is None else frequency
        for related, likeness in zip(reversed(word.relatives.hashes), reversed(word.relatives.likeness), strict=True):
            slots, _ = standing[related]
            slots = slots[view.active[slots]] if gone else slots
            if len(slots) and (len(slots) < _COMMON or len(slots) * 10 < live):
                parts.append((slots, likeness))
    if len(exact):
        parts.append((exact, 1.0))
    holding: Column | None = None
    if parts:
        holding = np.zeros(view.size + 1, dtype=np.float32)
        for slots, value in parts:  # weaker ones first, so that the best is left in each slot
            holding[slots] = value
    rarity = float(np.log1p((max(count, held) - held + 0.5) / (held + 0.5))) * word.relatives.weight
    return Found(rarity, holding, exact, times)


def _words(view: View, found: Sequence[Found], total: float) -> tuple[Column, Column]:
    words = np.zeros(view.size, dtype=np.float32)
    coverage = np.zeros(view.size, dtype=np.float32)
    for each in found:
        share = np.float32(each.rarity / total)
        if each.held is not None:
            coverage += share * each.held[:-1]
        if len(each.exact):
            length = view.lengths[each.exact] * np.float32(B / view.average)
            words[each.exact] += share * each.times / (each.times + np.float32(K1) * (np.float32(1 - B) + length))
    return words, coverage


def choose(promise: Column, usable: NDArray[np.bool_], wanted: int, also: int | None) -> Slots:
    """The usable slots that promise most, in no order; all of them where they are few."""
    count = int(np.count_nonzero(usable))
    if count <= 2 * wanted:
        slots = np.flatnonzero(usable)
    else:
        values = promise if count == len(promise) else promise[usable]
        bound = np.partition(values, count - wanted)[count - wanted]
        better, equal = np.flatnonzero(values > bound), np.flatnonzero(values == bound)
        slots = np.concatenate([better, equal[len(equal) - (wanted - len(better)) :]])  # of equals the newest
        slots = slots if count == len(promise) else np.flatnonzero(usable)[slots]
    return slots if also is None else np.union1d(slots, [also])
