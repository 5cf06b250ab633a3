"""Scores candidates: the features of each, its neighbours in the conversation included. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.recall.candidates import MAX_SCORED, Column, FirstPass, Slots, choose_candidates, measure_rarity
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.scope_index.message_links import divide_sessions
from keepstone.text.time_expressions import closeness
from keepstone.text.words import ASKS, NUMBERED, ONLY_ASKS, TIMED, term_hashes
from keepstone.types import MESSAGE

# Every feature by name, in the order of the columns; each is in about 0..1, except `length`.
NAMES: Final = (
    "nearest",  # cosine of the question and the record, alone or with the message before it, whichever is higher
    "pair",  # cosine of the question and the record together with the message before it
    "previous",  # cosine of the question and the message before it
    "reply",  # the same, where the message before it is a question and this is not
    "session",  # the three most similar messages of its session
    "words",  # BM25
    "coverage",  # the question's words in it and, counting less, in two messages on either side
    "session_words",  # BM25 of its session
    "speaker",  # the question names its speaker
    "own_words",  # not said by the assistant
    "of_user",  # the question is about the user, and the assistant did not say it
    "of_assistant",  # the question is about what the assistant said, and the assistant said it
    "asks",  # it is a question
    "length",  # logarithm of its number of words
    "tells_time",  # the question asks for a time, and it names one
    "tells_number",  # the question asks for a number, and it has one
    "time",  # how close it is to the time that the question names
    "event",  # how close to before, after or around an event that the question names
    "latest",  # how new it is, where the question asks for the newest
    "earliest",  # how old, where the question asks for the first
    "importance",
)
_COLUMNS: Final = {name: at for at, name in enumerate(NAMES)}
# How much the words of a record and of its neighbours count, in the order of `message_links.find_neighbours`.
_NEIGHBOUR_WEIGHTS: Final = np.array([[1.0], [0.8], [0.6], [0.5], [0.4]], dtype=np.float32)
_MARKS: Final = {mark: int(term_hashes([mark])[0]) for mark in (ASKS, ONLY_ASKS, NUMBERED, TIMED)}
_SAMPLED_DATES = 1000  # records whose dates say which are new
_FACT_WEIGHT = 1.3  # of a fact about the user beside a message of the user, where the question is about the user
_Put = Callable[[str, NDArray[Any]], None]  # writes a column by its name
_SESSION_PSEUDO_COUNT = 5  # sessions without the word that IDF smoothing adds


class Features(NamedTuple):
    """The candidates of a question: `slots`, a row of features for each, and whether its similarity was measured; without a
    vector it is assumed from its keywords."""

    slots: Slots
    values: NDArray[np.float32]
    measured: NDArray[np.bool_]
    unknown_names: float = 0.0  # share of the names in the question that no record of the scope holds
    only_asks: NDArray[np.bool_] | None = None  # messages of users that tell nothing; None: none, or they are wanted
    passages: Slots | None = None  # the slots of the passages that they are ranked by; None: the candidates' own
    own: NDArray[np.float32] | None = None  # similarity and coverage of each without its neighbours; None: it has none
    hints: tuple[str, ...] = ("speaker", "time")  # of these features those that the question asks for

    @property
    def own_similarity(self) -> Column:
        """The cosine of the question and each candidate by itself."""
        return self.column("nearest") if self.own is None else self.own[0]

    @property
    def own_coverage(self) -> Column:
        """The share of the question's words that each candidate holds by itself."""
        return self.column("coverage") if self.own is None else self.own[1]

    @property
    def shown(self) -> Slots:
        """The slots of the passages that the candidates are ranked by."""
        return self.slots if self.passages is None else self.passages

    def column(self, name: str) -> Column:
        column: Column = self.values[:, _COLUMNS[name]]
        return column


def score_candidates(
    view: View,
    question: Question,
    first: FirstPass,
    usable: NDArray[np.bool_],
    estimates: Column,
    wanted: int,
    also: int | None,
    unexpired: NDArray[np.bool_] | None = None,
) -> Features:
    """The features of the slots with the highest estimates and of their neighbours. A neighbour that is not `unexpired` (default:
    active) is skipped."""
    unexpired = view.active if unexpired is None else unexpired
    slots = best = choose_candidates(estimates, usable, max(MAX_SCORED, 3 * wanted), also)
    if view.session_count and len(best) < np.count_nonzero(usable):
        is_candidate = np.zeros(view.size + 1, dtype=np.bool_)  # the last stands for no slot
        is_candidate[view.neighbours(best, unexpired)] = True
        is_candidate[:-1] &= usable
        is_candidate[best] = True
        slots = is_candidate[:-1].nonzero()[0]
    around = view.neighbours(slots, unexpired) if view.session_count else None
    values = np.zeros((len(NAMES), len(slots)), dtype=np.float32).T  # written and read by columns
    shown = slots if first.shown is None else first.shown[slots]
    measured = view.embedded[shown] if first.has_vector else np.zeros(len(shown), dtype=np.bool_)
    if not question.words and not first.has_vector:
        return Features(slots, values, measured, passages=shown)  # the question has neither words nor a vector

    def put(name: str, column: NDArray[Any]) -> None:
        values[:, _COLUMNS[name]] = column

    only_asks = view.holds(_MARKS[ONLY_ASKS])
    asks = view.holds(_MARKS[ASKS], _MARKS[ONLY_ASKS])
    _put_similarity(put, view, first, slots, around, asks)
    put("words", first.keywords[slots])
    put("coverage", _coverage(first, slots, around))
    put("session_words", _session_bm25(view, first, slots))
    _put_speaker(put, view, question, slots)
    put("asks", asks[slots])
    put("length", np.log1p(view.lengths[shown]))
    if question.wants_time:
        put("tells_time", view.holds(_MARKS[TIMED])[shown])
    if question.wants_number:
        put("tells_number", view.holds(_MARKS[NUMBERED])[shown])
    _put_times(put, view, question, usable, slots)
    put("importance", view.importances[slots])
    unknown = [match.weights is None for word, match in zip(question.words, first.matches, strict=True) if word.is_name]
    share = sum(unknown) / len(unknown) if unknown else 0.0
    own = np.array([first.similarity[slots], first.coverage[slots]]) if view.session_count else None
    hints = ("speaker",) * bool(question.names) + ("time",) * (question.time is not None)
    repeats = only_asks[slots]
    if question.about_questions or not np.count_nonzero(repeats):
        return Features(slots, values, measured, share, None, shown, own, hints)
    by_user = (view.kinds[slots] == view.code(MESSAGE)) & (view.roles[slots] != view.code("assistant"))
    return Features(slots, values, measured, share, repeats & by_user, shown, own, hints)


