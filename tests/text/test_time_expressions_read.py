"""Times in questions: events and orders, what is no time at all, that nothing makes it fail, and how near a date is."""

from __future__ import annotations

import doctest
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.text import calendar, time_expressions
from keepstone.text.time_expressions import MAX_QUESTION, TimeHint, closeness, read_time
from keepstone.text.times import micros
from tests.text.test_time_expressions import EXPRESSIONS, WEDNESDAY, window

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
    {word for *_, words in time_expressions._LOOK for word in words.replace("0", "7").split()}
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


@pytest.mark.parametrize("module", [time_expressions, calendar])
def test_the_examples_in_the_words_of_the_code_hold(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 3
    assert result.failed == 0
