"""How sure a recall is that a hit answers the question, from what ranking measured anyway. Pure.

A logistic model of the best hit, the scope and the question; its weights are in `weights.json`, fitted by
`training/fit_confidence.py`. Facts and messages in English and everything in other languages have weights of their own, because
their points and vectors are spread differently.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import Column, FirstPass
from keepstone.recall.features import Features
from keepstone.recall.fusion import RelevanceThreshold, weights
from keepstone.recall.question import Question
from keepstone.recall.selection import arrange
from keepstone.scope_index.columns import View

# What the models read of a recall, by name, in the order of the columns.
EVIDENCE: Final = (
    "points",  # the best hit's weighted sum
    "gap",  # how many points the second is behind
    "similarity",  # of the question and the best hit, by itself
    "coverage",  # the share of the question's words that the best hit holds, by itself
    "excess",  # its relevance less what unrelated memories reach by chance in a scope of this size
    "below_chance",  # the same where it is negative, and a step there
    "lead",  # its relevance less that of the fifth hit, where there is one
    "words",  # of the question
    "unknown_words",  # the share of them that no record of the scope holds, weighted by rarity
    "unknown_names",  # the share of the names in the question that no record holds
    "missing_names",  # the share of them that the best hit does not hold
    "lacks_number",  # the question asks for a number and the best hit has none
    "lacks_time",  # the question asks for a time and the best hit names none
    "has_number",
    "has_time",
    "asks",  # the best hit only asks
    "of_user",  # the question is about the user
)
# What the model for "a hit answers" reads once a reader has read the first hits.
READ_EVIDENCE: Final = (
    "own",  # the logit that a hit answers, without the reader
    "read",  # the highest logit of the reader
    "first_own",  # of the hit that is first once it is read: its logit without the reader
    "first_read",  # the reader's logit of it
    "unknown_names",
    "missing_names",
)
MAX_LOGIT = 8.0  # of a reader's judgement that counts
_MAX_WORDS, _MAX_GAP, _FIFTH, _CHANCE_STEP = 10, 6.0, 4, 0.1


@dataclass(frozen=True, slots=True)
class Model:
    """Weights of the evidence for "the best hit answers" and "a hit answers", and the odds a point behind the best costs."""

    first: NDArray[np.float64]  # the constant is last
    any: NDArray[np.float64]
    decay: float

    @classmethod
    def of(cls, document: Mapping[str, Mapping[str, float]]) -> Model:
        names = (*EVIDENCE, "constant")
        first, any = (np.array([document[part].get(name, 0.0) for name in names]) for part in ("first", "any"))
        return cls(first, any, float(document["first"]["decay"]))


def choose_model(question: Question, is_message: bool) -> str:
    """The name of the model for a question whose best hit is a fact or a message."""
    return "other" if question.is_foreign else "messages" if is_message else "facts"


@cache
def models() -> dict[str, Model]:
    """The fitted models by name."""
    return {language: Model.of(each) for language, each in weights().confidence.items()}


class Confidence(NamedTuple):
    """How sure a recall is. `first_logit` is the logit of the best hit's score, `best_sum` its weighted sum."""

    any: float = 0.0
    first_logit: float = -6.0
    best_sum: float = 0.0
    decay: float = 0.3
    evidence: NDArray[np.float64] | None = None  # None: there is no candidate

    def scores(self, sums: Column) -> Column:
        """The probability that each hit answers, by its weighted sum."""
        return _probability(self.logits(sums))

    def logits(self, sums: Column) -> Column:
        """The logits of those probabilities."""
        logits: Column = self.first_logit - self.decay * (self.best_sum - sums)
        return logits

    def read(self, sums: Column, positions: NDArray[np.int64], read: Column) -> tuple[float, Column]:
        """The same once a reader has judged the candidates at some positions: the probability that any answers, and sums from
        which the scores of all follow. What was not read counts as if the reader had denied it."""
        assert self.evidence is not None
        any, hit, first = (weights().reader[part] for part in ("any", "hit", "first"))
        own, judged = self.logits(sums), np.full(len(sums), -MAX_LOGIT, dtype=np.float32)
        judged[positions] = np.minimum(np.maximum(read, -MAX_LOGIT), MAX_LOGIT)
        logits = hit["own"] * own + hit["read"] * judged + hit["constant"]
        best = positions[np.argmax(logits[positions])]
        evidence = gather_read_evidence(to_logit(self.any), judged, float(own[best]), float(judged[best]), self.evidence)
        any_logit = any["constant"] + sum(any[name] * value for name, value in zip(READ_EVIDENCE, evidence, strict=True))
        # The best hit's score follows from its own logit and from how sure it is that any answers.
        logits += first["hit"] * logits[best] + first["any"] * any_logit + first["constant"] - logits[best]
        read_sums: Column = (self.best_sum - (self.first_logit - logits) / self.decay).astype(np.float32)
        return float(_probability(np.array(any_logit))), read_sums