def _put_similarity(put: _Put, view: View, first: FirstPass, slots: Slots, around: Slots | None, asks: NDArray[np.bool_]) -> None:
    """The features of similarity. `around` are the slots and their neighbours; `asks` says of every slot whether it is a
    question."""
    own = first.similarity[slots]
    if around is None:  # no record has a message before it
        for name in ("nearest", "pair", "session"):
            put(name, own)
        return
    before = around[1]
    has_previous = before >= 0
    previous = first.similarity[before] * has_previous
    pair = np.where(has_previous, (own + previous) / view.pair_norms[slots], own)
    put("nearest", np.maximum(own, pair))
    put("pair", pair)
    put("previous", previous)
    put("reply", np.maximum(previous, 0) * (asks[before] & ~asks[slots]))
    put("session", _session_similarity(view, slots, own))


def _session_similarity(view: View, slots: Slots, own: Column) -> Column:
    """The mean of the three best candidates of a record's session; its own where it has no session."""
    is_inside, sessions = view.in_session[slots], view.sessions[slots]
    count = np.count_nonzero(is_inside)
    if not count:
        return own
    of_inside = own if count == len(slots) else own[is_inside]
    keys, codes, bounds, taken = view.all_sessions if count == view.size else divide_sessions(sessions[is_inside])
    ordered = np.append(keys - of_inside, np.inf)
    ordered.sort()  # by session, the most similar first
    totals = np.add.reduceat(ordered, bounds)[::2]
    means = np.zeros(len(view.codes), dtype=np.float32)
    means[codes] = 16 * codes - totals / taken
    found: Column = means[sessions] if count == len(slots) else np.where(is_inside, means[sessions], own)
    return found


def _coverage(first: FirstPass, slots: Slots, around: Slots | None) -> Column:
    """For each word of the question the best that the record and its neighbours hold, summed."""
    if around is None:
        return first.coverage[slots]
    weights = first.weights.take(around, axis=1)  # no slot, -1, has no words
    weights *= _NEIGHBOUR_WEIGHTS
    covered: Column = (weights.max(axis=1) * first.shares[:, None]).sum(axis=0)
    return covered


def _session_bm25(view: View, first: FirstPass, slots: Slots) -> Column:
    """BM25 with the record's session as the document; that of the record where it has no session."""
    if not view.session_count:
        return first.keywords[slots]
    count = view.session_count + _SESSION_PSEUDO_COUNT
    scores = np.zeros(len(view.codes))  # of each session
    total_rarity = 0.0
    for match in first.matches:
        if match.rarity <= 0:
            continue
        counts = np.bincount(view.said_in[match.exact], match.counts, len(scores) + 1)[1:]
        rarity = measure_rarity(count, int(np.count_nonzero(counts)))
        total_rarity += rarity
        scores += rarity * counts / (counts + 1.2)
    scores /= total_rarity or 1.0
    bm25: Column = np.where(view.in_session[slots], scores[view.sessions[slots]], first.keywords[slots])
    return bm25


def _put_speaker(put: _Put, view: View, question: Question, slots: Slots) -> None:
    if question.names and len(question.names) < view.speaker_count:
        put("speaker", np.isin(view.names[slots], list(question.names)))
    by_assistant = view.roles[slots] == view.code("assistant")
    put("own_words", ~by_assistant)
    if question.of_user:
        weight = np.where(view.kinds[slots] == view.code(MESSAGE), np.float32(1), np.float32(_FACT_WEIGHT))
        put("of_user", ~by_assistant * weight)
    if question.of_assistant:
        put("of_assistant", by_assistant)


def _put_times(put: _Put, view: View, question: Question, usable: NDArray[np.bool_], slots: Slots) -> None:
    hint = question.time
    if question.event is not None:
        put("event", closeness(question.event, view.occurred[slots]))
    if hint is None:
        return
    if hint.start is not None or hint.end is not None:
        put("time", closeness(hint, view.occurred[slots]) * np.float32(question.time_rarity))
    if hint.order and usable.any():
        dates = view.occurred[usable]
        dates = np.sort(dates[:: max(1, len(dates) // _SAMPLED_DATES)])  # by rank, so that one stray date does not matter
        newer = (np.searchsorted(dates, view.occurred[slots], "right") - 1) / max(1, len(dates) - 1)
        put(hint.order, np.clip(newer if hint.order == "latest" else 1 - newer, 0, 1))
