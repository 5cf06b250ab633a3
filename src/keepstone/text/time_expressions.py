"""Times that a question speaks of: "last week", "in March 2023", "before I moved". Pure.

A hint shapes scores and never filters, so a wrong reading costs a little and a missed one nothing. Questions look back:
"in March" is the last March that has begun, "on Tuesday" the last Tuesday before today; "next" turns that round.

Exact words give exact windows: dates, weekdays, months, quarters, years. Vague ones ("two weeks ago", "in the
last ten days", "this week", weekends, seasons, holidays, parts of a period, "recently") are widened by a day on each side;
"N units ago" also by half a unit, "around" by half the window, three days at least. "Last week" and "last month" are
the calendar's one before and the days since. Weeks begin on Monday, days at midnight UTC, nights last from noon to noon. A
winter has the year of its December unless that is still to come. "Until" and "by" reach to the end of what they name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.text import calendar as words
from keepstone.text.calendar import DAY, LEXICON, PATTERNS, WORDS, Left, Span, back, count, midnight, unit_at
from keepstone.text.english import MONTHS
from keepstone.text.times import micros

MAX_QUESTION = 2000  # characters that are looked at

_PREPOSITIONS = WORDS["prepositions"] | WORDS["until"] | WORDS["around"]
_SOFT_DAYS = 30  # what "recently" reaches back
_OPEN_DAYS = 30  # the window's length that `closeness` reckons with where one side is open


_Order = Literal["", "latest", "earliest"]
_Relation = Literal["", "before", "after", "during"]
_Window = tuple[
    datetime | None, datetime | None, int, int, timedelta
]  # start, end, the place of the words, how much it was widened
_Reader = Callable[[re.Match[str], datetime, Left], Span | None]


@dataclass(frozen=True, slots=True)
class TimeHint:
    """What a question says about time. The window is [start, end) in UTC, None where it is open; `order` tells that the
    newest or the oldest is asked for; `anchor` holds the words of an event that the period lies before, after or within."""

    start: datetime | None
    end: datetime | None
    text: str
    order: _Order = ""
    anchor: str = ""
    relation: _Relation = ""
    is_vague: bool = False  # "recently", a habit, what is to come: records of other times may answer
    pad: timedelta = timedelta(0)  # how much the period was widened on each side, its words being vague
    offset: str = ""  # how far the period is from the event: "the week", "two days"

    @property
    def is_window(self) -> bool:
        """Whether it names a period, so that other times are not asked for."""
        return not self.is_vague and (self.start is not None or self.end is not None)


def read_time(question: str, asked: datetime) -> TimeHint | None:
    """The time that a question speaks of, asked at this time (UTC if naive); None where it has no time words.

    >>> hint = read_time("What did I cook last month?", datetime(2024, 1, 15))
    >>> str(hint.start), str(hint.end), hint.text
    ('2023-12-01 00:00:00+00:00', '2024-01-15 00:00:00+00:00', 'last month')
    >>> hint = read_time("Where did I live before I moved to Berlin?", datetime(2024, 1, 15))
    >>> hint.start, hint.relation, hint.anchor
    (None, 'before', 'I moved to Berlin')
    >>> read_time("What is my sister's name?", datetime(2024, 1, 15)) is None
    True
    """
    head = question[:MAX_QUESTION]
    found = _TRIGGERS.keys() & head.lower().translate(_SPACED).split()
    if not found and "/" not in head:
        return None
    looks = 0
    for word in found:
        looks |= _TRIGGERS[word]
    try:
        moment = asked.replace(tzinfo=UTC) if asked.tzinfo is None else asked.astimezone(UTC)
        return _read(" ".join(head.split()), looks | _NUMERIC if "/" in head else looks, moment)
    except (OverflowError, ValueError):  # outside of the years that there are
        return None


def _read(said: str, looks: int, asked: datetime) -> TimeHint | None:
    text = said.lower().replace("’", "'")
    said = said if len(text) == len(said) else text  # a letter may be longer in lower case
    start, end, at, to, pad = _find_period(text, looks, asked) or (None, None, 0, 0, timedelta(0))
    is_vague = bool(to) and (PATTERNS["soft"].fullmatch(text[at:to]) is not None or PATTERNS["habit"].search(text) is not None)
    is_vague |= start is not None and start > asked  # what is to come was said before
    order, ordered = _find_order(text, said, looks, range(at, to))
    relation, anchor, clause = _find_event(text, said, looks, range(at, to))
    parts = [said[at:to].strip(" ,")] if to else []
    if to and at in clause:  # the event's own date
        start, end = None if relation == "before" else start, None if relation == "after" else end
        clause, parts = range(clause.start, max(clause.stop, to)), []
    offset = ""
    if anchor:
        measured = next((each for each in PATTERNS["offset"].finditer(text[: clause.stop]) if each.end() - 1 in clause), None)
        if measured is not None and relation in ("before", "after"):
            offset, clause = f"{measured[1]} {measured[2]}", range(measured.start(), clause.stop)
        parts.append(said[clause.start : clause.stop].strip())
    if ordered:
        parts.append(ordered)
    return TimeHint(start, end, ", ".join(parts), order, anchor, relation, is_vague, pad, offset) if parts else None


def shift(happened: datetime, offset: str, is_before: bool) -> tuple[datetime, datetime]:
    """The period that lies so far before or after something that happened then: "the week", "two days".

    >>> [str(day.date()) for day in shift(datetime(2024, 5, 19), "the week", True)]
    ['2024-05-06', '2024-05-19']
    """
    number, unit = offset.rsplit(" ", 1)
    day = midnight(happened)
    start, end = _offset_from(number, unit, Span(day, day + DAY), is_before)
    if number != "the" or unit != "week":
        return start, end
    return (unit_at(start, unit, 0)[0], end) if is_before else (start, unit_at(end, unit, 0)[1])  # or the calendar's week


# -- periods ------------------------------------------------------------------------------------------------------------
def _find_period(text: str, looks: int, asked: datetime) -> _Window | None:
    """The first period in a text that names a year, else the first; "recently" only for want of others. Of those that begin
    at one place the longest."""
    best: tuple[int, int, int, re.Match[str], Span, Left, _Reader] | None = None
    for bit, name, reader in _READERS:
        for match in PATTERNS[name].finditer(text) if looks & bit else ():
            left = _read_left(text, match.start())
            rank = 2 if name == "soft" else 0 if _DATED.search(match[0]) else 1
            if rank == 2 or (name == "ago" and left.preposition in ("in", "on", "at", "for")):
                left = Left("", "", match.start(), "")
            span = reader(match, asked, left)
            if span is not None and span.lo < span.hi:
                if name == "ago" and left.preposition in WORDS["around"]:
                    left = left._replace(preposition="")  # it has been widened
                if best is None or (rank, left.at, -match.end()) <= best[:3]:
                    best = (rank, left.at, -match.end(), match, span, left, reader)
                break
    if best is None:
        return None
    match, span, left, reader = best[3:]
    if left.preposition in ("between", "from") and (whole := _read_range(text, match, span, left, asked, reader)) is not None:
        return whole
    if left.preposition in ("before", "after"):
        to = left.at + len(left.preposition)
        offset = PATTERNS["offset"].search(text, max(0, left.at - 30), to)
        if offset is not None and offset.end() == to:
            return *_read_offset(offset, span, left.preposition == "before"), offset.start(), match.end(), timedelta(0)
    start, end, pad = _bound(span, left, text[match.end() : match.end() + 9])
    return start, end, left.at, match.end(), pad


def _read_offset(match: re.Match[str], span: Span, before: bool) -> tuple[datetime, datetime]:
    return _offset_from(match[1], match[2], span, before)


def _offset_from(number: str, unit: str, span: Span, before: bool) -> tuple[datetime, datetime]:
    """ "The week before" a period is the one that ends with it; "two weeks before" is so far from it, and vague."""
    sign = 1 if before else -1
    edge = span.lo if before else span.hi
    if number == "the":
        return (back(edge, unit, 1), edge) if before else (edge, back(edge, unit, -1))
    ends = [back(span.lo, unit, sign * each) for each in count(number)]
    slack = words.SLACK.get(unit, 1) * DAY
    return min(ends) - slack, max(ends) + slack + DAY


def _read_left(text: str, at: int) -> Left:
    """What stands before a place: "since", "in early", "by the end of", …"""
    before = text[max(0, at - 40) : at]
    said = before.replace("-", " ").split()
    count, preposition, part = len(said), "", ""
    if said and said[-1] == "the":
        said.pop()
    size = 2 if len(said) > 1 and said[-1] in ("of", "in") else 1
    for length in (size, size + 1):
        name = " ".join(said[len(said) - length : len(said) - size + 1])
        if len(said) >= length and name in words.PARTS:
            part = name
            del said[-length:]
            break
    if part and said and said[-1] == "the":
        said.pop()
    if (two := " ".join(said[-2:])) in ("prior to", "up to", "as of"):
        preposition = "before" if two == "prior to" else "until"
        del said[-2:]
    elif said and said[-1] in _PREPOSITIONS and said[-2:-1] not in (["what"], ["how"]):  # "what about last Sunday?"
        preposition = said.pop()
    if not (preposition or part) and count != len(said):  # "the" alone belongs to no expression
        return Left("", "", at, "the")
    kept = " ".join(said)
    start = at - len(before) + (len(before) - len(before.lstrip()) + len(kept) + 1 if kept else 0)
    return Left(preposition, part, min(start, at) if preposition or part else at, said[-1] if said else "")


def _bound(span: Span, left: Left, after: str) -> tuple[datetime | None, datetime | None, timedelta]:
    """The window of a period, given the words before it: its part, what lies before or after it, or all of it widened; and by how
    much it was widened."""
    lo, hi, pad = span
    if left.part and (days := (hi - lo).days) >= 7:
        first, last = words.PARTS[left.part]
        if isinstance(first, float):
            lo, hi = lo + timedelta(days=round(days * first)), lo + timedelta(days=round(days * last))
        else:
            lo, hi = (lo if first >= 0 else hi) + first * DAY, (lo if last > 0 else hi) + last * DAY
        pad = 1
    preposition = left.preposition
    if preposition == "since" or (preposition == "from" and re.match(r"\s(?:on|onwards?)\b", after)):
        return lo, None, timedelta(0)
    if preposition in WORDS["until"]:
        return None, hi, timedelta(0)
    if preposition in ("before", "after"):
        return (None, lo, timedelta(0)) if preposition == "before" else (hi, None, timedelta(0))
    wider = max((hi - lo) / 2, 3 * DAY) if preposition in WORDS["around"] else pad * DAY
    return lo - wider, hi + wider, wider


def _read_range(text: str, match: re.Match[str], span: Span, left: Left, asked: datetime, reader: _Reader) -> _Window | None:
    """From one period to another: where the second is not after the first, the first is read as if asked then."""
    joint = _JOINT.match(text, match.end())
    if joint is None:
        return None
    for _, name, second_reader in _READERS:
        second = PATTERNS[name].match(text, joint.end())
        until = second and second_reader(second, min(asked, span.lo + 365 * DAY), Left("in", "", joint.start(), ""))
        if second is not None and until is not None:
            since: Span | None = span if span.lo <= until.lo else reader(match, until.lo, left)
            if since is not None and since.lo < until.hi:
                return since.lo, until.hi, left.at, second.end(), timedelta(0)
    return None


def _read_days(match: re.Match[str], asked: datetime, left: Left) -> Span:
    said, day = match[0], midnight(asked)
    if match.re is PATTERNS["soft"]:
        return Span(day - (_SOFT_DAYS + 1) * DAY, day + DAY)
    if said in ("last night", "last evening", "tonight"):
        noon = day + DAY / 2
        return Span(noon, noon + DAY) if said == "tonight" else Span(noon - DAY, noon)
    if said.startswith("the other"):
        return Span(day - (28 if said.endswith("week") else 14) * DAY, day)
    offset = {"day before yesterday": -2, "yesterday": -1, "tomorrow": 1, "day after tomorrow": 2}.get(said, 0)
    return Span(day + offset * DAY, day + (offset + 1) * DAY)


def _read_ago(match: re.Match[str], asked: datetime, left: Left) -> Span:
    number, unit, clock, weekday, more = match.groups()
    least, most = count(number)
    day = midnight(asked)
    if more == " or two":
        most = max(most, 2.0)
    elif more == " and a half":
        least, most = least + 0.5, most + 0.5
    vague = more == " or so" or left.preposition in WORDS["around"]
    if clock:
        hour = timedelta(hours=1)
        size = hour if clock == "hour" else hour / 60
        return Span(asked - most * size - hour, asked - least * size + hour)
    if weekday:
        last = day - ((day.weekday() - words.WEEKDAYS[weekday] - 1) % 7 + 1) * DAY
        return Span(last - 7 * (most - 1) * DAY, last - 7 * (least - 1) * DAY + DAY)
    wide = 0.25 if vague else 0.0
    slack = timedelta(days=words.SLACK.get(unit, max(1 + vague, round(most / 10))))
    end = back(day, unit, max(0.0, least - wide)) + slack + DAY
    return Span(back(day, unit, most + wide) - slack, min(end, day + DAY))


def _read_units(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    preposition, determiner, turn, number, unit, before_last, the_weekend = match.groups()
    day = midnight(asked)
    if the_weekend or (unit == "weekend" and turn == "this"):  # the nearest one: on a Monday the one that has just been
        return Span(*unit_at(day, "weekend", -1 if day.weekday() < 3 else 0), 1)
    if before_last:
        lo, hi = unit_at(day, before_last, -2)
        return Span(lo, day - 7 * DAY if before_last == "week" else hi)
    if determiner in ("my", "our", "your", "his", "her", "their") or (turn == "next" and determiner):
        return None
    plural = match[0].endswith("s")
    trailing = turn in ("last", "past", "previous", "recent") and (
        bool(number) or plural or (determiner == "the" and (bool(preposition) or turn == "past")) or turn == "recent"
    )
    if (number or plural) and not trailing:
        return None
    if trailing or (turn == "past" and unit not in ("week", "weekend", "day", "night")):
        most = count(number)[1] if number else float(words.RECENT.get(unit, 3)) if plural else 1.0
        return Span(back(day, unit, most) - DAY, day + DAY)
    if unit in ("day", "night") or turn == "recent":
        return None
    offset = {"last": -1, "past": -1, "previous": -1, "next": 1, "coming": 1}.get(turn, 0)
    lo, hi = unit_at(day, unit, offset)
    if unit in ("week", "month") and offset < 0:
        return Span(lo, day)  # with the days since: what happened then may have been told a little later
    return Span(lo, hi, 1 if unit in ("week", "weekend", "fortnight") else 0)


# -- order and events ---------------------------------------------------------------------------------------------------
_RELATIONS: dict[str, _Relation] = {
    "before": "before", "prior to": "before", "until": "before", "till": "before", "by the time": "before", "after": "after",
    "since": "after", "during": "during", "while": "during", "when": "during",
}  # fmt: skip

_NO_EVENT = WORDS["no_event"].union(LEXICON.data["no_event_phrases"])
_DATED = re.compile(r"\d{4}")
_JOINT = re.compile(r"\s?(?:and|to|until|till|through|-|–)\s?(?:the\s|late\s|early\s)?")
_QUESTION_WORD = re.compile(r"\s(?:what|which|who|where|why|how|tell|list)\b")


def _find_order(text: str, said: str, looks: int, taken: range) -> tuple[_Order, str]:
    """Whether the newest or the oldest is asked for, and in which words."""
    for match in PATTERNS["latest"].finditer(text) if looks & _LATESTS else ():
        if match.start() not in taken and match.end() - 1 not in taken:
            return "latest", said[match.start() : match.end()].strip()
    for match in PATTERNS["earliest"].finditer(text) if looks & _EARLIESTS else ():
        compared = match[0] == "first" and " or " in text[match.end() :]  # "which came first, this or that" wants both
        if match.start() not in taken and not compared:
            return "earliest", said[match.start() : match.end()]
    return "", ""


def _find_event(text: str, said: str, looks: int, taken: range) -> tuple[_Relation, str, range]:
    """The relation to an event, the event's words, and the place of both."""
    for match in PATTERNS["event"].finditer(text) if looks & _EVENTS else ():
        if match.start() in taken:
            continue
        before = text[max(0, match.start() - 16) : match.start()].split()
        clause = text[match.end() : match.end() + 160]
        end = PATTERNS["clause_end"].search(clause)
        if not before and (asking := _QUESTION_WORD.search(clause, 0, end.start() if end else 160)):
            end = asking
        anchor = clause[: end.start()] if end else clause
        if anchor in WORDS["pronouns"]:
            anchor = clause.rstrip("?.! ")
        if _is_event(match[1], anchor.split(), before, text):
            to = match.end() + len(anchor)
            return _RELATIONS[match[1]], said[match.end() : to].strip(), range(match.start(), to)
    return "", "", range(0)


