"""Fuses features into one score. Pure.

The score is a weighted sum. The weights are in `weights.json`, fitted by `training/fit_fusion.py`. They hold for scopes of every
size: no feature of a record depends on the other records' features.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import Column, FirstPass
from keepstone.recall.features import NAMES, Features
from keepstone.recall.question import Question
from keepstone.recall.time_window import measure_near, outside_points, window_of
from keepstone.scope_index.columns import View
from keepstone.text.time_expressions import closeness

_CHANCE = (0.13, 0.085, 0.013)  # constant, and factors of the decades of the scope's size and of their square
_MAX_CHANCE = 0.55
# Of the chance level, where the question is about the user and the record is a fact: in English, and in other languages, where
# facts and their paraphrases are less alike.
_OWN_FACTS_FACTORS = (0.75, 0.5)
# Of the threshold, and of the best relevance: what a record needs where a list or an overview is asked for.
_WHOLE_SHARES = (0.4, 0.15)
# How much a unit of the log odds that the question asks about the world adds to the chance level, and which odds count. In other
# languages than English unrelated texts are more alike, so what is asked about decides more than similarity there.
_WORLD_FACTOR, _WORLD_BOUNDS = 0.15, (-2.0, 4.0)
_FOREIGN_WORLD_FACTORS, _FOREIGN_WORLD_BOUNDS = (0.3, 0.8), (-2.0, 3.0)  # factors of negative and of positive log odds
_FOREIGN_WORLD_ODDS = 0.5  # added to them: the odds are fitted on more questions about users in English
_SHARES = (0.5, 0.25)  # of the threshold, and of the best relevance: what a record needs once the best passes
# How much each raises the relevance of a record without any similarity: holding every word of the query, being said by the
# speaker it names, being of the time it names.
_COVERAGE_FACTOR, _HINT_FACTORS = np.float32(0.75), {"speaker": np.float32(0.3), "time": np.float32(0.2)}
_ASKING_POINTS = 14.0  # more than the rewording of a question scores above the statement that answers it
_UNKNOWN_NAMES_FACTOR = 0.3  # how much relevance falls where no record holds the names in the question

Positions = NDArray[np.int64] | slice


class Weights:
    """The weight of each feature, and the weights of `confidence`."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        self.version = int(document["version"])
        self.by_name: dict[str, float] = {name: float(document["weights"][name]) for name in NAMES}
        self.vector = np.array([self.by_name[name] for name in NAMES], dtype=np.float32)
        self.confidence: dict[str, dict[str, dict[str, float]]] = document["confidence"]
        self.reader: dict[str, dict[str, float]] = document["reader"]  # its judgement beside the own evidence


@cache
def weights() -> Weights:
    """The fitted weights."""
    return Weights(Path(__file__).parent / "weights.json")


def estimate_scores(view: View, question: Question, first: FirstPass) -> Column:
    """An estimate of every slot's score from the first pass, without its neighbours."""
    weight = weights().by_name
    similarity_weight = np.float32(weight["nearest"] + 0.75 * weight["pair"] + 0.5 * weight["session"])
    estimates: Column = similarity_weight * first.similarity
    estimates += np.float32(weight["coverage"]) * first.coverage
    estimates += np.float32(weight["words"] + 0.5 * weight["session_words"]) * first.keywords
    if question.names:
        estimates += np.float32(weight["speaker"]) * np.isin(view.names, list(question.names))
    if "assistant" in view.codes:
        lean = weight["own_words"] + question.of_user * weight["of_user"] - question.of_assistant * weight["of_assistant"]
        estimates -= np.float32(lean) * (view.roles == view.code("assistant"))
    hint = question.time
    if hint is not None and (hint.start is not None or hint.end is not None):
        estimates += np.float32(weight["time"]) * closeness(hint, view.occurred)
    window = window_of(question)
    if window is not None:
        estimates -= outside_points(window, measure_near(window, view.occurred))
    return estimates


def sum_features(features: Features) -> Column:
    """The weighted sum of every candidate's features, less for messages that only ask."""
    sums: Column = np.einsum("ij,j->i", features.values, weights().vector)  # row by row: equal rows have equal sums
    return sums if features.only_asks is None else sums - asking_points(features)


def asking_points(features: Features) -> Column:
    """The points that messages of users lose which only ask: the more they resemble the query, the surer they only repeat it."""
    if features.only_asks is None:
        return np.zeros(len(features.slots), dtype=np.float32)
    points: Column = np.float32(_ASKING_POINTS) * measure_relevance(features) * features.only_asks
    return points


