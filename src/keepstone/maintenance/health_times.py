"""Statements that were tied to a time which has passed: "tomorrow", "until March 2025", "due on 2024-05-01". Pure.

What tells of the past stays true ("lived in Rome until 2019"), and so do habits ("plans tomorrow's day each evening"): only what
was ahead or going on when it was said can run out. Relative words need to be told when that was.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_MONTHS = "january february march april may june july august september october november december".split()
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)\.?"
)
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_YEAR = r"(?P<year>(?:19|20)\d\d)"
_DATES = [
    re.compile(each, re.IGNORECASE)
    for each in (
        r"(?P<year>(?:19|20)\d\d)-(?P<number>\d\d)(?:-(?P<day>\d\d))?\b",
        r"(?P<day>\d{1,2})\.(?P<number>\d{1,2})\.(?P<year>(?:19|20)\d\d)\b",
        r"(?P<number>\d{1,2})/(?P<day>\d{1,2})/(?P<year>(?:19|20)\d\d)\b",
        rf"{_MONTH} {_DAY},? {_YEAR}\b",
        rf"{_DAY} (?:of )?{_MONTH},? {_YEAR}\b",
        rf"{_MONTH},? {_YEAR}\b",
        rf"{_MONTH} {_DAY}\b(?! ?%)",
        rf"{_DAY} (?:of )?{_MONTH}(?!\w)",
        rf"{_YEAR}\b(?![-/.]\d)",
        rf"{_MONTH}(?!\w)",
    )
]
_LIMIT = re.compile(
    r"\b(?:until|till|through|by|no later than|due(?: date)?(?: is| on| by|:)?|deadline(?: is| was|:)?(?: on)?"
    r"|expires?(?: on| in)?|valid (?:until|through)) "
    r"(?:(?:on|the|about|around) )?(?:(?:end|beginning|start|middle) of |mid-? ?|early |late )?(?:the )?",
    re.IGNORECASE,
)
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NUMBER = r"(?P<count>\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|a couple of|a few)"
_COUNTS = {"a": 1, "an": 1, "a couple of": 2, "a few": 4, "twelve": 12} | {
    word: at for at, word in enumerate("one two three four five six seven eight nine ten".split(), 1)
}
_UNITS = {"day": 1, "week": 7, "month": 31, "year": 366}
_AHEAD: list[tuple[re.Pattern[str], int]] = [  # what was still to come, and the days after which it is surely over
    (re.compile(r"\bday after tomorrow\b", re.IGNORECASE), 3),
    (re.compile(r"\btomorrow\b(?!'s world)", re.IGNORECASE), 2),
    (re.compile(rf"\b(?:next|coming) (?:{_WEEKDAY}|week|weekend)\b", re.IGNORECASE), 15),
    (re.compile(r"\b(?:next|coming) month\b", re.IGNORECASE), 62),
    (re.compile(r"\b(?:next|coming) (?:quarter|semester|term)\b", re.IGNORECASE), 240),
    (re.compile(r"\b(?:next|coming) (?:year|spring|summer|autumn|fall|winter)\b", re.IGNORECASE), 731),
]
_GOING_ON: list[tuple[re.Pattern[str], int]] = [  # what was going on, unless it is told as done
    (re.compile(r"\b(?:today|tonight|this (?:morning|afternoon|evening))\b", re.IGNORECASE), 2),
    (re.compile(rf"\b(?:this|until|till) (?:{_WEEKDAY}|week|weekend)\b", re.IGNORECASE), 8),
    (re.compile(r"\bthis month\b", re.IGNORECASE), 32),
    (re.compile(r"\bthis (?:quarter|semester|term)\b", re.IGNORECASE), 184),
    (re.compile(r"\bthis (?:year|spring|summer|autumn|fall|winter)\b", re.IGNORECASE), 366),
]
_IN = re.compile(rf"\bin (?:about |around |the next )?{_NUMBER} (?P<unit>day|week|month|year)s?\b(?! of)", re.IGNORECASE)
_HABIT = re.compile(
    r"\b(?:every|each|always|usually|often|never|whenever|daily|weekly|monthly|generally|typically|normally|prefers?|likes?"
    r"|loves?|enjoys?|hates?|dislikes?|as of today|to this day|today's|nowadays|able to)\b",
    re.IGNORECASE,
)
_PAST = re.compile(
    r"\b(?:was|were|had|did|used to|went|took|got|made|bought|told|said|met|saw|ate|began|ran|wrote|\w{2,}ed)\b",
    re.IGNORECASE,
)
_PRESENT = re.compile(
    r"\b(?:is|are|am|be|has|have|needs?|must|should|will|wants?|plans?|going to|due|deadline|expects?|intends?|hopes?|waits?"
    r"|away|valid|expires?|starts?|begins?|leaves?|arrives?|meets?|works?|stays?|lives?|visits?|flies|travels?|runs?)\b"
    r"|'(?:s|re|m|ll)\b",
    re.IGNORECASE,
)
_SENTENCE = re.compile(r"(?<=[.!?;\n])\s+")
_LENGTH = 2000  # characters that are looked at


def past_reason(content: str, since: datetime | None, now: datetime) -> str | None:
    """Why a statement has run out by `now`, when it was made at `since`; None where it has not, or nobody can tell.

    >>> past_reason("Ana flies to Oslo tomorrow.", datetime(2025, 1, 1, tzinfo=UTC), datetime(2025, 2, 1, tzinfo=UTC))
    'speaks of a time to come that has passed'
    >>> past_reason("Ana lived in Oslo until March 2019.", None, datetime(2025, 2, 1, tzinfo=UTC)) is None
    True
    """
    for sentence in _SENTENCE.split(content[:_LENGTH].replace("’", "'")):
        end = _limit(sentence, since)
        if end is not None:
            if end <= now:
                return "has a date that has passed"
            continue
        if since is not None and (reason := _relative(sentence, since, now)) is not None:
            return reason
    return None


def _limit(sentence: str, since: datetime | None) -> datetime | None:
    """The end of the last "until …", "by …" or "due …" of a sentence that does not tell of the past."""
    end = None
    for found in _LIMIT.finditer(sentence):
        if _PAST.search(before := sentence[: found.start()]) and not _PRESENT.search(before):
            continue
        read = _date(sentence, found, since)
        end = max(end, read) if end is not None and read is not None else read or end
    return end


def _date(sentence: str, found: re.Match[str], since: datetime | None) -> datetime | None:
    """When the date that begins after a match is over."""
    for pattern in _DATES:
        match = pattern.match(sentence, found.end())
        if match is None:
            continue
        parts = match.groupdict()
        alone = parts.get("year") is None and parts.get("day") is None
        if alone and (not match[0][0].isupper() or found[0].lower().strip() == "by"):
            return None  # "by May" may be a name, "may" a verb
        return _over(parts, since)
    return None


def _over(parts: dict[str, str | None], since: datetime | None) -> datetime | None:
    name, number, day = parts.get("month"), parts.get("number"), int(parts.get("day") or 0)
    month = next((at for at, each in enumerate(_MONTHS, 1) if name and each.startswith(name[:3].lower())), int(number or 0))
    if parts.get("year") is None:
        if since is None:
            return None
        end = _ends(since.year, month, day)
        return _ends(since.year + 1, month, day) if end is not None and end <= since else end
    year = int(parts["year"] or 0)
    ends = [_ends(year, month, day)]
    if number and day and day <= 12 and month != day:
        ends.append(_ends(year, day, month))  # 03/04/2025: whichever is later
    known = [each for each in ends if each is not None]
    return max(known, default=None)


def _ends(year: int, month: int, day: int) -> datetime | None:
    try:
        if day:
            return datetime(year, month, day, tzinfo=UTC) + timedelta(days=1)
        return datetime(year + (month in (0, 12)), month % 12 + 1 if month else 1, 1, tzinfo=UTC)
    except ValueError:
        return None


def _relative(sentence: str, since: datetime, now: datetime) -> str | None:
    if _HABIT.search(sentence):
        return None
    age = now - since
    for pattern, days in _AHEAD:
        if (found := _spoken(pattern, sentence)) is not None:
            past = age > timedelta(days=days) and not re.search(r"\b(?:the|that) $", sentence[: found.start()], re.IGNORECASE)
            return "speaks of a time to come that has passed" if past else None
    told = _PAST.search(sentence) is not None and not _PRESENT.search(sentence)
    if told:
        return None
    ahead = _IN.search(sentence)
    if ahead is not None and _PRESENT.search(sentence[: ahead.start()]) and not re.search(r"\bcan\b", sentence):
        count = _COUNTS.get(ahead["count"].lower()) or int(ahead["count"])
        if age > timedelta(days=(count + 1) * _UNITS[ahead["unit"].lower()]):
            return "speaks of a time to come that has passed"
    for pattern, days in _GOING_ON:
        if _spoken(pattern, sentence) is not None and age > timedelta(days=days):
            return "speaks of a time that was going on and has passed"
    return None


def _spoken(pattern: re.Pattern[str], sentence: str) -> re.Match[str] | None:
    """A match that is not a title: The Day After Tomorrow, This Week in Tech."""
    for found in pattern.finditer(sentence):
        if not found.start() or not found[0][0].isupper():
            return found
    return None
