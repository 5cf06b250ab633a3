"""Times in questions: the windows that expressions give at fixed asking dates."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from keepstone.text import calendar
from keepstone.text.time_expressions import TimeHint, read_time

WEDNESDAY = datetime(2023, 6, 14, 15, 30)


def window(hint: TimeHint | None) -> str:
    """[start, end) in few letters: dates, with the hour where it is not midnight, a dash where it is open."""
    assert hint is not None

    def short(at: datetime | None) -> str:
        if at is None:
            return "-"
        assert at.utcoffset() == timedelta(0)
        return at.strftime("%Y-%m-%d" if at.hour == at.minute == 0 else "%Y-%m-%dT%H:%M")

    return f"{short(hint.start)} {short(hint.end)}"


# Asked on Wednesday, 14 June 2023, at half past three.
EXPRESSIONS = {
    # days
    "today": "2023-06-14 2023-06-15",
    "yesterday": "2023-06-13 2023-06-14",
    "yesterday morning": "2023-06-13 2023-06-14",
    "tomorrow": "2023-06-15 2023-06-16",
    "the day before yesterday": "2023-06-12 2023-06-13",
    "this morning": "2023-06-14 2023-06-15",
    "tonight": "2023-06-14T12:00 2023-06-15T12:00",
    "last night": "2023-06-13T12:00 2023-06-14T12:00",
    "the other day": "2023-05-31 2023-06-14",
    # weeks, months, quarters, years
    "last week": "2023-06-05 2023-06-14",
    "this week": "2023-06-11 2023-06-20",
    "next week": "2023-06-18 2023-06-27",
    "in the past week": "2023-06-06 2023-06-15",
    "the week before last": "2023-05-29 2023-06-07",
    "last weekend": "2023-06-09 2023-06-13",
    "this past weekend": "2023-06-09 2023-06-13",
    "over the weekend": "2023-06-09 2023-06-13",
    "last month": "2023-05-01 2023-06-14",
    "the previous month": "2023-05-01 2023-06-14",
    "this month": "2023-06-01 2023-07-01",
    "in the last month": "2023-05-13 2023-06-15",
    "the month before last": "2023-04-01 2023-05-01",
    "last quarter": "2023-01-01 2023-04-01",
    "this quarter": "2023-04-01 2023-07-01",
    "last year": "2022-01-01 2023-01-01",
    "earlier this year": "2023-01-01 2024-01-01",
    "over the last year": "2022-06-13 2023-06-15",
    # so long ago
    "3 days ago": "2023-06-10 2023-06-13",
    "three days ago": "2023-06-10 2023-06-13",
    "two weeks ago": "2023-05-27 2023-06-05",
    "a couple of weeks ago": "2023-05-20 2023-06-05",
    "a couple of weeks back": "2023-05-20 2023-06-05",
    "2-3 weeks ago": "2023-05-20 2023-06-05",
    "two or three weeks ago": "2023-05-20 2023-06-05",
    "a week or two ago": "2023-05-27 2023-06-12",
    "a month ago": "2023-04-28 2023-05-31",
    "a month or so ago": "2023-04-20 2023-06-09",
    "a few months ago": "2022-12-29 2023-05-01",
    "2 years ago": "2020-12-12 2021-12-16",
    "a year and a half ago": "2021-06-13 2022-06-17",
    "two Fridays ago": "2023-06-02 2023-06-03",
    "2 hours ago": "2023-06-14T12:30 2023-06-14T14:30",
    "in the last 10 days": "2023-06-03 2023-06-15",
    "over the past two months": "2023-04-13 2023-06-15",
    "within the past fortnight": "2023-05-30 2023-06-15",
    "in the past few weeks": "2023-05-09 2023-06-15",
    "in recent weeks": "2023-05-02 2023-06-15",
    # weekdays
    "on Tuesday": "2023-06-13 2023-06-14",
    "on Wednesday": "2023-06-07 2023-06-08",
    "on Friday night": "2023-06-09 2023-06-10",
    "last Friday": "2023-06-09 2023-06-10",
    "this past Saturday": "2023-06-10 2023-06-11",
    "this Friday": "2023-06-16 2023-06-17",
    "next Monday": "2023-06-19 2023-06-20",
    "on the Friday before last": "2023-06-02 2023-06-03",
    "on Tuesday of last week": "2023-06-06 2023-06-07",
    "last week on Tuesday": "2023-06-06 2023-06-07",
    "since Monday": "2023-06-12 -",
    "from Monday to Wednesday": "2023-06-05 2023-06-08",
    # months
    "in March": "2023-03-01 2023-04-01",
    "in June": "2023-06-01 2023-07-01",
    "in July": "2022-07-01 2022-08-01",
    "in Sept": "2022-09-01 2022-10-01",
    "last March": "2023-03-01 2023-04-01",
    "last June": "2022-06-01 2022-07-01",
    "next March": "2024-03-01 2024-04-01",
    "this May": "2023-05-01 2023-06-01",
    "in early May": "2023-04-30 2023-05-12",
    "in mid-June": "2023-06-10 2023-06-22",
    "in late July": "2022-07-21 2022-08-02",
    "at the end of March": "2023-03-21 2023-04-02",
    "in the first week of May": "2023-04-30 2023-05-09",
    "in the last week of May": "2023-05-24 2023-06-02",
    "in March 2023": "2023-03-01 2023-04-01",
    "in March, 2021": "2021-03-01 2021-04-01",
    "March 2022": "2022-03-01 2022-04-01",
    "in May of last year": "2022-05-01 2022-06-01",
    "in May '21": "2021-05-01 2021-06-01",
    "since January": "2023-01-01 -",
    "from May onwards": "2023-05-01 -",
    "until April": "- 2023-05-01",
    "by March": "- 2023-04-01",
    "before April": "- 2023-04-01",
    "after April": "2023-05-01 -",
    "between March and May": "2023-03-01 2023-06-01",
    "between May and August": "2022-05-01 2022-09-01",
    "from November to February": "2022-11-01 2023-03-01",
    "from May to June 2022": "2022-05-01 2022-07-01",
    "between November 2021 and February": "2021-11-01 2022-03-01",
    "around October": "2022-09-15T12:00 2022-11-16T12:00",
    # dates
    "on 5 March 2023": "2023-03-05 2023-03-06",
    "on March 5th": "2023-03-05 2023-03-06",
    "on March 5, 2021": "2021-03-05 2021-03-06",
    "on the 5th of May": "2023-05-05 2023-05-06",
    "on 20 October": "2022-10-20 2022-10-21",
    "around 20 October": "2022-10-17 2022-10-24",
    "on 29 February": "2020-02-29 2020-03-01",
    "March 5-10": "2023-03-05 2023-03-11",
    "from 5 to 10 March": "2023-03-05 2023-03-11",
    "between May 3 and June 5": "2023-05-03 2023-06-06",
    "on 2023-05-07": "2023-05-07 2023-05-08",
    "in 2023-05": "2023-05-01 2023-06-01",
    "on 5/3/2023": "2023-03-05 2023-05-04",
    "on 4/4/23": "2023-04-04 2023-04-05",
    "on 25/12/2022": "2022-12-25 2022-12-26",
    "on 12/25/2022": "2022-12-25 2022-12-26",
    "on 5.3.2023": "2023-03-05 2023-03-06",
    "on the 14th": "2023-06-14 2023-06-15",
    "on the 20th": "2023-05-20 2023-05-21",
    "on the 31st": "2023-05-31 2023-06-01",
    # years and what is longer
    "in 2022": "2022-01-01 2023-01-01",
    "back in 2021": "2021-01-01 2022-01-01",
    "since 2019": "2019-01-01 -",
    "before 2020": "- 2020-01-01",
    "after 2020": "2021-01-01 -",
    "between 2019 and 2021": "2019-01-01 2022-01-01",
    "as of March 2022": "- 2022-04-01",
    "in the first half of 2022": "2021-12-31 2022-07-03",
    "in Q3 2022": "2022-07-01 2022-10-01",
    "in Q3": "2022-07-01 2022-10-01",
    "in Q2": "2023-04-01 2023-07-01",
    "in the third quarter of 2022": "2022-07-01 2022-10-01",
    "in the 90s": "1990-01-01 2000-01-01",
    "in the '80s": "1980-01-01 1990-01-01",
    "in the 2010s": "2010-01-01 2020-01-01",
    "in the nineties": "1990-01-01 2000-01-01",
    # seasons
    "last summer": "2022-05-31 2022-09-02",
    "this summer": "2023-05-31 2023-09-02",
    "next summer": "2024-05-31 2024-09-02",
    "in the spring of 2022": "2022-02-28 2022-06-02",
    "in autumn": "2022-08-31 2022-12-02",
    "this winter": "2022-11-30 2023-03-02",
    "in the winter of 2022": "2022-11-30 2023-03-02",
    "in winter 2023": "2022-11-30 2023-03-02",
    # holidays
    "at Christmas": "2022-12-24 2022-12-27",
    "for Christmas 2020": "2020-12-24 2020-12-27",
    "next Christmas": "2023-12-24 2023-12-27",
    "before last Christmas": "- 2022-12-25",
    "the week before Christmas": "2022-12-18 2022-12-25",
    "two weeks before Christmas": "2022-12-07 2022-12-16",
    "around Christmas": "2022-12-22 2022-12-29",
    "on New Year's Eve": "2022-12-30 2023-01-02",
    "on New Year’s Day": "2022-12-31 2023-01-03",
    "on Valentine's Day": "2023-02-13 2023-02-16",
    "on Halloween": "2022-10-30 2022-11-02",
    "last Thanksgiving": "2022-11-23 2022-11-26",
    "the day after Thanksgiving": "2022-11-25 2022-11-26",
    "on Black Friday": "2022-11-24 2022-11-27",
    "at Easter": "2023-04-08 2023-04-11",
    "at Easter 2024": "2024-03-30 2024-04-02",
    "on Good Friday": "2023-04-06 2023-04-09",
    "on Easter Monday": "2023-04-09 2023-04-12",
    "on Memorial Day": "2023-05-28 2023-05-31",
    "on the 4th of July": "2022-07-03 2022-07-06",
    "on Independence Day": "2022-07-03 2022-07-06",
    "on Labor Day": "2022-09-04 2022-09-07",
    "on Mother's Day": "2023-05-13 2023-05-16",
    # soft
    "recently": "2023-05-14 2023-06-15",
    "lately": "2023-05-14 2023-06-15",
}  # fmt: skip


@pytest.mark.parametrize("words", EXPRESSIONS)
def test_an_expression_gives_its_window(words: str) -> None:
    for question in (f"What did I do {words}?", f"{words[0].upper()}{words[1:]}, what did I do", f"what   did I\nlike {words} ?"):
        assert window(read_time(question, WEDNESDAY)) == EXPRESSIONS[words], question


BOUNDARIES = [
    # a Sunday, a Monday
    (datetime(2023, 6, 11), "last week", "2023-05-29 2023-06-11"),
    (datetime(2023, 6, 11), "this week", "2023-06-04 2023-06-13"),
    (datetime(2023, 6, 11), "last weekend", "2023-06-02 2023-06-06"),
    (datetime(2023, 6, 11), "this weekend", "2023-06-09 2023-06-13"),
    (datetime(2023, 6, 11), "on Sunday", "2023-06-04 2023-06-05"),
    (datetime(2023, 6, 12), "last week", "2023-06-05 2023-06-12"),
    (datetime(2023, 6, 12), "this week", "2023-06-11 2023-06-20"),
    (datetime(2023, 6, 12), "this weekend", "2023-06-09 2023-06-13"),
    (datetime(2023, 6, 12), "on Sunday", "2023-06-11 2023-06-12"),
    (datetime(2023, 6, 15), "this weekend", "2023-06-16 2023-06-20"),
    # a Friday
    (datetime(2023, 6, 16, 9), "last Friday", "2023-06-09 2023-06-10"),
    (datetime(2023, 6, 16, 9), "this Friday", "2023-06-16 2023-06-17"),
    (datetime(2023, 6, 16, 9), "next Friday", "2023-06-23 2023-06-24"),
    (datetime(2023, 6, 16, 9), "on the Friday before last", "2023-06-02 2023-06-03"),
    # January
    (datetime(2024, 1, 15), "last month", "2023-12-01 2024-01-15"),
    (datetime(2024, 1, 15), "last quarter", "2023-10-01 2024-01-01"),
    (datetime(2024, 1, 15), "in January", "2024-01-01 2024-02-01"),
    (datetime(2024, 1, 15), "last January", "2023-01-01 2023-02-01"),
    (datetime(2024, 1, 15), "in December", "2023-12-01 2024-01-01"),
    (datetime(2024, 1, 15), "this winter", "2023-11-30 2024-03-02"),
    (datetime(2024, 1, 15), "last winter", "2022-11-30 2023-03-02"),
    (datetime(2024, 1, 1), "yesterday", "2023-12-31 2024-01-01"),
    (datetime(2024, 1, 3), "last week", "2023-12-25 2024-01-03"),
    # leap years and short months
    (datetime(2024, 3, 1), "yesterday", "2024-02-29 2024-03-01"),
    (datetime(2023, 3, 1), "yesterday", "2023-02-28 2023-03-01"),
    (datetime(2024, 3, 31), "a month ago", "2024-02-13 2024-03-17"),
    (datetime(2024, 2, 29), "a year ago", "2022-08-28 2023-09-01"),
    (datetime(2024, 3, 31), "last month", "2024-02-01 2024-03-31"),
    (datetime(2024, 3, 31), "in February", "2024-02-01 2024-03-01"),
    (datetime(2024, 3, 15), "on the 30th", "2024-01-30 2024-01-31"),
    (datetime(2000, 3, 1), "on 29 February", "2000-02-29 2000-03-01"),
    (datetime(1901, 3, 1), "on 29 February", "1896-02-29 1896-03-01"),
    # on the day itself, and at its first instant
    (datetime(2023, 3, 1), "in March", "2023-03-01 2023-04-01"),
    (datetime(2023, 4, 1), "last March", "2023-03-01 2023-04-01"),
    (datetime(2023, 12, 25, 20), "at Christmas", "2023-12-24 2023-12-27"),
    (datetime(2023, 12, 25, 20), "last Christmas", "2022-12-24 2022-12-27"),
    (datetime(2023, 12, 31, 20), "this year", "2023-01-01 2024-01-01"),
    # the asking time in another zone is the day of UTC
    (datetime(2023, 6, 14, 2, tzinfo=timezone(timedelta(hours=5))), "yesterday", "2023-06-12 2023-06-13"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "words", "expected"), BOUNDARIES)
def test_the_edges_of_the_calendar(asked: datetime, words: str, expected: str) -> None:
    assert window(read_time(f"Where was I {words}?", asked)) == expected


@pytest.mark.parametrize(
    "sunday",
    "1954-04-18 1981-04-19 2000-04-23 2008-03-23 2011-04-24 2019-04-21 2025-04-20 2038-04-25 2049-04-18 2076-04-19".split(),
)
def test_easter_falls_on_its_sunday(sunday: str) -> None:
    assert calendar.easter(int(sunday[:4])).isoformat() == sunday
