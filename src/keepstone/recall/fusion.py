"""From signals to one score. Pure.

The score is a weighted sum. The weights are in `weights.json`, fitted by `training/fit_fusion.py`, and mean the same in a
scope of three records as in one of three hundred thousand: no signal depends on how the others fare.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import Column, Glance
from keepstone.recall.question import Question
from keepstone.recall.signals import NAMES, Features
from keepstone.scope_index.columns import View
from keepstone.text.time_expressions import closeness

_CHANCE = (0.13, 0.085, 0.013)  # constant, and factors of the decades and of their square
_CHANCE_MOST = 0.55
_OWN_FACTS = 0.75  # of what chance reaches, where the question is about the user and the memory a fact
_BESIDE = (0.5, 0.25)  # of the threshold, and of the best: what a record must reach once something is found
# How much each says about relevance without any likeness of meaning: sharing every word of the query, being said by the
# one it names, being of the time it speaks of.
_COVERED, _NAMED, _TIMELY = 0.75, 0.3, 0.2
_STRANGE = 0.3  # how much is taken off where the scope has never heard the names in the question


class Weights:
    """What each signal counts, and the sum at which a score is one half."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text(encoding="utf-8"))
        self.version = int(document["version"])
        self.by_name: dict[str, float] = {name: float(document["weights"][name]) for name in NAMES}
        self.vector = np.array([self.by_name[name] for name in NAMES], dtype=np.float32)
        self.half = float(document["half"])
        self.steepness = float(document["steepness"])


@cache
def weights() -> Weights:
    """The weights in use."""
    return Weights(Path(__file__).parent / "weights.json")


def promise(view: View, question: Question, seen: Glance) -> Column:
    """About what every slot's score will be, from what it is by itself."""
    use = weights().by_name
    meaning = np.float32(use["nearest"] + 0.75 * use["pair"] + 0.5 * use["session"])
    found: Column = meaning * seen.meaning
    found += np.float32(use["coverage"]) * seen.coverage
    found += np.float32(use["words"] + 0.5 * use["session_words"]) * seen.words
    if question.names:
        found += np.float32(use["speaker"]) * np.isin(view.names, list(question.names))
    if "assistant" in view.codes:
        lean = use["own_words"] + question.of_user * use["of_user"] - question.of_assistant * use["of_assistant"]
        found -= np.float32(lean) * (view.roles == view.code("assistant"))
    hint = question.time
    if hint is not None and (hint.start is not None or hint.end is not None):
        found += np.float32(use["time"]) * closeness(hint, view.occurred)
    return found


def fused(near: Features) -> Column:
    """The weighted sum of every candidate's signals."""
    found: Column = np.vecdot(near.values, weights().vector)
    return found


def score(sums: Column) -> Column:
    """Weighted sums as a number from 0 to 1."""
    use = weights()
    found: Column = 1 / (1 + np.exp(np.clip(use.steepness * (use.half - sums), -80, 80)))
    return found


def similarity(near: Features) -> Column:
    """How relevant a record is to the query, from 0 to 1, whatever else is in the scope: the likeness of meaning (its own or
    together with the message before it), raised by the share of the query's words that it and its neighbours hold, by
    who said it and when; lowered where the query names what the scope has never heard of. `min_similarity` is compared
    with this."""
    unlike = 1 - np.clip(near.column("nearest"), 0, 1)
    for name, most in (("coverage", _COVERED), ("speaker", _NAMED), ("time", _TIMELY)):
        unlike *= 1 - np.float32(most) * near.column(name)
    found: Column = (1 - unlike) * np.float32(1 - _STRANGE * near.strange)
    return found


def chance(size: int) -> float:
    """The relevance that the best of so many unrelated memories reaches by chance in every third or fourth question. Where
    nothing reaches it, nothing is recalled unless the caller says otherwise. Measured by `python -m bench quality
    --curve`.

    >>> [round(chance(size), 2) for size in (1, 10, 100, 1000, 100_000)]
    [0.13, 0.23, 0.35, 0.5, 0.55]
    """
    decades = math.log10(max(size, 1))
    return min(_CHANCE_MOST, _CHANCE[0] + _CHANCE[1] * decades + _CHANCE[2] * decades**2)


@dataclass(frozen=True, slots=True)
class RelevanceThreshold:
    """What relevance a record needs: `least` for each, or the share `beside` of the best; and `found` for the best of those
    returned, without which none is."""

    least: float
    beside: float = 0.0
    found: float = 0.0

    @classmethod
    def of(cls, wanted: float | None, size: int) -> RelevanceThreshold:
        """The caller's own threshold, which every record must reach; else what chance does not reach."""
        if wanted is not None:
            return cls(wanted)
        return cls(_BESIDE[0] * chance(size), _BESIDE[1], chance(size))

    @classmethod
    def among_facts(cls, size: int, of_user: bool) -> RelevanceThreshold:
        """What chance does not reach among facts alone, which are few beside what was said. Who asks about themselves asks about
        what is known of them: there less will do."""
        level = chance(size) * (_OWN_FACTS if of_user else 1.0)
        return cls(_BESIDE[0] * level, _BESIDE[1], level)

    def needed(self, best: float) -> float:
        """What each record needs beside one of this relevance."""
        return max(self.least, self.beside * best)

    def passed(self, order: NDArray[np.int64], likeness: Column, limit: int) -> NDArray[np.int64]:
        """Of candidates in order those that may be recalled."""
        best = highest(order, likeness, limit)
        return order[:0] if best < self.found else order[likeness[order] >= self.needed(best)]


def highest(order: NDArray[np.int64], likeness: Column, limit: int) -> float:
    """The best relevance among the first candidates."""
    return float(likeness[order[:limit]].max()) if len(order) else 0.0


def best(slots: NDArray[np.int64], sums: Column, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of candidates in order of their sums; of equals the newer comes first."""
    order: NDArray[np.int64] = np.argsort(-sums)
    ordered = sums[order]
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((-sequences[slots], -sums))
    return order
