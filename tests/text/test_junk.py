"""What the health report takes for junk: on labelled memories, and where the line runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.text.junk import junk_reason
from tests.maintenance.health_samples import JUNK, USEFUL


def test_no_useful_memory_is_taken_for_junk() -> None:
    assert len(USEFUL) >= 120
    assert [text for text in USEFUL if junk_reason(text) is not None] == []


def test_nearly_all_junk_is_found() -> None:
    assert len(JUNK) >= 80
    missed = [text for text in JUNK if junk_reason(text) is None]
    assert len(missed) <= 0.03 * len(JUNK), missed


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has neither a word nor a number"),
        ("👍 !!", "has neither a word nor a number"),
        ("ok", "a greeting or an acknowledgement"),
        ("Thanks so much, bye!", "a greeting or an acknowledgement"),
        ("Vegetarian", "a single word without a key"),
        ("The user asked a question", "says only that something was said"),
        ("User has a preference", "states nothing in particular"),
        ("I'm sorry, but I can’t assist with that.", "a model's own phrase, not a memory"),
        ('{"stdout": "", "exit_code": 1}', "noise of a tool"),
        ("no no no no no no no no no no ", "a greeting or an acknowledgement"),
        ("xyxyxyxyxyxyxyxy 1", None),
        ("xyxyxyxyxyxyxyxyxy", "a single word without a key"),
        ('{"name": "Ana", "city": "Porto"}', None),
        ('{"a":' * 3000, None),
    ],
)
def test_the_reason_is_said_in_plain_words(text: str, reason: str | None) -> None:
    assert junk_reason(text) == reason


@pytest.mark.parametrize("text", [each for each in JUNK if len(each) < 60 and each[0].isalpha()][:40])
def test_a_detail_makes_a_memory_of_it(text: str) -> None:
    assert junk_reason(f"{text} and the boat of Captain Iglo leaves Rostock at 7") is None


@given(st.text(max_size=400))
def test_any_text_gets_an_answer_without_its_content(text: str) -> None:
    reason = junk_reason(text)
    assert reason is None or len(reason) < 60
