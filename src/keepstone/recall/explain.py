"""Explains why a record was recalled, or what kept it out. Pure."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.features import NAMES, Features
from keepstone.recall.fusion import asking_points, best_relevance, measure_own_relevance, order_candidates, weights
from keepstone.recall.question import Question
from keepstone.recall.supersession import Supersession
from keepstone.text.times import instant

if TYPE_CHECKING:
    from keepstone.recall.ranking import Ranking

# The features by subject, as Hit.signals and explanations show them.
GROUPS: dict[str, tuple[str, ...]] = {
    "semantic": ("nearest", "pair", "previous", "reply", "session"),
    "keywords": ("words", "coverage", "session_words"),
    "speaker": ("speaker", "own_words", "of_user", "of_assistant"),
    "time": ("time", "event", "latest", "earliest", "tells_time"),
    "form": ("asks", "length", "tells_number", "importance"),
}
_MEMBERS = np.array([[name in names for names in GROUPS.values()] for name in NAMES], dtype=np.float32)
_SIGNALS = (*GROUPS, "cosine", "coverage", "similarity", "neighbours")


def group_shares(features: Features, positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each group adds to the weighted sum, a row for each candidate; a similarity that was assumed from keywords counts as
    keywords."""
    shares: NDArray[np.float32] = features.values[positions] @ _group_weights()
    assumed = ~features.measured[positions]
    if np.count_nonzero(assumed):
        shares[assumed, 1] += shares[assumed, 0]
        shares[assumed, 0] = 0.0
    if features.only_asks is not None:
        shares[:, list(GROUPS).index("form")] -= asking_points(features)[positions]
    return shares


@cache
def _group_weights() -> NDArray[np.float32]:
    """The weight of each feature in each group."""
    by_group: NDArray[np.float32] = weights().vector[:, None] * _MEMBERS
    return by_group


def hit_signals(features: Features, positions: NDArray[np.int64], relevance: NDArray[np.float32]) -> list[dict[str, float]]:
    """The signals of hits: what each group adds to the score in points, then cosine, coverage and relevance of the record by
    itself, and what its neighbours in the session add to that relevance."""
    own = measure_own_relevance(features, positions)
    cosine = features.own_similarity[positions] * features.measured[positions]
    rest = np.array([cosine, features.own_coverage[positions], own, np.maximum(relevance[positions] - own, 0)])
    table = np.concatenate([group_shares(features, positions), rest.T], axis=1)
    return [dict(zip(_SIGNALS, values, strict=True)) for values in table.round(4).tolist()]


def explain_standing(
    ranking: Ranking, position: int, rank: int | None, limit: int, now_micros: int, min_trust: float
) -> list[str]:
    """Where a record ranks, or what kept it out."""
    if rank is not None:
        return [explain_rank(rank, len(ranking.order), limit)]
    view, slot = ranking.view, int(ranking.features.shown[position])
    if not view.active[slot]:
        return ["it is not active: it was quarantined, archived, or replaced after it expired"]
    if view.expires[slot] <= now_micros:
        return ["it has expired"]
    if view.trusts[slot] < np.float32(min_trust):
        trust = float(view.trusts[slot])
        return [f"the trust of its source is {trust:.1f}, below the setting min_trust={min_trust:g}: use min_trust=0"]
    if view.steps[slot]:
        return ["it is a step of a task: use tag='step', or the session of the task"]
    best = best_relevance(order_candidates(ranking.features.slots, ranking.sums, view.sequences), ranking.relevance, limit)
    if best < ranking.threshold.best_required:
        reason = (
            f"nothing is recalled: the best relevance is {best:.2f}, below the threshold "
            f"{ranking.threshold.best_required:.2f} that unrelated memories reach in a scope of this size: "
            "use min_similarity=0 to see it"
        )
    elif ranking.confidence.any < ranking.min_confidence:
        reason = (
            f"nothing is recalled: the confidence that any memory answers is {ranking.confidence.any:.2f}, below "
            f"min_confidence={ranking.min_confidence:g}: use min_confidence=0 or min_similarity=0 to see it"
        )
    else:
        needed = ranking.threshold.required(best)
        relevance = float(ranking.relevance[position])
        reason = f"its relevance {relevance:.2f} is below the threshold {needed:.2f}: use min_similarity=0 to see it"
    if view.embedded[slot]:
        return [reason]
    return [reason, "it has no vector yet, so only its keywords count: run upkeep.reembed()"]


