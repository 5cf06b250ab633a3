"""Why a record was recalled, or what kept it out, in plain words. Pure."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.fusion import weights
from keepstone.recall.question import Question
from keepstone.recall.signals import NAMES, Features

# The signals by what they have in common, as Hit.signals and explanations show them.
GROUPS: dict[str, tuple[str, ...]] = {
    "meaning": ("nearest", "pair", "previous", "reply", "session"),
    "words": ("words", "coverage", "session_words"),
    "who": ("speaker", "own_words", "of_user", "of_assistant"),
    "time": ("time", "event", "latest", "earliest", "tells_time"),
    "form": ("asks", "length", "tells_number", "importance"),
}


_MEMBERS = np.array([[name in names for names in GROUPS.values()] for name in NAMES], dtype=np.float32)
_SHOWN = (*GROUPS, "cosine", "coverage", "similarity")


def shares(near: Features, places: NDArray[np.int64]) -> NDArray[np.float32]:
    """What each group adds to the weighted sum, a row a candidate; meaning that words stand in for counts as words."""
    found: NDArray[np.float32] = near.values[places] @ _counting()
    guessed = ~near.measured[places]
    if guessed.any():
        found[guessed, 1] += found[guessed, 0]
        found[guessed, 0] = 0.0
    return found


@cache
def _counting() -> NDArray[np.float32]:
    """What each signal adds to each group."""
    found: NDArray[np.float32] = weights().vector[:, None] * _MEMBERS
    return found


def parts(near: Features, places: NDArray[np.int64], similarities: NDArray[np.float32]) -> list[dict[str, float]]:
    """What hits show: what each group adds to the score in points, and the numbers that say most."""
    table = np.empty((len(places), len(_SHOWN)), dtype=np.float32)
    table[:, : len(GROUPS)] = shares(near, places)
    table[:, -3] = near.column("nearest")[places] * near.measured[places]
    table[:, -2] = near.column("coverage")[places]
    table[:, -1] = similarities[places]
    return [dict(zip(_SHOWN, values, strict=True)) for values in table.round(4).tolist()]


def _at(row: NDArray[np.float32], name: str) -> float:
    return float(row[NAMES.index(name)])


def lines(near: Features, place: int, question: Question) -> list[str]:
    """Each group's share of the score as a sentence, the largest first."""
    row = near.values[place]
    found = dict(zip(GROUPS, shares(near, np.array([place]))[0].tolist(), strict=True))
    said = {
        "meaning": _meaning(row) if near.measured[place] else "it has no vector, so its words stand in for it",
        "words": f"{_at(row, 'coverage'):.0%} of what the question's words say is in it or next to it",
        "who": _who(row, question),
        "time": _time(row, question),
        "form": _form(row),
    }
    ordered = sorted((group for group in found if said[group]), key=lambda group: -abs(found[group]))
    return [f"{group} {found[group]:+.1f}: {said[group]}" for group in ordered]


def _meaning(row: NDArray[np.float32]) -> str:
    nearest, together = _at(row, "nearest"), _at(row, "pair")
    text = f"likeness of meaning {nearest:.2f}"
    return f"{text} with the message before it" if together == nearest and _at(row, "previous") else text


def _who(row: NDArray[np.float32], question: Question) -> str:
    if _at(row, "speaker"):
        return "the question names its speaker"
    if _at(row, "of_assistant"):
        return "the question is about what the assistant said, and it did"
    if question.of_assistant:
        return "the question is about what the assistant said, and this is not"
    if _at(row, "of_user"):
        return "the question is about the user, and the user said it"
    if _at(row, "own_words"):
        return "it counts as the user's own words" if question.names else ""
    return "the question names somebody else" if question.names else "the assistant said it"


def _time(row: NDArray[np.float32], question: Question) -> str:
    hint = question.time
    if question.event is not None:
        return f"its date is {_at(row, 'event'):.0%} {question.event.relation} {question.event.anchor!r:.60}"
    if hint is not None and (hint.start is not None or hint.end is not None):
        return f"its date is {_at(row, 'time'):.0%} near to {hint.text!r:.60}"
    if hint is not None and hint.order:
        return f"{hint.text!r:.60} asks for the {hint.order}, and it is {_at(row, hint.order):.0%} that"
    return "when is asked, and it speaks of a time" if _at(row, "tells_time") else ""


def _form(row: NDArray[np.float32]) -> str:
    said = ["its length"]
    if _at(row, "asks"):
        said.append("it is a question itself")
    if _at(row, "tells_number"):
        said.append("it has a number, which is asked for")
    return ", ".join([*said, f"importance {_at(row, 'importance'):.1f}"])


def placed(rank: int, considered: int, limit: int) -> str:
    """Where a record came in."""
    if rank <= limit:
        return f"it is number {rank} of {considered} candidates, so it is recalled"
    return f"it is number {rank} of {considered} candidates and only the first {limit} are returned: raise limit"
