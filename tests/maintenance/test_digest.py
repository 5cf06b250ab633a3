"""The extractive digest: every sentence or one that says the same, in the order of time, with dates where they are needed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.maintenance.digest import MAX_CHARS, MAX_TOKENS, Original, compose, extract, fits, share
from keepstone.text.token_count import estimate_tokens

NOON = datetime(2026, 3, 10, 12, 0, tzinfo=UTC)


def told(*texts: str, apart: timedelta = timedelta(0)) -> list[Original]:
    return [Original(text, NOON + number * apart) for number, text in enumerate(texts)]


def test_of_one_day_the_lines_stand_as_they_are_in_the_order_of_time() -> None:
    later, first = Original("He paid 40 euros.", NOON), Original("Omar took the 8:15 train.", NOON - timedelta(hours=3))
    assert extract([later, first]) == "Omar took the 8:15 train.\nHe paid 40 euros."


def test_of_several_days_each_line_has_its_date() -> None:
    text = extract(told("Dana lives in Rome.", "Dana lives in Oslo.", apart=timedelta(days=1)))
    assert text == "2026-03-10: Dana lives in Rome.\n2026-03-11: Dana lives in Oslo."


@pytest.mark.parametrize("again", ["Dana prefers dark mode.", "Dana prefers the dark mode", "dana prefers dark mode!"])
def test_a_repetition_goes_and_the_last_one_stays(again: str) -> None:
    days = told("Dana prefers dark mode. She has a cat.", again, apart=timedelta(days=2))
    assert extract(days) == f"2026-03-10: She has a cat.\n2026-03-12: {again}"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The user has 3 cats.", "The user has 4 cats."),
        ("Dana likes coffee.", "Dana does not like coffee."),
        ("Anna manages Ben.", "Ben manages Anna."),
    ],
)
def test_what_differs_in_a_number_a_negation_or_its_roles_is_no_repetition(one: str, other: str) -> None:
    assert extract(told(one, other)) == f"{one}\n{other}"


def test_a_wording_that_says_less_does_not_take_the_place_of_one_that_says_more() -> None:
    more, less = "The user is very happy today with the results of the blood test.", "The user is happy."
    assert more in extract(told(more, less))


def test_scraps_of_sentences_are_never_taken_for_repetitions() -> None:
    text = extract(told("Dr. Okafor is kind. No. 5 is hers.", "Dr. Lindqvist is late. No. 7 is his."))
    assert text == "Dr. Okafor is kind. No. 5 is hers.\nDr. Lindqvist is late. No. 7 is his."


def test_lines_and_blanks_inside_a_memory_stay_verbatim() -> None:
    recipe = "Bread:\n  - 500 g of rye flour\n  - 2 spoons of salt\n\nBake it for 55 minutes."
    assert extract(told(recipe, "Omar bakes on Sundays.")) == f"{recipe}\nOmar bakes on Sundays."


def test_a_digest_among_the_originals_keeps_its_own_dates() -> None:
    one = extract(told("Dana lives in Rome.", "Dana lives in Oslo.", apart=timedelta(days=1)))
    both = extract([Original(one, NOON + timedelta(days=1), dated=True), Original("Dana bought a boat.", NOON)])
    assert both == "2026-03-10: Dana bought a boat.\n2026-03-10: Dana lives in Rome.\n2026-03-11: Dana lives in Oslo."
    plain = extract([Original(one, NOON + timedelta(days=1)), Original("Dana bought a boat.", NOON)])
    assert plain.startswith("2026-03-10: Dana bought a boat.\n2026-03-11: 2026-03-10: Dana lives in Rome.")


sentences = st.lists(
    st.text("abc xyz.!?:\n0123456789 ÄÖé", min_size=1, max_size=60).filter(lambda text: any(map(str.isalnum, text))),
    min_size=1,
    max_size=6,
)


@given(sentences, st.integers(0, 2))
def test_every_character_of_what_is_not_repeated_is_there(texts: list[str], days: int) -> None:
    marked = [f"Item {number} of box {number}: {text.strip()} ending {number}." for number, text in enumerate(texts)]
    text = extract(told(*marked, apart=timedelta(days=days)))
    assert all(each in text for each in marked)
    assert extract(told(*marked, apart=timedelta(days=days))) == text


@given(st.lists(st.text(min_size=1, max_size=400).filter(str.strip), min_size=1, max_size=8), st.integers(0, 1))
def test_what_fits_by_its_shares_fits_as_a_digest(texts: list[str], days: int) -> None:
    originals = told(*texts, apart=timedelta(days=days))
    if sum(share(each.text) for each in originals) <= 1:
        assert fits(extract(originals))


def test_the_bounds_of_a_digest() -> None:
    assert fits("memory " * 200)
    assert not fits("memory " * 215)
    assert estimate_tokens("memory " * 215) <= MAX_TOKENS
    dense = "7f3a9c " * 120
    assert estimate_tokens(dense) > MAX_TOKENS
    assert len(dense) < MAX_CHARS
    assert not fits(dense)
    assert share("word " * 400) > 1 > share("a short one")


def test_statements_are_dated_by_what_they_rest_on() -> None:
    days = told("Two coffees a day.", "No sugar.", "Green tea.", apart=timedelta(days=3))
    made = compose([("Dana gave up coffee for green tea.", [2]), ("Dana drinks two coffees, no sugar.", [0, 1])], days)
    assert made == "2026-03-10 to 2026-03-13: Dana drinks two coffees, no sugar.\n2026-03-16: Dana gave up coffee for green tea."
    assert compose([("Dana drinks coffee.", [0, 1])], told("Two coffees.", "No sugar.")) == "Dana drinks coffee."
    again = extract([Original(made, NOON + timedelta(days=6), dated=True), Original("Dana has a kettle.", NOON)])
    assert "2026-03-10 to 2026-03-13: Dana drinks two coffees, no sugar." in again