def _is_event(word: str, anchor: list[str], before: list[str], text: str) -> bool:
    """Whether words after "before", "since", … tell of something that happened, not of a habit or a cause."""
    named = word == "after" and not WORDS["not_before_after"].isdisjoint(before[-1:])
    if named or not anchor or anchor[0] in WORDS["no_opening"] or " ".join(anchor) in _NO_EVENT:
        return False
    if word in ("while", "when") or anchor[0].partition("'")[0] in WORDS["pronouns"]:
        past = any(each in WORDS["past"] or (len(each) > 3 and each.endswith("ed") and each[-3] != "e") for each in anchor[:3])
        doing = word == "while" and anchor[0].endswith("ing") and " did " in text
        return (past or doing) and not (word == "when" and before[-1] in ("remember", "know", "me", "recall", "is", "about"))
    return PATTERNS["habit"].search(text) is None


# -- which words make it worth while to look, and for what -----------------------------------------------------------------
_BY_PATTERN: dict[str, _Reader | None] = {
    "days": _read_days,
    "ago": _read_ago,
    "units": _read_units,
    "weekday": words.read_weekday,
    "month": words.read_month,
    "nth": words.read_nth,
    "numeric": words.read_numeric,
    "year": words.read_year,
    "season": words.read_season,
    "holiday": words.read_holiday,
    "quarter": words.read_quarter,
    "decade": words.read_decade,
    "soft": _read_days,
    "latest": None,
    "earliest": None,
    "event": None,
}
_OWN_WORDS: dict[str, Iterable[str]] = {
    "weekday": words.WEEKDAYS, "month": MONTHS, "season": words.SEASONS, "decade": words.DECADES,
}  # fmt: skip
_LOOK = [
    (name, reader, " ".join([LEXICON.data["triggers"].get(name, ""), *_OWN_WORDS.get(name, ())]))
    for name, reader in _BY_PATTERN.items()
]
_READERS = [(1 << at, name, reader) for at, (name, reader, _) in enumerate(_LOOK) if reader is not None]
_NUMERIC = next(bit for bit, name, _ in _READERS if name == "numeric")
_LATESTS, _EARLIESTS, _EVENTS = (bit << len(_READERS) for bit in (1, 2, 4))
_TRIGGERS = {
    word: sum(1 << at for at, (*_, of) in enumerate(_LOOK) if word in of.split()) for *_, each in _LOOK for word in each.split()
}
_SPACED = str.maketrans(dict.fromkeys("-.,;:!?'\"()[]{}<>*_/\\|\t\r\n–—“”‘’…", " ") | dict.fromkeys("0123456789", "0"))


