"""Times in questions: the windows at fixed asking dates, what is no time at all, and that nothing makes it fail."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.recall import calendar_words, temporal
from recollect.recall.temporal import MAX_QUESTION, TimeHint, closeness, read_time
from recollect.times import micros

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
    assert calendar_words.easter(int(sunday[:4])).isoformat() == sunday


EVENTS = [
    ("Where did I live before I moved to Berlin?", "before", "I moved to Berlin"),
    ("Before I moved to Berlin, where did I live?", "before", "I moved to Berlin"),
    ("Before I moved to Berlin where did I live?", "before", "I moved to Berlin"),
    ("What have I bought since I moved?", "after", "I moved"),
    ("What did we say after the accident?", "after", "the accident"),
    ("How many days after my birthday did I buy the car?", "after", "my birthday"),
    ("What did I eat during my trip to Japan?", "during", "my trip to Japan"),
    ("Whom did I meet while I was in Rome?", "during", "I was in Rome"),
    ("What did I feel while watching the meteor shower?", "during", "watching the meteor shower"),
    ("What did Nate do while Joanna was on her road trip?", "during", "Joanna was on her road trip"),
    ("What did I cook when I was in Japan?", "during", "I was in Japan"),
    ("What had I read by the time I graduated?", "before", "I graduated"),
    ("Can you tell me what I did prior to joining Google?", "before", "joining Google"),
    ("What did I believe until I met Anna?", "before", "I met Anna"),
]


@pytest.mark.parametrize(("question", "relation", "anchor"), EVENTS)
def test_an_event_is_an_anchor(question: str, relation: str, anchor: str) -> None:
    hint = read_time(question, WEDNESDAY)
    assert hint is not None
    assert (hint.relation, hint.anchor, hint.start, hint.end, hint.order) == (relation, anchor, None, None, "")
    assert hint.text in question
    assert hint.text.endswith(anchor)


def test_the_date_of_an_event_bounds_what_is_before_and_after_it() -> None:
    assert window(read_time("What changed since I moved in January?", WEDNESDAY)) == "2023-01-01 -"
    assert window(read_time("What did I own before the fire in 2021?", WEDNESDAY)) == "- 2022-01-01"
    assert window(read_time("What did I see during my trip on 3 May, 2023?", WEDNESDAY)) == "2023-05-03 2023-05-04"


ORDERS = {
    "What is my current job?": "latest",
    "What am I currently reading?": "latest",
    "Where do I live now?": "latest",
    "Where am I living at the moment?": "latest",
    "What do I drink these days?": "latest",
    "What do I drink nowadays?": "latest",
    "What was the most recent book I read?": "latest",
    "What is Anna's latest hobby?": "latest",
    "When did I last see Anna?": "latest",
    "When was the last time I ran?": "latest",
    "What did I originally want?": "earliest",
    "What was the plan initially?": "earliest",
    "What did I think of it at first?": "earliest",
    "When was the first time I met Bob?": "earliest",
    "What is my earliest memory?": "earliest",
}


@pytest.mark.parametrize("question", ORDERS)
def test_the_newest_or_the_oldest_is_asked_for(question: str) -> None:
    hint = read_time(question, WEDNESDAY)
    assert hint is not None
    assert (hint.order, hint.start, hint.end, hint.anchor) == (ORDERS[question], None, None, "")
    assert hint.text in question


def test_a_window_an_order_and_an_event_stand_side_by_side() -> None:
    hint = read_time("What was the latest film I saw last month after the surgery?", WEDNESDAY)
    assert hint == TimeHint(
        datetime(2023, 5, 1, tzinfo=UTC),
        datetime(2023, 6, 14, tzinfo=UTC),
        "last month, after the surgery, latest",
        "latest",
        "the surgery",
        "after",
    )


def test_the_words_of_a_window_are_no_order() -> None:
    for question in ("How was I last week?", "Where did Anna last month go?", "What was done in the first week of May?"):
        hint = read_time(question, WEDNESDAY)
        assert hint is not None
        assert hint.order == ""


def test_a_date_with_its_year_goes_before_other_words() -> None:
    assert window(read_time("What was done last week, as I said on November 6, 2022?", WEDNESDAY)) == "2022-11-06 2022-11-07"
    assert window(read_time("What had I recently seen on February 7, 2022?", WEDNESDAY)) == "2022-02-07 2022-02-08"


NO_TIME = """
What is my sister's name?
May I ask what my favourite colour is?
I may go to Rome, which hotel did I like?
What may happen to my plants?
How do I march on without losing the rhythm?
Who led the march on Washington?
Do I march in parades?
Can I march 5 miles?
What did April say about the cake?
Does June like tea?
Who is Jan?
Is August a nice man?
Give me a second, what is my address?
Did I try it a second time?
How long did the 2-week course take?
How long was the two weeks course?
How many weeks did I stay in Peru?
For how long have I been married?
How long is a year?
How many days are in a week?
What year was I born?
Which came first, the chicken or the egg?
What is my first name?
What is my last name?
Where is the first aid kit?
What do I drink before bed?
What should I do before I go to bed?
What do I eat after work?
What happens after that?
Who looks after my cat?
Who was I named after?
Since I like coffee, what should I order?
Since I need glasses, which ones?
Have I been there before?
What music do I listen to while working?
Do you remember when I told you about my cat?
When is my dentist appointment?
Now, tell me about my dog.
What do I do on Mondays?
What do I do every Monday?
Do I rest during the week?
How many cakes have I baked till date?
How does he look when they see the finished car?
Which pet did I adopt more recently, Susie or Max?
What is in spring rolls?
Where is my summer dress?
Did I fall off my bike?
How much is 2000 dollars in euros?
Do I have 1999 points?
Who lives in room 2022?
What is my phone number 555-12-2020?
What is the score, 3/4 or 1/2?
Which version is 2.10.3?
What is the date format 99/99/2023?
In my 20s, what was I like?
Is the office on the 14th floor?
Where is my Christmas tree?
What is my New Year's resolution?
What is an easter egg?
What is my mother's name?
Is there a quarter in my pocket?
What is the speed of an electric current?
What was on the other side?
""".strip().splitlines()


@pytest.mark.parametrize("question", ["", " ", "?", "\0", "日本語で何と言いますか", *NO_TIME])
def test_a_question_without_time_words_gives_nothing(question: str) -> None:
    assert read_time(question, WEDNESDAY) is None


VOCABULARY = sorted(
    {word for *_, words in temporal._LOOK for word in words.replace("0", "7").split()}
    | {word for expression in EXPRESSIONS for word in expression.split()}
    | set("i moved we was the of and to or so a couple few 0 31 99 2024 1/2/3 9999-99-99 29/2/2023 , . ? ' half İ ß".split())
)  # fmt: skip
phrases = st.lists(st.sampled_from(VOCABULARY), max_size=14).map(" ".join)
moments = st.datetimes(timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-11))]))


def check(question: str, asked: datetime) -> None:
    hint = read_time(question, asked)
    if hint is None:
        return
    assert hint.text
    assert hint.start is None or hint.end is None or hint.start < hint.end
    assert hint.start or hint.end or hint.order or hint.anchor
    assert bool(hint.anchor) == bool(hint.relation)
    values = closeness(hint, np.array([-(2**63), 0, 2**62, 2**63 - 1]))
    assert ((values >= 0) & (values <= 1)).all()


@given(phrases, moments)
def test_no_phrase_of_time_words_makes_it_fail(question: str, asked: datetime) -> None:
    check(question, asked)


@given(st.text(max_size=200), moments)
def test_no_text_makes_it_fail(question: str, asked: datetime) -> None:
    check(question, asked)


@pytest.mark.parametrize("words", EXPRESSIONS)
def test_the_ends_of_time_make_nothing_fail(words: str) -> None:
    for asked in (datetime.min, datetime.max, datetime.min.replace(tzinfo=UTC), datetime(1, 3, 1), datetime(9999, 11, 30)):
        check(f"What did I do {words}?", asked)


@pytest.mark.parametrize(
    "unit",
    ["in march ", "1 ", "a couple of ", "last ", "before i ", "2020-", "5th of may 5th ", "between may and ", " ", "İ", "now "],
)
def test_a_huge_question_is_read_at_its_beginning(unit: str) -> None:
    huge = unit * (10_000_000 // len(unit))
    check(huge, WEDNESDAY)
    assert read_time(huge, WEDNESDAY) == read_time(huge[:MAX_QUESTION], WEDNESDAY)
    assert read_time("x " * MAX_QUESTION + "yesterday", WEDNESDAY) is None


# -- closeness ----------------------------------------------------------------------------------------------------------
WEEK = TimeHint(datetime(2023, 6, 5, tzinfo=UTC), datetime(2023, 6, 12, tzinfo=UTC), "last week")


def near(hint: TimeHint, *times: datetime) -> list[float]:
    found = closeness(hint, np.array([micros(time.replace(tzinfo=UTC)) for time in times], dtype=np.int64))
    assert found.dtype == np.float32
    return [round(value, 3) for value in found.tolist()]


def test_inside_is_one_and_half_a_window_away_a_half() -> None:
    assert near(WEEK, datetime(2023, 6, 5), datetime(2023, 6, 8), datetime(2023, 6, 11, 23, 59)) == [1, 1, 1]
    assert near(WEEK, datetime(2023, 6, 1, 12), datetime(2023, 6, 15, 12)) == [0.5, 0.5]
    assert near(WEEK, datetime(2023, 5, 29), datetime(2023, 6, 19)) == [0.2, 0.2]


def test_a_short_window_falls_as_one_of_a_day() -> None:
    hour = TimeHint(datetime(2023, 6, 5, 12, tzinfo=UTC), datetime(2023, 6, 5, 13, tzinfo=UTC), "")
    assert near(hour, datetime(2023, 6, 5, 0), datetime(2023, 6, 6, 1)) == [0.5, 0.5]


def test_an_open_side_is_inside() -> None:
    since = TimeHint(WEEK.start, None, "since Monday")
    until = TimeHint(None, WEEK.start, "until Monday")
    times = datetime(1970, 1, 1), datetime(2023, 5, 21), datetime(2023, 6, 6), datetime(2100, 1, 1)
    assert near(since, *times) == [0, 0.5, 1, 1]
    assert near(until, *times)[:2] == [1, 1]
    assert 0.9 < near(until, *times)[2] < 1
    assert near(until, *times)[3] == 0


def test_without_dates_every_time_is_as_near_as_another() -> None:
    for hint in (TimeHint(None, None, "now", order="latest"), TimeHint(None, None, "before it", anchor="it", relation="before")):
        assert near(hint, datetime(1970, 1, 1), datetime(2023, 6, 6)) == [0.5, 0.5]
    assert closeness(WEEK, np.array([], dtype=np.int64)).shape == (0,)


@given(st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=20))
def test_farther_is_never_nearer(times: list[int]) -> None:
    assert WEEK.start is not None
    start = micros(WEEK.start)
    before = np.array(sorted(time for time in times if time < start), dtype=np.int64)
    assert (np.diff(closeness(WEEK, before)) >= 0).all()


@pytest.mark.parametrize("module", [temporal, calendar_words])
def test_the_examples_in_the_words_of_the_code_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 3
    assert result.failed == 0
