"""Statements whose time is over: "until March", "next week", "by 2026-05-01".

`read_time` looks back, as questions do. A plan lies ahead of the day it was stated, so a time without a year is read forward from
that day. What happened stays true, and what recurs never ends.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from keepstone.maintenance.statements import PATTERNS
from keepstone.text import english
from keepstone.text.time_expressions import read_time

_MAX_CHARS = 600  # of a statement; longer texts speak of many times
_COUNTS = {word: number for word, number in english.UNITS.items() if 1 <= number <= 12}
_COUNTS |= {"a": 1, "an": 1, "few": 4, "couple of": 2}
_WITHIN = re.compile(
    r"\b(?:in|within|for|over|during)? ?(?P<coming>the (?:next|coming) )?"
    rf"(?P<count>\d{{1,3}}|{'|'.join(_COUNTS)}) (?P<unit>day|week|month|year)s?\b",
    re.IGNORECASE,
)
_WEEKDAY = re.compile(rf"\b{english.WEEKDAY_PATTERN}\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_TITLE = re.compile(r"(?<!^)\b(?:The Day After Tomorrow|Tomorrow|Tonight|Next \w+|This \w+)\b")  # capitals inside a sentence
_GRACE = timedelta(days=1)  # after the end, for other time zones


def has_ended(text: str, stated: datetime | None, now: datetime) -> bool:
    """Whether a statement is bound to a period that has passed. `stated` None: only a period that names its year can be judged.

    >>> stated, now = datetime.fromisoformat("2026-03-01T00:00Z"), datetime.fromisoformat("2026-07-01T00:00Z")
    >>> [has_ended(text, stated, now) for text in ("The visa is valid until May.", "She visited Rome in May.")]
    [True, False]
    """
    try:
        if stated is None:
            end = find_end(text, now) if _YEAR.search(text) and PATTERNS["once"].search(text) else None
            return end is not None and end <= now - _GRACE
        end = find_end(text, stated)
    except OverflowError:  # beyond the years of datetime
        return False
    return end is not None and stated < end <= now - _GRACE


def find_end(text: str, stated: datetime) -> datetime | None:
    """When the period ends that a statement is bound to; None if it is bound to none."""
    if len(text) > _MAX_CHARS or PATTERNS["recurring"].search(text):
        return None
    text = _TITLE.sub("", text)
    ahead = PATTERNS["ahead"].search(text)
    if ahead is None and PATTERNS["happened"].search(text) and not PATTERNS["plan"].search(text):
        return None
    within = _WITHIN.search(text)
    if within is not None and (within["coming"] or re.match(r"(?:in|within) ", within[0], re.IGNORECASE)):
        count = _COUNTS.get(within["count"].lower()) or int(within["count"])
        return stated + timedelta(days=count * english.UNIT_DAYS[within["unit"].lower()])
    return _window_end(text, stated, ahead is not None or PATTERNS["present"].search(text) is not None)


def _window_end(text: str, stated: datetime, is_relative: bool) -> datetime | None:
    """The end of the period that a text names, looking ahead where the words leave it open."""
    hint = read_time(text, stated)
    if hint is None or hint.end is None or hint.anchor:
        return None
    if is_relative or _YEAR.search(hint.text):
        return hint.end
    if not PATTERNS["once"].search(text):  # a weekday or a month comes back
        return None
    if hint.end > stated:
        return hint.end
    later = read_time(text, stated + timedelta(days=7 if _WEEKDAY.search(hint.text) else 365))
    return None if later is None or later.end is None or later.text != hint.text else later.end
