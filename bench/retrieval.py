"""How good rankings are: recall at 1, 5 and 10 with bootstrap intervals. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

METRICS = ("r@1", "any@5", "all@5", "any@10", "all@10", "frac@10")
_RESAMPLES, _SEED = 2000, 11

Scores = dict[str, float]


@dataclass(frozen=True, slots=True)
class Found:
    """One hit: the unit it belongs to, its turn, its score, its likeness to the question, and the session of the turn."""

    unit: str
    turn: str
    score: float
    similarity: float
    session: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question with its hits, best first: with no threshold, and with the default one. `gold_sessions` are the sessions of the
    gold turns, where turns are scored."""

    id: str
    type: str
    text: str
    gold: frozenset[str]
    gold_turns: frozenset[str]
    absent: bool
    hits: tuple[Found, ...]
    default: tuple[Found, ...]
    gold_sessions: frozenset[str] = frozenset()


def rank_units(hits: Iterable[Found]) -> dict[str, float]:
    """Units in the order of their first hit, each with that hit's score.

    >>> rank_units([Found("b", "b:1", 0.9, 0.5), Found("a", "a:4", 0.8, 0.4), Found("b", "b:2", 0.7, 0.3)])
    {'b': 0.9, 'a': 0.8}
    """
    first: dict[str, float] = {}
    for hit in hits:
        first.setdefault(hit.unit, hit.score)
    return first


def scored(order: Iterable[str], gold: frozenset[str]) -> Scores:
    """One question's metrics: is the first unit gold; is any, are all, what share of the gold units is among the first 5 and 10.

    >>> scored(["x", "a", "y", "z", "u", "b"], frozenset("ab"))
    {'r@1': 0.0, 'any@5': 1.0, 'all@5': 0.0, 'any@10': 1.0, 'all@10': 1.0, 'frac@10': 1.0}
    """
    units = list(order)
    at5, at10 = (len(gold & set(units[:cut])) for cut in (5, 10))
    return {
        "r@1": float(bool(gold & set(units[:1]))),
        "any@5": float(at5 > 0),
        "all@5": float(at5 == len(gold)),
        "any@10": float(at10 > 0),
        "all@10": float(at10 == len(gold)),
        "frac@10": at10 / len(gold),
    }


def means(rows: Sequence[Mapping[str, float]]) -> Scores:
    """The mean of every metric; 0 where there is no question."""
    return {name: round(sum(row[name] for row in rows) / max(1, len(rows)), 4) for name in METRICS}


def intervals(rows: Sequence[Mapping[str, float]]) -> dict[str, list[float]]:
    """The 95 % interval of every mean: questions drawn anew 2,000 times, with the same luck in every run.
    Questions are drawn one by one, as if each had a conversation of its own."""
    if not rows:
        return {name: [0.0, 1.0] for name in METRICS}
    values = np.array([[row[name] for name in METRICS] for row in rows])
    chance = np.random.default_rng(_SEED)
    drawn = np.array([values[chance.integers(0, len(rows), len(rows))].mean(axis=0) for _ in range(_RESAMPLES)])
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return {name: [round(float(low[at]), 4), round(float(high[at]), 4)] for at, name in enumerate(METRICS)}
