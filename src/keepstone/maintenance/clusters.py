"""Clustering of memories into small groups of similar texts; deterministic. Pure.

Every row is compared with all others, a block at a time, and keeps its nearest neighbours. The most similar pairs are joined
first. Two groups are joined only if their average similarity is high enough, so a chain of pairs does not join unrelated rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from keepstone.text.words import MARKS, term_hashes

Matrix = NDArray[np.float32]
MAX_MEMBERS = 3  # of a group: recall of a larger one returns more text that does not answer the question
_MIN_DEVIATIONS = 1.5  # standard deviations above the mean similarity, from which two rows are related
MIN_SIMILARITY = 0.2  # below which two rows are never related
MIN_SIMILARITY_OF_FEW = 0.12  # the same if there are few rows, which are compared by words only: two or three in common
_MIN_SAMPLE_ROWS = 20  # from which the mean similarity is measured
_MAX_NEIGHBOURS = 16  # of a row that it may be joined with
_BLOCK_ROWS = 256  # rows compared at a time
_MAX_SAMPLE_ROWS = 512  # that the mean similarity is measured on
_BUCKETS = 512  # of the vectors that are made of words
_DAYS = 97  # dimensions for days: days that are a multiple of this apart share one
_DAY_WEIGHT = 0.1  # of the day; vector and words share the rest
_ADJACENT_BONUS = 0.3  # added to the similarity of adjacent rows
_STEPS = 4096  # similarities are rounded to 1/4096, so that every processor gives the same groups


def groups(
    vectors: Matrix,
    costs: Sequence[float],
    *,
    room: float,
    places: NDArray[np.int64] | None = None,
    most: int = MAX_MEMBERS,
) -> list[tuple[int, ...]]:
    """Groups of two to `most` related rows whose costs sum to at most `room`, in ascending order; rows without a group are left
    out. `vectors` are unit rows, or zero for a row that is similar to no other. Rows with adjacent `places` were said together,
    and need less similarity."""
    count = len(vectors)
    if count < 2:
        return []
    average, least = _thresholds(vectors)
    adjacent = {} if places is None or count < _MIN_SAMPLE_ROWS else _adjacent(vectors, places, average)
    members: list[list[int]] = [[row] for row in range(count)]
    owner = list(range(count))
    spent = [float(cost) for cost in costs]
    sums = vectors.astype(np.float32, copy=True)
    for one, other in _pairs(vectors, adjacent, least):
        left, right = sorted((owner[one], owner[other]))
        size = len(members[left]) + len(members[right])
        if left == right or size > most or spent[left] + spent[right] > room:
            continue
        similarity = float(sums[left] @ sums[right])
        if adjacent:
            similarity += sum(adjacent.get((min(a, b), max(a, b)), 0.0) for a in members[left] for b in members[right])
        if similarity < least * len(members[left]) * len(members[right]):
            continue
        for row in members[right]:
            owner[row] = left
        members[left] += members[right]
        members[right] = []
        spent[left] += spent[right]
        sums[left] += sums[right]
    return [tuple(sorted(group)) for group in members if len(group) > 1]


def _thresholds(vectors: Matrix) -> tuple[float, float]:
    """The mean similarity of two rows, and the similarity from which they are related. Both depend on the embedder, so they are
    measured."""
    if len(vectors) < _MIN_SAMPLE_ROWS:
        return 0.0, MIN_SIMILARITY_OF_FEW
    step = max(1, len(vectors) // _MAX_SAMPLE_ROWS)
    some = vectors[::step][:_MAX_SAMPLE_ROWS]
    similarity = (some @ some.T)[~np.eye(len(some), dtype=bool)]
    return float(similarity.mean()), max(MIN_SIMILARITY, float(similarity.mean() + _MIN_DEVIATIONS * similarity.std()))


def _adjacent(vectors: Matrix, places: NDArray[np.int64], average: float) -> dict[tuple[int, int], float]:
    """The bonus of pairs of rows that are adjacent, or next but one, and more similar than the average."""
    order = np.argsort(places, kind="stable")
    found: dict[tuple[int, int], float] = {}
    for gap in (1, 2):
        one, other = order[:-gap], order[gap:]
        alike = np.einsum("ij,ij->i", vectors[one], vectors[other]) > average
        near = alike & (places[other] - places[one] == gap)
        for a, b in zip(one[near].tolist(), other[near].tolist(), strict=True):
            found[min(a, b), max(a, b)] = _ADJACENT_BONUS / gap
    return found


def _pairs(vectors: Matrix, adjacent: Mapping[tuple[int, int], float], least: float) -> list[tuple[int, int]]:
    """Pairs of rows that are related, the nearest first."""
    count = len(vectors)
    near = min(_MAX_NEIGHBOURS, count - 1)
    found = [np.zeros((0, 3), np.int64)]
    for start in range(0, count, _BLOCK_ROWS):
        similarity = np.rint(vectors[start : start + _BLOCK_ROWS] @ vectors.T * _STEPS).astype(np.int32)
        rows = np.arange(len(similarity))
        similarity[rows, rows + start] = np.iinfo(np.int32).min
        best = np.argpartition(similarity, count - near, axis=1)[:, count - near :]
        values = np.take_along_axis(similarity, best, axis=1)
        one = np.broadcast_to((rows + start)[:, None], best.shape)
        kept = values >= least * _STEPS
        found.append(np.stack([values[kept], np.minimum(one, best)[kept], np.maximum(one, best)[kept]], axis=1).astype(np.int64))
    if adjacent:
        rows = np.array(list(adjacent))
        alike = np.einsum("ij,ij->i", vectors[rows[:, 0]], vectors[rows[:, 1]]) + np.array(list(adjacent.values()))
        found.append(np.column_stack([np.rint(alike * _STEPS).astype(np.int64), rows])[alike >= least])
    pairs = np.unique(np.concatenate(found), axis=0)
    order = np.lexsort((pairs[:, 2], pairs[:, 1], -pairs[:, 0]))
    return [(int(one), int(other)) for _, one, other in pairs[order]]


def features(vectors: Matrix, terms: NDArray[np.uint32], ends: NDArray[np.int64], days: NDArray[np.int64]) -> Matrix:
    """Unit rows to be grouped: meaning and words alike, and a little the day. A row whose vector is zero has its words alone, and
    so has every row where there are few. `terms` are hashes, `ends[i]` closes row i's slice of them."""
    words = word_vectors(terms, ends)
    if len(vectors) < _MIN_SAMPLE_ROWS:
        return words
    day = np.zeros((len(days), _DAYS), np.float32)
    day[np.arange(len(days)), days % _DAYS] = np.sqrt(_DAY_WEIGHT)
    day[~vectors.any(axis=1) & ~words.any(axis=1)] = 0  # a day alone does not make rows similar
    rest = np.float32(np.sqrt((1 - _DAY_WEIGHT) / 2))
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
    rarity = np.log1p((len(ends) + _MIN_SAMPLE_ROWS) / counts)[at]  # with few rows, a word that all have is still a topic
    made = np.zeros((len(ends), _BUCKETS), np.float32)
    np.add.at(made, (row, word % _BUCKETS), np.where(word & 0x10000, rarity, -rarity))
    return _unit(made)


def _unit(rows: Matrix) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    unit: Matrix = np.divide(rows, norms, out=np.zeros_like(rows), where=norms > 0)
    return unit
