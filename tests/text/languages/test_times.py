"""A time in another language is the window of the same words in English."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from keepstone import Memory
from keepstone.text import time_expressions as english
from keepstone.text.languages.lexicon import CODES, load
from keepstone.text.languages.times import read_time
from tests.text.languages.labelled import HALVES, read_labelled

ASKED = datetime(2025, 6, 18, tzinfo=UTC)  # a Wednesday
Window = tuple[datetime | None, datetime | None] | None


def window(hint: english.TimeHint | None) -> Window:
    return None if hint is None or (hint.start, hint.end) == (None, None) else (hint.start, hint.end)


def expected(labels: list[str]) -> Window:
    return window(english.read_time(f"What did I do {labels[0]}?", ASKED)) if labels else None


@pytest.mark.parametrize("code", sorted(CODES))
def test_windows_are_those_of_english(code: str) -> None:
    wrong = [
        text for text, labels in read_labelled("times", code, HALVES[0]) if window(read_time(text, ASKED)) != expected(labels)
    ]
    assert wrong == []


@pytest.mark.parametrize("code", sorted(CODES))
def test_what_is_read_is_right_in_sentences_that_the_rules_were_not_fitted_to(code: str) -> None:
    rows = [(window(read_time(text, ASKED)), expected(labels)) for text, labels in read_labelled("times", code, HALVES[1])]
    read = [(found, right) for found, right in rows if found is not None]
    assert sum(found == right for found, right in read) >= 0.95 * len(read)
    assert sum(found == right for found, right in read) >= 0.75 * sum(right is not None for _, right in rows)


def test_the_words_of_the_question_and_the_order_are_kept() -> None:
    hint = read_time("Wo habe ich zuletzt seit März gearbeitet?", ASKED)
    assert hint is not None
    assert (hint.text, hint.order, hint.end) == ("seit März, zuletzt", "latest", None)


def test_english_takes_the_english_path() -> None:
    for question in ("What did I cook last week?", "Who is my boss?", "In March?", "Where did I live before I moved to Berlin?"):
        assert read_time(question, ASKED) == english.read_time(question, ASKED)


def test_accents_may_be_missing() -> None:
    assert window(read_time("Que hice el miercoles pasado por la manana con mi hermana", ASKED)) is not None
    assert window(read_time("Qu'est-ce que j'ai mange en fevrier", ASKED)) == expected(["in February"])


@pytest.mark.parametrize("code", sorted(CODES))
def test_no_text_makes_the_patterns_slow(code: str) -> None:
    words = " ".join(str(part) for part in load(code).data["months"] + load(code).data["weekdays"])
    for piece in ("1", "3 ", " ", "a", words, "letzte ", "去", "の", "1월 "):
        read_time((piece * 2000)[:2000] + words, ASKED)


def test_recall_reads_the_time_in_the_language_of_the_question() -> None:
    with Memory.open(":memory:") as memory:
        for when, what in (("2025-03-02", "Lissabon"), ("2025-06-11", "Oslo"), ("2024-09-20", "Turin")):
            memory.remember(f"Reise nach {what} mit dem Kunden.", occurred_at=when)
        found = memory.recall("Wohin bin ich im März mit dem Kunden gereist?", asked_at="2025-06-18")
        assert "Lissabon" in found[0].content
        found = memory.recall("Wohin bin ich letzte Woche mit dem Kunden gereist?", asked_at="2025-06-18")
        assert "Oslo" in found[0].content
