"""Which memories belong together: small groups of texts near each other, always the same ones. Pure.

Every row is compared with all others, a block at a time, and keeps its nearest few. The nearest pairs are joined first, and two
groups only where all of them are related on the average, so that no chain of likenesses holds strangers together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from keepstone.text.words import MARKS, term_hashes

Matrix = NDArray[np.float32]
MOST = 3  # members of a group: larger ones bring more unasked text along with what a question is about
ABOVE = 1.5  # standard deviations above the mean likeness of two rows: related
LEAST = 0.2  # likeness below which two rows are never related, whatever the others are
LEAST_OF_FEW = 0.12  # the same for few rows, of which words are compared alone: two or three of them in common
_ENOUGH = 20  # rows whose likenesses tell what is chance
_NEAREST = 16  # rows that each row may be joined with
_BLOCK = 256  # rows compared at a time
_SAMPLE = 512  # rows whose likenesses tell the mean
_BUCKETS = 512  # of the vectors that are made of words
_DAYS = 97  # days told apart by the vectors: those so far apart are taken for one, which counts little
_OF_DAY = 0.1  # what having happened on one day counts, beside meaning and words
_TOGETHER = 0.3  # what standing next to each other adds to a likeness
_GRAIN = 4096  # likenesses are compared in steps of 1/4096, so that no rounding of a processor decides


def groups(
    vectors: Matrix,
    costs: Sequence[float],
    *,
    room: float,
    places: NDArray[np.int64] | None = None,
    most: int = MOST,
    above: float = ABOVE,
) -> list[tuple[int, ...]]:
    """Rows that are related, two to `most` together, whose costs add up to no more than `room`; what is left stays alone and is
    not among them. `vectors` are unit rows, or zero for a row that is like no other. Of two rows whose places are next to each
    other, less likeness is asked: what was said together belongs together. Ascending, as are the rows of a group."""
    count = len(vectors)
    if count < 2:
        return []
    usual, least = _usual(vectors, above)
    beside = {} if places is None or count < _ENOUGH else _beside(vectors, places, usual)
    members: list[list[int]] = [[row] for row in range(count)]
    owner = list(range(count))
    spent = [float(cost) for cost in costs]
    sums = vectors.astype(np.float32, copy=True)
    for one, other in _pairs(vectors, beside, least):
        left, right = sorted((owner[one], owner[other]))
        size = len(members[left]) + len(members[right])
        if left == right or size > most or spent[left] + spent[right] > room:
            continue
        similarity = float(sums[left] @ sums[right])
        if beside:
            similarity += sum(beside.get((min(a, b), max(a, b)), 0.0) for a in members[left] for b in members[right])
        if similarity < least * len(members[left]) * len(members[right]):
            continue
        for row in members[right]:
            owner[row] = left
        members[left] += members[right]
        members[right] = []
        spent[left] += spent[right]
        sums[left] += sums[right]
    return [tuple(sorted(group)) for group in members if len(group) > 1]


def _usual(vectors: Matrix, above: float) -> tuple[float, float]:
    """How alike two rows are by chance, and how alike they must be to be related: well above that. Embedders differ in what they
    call alike, so the rows themselves say it."""
    if len(vectors) < _ENOUGH:
        return 0.0, LEAST_OF_FEW
    step = max(1, len(vectors) // _SAMPLE)
    some = vectors[::step][:_SAMPLE]
    similarity = (some @ some.T)[~np.eye(len(some), dtype=bool)]
    return float(similarity.mean()), max(LEAST, float(similarity.mean() + above * similarity.std()))


def _beside(vectors: Matrix, places: NDArray[np.int64], usual: float) -> dict[tuple[int, int], float]:
    """What is added to the likeness of rows that stand next to each other, or next but one, and are no strangers."""
    order = np.argsort(places, kind="stable")
    found: dict[tuple[int, int], float] = {}
    for gap in (1, 2):
        one, other = order[:-gap], order[gap:]
        alike = np.einsum("ij,ij->i", vectors[one], vectors[other]) > usual
        near = alike & (places[other] - places[one] == gap)
        for a, b in zip(one[near].tolist(), other[near].tolist(), strict=True):
            found[min(a, b), max(a, b)] = _TOGETHER / gap
    return found


def _pairs(vectors: Matrix, beside: Mapping[tuple[int, int], float], least: float) -> list[tuple[int, int]]:
    """Pairs of rows that are related, the nearest first."""
    count = len(vectors)
    near = min(_NEAREST, count - 1)
    found = [np.zeros((0, 3), np.int64)]
    for start in range(0, count, _BLOCK):
        similarity = np.rint(vectors[start : start + _BLOCK] @ vectors.T * _GRAIN).astype(np.int32)
        rows = np.arange(len(similarity))
        similarity[rows, rows + start] = np.iinfo(np.int32).min
        best = np.argpartition(similarity, count - near, axis=1)[:, count - near :]
        values = np.take_along_axis(similarity, best, axis=1)
        one = np.broadcast_to((rows + start)[:, None], best.shape)
        kept = values >= least * _GRAIN
        found.append(np.stack([values[kept], np.minimum(one, best)[kept], np.maximum(one, best)[kept]], axis=1).astype(np.int64))
    if beside:
        rows = np.array(list(beside))
        alike = np.einsum("ij,ij->i", vectors[rows[:, 0]], vectors[rows[:, 1]]) + np.array(list(beside.values()))
        found.append(np.column_stack([np.rint(alike * _GRAIN).astype(np.int64), rows])[alike >= least])
    pairs = np.unique(np.concatenate(found), axis=0)
    order = np.lexsort((pairs[:, 2], pairs[:, 1], -pairs[:, 0]))
    return [(int(one), int(other)) for _, one, other in pairs[order]]


def features(vectors: Matrix, terms: NDArray[np.uint32], ends: NDArray[np.int64], days: NDArray[np.int64]) -> Matrix:
    """Unit rows to be grouped: meaning and words alike, and a little the day. A row whose vector is zero has its words alone, and
    so has every row where there are few. `terms` are hashes, `ends[i]` closes row i's slice of them."""
    words = word_vectors(terms, ends)
    if len(vectors) < _ENOUGH:
        return words
    day = np.zeros((len(days), _DAYS), np.float32)
    day[np.arange(len(days)), days % _DAYS] = np.sqrt(_OF_DAY)
    day[~vectors.any(axis=1) & ~words.any(axis=1)] = 0  # a day by itself is no likeness
    rest = np.float32(np.sqrt((1 - _OF_DAY) / 2))
    return _unit(np.concatenate([rest * vectors, rest * words, day], axis=1))


def word_vectors(terms: NDArray[np.uint32], ends: NDArray[np.int64]) -> Matrix:
    """Unit rows made of words, for memories that have no vectors: those that share rare words are near each other. `terms` are
    hashes, `ends[i]` closes row i's slice of them."""
    lengths = np.diff(ends, prepend=0)
    rows = np.repeat(np.arange(len(ends)), lengths)
    words = ~np.isin(terms, term_hashes(sorted(MARKS)))
    pairs = np.unique((rows[words] << 32) | terms[words].astype(np.int64))  # a word counts once, however often it is said
    row, word = pairs >> 32, pairs & 0xFFFFFFFF
    _, at, counts = np.unique(word, return_inverse=True, return_counts=True)
    rarity = np.log1p((len(ends) + _ENOUGH) / counts)[at]  # in a handful of memories, a word that all have is still a topic
    made = np.zeros((len(ends), _BUCKETS), np.float32)
    np.add.at(made, (row, word % _BUCKETS), np.where(word & 0x10000, rarity, -rarity))
    return _unit(made)


def _unit(rows: Matrix) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return unit
