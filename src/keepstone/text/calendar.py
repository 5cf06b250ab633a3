"""The periods of the calendar that words for times in English questions stand for. Pure."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from keepstone.text import english
from keepstone.text.english import MONTHS
from keepstone.text.lexicon import Lexicon

DAY = timedelta(days=1)
LEXICON = Lexicon("english_times")
WORDS, PATTERNS = LEXICON.words, LEXICON.patterns


# -- tables -------------------------------------------------------------------------------------------------------------
WEEKDAYS = {name: at for at, name in enumerate(english.WEEKDAYS)}
SEASONS = {"spring": 3, "summer": 6, "fall": 9, "autumn": 9, "winter": 12}  # by the first of three months
# What is also another word or a name, and so a month only after a preposition, next to a day or before a year.
DOUBTFUL = (MONTHS.keys() - set(english.MONTH_NAMES)) | {"march", "april", "may", "june", "august"}
NUMBERS = {
    word: (float(number), float(number))
    for word, number in (english.UNITS | english.TENS | {"a": 1, "an": 1}).items()
    if 1 <= number <= 50
}
FUZZY = {"couple": (2.0, 3.0), "few": (2.0, 5.0), "some": (2.0, 5.0), "several": (3.0, 8.0), "half": (0.5, 0.5)}
RECENT = {"day": 10, "week": 6, "month": 6, "year": 5}  # "in recent weeks": how many
UNIT_DAYS = {"day": 1, "night": 1, "weekend": 7, "week": 7, "fortnight": 14}
UNIT_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
SLACK = {"weekend": 4, "week": 4, "fortnight": 8, "month": 16, "quarter": 47, "year": 184, "decade": 1827}  # half, and a day
PARTS = {  # of a longer period: fractions, or whole days from its start or its end
    "early": (0.0, 1 / 3), "beginning": (0.0, 1 / 3), "start": (0.0, 1 / 3), "mid": (1 / 3, 2 / 3), "middle": (1 / 3, 2 / 3),
    "late": (2 / 3, 1.0), "end": (2 / 3, 1.0), "first half": (0.0, 0.5), "second half": (0.5, 1.0), "first week": (0, 7),
    "second week": (7, 14), "third week": (14, 21), "last week": (-7, 0), "first weekend": (0, 9), "last weekend": (-9, 0),
}  # fmt: skip
_NTH = {word: at for at, word in enumerate(LEXICON.data["words"]["nth"].split(), 1)}
DECADES = {name: 1950 + 10 * at for at, name in enumerate("fifties sixties seventies eighties nineties".split())}


# -- the calendar -------------------------------------------------------------------------------------------------------
def month_at(year: int, month: int) -> datetime:
    """The start of a month; months below 1 and above 12 belong to the previous and next years.

    >>> month_at(2024, 0).date().isoformat(), month_at(2024, 13).date().isoformat()
    ('2023-12-01', '2025-01-01')
    """
    years, months = divmod(month - 1, 12)
    return datetime(year + years, months + 1, 1, tzinfo=UTC)


def back(day: datetime, unit: str, count: float) -> datetime:
    """So many units before a day; the day of the month is kept where that month has it.

    >>> back(datetime(2024, 3, 31, tzinfo=UTC), "month", 1).date().isoformat()
    '2024-02-29'
    """
    if unit in UNIT_DAYS:
        return day - timedelta(days=round(UNIT_DAYS[unit] * count))
    months, rest = divmod(UNIT_MONTHS[unit] * count, 1)
    start = month_at(day.year, day.month - int(months))
    return start.replace(day=min(day.day, monthrange(start.year, start.month)[1])) - timedelta(days=round(30 * rest))


def unit_at(day: datetime, unit: str, offset: int) -> tuple[datetime, datetime]:
    """The calendar's week (from Monday), weekend, month, quarter, year, … that holds a day, or one before or after it."""
    if unit in UNIT_MONTHS:
        size = UNIT_MONTHS[unit]
        first = (day.year * 12 + day.month - 1) // size * size + offset * size
        return month_at(first // 12, first % 12 + 1), month_at((first + size) // 12, (first + size) % 12 + 1)
    monday = day - timedelta(days=day.weekday())
    if unit == "weekend":
        saturday = monday + timedelta(days=5 + 7 * offset)
        return saturday, saturday + 2 * DAY
    start = day if UNIT_DAYS[unit] == 1 else monday
    start += timedelta(days=UNIT_DAYS[unit] * offset)
    return start, start + timedelta(days=UNIT_DAYS[unit])


def _weekday_of(year: int, month: int, weekday: int, n: int) -> date:
    """The n-th such weekday of a month; -1 is the last."""
    if n < 0:
        last = date(year, month, monthrange(year, month)[1])
        return last - timedelta(days=(last.weekday() - weekday) % 7)
    first = date(year, month, 1)
    return first + timedelta(days=(weekday - first.weekday()) % 7 + 7 * (n - 1))


def easter(year: int) -> date:
    """Easter Sunday by the Gregorian computus.

    >>> easter(2023).isoformat(), easter(2024).isoformat()
    ('2023-04-09', '2024-03-31')
    """
    a, b, c = year % 19, year // 100, year % 100
    h = (19 * a + b - b // 4 - (b - (b + 8) // 25 + 1) // 3 + 15) % 30
    i = (32 + 2 * (b % 4) + 2 * (c // 4) - h - c % 4) % 7
    m = (a + 11 * h + 22 * i) // 451
    month, day = divmod(h + i - 7 * m + 114, 31)
    return date(year, month, day + 1)


_HOLIDAYS: dict[str, tuple[int, ...]] = {  # month and day; month, weekday, which of them and days after it; days after Easter
    "christmas": (12, 25), "christmas eve": (12, 24), "xmas": (12, 25), "xmas eve": (12, 24), "boxing": (12, 26),
    "new years": (1, 1), "new years eve": (12, 31), "valentines": (2, 14), "halloween": (10, 31),
    "independence": (7, 4), "4th of july": (7, 4), "fourth of july": (7, 4), "st patricks": (3, 17), "saint patricks": (3, 17),
    "thanksgiving": (11, 3, 4, 0), "black friday": (11, 3, 4, 1), "cyber monday": (11, 3, 4, 4), "mothers": (5, 6, 2, 0),
    "fathers": (6, 6, 3, 0), "labor": (9, 0, 1, 0), "labour": (9, 0, 1, 0),
    "memorial": (5, 0, -1, 0), "easter": (0,), "easter sunday": (0,), "easter monday": (1,), "good friday": (-2,),
}  # fmt: skip


def holiday(name: str, year: int) -> datetime:
    """The day of a holiday that HOLIDAY found, as it is kept in the United States.

    >>> [holiday(name, 2023).date().isoformat() for name in ("thanksgiving", "black friday", "new year's eve")]
    ['2023-11-23', '2023-11-24', '2023-12-31']
    """
    rule = _HOLIDAYS[name.replace("'", "").replace(".", "").removesuffix(" day")]
    if len(rule) == 4:
        found = _weekday_of(year, *rule[:3]) + rule[3] * DAY
    else:
        found = date(year, *rule) if len(rule) == 2 else easter(year) + rule[0] * DAY
    return datetime(found.year, found.month, found.day, tzinfo=UTC)


# -- from words to periods ------------------------------------------------------------------------------------------------
class Span(NamedTuple):
    """A period that was read; `pad` is how many days it may be widened on either side, being vague."""

    lo: datetime
    hi: datetime
    pad: int = 0


class Left(NamedTuple):
    """The words before an expression: a preposition, a part of it ("early", "end"), and where these begin."""

    preposition: str
    part: str
    at: int
    word: str  # the last word before all this


def midnight(asked: datetime) -> datetime:
    return asked.replace(hour=0, minute=0, second=0, microsecond=0)


def count(said: str) -> tuple[float, float]:
    """The least and the most that a number in words or digits stands for.

    >>> count("2-3"), count("a couple of"), count("three"), count("one or two")
    ((2.0, 3.0), (2.0, 3.0), (3.0, 3.0), (1.0, 2.0))
    """
    found = [(float(each), float(each)) for each in re.findall(r"\d+", said)]
    for word in said.replace("-", " ").split():
        if word in FUZZY:
            return FUZZY[word]
        if word in NUMBERS:
            found.append(NUMBERS[word])
    return (min(found)[0], max(found)[1]) if found else (1.0, 1.0)


_LISTED = re.compile(r" (?:to|through|and|or) (?:the |on )?(?:" + "|".join(WEEKDAYS) + ")")


def read_day(said: str) -> int:
    """The day of the month that digits or an ordinal in words name.

    >>> read_day("14th"), read_day("second"), read_day("twenty-first")
    (14, 2, 21)
    """
    digits = said.rstrip("stndrh")
    return int(digits) if digits.isdigit() else _NTH[said]


def read_weekday(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    turn, week, name, tail = match.groups()
    if turn in ("every", "each", "most", "black", "good", "easter", "ash", "cyber"):
        return None
    listed = _LISTED.match(match.string, match.end())
    if (turn in ("the", "my", "our") and not tail) or (listed and left.preposition not in ("from", "between")):
        return None
    if week and turn not in ("last", "this", "past", "previous", "next"):
        return None
    day, at = midnight(asked), WEEKDAYS[name]
    last = day - ((day.weekday() - at - 1) % 7 + 1) * DAY  # strictly before: today would be called so
    of_week = day + (at - day.weekday()) * DAY
    if tail and "week" in tail:
        found = of_week - 7 * DAY if "last" in tail else of_week
    elif tail:
        found = last - 7 * DAY
    elif week:
        found = of_week + {"this": 0, "next": 7}.get(turn, -7) * DAY
    elif turn in ("next", "coming", "this coming"):
        found = last + (7 if last + 7 * DAY > day else 14) * DAY
    else:
        found = of_week if turn == "this" else last
    return Span(found, found + DAY)


def _year(said: str, asked: datetime) -> int:
    if said.endswith("year"):
        return asked.year + {"last": -1, "next": 1}.get(said.split()[0], 0)
    return 2000 + int(said[1:]) if said[0] == "'" else int(said)


def read_month(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    first, until_first, turn, name, second, until_second, year = match.groups()
    month, number = MONTHS[name], first or second
    place = left.preposition or left.part
    if name in DOUBTFUL:
        if turn and left.word in ("the", "my", "our", "your", "his", "her"):
            return None
        plain = not (year or turn or (first and name != "mar"))
        after = match.string[match.end() : match.end() + 2].strip()[:1]
        if plain and second and not (place or after in ("", "?", ".", ",", "!") or re.search(r"\d(?:st|nd|rd|th)\b", match[0])):
            return None
        if plain and not second and (not place or (left.preposition in ("of", "for", "on", "about", "at") and not left.part)):
            return None
    if number and (not 1 <= read_day(number) <= 31 or (number in _NTH and " of " not in match[0])):
        return None
    until = until_first or until_second or number

    def of(at: int) -> Span:
        start = month_at(at, month)
        if number:
            return Span(start.replace(day=read_day(number)), start.replace(day=read_day(until)) + DAY)
        return Span(start, month_at(at, month + 1))

    return of(_year(year, asked)) if year else _instance(of, turn, asked, near=False)


def _instance(of: Callable[[int], Span], turn: str | None, asked: datetime, near: bool = True) -> Span | None:
    """Which of the yearly ones is meant: the last that has begun; "last" the last that is over, "next" the first to come,
    "this" that of the year or, with `near`, the nearest."""
    coming, over = turn in ("next", "coming", "this coming"), turn in ("last", "past", "previous", "this past")
    if turn == "this":
        if not near:
            return of(asked.year)
        three = [of(year) for year in range(asked.year - 1, asked.year + 2)]
        return min(three, key=lambda each: max(each.lo - asked, asked - each.hi, timedelta(0)))
    for step in range(9):  # 29 February is there in every eighth year at the worst
        try:
            found = of(asked.year + (step if coming else -step))
        except ValueError:
            continue
        if found.lo > asked if coming else (found.hi if over else found.lo) <= asked:
            return found
    return None


def read_nth(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    """ "On the 14th": of the last month in which that day has come."""
    number, turn = read_day(match[1]), match[2]
    for step in range(1 if turn == "last" else 0, 1 if turn == "this" else 4):
        start = month_at(asked.year, asked.month - step)
        try:
            found = start.replace(day=number)
        except ValueError:
            continue
        if found <= asked or turn:
            return Span(found, found + DAY)
    return None


def read_numeric(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    """2023-05-07 and the like. 5/3/2023 is May 3 or March 5: the window holds both; with dots the day comes first."""
    year, _, month, day, one, sign, two, at = match.groups()
    if year and not day:
        return Span(month_at(int(year), int(month)), month_at(int(year), int(month) + 1)) if 1 <= int(month) <= 12 else None
    if year:
        readings = [(int(year), int(month), int(day))]
    else:
        number = int(at) + (0 if len(at) == 4 else 2000 if int(at) < 70 else 1900)
        readings = [(number, int(one), int(two)), (number, int(two), int(one))][sign == "." :]
    found = []
    for reading in readings:
        try:
            found.append(datetime(*reading, tzinfo=UTC))
        except ValueError:
            continue
    return Span(min(found), max(found) + DAY) if found else None


def read_year(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    if left.preposition in ("", "on", "at", "over", "about") and not left.part and left.word not in ("the", "my", "our", "your"):
        return None
    year = int(match[1])
    return Span(month_at(year, 1), month_at(year + 1, 1)) if year <= asked.year + 10 else None


def read_season(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    turn, name, year = match.groups()
    slipped = name == "fall" and left.preposition in ("before", "after", "since")
    if left.word in ("my", "her", "his", "our", "their") or (slipped and not (turn or year)):
        return None
    if not (turn or year or left.part) and left.preposition in ("", "of", "for", "at", "about", "on", "from", "within"):
        return None

    def of(at: int) -> Span:
        return Span(month_at(at, SEASONS[name]), month_at(at, SEASONS[name] + 3), 1)

    if year is None:
        return _instance(of, turn, asked)
    found = of(_year(year, asked))
    return of(_year(year, asked) - 1) if name == "winter" and found.lo > asked else found


def read_holiday(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    turn, name, year = match.groups()
    if not (turn or year or left.preposition):
        return None
    is_weekend = match[0].endswith("weekend")

    def of(at: int) -> Span:
        day = holiday(name, at)
        return Span(unit_at(day - 2 * DAY, "weekend", 0)[0] if is_weekend else day, day + DAY, 1)

    return of(_year(year, asked)) if year else _instance(of, turn, asked)


def read_quarter(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    before, number, after, name, year = match.groups()
    if name:
        number = {"first": "1", "second": "2", "third": "3"}.get(name, "4")
    given = before or after or year
    if not (given or left.preposition):
        return None

    def of(at: int) -> Span:
        return Span(month_at(at, 3 * int(number) - 2), month_at(at, 3 * int(number) + 1))

    return of(_year(given, asked)) if given else _instance(of, None, asked)


def read_decade(match: re.Match[str], asked: datetime, left: Left) -> Span | None:
    start = DECADES[match[2]] if match[2] else int(match[1])
    start += 0 if start > 99 else 1900 if start >= 30 else 2000
    return Span(month_at(start, 1), month_at(start + 10, 1)) if start <= asked.year else None
