"""The closer look: what speaks for each candidate, its neighbours in the conversation included. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import CLOSER, Column, Glance, Slots, choose
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.text.time_expressions import closeness
from keepstone.text.words import ASKS, NUMBERED, TIMED, term_hashes
from keepstone.types import MESSAGE

# Every signal by name, in the order of the columns; each is in about 0..1, `length` apart.
NAMES: Final = (
    "nearest",  # cosine of the question and the record, alone or with the message before it, whichever is nearer
    "pair",  # of the question and the record together with the message before it
    "previous",  # of the question and the message before it
    "reply",  # of the question and the message before it, where that asks something and this does not
    "session",  # the three nearest messages of its session
    "words",  # BM25
    "coverage",  # the question's words in it and, counting less, in two messages on either side
    "session_words",  # BM25 of its session
    "speaker",  # the question names who said it
    "own_words",  # not said by the assistant
    "of_user",  # the question is about the asker, and the assistant did not say it
    "of_assistant",  # the question is about what the assistant said, and it did
    "asks",  # it is a question itself
    "length",  # logarithm of its number of words
    "tells_time",  # when is asked, and it speaks of a time
    "tells_number",  # how many is asked, and it has a number
    "time",  # how near it is to the time that the question speaks of
    "event",  # how near to before, after or around an event that the question names
    "latest",  # how new it is, where the newest is asked for
    "earliest",  # how old, where the first is asked for
    "importance",
)
_NEAR = ((1, "before", 0.8), (1, "after", 0.6), (2, "before", 0.5), (2, "after", 0.4))  # steps, which way, how much words count
_FACTORS: Final = np.array([[1.0], *([factor] for _, _, factor in _NEAR)], dtype=np.float32)  # its own words first
_MARKS: Final = dict(zip((ASKS, NUMBERED, TIMED), term_hashes([ASKS, NUMBERED, TIMED]).tolist(), strict=True))
_SAMPLE = 1000  # records whose dates say which are new
_KEPT = 1.3  # what a fact about the user counts beside what the user said, where the user is asked about


@dataclass(frozen=True, slots=True)
class Features:
    """The candidates of a question: `slots`, a row of signals for each, and whether its meaning was measured: where it was
    not, for want of a vector, its words stand in for it."""

    slots: Slots
    values: NDArray[np.float32]
    measured: NDArray[np.bool_]
    strange: float = 0.0  # the share of the names in the question that nothing in the scope has

    def column(self, name: str) -> Column:
        found: Column = self.values[:, NAMES.index(name)]
        return found


def closer(
    view: View,
    question: Question,
    seen: Glance,
    usable: NDArray[np.bool_],
    promise: Column,
    wanted: int,
    also: int | None,
    alive: NDArray[np.bool_] | None = None,
) -> Features:
    """Measure the most promising slots and their neighbours. Neighbours that are not `alive` (by default: active) are none."""
    alive = view.active if alive is None else alive
    first = choose(promise, usable, max(CLOSER, 3 * wanted), also)
    marked = np.zeros(view.size, dtype=np.bool_)
    marked[first] = True
    if len(first) < np.count_nonzero(usable):
        for beside in _neighbours(view, first, alive):
            marked[beside[beside >= 0]] = True
        marked &= usable
        if also is not None:
            marked[also] = True
    slots = np.flatnonzero(marked)
    near = _neighbours(view, slots, alive)
    values = np.zeros((len(slots), len(NAMES)), dtype=np.float32)
    measured = view.embedded[slots] & seen.has_vector
    if not question.words and not seen.has_vector:
        return Features(slots, values, measured)  # nothing is asked, so nothing speaks for anything
    put = _Putter(values)
    _meaning(put, view, seen, slots, near)
    put("words", seen.words[slots])
    put("coverage", _coverage(view, seen, slots, near))
    put("session_words", _session_words(view, seen, slots))
    _who(put, view, question, slots)
    marks = _Marks(view, slots)
    asks = marks.of(ASKS)
    put("asks", asks)
    if view.session_count:
        put("reply", np.where(marks.of(ASKS, near[0]) & ~asks, np.maximum(_at(seen.meaning, near[0]), 0), 0))
    put("length", np.log1p(view.lengths[slots]))
    if question.wants_time:
        put("tells_time", marks.of(TIMED))
    if question.wants_number:
        put("tells_number", marks.of(NUMBERED))
    _times(put, view, question, usable, slots)
    put("importance", view.importances[slots])
    proper = [found.held is None for word, found in zip(question.words, seen.found, strict=True) if word.proper]
    return Features(slots, values, measured, sum(proper) / len(proper) if proper else 0.0)


class _Putter:
    def __init__(self, values: NDArray[np.float32]) -> None:
        self._values = values

    def __call__(self, name: str, column: NDArray[np.generic]) -> None:
        self._values[:, NAMES.index(name)] = column


def _neighbours(view: View, slots: Slots, alive: NDArray[np.bool_]) -> list[Slots]:
    """The slots one and two messages before and after, in the order of `_NEAR`; -1 where there is none."""
    if not view.session_count:
        return [np.full(len(slots), -1)] * len(_NEAR)
    found = []
    at = {"before": slots, "after": slots}
    for _, way, _ in _NEAR:
        there = np.where(at[way] >= 0, getattr(view, way)[at[way]], -1).astype(np.int64)
        there[there >= view.size] = -1  # came after this view was taken
        there[(there >= 0) & ~alive[there]] = -1
        at[way] = there
        found.append(there)
    return found


def _at(column: Column, slots: Slots) -> Column:
    """A column's values at neighbours, 0 where there is none."""
    found: Column = np.where(slots >= 0, column[slots], np.float32(0))
    return found