def gather_read_evidence(
    own: float, judged: Column, first_own: float, first_read: float, evidence: NDArray[np.float64]
) -> tuple[float, ...]:
    """The values of READ_EVIDENCE: `judged` are the reader's logits, `evidence` is that of the recall without it."""
    names = (evidence[EVIDENCE.index(name)] for name in READ_EVIDENCE[4:])
    return own, float(judged.max()), first_own, first_read, *map(float, names)


def _probability(logits: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[Any] = 1 / (1 + np.exp(-np.minimum(np.maximum(logits, -80), 80)))
    return found


def to_logit(probability: float) -> float:
    """The logit of a probability, between -9.2 and 9.2."""
    kept = min(max(probability, 1e-4), 1 - 1e-4)
    return math.log(kept / (1 - kept))


def gather_evidence(
    question: Question,
    first: FirstPass,
    features: Features,
    sums: Column,
    order: NDArray[np.int64],
    relevance: Column,
    level: float,
) -> NDArray[np.float64]:
    """The evidence of a recall whose candidates are in this order, best first. `level` is the relevance that chance
    reaches."""
    best = int(order[0])
    slot = int(features.slots[best])
    known = [match for match in first.matches if match.weights is not None]
    names = [match for word, match in zip(question.words, first.matches, strict=True) if word.is_name]
    missing = [match for match in names if match.weights is None or not match.weights[slot]]
    has_number, has_time = features.column("tells_number")[best], features.column("tells_time")[best]
    gap = float(sums[best] - sums[order[1]]) if len(order) > 1 else _MAX_GAP
    only_asks = features.only_asks is not None and bool(features.only_asks[best])
    values = (
        sums[best],
        min(gap, _MAX_GAP),
        first.similarity[slot],
        first.coverage[slot],
        relevance[best] - level,
        min(relevance[best] - level, 0.0) - _CHANCE_STEP * (relevance[best] < level),
        relevance[best] - (relevance[order[_FIFTH]] if len(order) > _FIFTH else level / 2),
        min(len(question.words), _MAX_WORDS),
        1 - sum(match.rarity for match in known) / first.total_rarity if question.words else 0.0,
        features.unknown_names,
        len(missing) / len(names) if names else 0.0,
        question.wants_number and not has_number,
        question.wants_time and not has_time,
        has_number,
        has_time,
        only_asks,
        question.of_user,
    )
    return np.array(values, dtype=np.float64)


def estimate_confidence(evidence: NDArray[np.float64], model_name: str) -> Confidence:
    """How sure a recall is, by its evidence and the model that fits it."""
    model = models()[model_name]
    any_logit, first_logit = (float(evidence @ weights[:-1] + weights[-1]) for weights in (model.any, model.first))
    any = 1 / (1 + math.exp(-min(max(any_logit, -80.0), 80.0)))
    return Confidence(any, first_logit, float(evidence[0]), model.decay, evidence)


class SelectedCandidates(NamedTuple):
    """The candidates that may be recalled, in order, and how sure the recall is."""

    order: NDArray[np.int64]
    sums: Column
    threshold: RelevanceThreshold
    confidence: Confidence


class ScoredCandidates(NamedTuple):
    """The scored candidates of a question, before any is left out."""

    view: View
    question: Question
    first: FirstPass
    features: Features
    relevance: Column
    sums: Column
    is_fact: NDArray[np.bool_]
    of_all: RelevanceThreshold
    of_facts: RelevanceThreshold

    def select(self, order: NDArray[np.int64], measured: Column, threshold: RelevanceThreshold, limit: int) -> SelectedCandidates:
        """Of candidates in order those relevant enough, arranged, and how sure it is that one of them answers."""
        passed = threshold.select(order, measured, limit)
        features, coverage = self.features, self.features.column("coverage")
        considered = passed if len(passed) else order
        order, sums = arrange(self.view, self.question, features.shown, self.sums, considered, limit, coverage)
        if not len(order):
            return SelectedCandidates(order, sums, threshold, Confidence())
        is_message = not self.is_fact[features.slots[order[0]]]
        level = self.of_all.best_required if is_message else min(self.of_all.best_required, self.of_facts.best_required)
        evidence = gather_evidence(self.question, self.first, features, sums, order, self.relevance, level)
        model = choose_model(self.question, is_message)
        return SelectedCandidates(order[: len(passed)], sums, threshold, estimate_confidence(evidence, model))