def measure_relevance(features: Features) -> Column:
    """How relevant a record is to the query, from 0 to 1, whatever else is in the scope: its similarity (alone or together with
    the message before it), raised by the share of the query's words that it and its neighbours hold, by its speaker and its
    time; lowered where the query names what no record holds. The default threshold is compared with this."""
    return _combine_relevance(features, features.column("nearest"), features.column("coverage"))


def measure_own_relevance(features: Features, positions: Positions = slice(None)) -> Column:
    """The relevance of records by themselves, without their neighbours: a caller's `min_similarity` is compared with this."""
    return _combine_relevance(features, features.own_similarity, features.own_coverage, positions)


def _combine_relevance(features: Features, similarity: Column, coverage: Column, positions: Positions = slice(None)) -> Column:
    similarity = np.minimum(np.maximum(similarity[positions], np.float32(0)), np.float32(1))
    distance: Column = (1 - similarity) * (1 - _COVERAGE_FACTOR * coverage[positions])
    for name in features.hints:
        distance *= 1 - _HINT_FACTORS[name] * features.column(name)[positions]
    relevance: Column = (1 - distance) * np.float32(1 - _UNKNOWN_NAMES_FACTOR * features.unknown_names)
    return relevance


def chance_relevance(size: int) -> float:
    """The relevance that the best of so many unrelated memories reaches by chance in every third or fourth question. Where no
    record reaches it, none is recalled unless the caller sets a threshold. Measured by `python -m bench quality --curve`.

    >>> [round(chance_relevance(size), 2) for size in (1, 10, 100, 1000, 100_000)]
    [0.13, 0.23, 0.35, 0.5, 0.55]
    """
    decades = math.log10(max(size, 1))
    return min(_MAX_CHANCE, _CHANCE[0] + _CHANCE[1] * decades + _CHANCE[2] * decades**2)


class RelevanceThreshold(NamedTuple):
    """The relevance a record needs: `minimum`, or `share_of_best` of the best; and what the best of those returned needs, without
    which none is recalled."""

    minimum: float
    share_of_best: float = 0.0
    best_required: float = 0.0

    @classmethod
    def of(cls, size: int, question: Question | None = None) -> RelevanceThreshold:
        """The chance level of a scope of this size."""
        return cls.at(chance_relevance(size) * (1.0 if question is None else _world_factor(question)), question)

    @classmethod
    def among_facts(cls, size: int, question: Question) -> RelevanceThreshold:
        """The chance level among facts alone, which are few beside messages; lower where the question is about the user."""
        factor = _OWN_FACTS_FACTORS[question.is_foreign] if question.of_user else 1.0
        return cls.at(chance_relevance(size) * factor * _world_factor(question), question)

    @classmethod
    def at(cls, level: float, question: Question | None) -> RelevanceThreshold:
        """The threshold at a chance level; where the question asks for all members, the others need less than usual."""
        wants_all = question is not None and question.wants_all
        of_level, of_best = _WHOLE_SHARES if wants_all else _SHARES
        return cls(of_level * level, of_best, level)

    def required(self, best: float) -> float:
        """What each record needs where the best has this relevance."""
        return max(self.minimum, self.share_of_best * best)

    def select(self, order: NDArray[np.int64], relevance: Column, limit: int) -> NDArray[np.int64]:
        """Of candidates in order those that may be recalled."""
        best = best_relevance(order, relevance, limit)
        return order[:0] if best < self.best_required else order[relevance[order] >= self.required(best)]


def _world_factor(question: Question) -> float:
    """How much higher the chance level is for a question about the world: most memories are about the user."""
    if question.is_foreign and not question.of_user:
        odds = min(max(question.world + _FOREIGN_WORLD_ODDS, _FOREIGN_WORLD_BOUNDS[0]), _FOREIGN_WORLD_BOUNDS[1])
        return 1 + _FOREIGN_WORLD_FACTORS[odds > 0] * odds
    # Nonsense looks like no question about the world, either.
    lowest = _WORLD_BOUNDS[0] if question.of_user else 0.0
    return 1 + _WORLD_FACTOR * min(max(question.world, lowest), _WORLD_BOUNDS[1])


def best_relevance(order: NDArray[np.int64], relevance: Column, limit: int) -> float:
    """The best relevance among the first candidates."""
    return float(relevance[order[:limit]].max()) if len(order) else 0.0


def order_candidates(slots: NDArray[np.int64], sums: Column, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
    """The positions of candidates in order of their sums; of equals the newer comes first."""
    order: NDArray[np.int64] = (-sums).argsort()
    ordered = sums[order]
    if np.count_nonzero(ordered[1:] == ordered[:-1]):
        order = np.lexsort((-sequences[slots], -sums))
    return order