def _meaning(put: _Putter, view: View, seen: Glance, slots: Slots, near: list[Slots]) -> None:
    turn = seen.meaning[slots]
    if not view.session_count:  # nothing stands before anything
        for name in ("nearest", "pair", "session"):
            put(name, turn)
        return
    previous = _at(seen.meaning, near[0])
    together = np.where(near[0] >= 0, (turn + previous) / np.sqrt(2 + 2 * np.maximum(view.bond[slots], -0.9)), turn)
    put("nearest", np.maximum(turn, together))
    put("pair", together)
    put("previous", previous)
    put("session", _session_meaning(view, slots, turn))


def _in_session(view: View, slots: Slots) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (view.kinds[slots] == view.code(MESSAGE)) & (view.sessions[slots] != view.code(None))
    return found


def _session_meaning(view: View, slots: Slots, turn: Column) -> Column:
    """The mean of the three best candidates of a record's session; its own where it has none."""
    found = turn.copy()
    inside = np.flatnonzero(_in_session(view, slots))
    if not len(inside):
        return found
    sessions, values = view.sessions[slots[inside]], turn[inside]
    order = np.argsort(-values)
    order = order[np.argsort(sessions[order], kind="stable")]
    first = np.append(True, np.diff(sessions[order]) != 0)
    starts = np.flatnonzero(first)
    group = np.cumsum(first) - 1
    best = order[np.arange(len(order)) - starts[group] < 3]
    which = np.empty(len(order), dtype=np.int64)
    which[order] = group
    sums = np.bincount(which[best], weights=values[best])
    found[inside] = (sums / np.bincount(which[best]))[which]
    return found


def _coverage(view: View, seen: Glance, slots: Slots, near: list[Slots]) -> Column:
    """Of each word of the question the best that the record and its neighbours have, summed."""
    if not view.session_count:
        return seen.coverage[slots]
    around = np.stack([slots, *near])
    total = np.zeros(len(slots), dtype=np.float32)
    for each in seen.found:
        if each.held is not None:
            best = (each.held[around] * _FACTORS).max(axis=0)
            total += np.float32(each.rarity / seen.total) * best
    return total


def _session_words(view: View, seen: Glance, slots: Slots) -> Column:
    """BM25 with the record's whole session as the document; the record's own where it has no session."""
    if not view.session_count:
        return seen.words[slots]
    inside = _in_session(view, slots)
    sessions = view.sessions[slots]
    count = max(1, view.session_count) + 5
    score = np.zeros(len(slots), dtype=np.float32)
    total = 0.0
    for each in seen.found:
        if each.rarity <= 0:
            continue
        times = None
        if len(each.exact):
            said = _in_session(view, each.exact)
            exact, counts = each.exact[said], each.times[said]
            times = np.bincount(view.sessions[exact], weights=counts, minlength=len(view.codes)) if len(exact) else None
        held = 0 if times is None else int(np.count_nonzero(times))
        rarity = float(np.log1p((max(count, held) - held + 0.5) / (held + 0.5)))
        total += rarity
        if times is not None:
            here = times[sessions].astype(np.float32)
            score += np.float32(rarity) * here / (here + np.float32(1.2))
    found: Column = np.where(inside, score / np.float32(total or 1.0), seen.words[slots])
    return found


def _who(put: _Putter, view: View, question: Question, slots: Slots) -> None:
    if question.names and len(question.names) < view.speaker_count:
        put("speaker", np.isin(view.names[slots], list(question.names)))
    assistant = view.roles[slots] == view.code("assistant")
    put("own_words", ~assistant)
    if question.of_user:
        told = np.where(view.kinds[slots] == view.code(MESSAGE), np.float32(1), np.float32(_KEPT))
        put("of_user", ~assistant * told)  # what was kept on purpose says more than what was only said
    if question.of_assistant:
        put("of_assistant", assistant)


class _Marks:
    """Which records bear a mark."""

    def __init__(self, view: View, slots: Slots) -> None:
        self._view = view
        self._slots = slots

    def of(self, mark: str, slots: Slots | None = None) -> NDArray[np.bool_]:
        """The mark at the candidates, or at other slots, -1 having none."""
        return self._view.bearing(_MARKS[mark])[self._slots if slots is None else slots]


def _times(put: _Putter, view: View, question: Question, usable: NDArray[np.bool_], slots: Slots) -> None:
    hint = question.time
    if question.event is not None:
        put("event", closeness(question.event, view.occurred[slots]))
    if hint is None:
        return
    if hint.start is not None or hint.end is not None:
        put("time", closeness(hint, view.occurred[slots]))
    if hint.order and usable.any():
        spread = view.occurred[usable]
        spread = np.sort(spread[:: max(1, len(spread) // _SAMPLE)])  # by rank, so that one stray date does not matter
        newer = (np.searchsorted(spread, view.occurred[slots], "right") - 1) / max(1, len(spread) - 1)
        put(hint.order, np.clip(newer if hint.order == "latest" else 1 - newer, 0, 1))
