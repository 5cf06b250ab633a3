"""The time that a question names, as a soft filter: what is from that time comes first, other times far behind.

A record is from a time where it happened then or where its text says so ("on 3 May I have the dentist"). An event among the
memories gives the period of "before I moved" and "the week before the exam".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Vector
from keepstone.recall.candidates import Column, Slots, first_pass
from keepstone.recall.question import Question, parse_question, without_event
from keepstone.scope_index.columns import View
from keepstone.text.calendar import WORDS
from keepstone.text.english import PAST_FORMS
from keepstone.text.languages.times import read_time
from keepstone.text.patterns import lazy_pattern
from keepstone.text.time_expressions import TimeHint, closeness, shift
from keepstone.text.times import instant, micros
from keepstone.types import Record

MAX_READ = 40  # best candidates whose texts are read for the times that they name
EVENT_SPAN = timedelta(days=7)  # what "during" reaches to either side of an event
OUTSIDE_POINTS = 5.0  # points that a record loses which is from another time altogether
_WIDE = timedelta(days=14)
_WIDE_FACTOR = 0.6  # of these points, where the time is longer than that or open on one side
_EVENT_FACTOR = 0.15  # the same where it is that of an event, which many records only mention
STATE_POINTS = 1.5  # points that a state or a habit loses where the question asks what happened
_PAD_NEAR = 0.7  # nearness of a record from the days by which vague words were widened
_DISJOINT_NEAR = 0.6  # the most for a record from the asked time whose text names another
_IN_WINDOW = 0.5  # nearness from which a record counts as being from the asked time
_WINDOW_FACTOR = 0.25  # how much being from the asked time raises a record without any similarity
_ONLY_TIME_FACTOR = 0.6  # the same where the question names nothing but a time
_MIN_EVENT_MATCH = 0.45  # similarity and coverage, half each, from which a record is taken to tell of an event
_EVENT_TIE = 0.8  # of the best match: what reaches it may tell of the event as well
_MAX_EVENT_RECORDS = 5
_LOOK_AHEAD = (timedelta(days=1), timedelta(days=7), timedelta(days=364))  # the same day, the coming weekday, the coming date
Texts = Callable[[NDArray[np.int64]], Sequence[Record | None]]

_PAST = WORDS["past"] | PAST_FORMS.keys()
_ASKS_PAST = lazy_pattern(r"\b(?:did|was|were|happened|went|had)\b", re.IGNORECASE)
_WEEKDAY = "(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_HABIT = lazy_pattern(
    rf"\b(?:every|always|usually|never|each|{_WEEKDAY}s|{_WEEKDAY} (?:night|morning|afternoon|evening)s|mornings|evenings"
    r"|nights)\b",
    re.IGNORECASE,
)
_HAPPENED = lazy_pattern(
    r"\b(?:today|yesterday|tonight|this (?:morning|afternoon|evening|week)|last night|at the weekend|all (?:day|week|weekend)"
    r"|(?:whole|entire) (?:day|week|weekend)|[a-z]{3,}ed)\b",
    re.IGNORECASE,
)
_PRESENT = lazy_pattern(
    r"(?:\b(?:is|are|am|has|have|takes?|comes?|needs?|wants?|goes|go|runs?|lives?|earns?|pays?|please)|['’](?:s|re|ve|m|d))\b",
    re.IGNORECASE,
)
# Words for a time that is counted from now, and so is only one.
_COUNTED = lazy_pattern(
    r"\b(?:last|this|past|previous|next|ago|yesterday|today|tomorrow|tonight|recent(?:ly)?|lately)\b", re.IGNORECASE
)


def window_of(question: Question) -> TimeHint | None:
    """The period that a question asks about, by its own words or by an event; None where it names none."""
    if question.event is not None:
        return question.event
    return question.time if question.time is not None and question.time.is_window else None


def weigh_time(question: Question, view: View, usable: NDArray[np.bool_]) -> Question:
    """The question with the rarity of the time that it names among the times of usable records: where most are as near to it
    as any ("the weather today", in a store of today), that makes none of them an answer."""
    hint = question.time
    if hint is None or (hint.start is None and hint.end is None) or not usable.any():
        return question
    near = closeness(hint, view.occurred[usable])
    return replace(question, time_rarity=min(1.0, 2 * (1 - float(near.mean() / near.max()))))


# -- events -------------------------------------------------------------------------------------------------------
def resolve_event(
    view: View,
    question: Question,
    usable: NDArray[np.bool_],
    embed: Callable[[str], Vector | None],
    deviation: float | None,
    fetch: Texts | None = None,
    asked: datetime | None = None,
) -> Question:
    """The question with the time of the event that it names ("before I moved to Berlin"), where a record tells of the event; else
    the question itself. `fetch` returns the records of slots: a text may name the day of the event."""
    hint = question.time
    if hint is None or not hint.anchor or hint.start is not None or hint.end is not None or not usable.any():
        return question
    event = parse_question(hint.anchor, view.speakers, instant(0))
    first = first_pass(view, event, embed(event.embedding_text), usable, deviation)
    match = np.where(usable, 0.5 * first.similarity + 0.5 * first.coverage, -1.0)
    best = int(match.argmax())
    if match[best] < _MIN_EVENT_MATCH:
        return question
    if hint.offset and fetch is not None and asked is not None:
        happened = _date_event(view, hint, match, best, fetch, asked)
        start, end = shift(happened, hint.offset, hint.relation == "before")
        return replace(without_event(question), event=replace(hint, start=start, end=end))
    happened = instant(int(view.occurred[best]))
    if hint.relation == "before":
        event_time = replace(hint, end=happened)
    elif hint.relation == "after":
        event_time = replace(hint, start=happened)
    else:
        event_time = replace(hint, start=happened - EVENT_SPAN, end=happened + EVENT_SPAN)
    return replace(question, event=event_time)


def _date_event(view: View, hint: TimeHint, match: NDArray[np.float64], best: int, fetch: Texts, asked: datetime) -> datetime:
    """When an event happened: on the day that its record names, else when that was said. Of several records that tell of it the
    newest before the question is meant."""
    near = np.flatnonzero(match >= max(_MIN_EVENT_MATCH, _EVENT_TIE * match[best]))
    near = near[np.argsort(-match[near], kind="stable")][:_MAX_EVENT_RECORDS]
    refers = re.compile(rf"\b(?:after|since|before|until|till|by) {re.escape(hint.anchor.lower())}")
    dates = []
    for slot, record in zip(near.tolist(), fetch(near), strict=True):
        if record is None or refers.search(record.content.lower()):
            continue
        said = instant(int(view.occurred[slot]))
        days = [start for start, _ in text_periods(record.content, said) if start.date() >= said.date()] or [said]
        dates += [day for day in days if day <= asked][:1]
    return max(dates, default=instant(int(view.occurred[best])))


# -- nearness -----------------------------------------------------------------------------------------------------
def measure_near(window: TimeHint, occurred: NDArray[np.int64]) -> Column:
    """How near the times of records are to a period, from 0 to 1: 1 inside, less where it was widened, and less outside."""
    near = closeness(window, occurred)
    if window.pad and window.start is not None and window.end is not None:
        in_core = (occurred >= micros(window.start + window.pad)) & (occurred < micros(window.end - window.pad))
        near = np.where(in_core, near, np.float32(_PAD_NEAR) * near)
    return near


def outside_points(window: TimeHint, near: Column) -> Column:
    """The points that records lose by not being from the time that is asked for."""
    is_wide = window.start is None or window.end is None or window.end - window.start > _WIDE
    factor = _EVENT_FACTOR if window.anchor and not window.offset else _WIDE_FACTOR if is_wide else 1.0
    points: Column = np.float32(OUTSIDE_POINTS * factor) * (1 - near)
    return points


def raise_relevance(question: Question, relevance: Column, near: Column) -> Column:
    """The relevance of candidates, higher for what is from the time that is asked for; a question that names only a time is
    answered by all of it."""
    factor = _WINDOW_FACTOR * question.time_rarity if question.words else _ONLY_TIME_FACTOR
    raised: Column = 1 - (1 - relevance) * (1 - np.float32(factor) * (near > _IN_WINDOW))
    return raised


def order_by_texts(
    question: Question,
    window: TimeHint,
    view: View,
    slots: Slots,
    near: Column,
    sums: Column,
    order: NDArray[np.int64],
    fetch: Texts,
) -> tuple[NDArray[np.int64], Column]:
    """The order of candidates and how near they are, once the texts of the best have been read for the times that they name;
    `sums` follow. The best are those with the points for their time and those without."""
    lost = outside_points(window, near)
    anyway = order[np.argsort(-(sums + lost)[order], kind="stable")][:MAX_READ]
    head = np.array(sorted({*order[:MAX_READ].tolist(), *anyway.tolist()}), dtype=np.int64)
    records = fetch(slots[head])
    near = near.copy()
    near[head] = measure_texts(window, records, view.occurred[slots[head]], near[head])
    sums[head] += lost[head] - outside_points(window, near)[head]
    if _ASKS_PAST.search(question.text):
        is_state = [record is not None and not tells_event(record.content) for record in records]
        sums[head] -= np.float32(STATE_POINTS) * np.array(is_state)
    return order[np.argsort(-sums[order], kind="stable")], near


def measure_texts(window: TimeHint, records: Sequence[Record | None], occurred: NDArray[np.int64], near: Column) -> Column:
    """How near records are to a period, by when they happened (`near`) and by what their texts say."""
    low = datetime(1, 1, 1, tzinfo=UTC) if window.start is None else window.start + window.pad
    high = datetime(9999, 1, 1, tzinfo=UTC) if window.end is None else window.end - window.pad
    measured = near.copy()
    for at, record in enumerate(records):
        periods = [] if record is None else text_periods(record.content, instant(int(occurred[at])))
        shares = [max(0.0, (min(end, high) - max(start, low)) / (end - start)) for start, end in periods]
        if shares:
            best = max(shares)
            measured[at] = max(best, near[at]) if best else min(near[at], _DISJOINT_NEAR)
    return measured


def text_periods(text: str, said: datetime) -> list[tuple[datetime, datetime]]:
    """The periods that a text said at this time may name: "on Sunday" is the last one, the same day, or the one to come."""
    found: dict[tuple[datetime, datetime], None] = {}
    first = None if _HABIT.search(text) else read_time(text, said)
    if first is None or first.anchor or first.start is None or first.end is None:
        return []
    found[first.start, first.end] = None
    for ahead in () if _COUNTED.search(first.text) else _LOOK_AHEAD:
        hint = read_time(text, said + ahead)
        if hint is not None and hint.start is not None and hint.end is not None and hint.text == first.text:
            found[hint.start, hint.end] = None
    return list(found)


def tells_event(text: str) -> bool:
    """Whether a text tells of something that happened, rather than of a habit or a state.

    >>> tells_event("Saw a play with Rui on Saturday"), tells_event("I walk to the mill every morning")
    (True, False)
    """
    if _HABIT.search(text):
        return False
    words = set(re.findall(r"[a-z']+", text.lower()))
    return _HAPPENED.search(text) is not None or not words.isdisjoint(_PAST) or _PRESENT.search(text) is None


def describe_empty(window: TimeHint, near: Column) -> tuple[str, ...]:
    """A note where no record is from the time that is asked for."""
    if (near > _IN_WINDOW).any():
        return ()
    days = [f"{day:%Y-%m-%d}" for day in (window.start, window.end) if day is not None]
    return (f"nothing is from {window.text} ({' to '.join(days)}): what was recalled is from other times",)
