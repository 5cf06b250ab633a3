"""When a statement's own time is over: "until March", "next week", "by 2026-05-01", told on some day. Pure.

Recall reads times looking back; what a memory plans lies ahead of the day it was told, so what has no year is read forward from
there. What happened stays true, and what comes back every week never ends.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from keepstone.recall.temporal import read_time

_MAX_CHARS = 600  # of a statement; longer texts speak of many times
_AHEAD = re.compile(
    r"\b(?:next (?:week|weekend|month|quarter|year|\w+day)|the day after tomorrow|tomorrow|tonight)\b", re.IGNORECASE
)
_PRESENT = re.compile(r"\b(?:today|this (?:morning|afternoon|evening|week|weekend|month|quarter|year))\b", re.IGNORECASE)
_ONCE = re.compile(
    r"\b(?:until|till|by|through|due|deadline|expires?|ends?|valid|appointment|flight|exam|interview|party|visit|trip|launch"
    r"|release|wedding|conference|delivery|presentation|demo|election|concert|surgery|workshop|hearing|ceremony|scheduled|planned"
    r"|takes place|arrives?|leaves?|flies|travels?|starts?|will|plans?|going to|wants? to|has to|have to|must"
    r"|needs? to|should|intends?|hopes?)\b",
    re.IGNORECASE,
)
_WITHIN = re.compile(
    r"\b(?:in|within|for|over|during)? ?(?P<coming>the (?:next|coming) )?"
    r"(?P<count>\d{1,3}|an?|one|two|three|four|five|six|ten|few|couple of) (?P<unit>day|week|month|year)s?\b",
    re.IGNORECASE,
)
_COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ten": 10, "few": 4, "couple of": 2}
_DAYS = {"day": 1, "week": 7, "month": 31, "year": 366}
_WEEKDAY = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b", re.IGNORECASE)
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_AGAIN = re.compile(
    r"\b(?:every|each|always|usually|often|never|annual(?:ly)?|yearly|monthly|weekly|daily|birthday|anniversary|born|since|ago|last|times|per"
    r"|\w+days\b|mornings|evenings|nights|weekends|holidays)\b",
    re.IGNORECASE,
)
_HAPPENED = re.compile(
    r"(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bbeen )(?<!\bhas )(?<!\bhave )(?<!\bgets )(?<!\bget )(?<!\bbeing )"
    r"\b(?:was|were|had|did|went|got|bought|took|made|saw|met|gave|paid|spent|ran|came|found|wrote|sold|drove|flew|ate|left|lost|won"
    r"|told|said|moved|began|became|built|chose|felt|held|kept|knew|led|sent|taught|thought|won|[a-z]{3,14}(?<!e)ed)\b",
    re.IGNORECASE,
)
_PLANNED = re.compile(
    r"\b(?:will|plans?|going to|wants? to|has to|have to|must|needs? to|should|intends?|hopes?)\b", re.IGNORECASE
)
_ENOUGH = timedelta(days=1)  # after its end, for clocks elsewhere


def time_is_over(text: str, told: datetime, now: datetime) -> bool:
    """Whether a statement told at one time is bound to a period that has passed by another.

    >>> told, now = datetime.fromisoformat("2026-03-01T00:00Z"), datetime.fromisoformat("2026-07-01T00:00Z")
    >>> [time_is_over(text, told, now) for text in ("The visa is valid until May.", "She visited Rome in May.")]
    [True, False]
    """
    try:
        end = end_of(text, told)
    except OverflowError:  # beyond the years that there are
        return False
    return end is not None and told < end <= now - _ENOUGH


def end_of(text: str, told: datetime) -> datetime | None:
    """When the period ends that a statement is bound to; None if it is bound to none."""
    if len(text) > _MAX_CHARS or _AGAIN.search(text):
        return None
    happened = _HAPPENED.search(text) is not None and not _PLANNED.search(text)
    ahead = _AHEAD.search(text)
    if happened and not ahead:
        return None
    within = _WITHIN.search(text)
    if within is not None and (within["coming"] or re.match(r"(?:in|within) ", within[0], re.IGNORECASE)):
        count = _COUNTS.get(within["count"].lower()) or int(within["count"])
        return told + timedelta(days=count * _DAYS[within["unit"].lower()])
    return _window_end(text, told, ahead is not None or _PRESENT.search(text) is not None)


def _window_end(text: str, told: datetime, from_there: bool) -> datetime | None:
    """The end of the period that a text names, looking ahead where the words leave it open."""
    hint = read_time(text, told)
    if hint is None or hint.end is None or hint.anchor:
        return None
    if from_there or _YEAR.search(hint.text):
        return hint.end
    if not _ONCE.search(text):  # a weekday or a month comes back
        return None
    if hint.end > told:
        return hint.end
    later = read_time(text, told + timedelta(days=7 if _WEEKDAY.search(hint.text) else 365))
    return None if later is None or later.end is None or later.text != hint.text else later.end
