"""What is true now: a later statement about the same thing comes before the earlier one that it replaces. Pure.

By vectors, the later candidates that may replace one of the best hits are chosen; by their texts, each pair is judged
(`text.revisions`). What is replaced stays among the hits, after what replaces it. What people with names
say to each other keeps its order: there the judgement is wrong too often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.stores import Reader
from keepstone.ports.values import Vector
from keepstone.recall.candidates import Column, Slots
from keepstone.recall.features import Features
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.text.revisions import (
    ReadPair,
    VectorPoints,
    find_changes,
    leaves_standing,
    load_model,
    read_probabilities,
    revision_probabilities,
    tells_of_another,
)
from keepstone.types import Record

MIN_PROBABILITY = 0.2  # from which a later statement comes before an earlier one
MIN_CLAIM = 0.3  # from which a hit says what replaces it
_MAX_COMPARED = 160  # candidates with the highest sums that may replace them
_MAX_EARLIER = 3  # earlier statements that a new one is compared with
_MAX_KEPT = 16_384  # judgements of a reader that are kept
_OF_THE_PAST = re.compile(
    r"\b(?:did|was|were|used to|before|previous(?:ly)?|former(?:ly)?|earlier|originally|at first|back then|back when|in the past"
    r"|until|old (?:one|job|home|house|flat|address|phone|car|number|name|boss))\b",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")

Order = NDArray[np.int64]
JudgePairs = Callable[[str, Sequence[str]], Sequence[float]]  # logits that each later text replaces an earlier one


class _Limits(NamedTuple):
    """The best hits whose replacements are looked for, the later statements that are read for each, the points by vectors from
    which one is read, and how much it counts that a statement is like a change. `first_only`: hits after the first are compared
    with the first alone."""

    older: int
    newer: int
    min_points: float
    change: float
    first_only: bool


_BY_WORDS, _BY_READER = _Limits(2, 2, 4.0, 0.0, False), _Limits(2, 8, -4.0, 0.5, True)


class PairReader:
    """Judges by a reader whether one text replaces another; each pair is read once. No text is kept, only its hash."""

    def __init__(self, reader: Reader | None) -> None:
        self._replaces: Callable[[str, Sequence[str]], Sequence[float]] | None = getattr(reader, "replaces", None)
        self._judged: dict[tuple[int, int], float] = {}

    def of(self) -> ReadPair | None:
        """Itself where there is a reader that judges pairs."""
        return None if self._replaces is None else self

    def __call__(self, older: str, newer: str) -> float:
        assert self._replaces is not None
        pair = hash(older), hash(newer)
        judged = self._judged.get(pair)
        if judged is None:
            if len(self._judged) >= _MAX_KEPT:
                self._judged.clear()
            judged = self._judged[pair] = self._replaces(older, [newer])[0]
        return judged


@dataclass(frozen=True, slots=True)
class Replacement:
    """A candidate that a later one replaces: the positions of both, the id of the later record, when it was said, and how sure
    this is."""

    older: int
    newer: int
    newer_id: str
    said_at_micros: int
    probability: float


@dataclass(frozen=True, slots=True)
class Supersession:
    """The order of hits with replacements before what they replace, the sums by position, and what each gained or lost by it."""

    order: Order
    sums: Column
    replacements: dict[int, Replacement] = field(default_factory=dict)  # by the position of the older
    points: dict[int, float] = field(default_factory=dict)  # by position
    records: dict[int, Record | None] = field(default_factory=dict)  # that were read for it, by position

    def moved_up(self) -> set[int]:
        """The positions of what replaces a hit."""
        return {replacement.newer for replacement in self.replacements.values()}


def supersede(
    view: View,
    question: Question,
    vector: Vector | None,
    features: Features,
    usable: NDArray[np.bool_],
    sums: Column,
    order: Order,
    limit: int,
    fetch: Callable[[Slots], Sequence[Record | None]],
    read: JudgePairs | None = None,
) -> Supersession:
    """Put later statements before those of the best hits that they replace. A question about the past keeps its order. The
    records of the first `limit` hits are fetched with those that are read. With `read`, a reader judges the pairs."""
    if vector is None or not len(order):
        return Supersession(order, sums)
    pairs, compared = _find_pairs(view, vector, features, usable, sums, order, _BY_WORDS if read is None else _BY_READER)
    if not pairs or compared is None:
        return Supersession(order, sums)
    positions = sorted({*order[:limit].tolist(), *(position for older, newer, _ in pairs for position in (older, newer))})
    records = dict(zip(positions, fetch(features.slots[positions]), strict=True))
    replacements = _judge(view, question, features, pairs, compared, records, read)
    if not replacements or _asks_of_the_past(question):
        return Supersession(order, sums, replacements, records=records)
    return replace(_move(order, sums, replacements), records=records)


def _asks_of_the_past(question: Question) -> bool:
    """Whether a question asks for what held before, or in a period that it names."""
    time = question.time
    return _OF_THE_PAST.search(question.text) is not None or (time is not None and (time.is_window or time.order == "earliest"))


def find_replaced(
    view: View,
    text: str,
    vector: Vector,
    said_at_micros: int,
    fetch: Callable[[Slots], Sequence[Record | None]],
) -> dict[str, float]:
    """Earlier records that a statement, just stored, may replace, each with the probability; the surest first."""
    model = load_model()
    # One thread: those of a BLAS wait for each other on a busy machine, a hundred times as long as the product takes.
    points = np.vecdot(view.vectors, model.of_statement @ vector) + np.float32(model.common @ vector)
    usable = view.active & view.embedded & view.unnamed & (view.stated < said_at_micros)
    points[~usable] = -np.inf
    best = np.argpartition(-points, _MAX_EARLIER)[:_MAX_EARLIER] if len(points) > _MAX_EARLIER else np.arange(len(points))
    best = best[np.argsort(-points[best])]
    best = best[points[best] > -np.inf]
    change, found = float(vector @ model.change[:-1] + model.change[-1]), {}
    highest = [*points[best].tolist(), -np.inf]
    for at, record in enumerate(fetch(best)):
        if record is not None:
            pair = (VectorPoints(highest[at], change, highest[at == 0] - highest[at]), record.content, text)
            found[record.id] = round(revision_probabilities([pair], least=MIN_CLAIM)[0], 4)
    return dict(sorted(((id, each) for id, each in found.items() if each >= MIN_CLAIM), key=lambda entry: -entry[1]))


class _Compared(NamedTuple):
    """The statements that were compared: their positions, when they got their present wording, and their vectors."""

    told: Order
    stated: NDArray[np.int64]
    vectors: NDArray[np.float32]


def _find_pairs(
    view: View, vector: Vector, features: Features, usable: NDArray[np.bool_], sums: Column, order: Order, limits: _Limits
) -> tuple[list[tuple[int, int, float]], _Compared | None]:
    """The pairs (older, newer, points) of positions that are worth reading, and all that was compared."""
    model, slots = load_model(), features.slots
    heads = order[: limits.older]
    heads = heads[features.measured[heads] & view.unnamed[slots[heads]]]
    if not len(heads):
        return [], None
    told = np.arange(len(slots))
    if len(slots) > _MAX_COMPARED:
        told = np.sort(np.argpartition(-sums, _MAX_COMPARED)[:_MAX_COMPARED])
    compared = slots[told]
    told = told[usable[compared] & features.measured[told] & view.unnamed[compared] & (features.column("asks")[told] == 0)]
    stated = view.stated[slots[told]]
    is_later = stated > view.stated[slots[heads], None]
    if not np.count_nonzero(is_later):
        return [], None
    vectors = view.vectors.take(features.shown[told], axis=0)
    asked = model.common + vector @ model.of_question
    pairs: list[tuple[int, int, float]] = []
    for head, later in zip(heads.tolist(), is_later, strict=True):
        points = vectors @ (view.vectors[features.shown[head]] @ model.of_statement + asked)
        points[~later] = -np.inf
        if limits.first_only and head != order[0]:
            points[told != order[0]] = -np.inf
        likely = points + np.float32(limits.change) * model.change_points(vectors) if limits.change else points
        best = (-likely).argsort()[: limits.newer]
        pairs += [
            (head, at, value)
            for at, value in zip(told[best].tolist(), points[best].tolist(), strict=True)
            if value >= limits.min_points
        ]
    return pairs, _Compared(told, stated, vectors)


def _measure_pairs(
    view: View, features: Features, pairs: Sequence[tuple[int, int, float]], compared: _Compared
) -> list[VectorPoints]:
    """What the vectors say of each pair, beside all that was compared."""
    model, shown = load_model(), features.shown
    told, stated, vectors = compared
    fits: dict[int, tuple[Column, Column, float]] = {}
    measured = []
    for older, newer, points in pairs:
        if newer not in fits:
            statement = view.vectors[shown[newer]]
            revised = model.of_statement @ statement
            fit = vectors @ revised
            fit[stated >= stated[told.searchsorted(newer)]] = -np.inf  # what may replace another was told itself
            fits[newer] = fit, revised, float(statement @ model.change[:-1] + model.change[-1])
        fit, revised, change = fits[newer]
        others = fit[told != older]
        rival = float(others[others.argmax()]) - float(view.vectors[shown[older]] @ revised) if len(others) else -np.inf
        measured.append(VectorPoints(points, change, rival))
    return measured


def _judge(
    view: View,
    question: Question,
    features: Features,
    pairs: list[tuple[int, int, float]],
    compared: _Compared,
    records: dict[int, Record | None],
    judge_pairs: JudgePairs | None,
) -> dict[int, Replacement]:
    """Read both texts of each pair; of several replacements the surest counts."""
    numbers = frozenset(_NUMBER.findall(question.text))
    read = [
        (pair, old.content, new.content, new.id)
        for pair in pairs
        if (old := records[pair[0]]) is not None and (new := records[pair[1]]) is not None and _may_replace(old, new, numbers)
    ]
    if judge_pairs is None:
        changes = find_changes({new for _, _, new, _ in read})
        readable = [entry for entry in read if entry[2] in changes]
    else:
        readable = [entry for entry in read if not leaves_standing(entry[1], entry[2], read=True)]
    if not readable:
        return {}
    measured = _measure_pairs(view, features, [pair for pair, _, _, _ in readable], compared)
    texts = [(points, old, new) for points, (_, old, new, _) in zip(measured, readable, strict=True)]
    if judge_pairs is None:
        probabilities = revision_probabilities(texts, question.text, least=MIN_PROBABILITY)
        asked = frozenset(word.term for word in question.words if word.is_name)
        probabilities = [
            0.0 if each >= MIN_PROBABILITY and tells_of_another(asked, old, new) else each
            for each, (_, old, new) in zip(probabilities, texts, strict=True)
        ]
    else:
        by_older: dict[str, list[str]] = {}
        for _, before, after in texts:  # those of one earlier statement follow each other
            by_older.setdefault(before, []).append(after)
        logits = [logit for before, later in by_older.items() for logit in judge_pairs(before, later)]
        probabilities = read_probabilities(texts, logits, question.text)
    found: dict[int, Replacement] = {}
    for ((older, newer, _), _, _, id), probability in zip(readable, probabilities, strict=True):
        if probability >= MIN_PROBABILITY and (older not in found or found[older].probability < probability):
            said_at = int(view.stated[features.slots[newer]])
            found[older] = Replacement(older, newer, id, said_at, round(probability, 4))
    return found


def _may_replace(old: Record, new: Record, numbers: frozenset[str]) -> bool:
    """Whether one record can replace another at all: not where it was learned from it, nor where they are values of two keys,
    nor where the question names a number (of an order, a room) that only the older one holds."""
    if old.id in new.parents:
        return False
    if old.key is not None and new.key is not None and old.key != new.key:
        return False
    return not numbers or not (numbers & set(_NUMBER.findall(old.content)) - set(_NUMBER.findall(new.content)))


def _move(order: Order, sums: Column, replacements: dict[int, Replacement]) -> Supersession:
    """Each replacement directly before the first that it replaces; sums are reassigned so that they fall with the order."""
    positions: list[int] = order.tolist()
    for older in order.tolist():
        replacement = replacements.get(older)
        if replacement is None:
            continue
        newer = replacement.newer
        if newer in positions:
            if positions.index(newer) < positions.index(older):
                continue
            positions.remove(newer)
        positions.insert(positions.index(older), newer)
    arranged = np.array(positions, dtype=np.int64)
    moved = sums.copy()
    moved[arranged] = np.sort(sums[arranged])[::-1]
    affected = {*replacements, *(replacement.newer for replacement in replacements.values())}
    points = {position: round(float(moved[position] - sums[position]), 4) for position in affected}
    return Supersession(arranged, moved, replacements, points)