def explain_rank(rank: int, candidates: int, limit: int) -> str:
    """Where a record ranks."""
    if rank <= limit:
        return f"rank {rank} of {candidates} candidates: it is recalled"
    return f"rank {rank} of {candidates} candidates: only the first {limit} are returned, raise limit"


def explain_replacement(superseded: Supersession | None, position: int) -> list[str]:
    """What replaces a record, or that it replaces another, as a sentence."""
    if superseded is None:
        return []
    points = superseded.points.get(position, 0.0)
    replacement = superseded.replacements.get(position)
    if replacement is not None:
        until = instant(replacement.said_at_micros)
        return [
            f"current {points:+.1f}: it held until {until.day} {until:%b %Y}; {replacement.newer_id} replaces it, probability "
            f"{replacement.probability:.2f}"
        ]
    replaced = [each.probability for each in superseded.replacements.values() if each.newer == position]
    return [f"current {points:+.1f}: it replaces an earlier statement with probability {max(replaced):.2f}"] if replaced else []


def explain_score(features: Features, position: int, question: Question) -> list[str]:
    """Each group's share of the score as a sentence, the largest first."""
    row = features.values[position]
    shares = dict(zip(GROUPS, group_shares(features, np.array([position]))[0].tolist(), strict=True))
    sentences = {
        "semantic": _explain_similarity(row) if features.measured[position] else "no vector yet: its keywords are used instead",
        "keywords": f"{_value(row, 'coverage'):.0%} of the question's keywords match here or in a nearby message",
        "speaker": _explain_speaker(row, question),
        "time": _explain_time(row, question),
        "form": _explain_form(row, features.only_asks is not None and bool(features.only_asks[position])),
    }
    ordered = sorted((group for group in shares if sentences[group]), key=lambda group: -abs(shares[group]))
    return [f"{group} {shares[group]:+.1f}: {sentences[group]}" for group in ordered]


def _value(row: NDArray[np.float32], name: str) -> float:
    return float(row[NAMES.index(name)])


def _explain_similarity(row: NDArray[np.float32]) -> str:
    nearest, pair = _value(row, "nearest"), _value(row, "pair")
    text = f"similarity {nearest:.2f}"
    return f"{text} together with the message before it" if pair == nearest and _value(row, "previous") else text


def _explain_speaker(row: NDArray[np.float32], question: Question) -> str:
    if _value(row, "speaker"):
        return "the question names its speaker"
    if _value(row, "of_assistant"):
        return "the question is about what the assistant said, and this is by the assistant"
    if question.of_assistant:
        return "the question is about what the assistant said, and this is not by the assistant"
    if _value(row, "of_user"):
        return "the question is about the user, and the user said this"
    if _value(row, "own_words"):
        return "it counts as the user's own words" if question.names else ""
    return "the question names another speaker" if question.names else "the assistant said this"


def _explain_time(row: NDArray[np.float32], question: Question) -> str:
    hint = question.time
    if question.event is not None:
        return f"its date matches {question.event.relation} {question.event.anchor!r:.60} by {_value(row, 'event'):.0%}"
    if hint is not None and (hint.start is not None or hint.end is not None):
        return f"its date matches {hint.text!r:.60} by {_value(row, 'time'):.0%}"
    if hint is not None and hint.order:
        return f"{hint.text!r:.60} asks for the {hint.order}: its date matches by {_value(row, hint.order):.0%}"
    return "the question asks for a time, and it names one" if _value(row, "tells_time") else ""


def _explain_form(row: NDArray[np.float32], only_asks: bool) -> str:
    parts = ["length"]
    if only_asks:
        parts.append("it only asks, which answers no question")
    elif _value(row, "asks"):
        parts.append("it is a question")
    if _value(row, "tells_number"):
        parts.append("the question asks for a number, and it has one")
    return ", ".join([*parts, f"importance {_value(row, 'importance'):.1f}"])