def closeness(hint: TimeHint, times: NDArray[np.int64]) -> NDArray[np.float32]:
    """How near times (microseconds since 1970) are to a hint's window, from 0 to 1: 1 inside, outside less with the distance
    in lengths of the window (at least a day): a half at half a length, a fifth at one. 0.5 throughout without a window.

    >>> hint = TimeHint(datetime(2024, 1, 10, tzinfo=UTC), datetime(2024, 1, 12, tzinfo=UTC), "")
    >>> days = [datetime(2024, 1, day, tzinfo=UTC) for day in (1, 8, 9, 10, 11, 13)]
    >>> [round(each, 2) for each in closeness(hint, np.array([micros(day) for day in days])).tolist()]
    [0.01, 0.2, 0.5, 1.0, 1.0, 0.5]
    """
    if hint.start is None and hint.end is None:
        return np.full(len(times), 0.5, dtype=np.float32)
    at, day = times.astype(np.float64), 86_400e6
    start = -np.inf if hint.start is None else micros(hint.start)
    end = np.inf if hint.end is None else micros(hint.end)
    length = max(day, end - start) if np.isfinite(end - start) else _OPEN_DAYS * day
    away = np.maximum(np.maximum(start - at, at - end), 0)
    return (1 / (1 + np.square(2 * away / length))).astype(np.float32)
