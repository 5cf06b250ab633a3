"""The order that is shown: repeats behind, newer statements before older ones, nothing lost."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.recall.question import parse_question
from keepstone.recall.selection import MAX_GAP, arrange
from keepstone.scope_index.columns import View
from tests.recall.rows import Line, said, told, unit, view

NOW = datetime(2024, 3, 15, tzinfo=UTC)
SAME, ALIKE, SAID, APART = unit(1, 0.02), unit(1, 0.9), unit(1, 0.5), unit(0, 0, 1)  # by their likeness to unit(1)


def shown(
    over: View,
    text: str = "Where do I live?",
    sums: list[float] | None = None,
    limit: int = 5,
    covered: list[float] | None = None,
) -> list[int]:
    """The slots in the order in which they are shown; slot i is the i-th best."""
    values = np.array(sums or [10 - at / 10 for at in range(over.size)], dtype=np.float32)
    coverage = np.array(covered or [0.0] * over.size, dtype=np.float32)
    slots = np.arange(over.size)
    order, given_sums = arrange(over, parse_question(text, over.speakers, NOW), slots, values, slots, limit, coverage)
    assert (np.diff(given_sums[order]) <= 0).all(), "a later place has a higher sum"
    assert sorted(given_sums.tolist()) == sorted(values.tolist())
    return order.tolist()


# -- repeats -----------------------------------------------------------------------------------------------------------
def test_repeats_go_behind_the_others() -> None:
    lines = [said(1, "a", vector=unit(1)), said(2, "a", vector=SAME), said(3, "b", vector=APART), said(4, "a", vector=unit(1))]
    over = view(*(line.with_(occurred=5) for line in lines))
    assert shown(over) == [0, 2, 1, 3]


def test_what_is_only_alike_is_no_repeat() -> None:
    over = view(*(said(n, "a", vector=vector, occurred=5) for n, vector in enumerate((unit(1), SAID, APART), 1)))
    assert shown(over) == [0, 1, 2]


def test_records_without_a_vector_repeat_nothing() -> None:
    over = view(told(1, "a"), told(2, "b"), told(3, "c", vector=unit(1)), told(4, "d"))
    assert shown(over) == [0, 1, 2, 3]


def test_records_without_words_repeat_nothing() -> None:
    over = view(Line(1, (), None), Line(2, (), None), told(3, "c"))
    assert shown(over) == [0, 1, 2]


def test_a_scope_without_vectors_is_left_as_it_is() -> None:
    assert shown(view(told(1, "a"), told(2, "a"))) == [0, 1]
    assert shown(view(told(1, "a", vector=unit(1)))) == [0]
    assert shown(view()) == []


def test_what_differs_in_small_words_alone_is_no_repeat() -> None:
    texts = (("I owe him my bike.", unit(1)), ("He owes me a bike.", SAID), ("The weather was fine.", APART))
    assert shown(view(*(said(n, text, vector=vector, occurred=5) for n, (text, vector) in enumerate(texts, 1)))) == [0, 1, 2]


def test_two_people_who_say_the_same_are_both_shown() -> None:
    names = ("Dana", "Omar", "Mei")
    lines = [said(n, "I love pizza", vector=unit(1), name=name, occurred=5) for n, name in enumerate(names, 1)]
    assert shown(view(*lines, said(9, "b", vector=APART, name="Mei", occurred=5))) == [0, 1, 2, 3]


def test_many_repeats_do_not_fill_the_list() -> None:
    repeats = [said(n, "a", vector=unit(1), occurred=5) for n in range(1, 11)]
    over = view(*repeats, said(50, "b", vector=APART, occurred=5), said(51, "c", vector=unit(0, 0, 0, 1), occurred=5))
    assert shown(over, limit=3)[:3] == [0, 10, 11]


# -- newer statements --------------------------------------------------------------------------------------------------
def two(newer: dict[str, Any] | None = None, older: dict[str, Any] | None = None) -> View:
    """An older fact that is a little better, and a newer one that is alike."""
    first = told(1, "I live in Rome", vector=unit(1), occurred=10).with_(**(older or {}))
    return view(first, told(2, "I live in Oslo", vector=ALIKE, occurred=20).with_(**(newer or {})))


def test_the_newer_of_two_statements_comes_first() -> None:
    assert shown(two()) == [1, 0]


@pytest.mark.parametrize(
    "text",
    ["Where did I live last year?", "Where was I in March 2020?", "Where did I live at first?", "Where was I originally?"],
)
def test_a_question_about_a_time_or_the_first_is_left_alone(text: str) -> None:
    assert shown(two(), text) == [0, 1]


@pytest.mark.parametrize("text", ["Where do I currently live?", "Where do I live now?", "What is my latest address?", ""])
def test_a_question_about_the_latest_is_not(text: str) -> None:
    assert shown(two(), text) == [1, 0]


@pytest.mark.parametrize(
    "newer",
    [
        {"occurred": 10}, {"occurred": 5}, {"vector": APART}, {"vector": None}, {"tag": "work"}, {"kind": "note"},
        {"role": "assistant"}, {"name": "Omar"},
    ],
)  # fmt: skip
def test_what_is_not_newer_not_alike_or_of_another_speaker_is_left_alone(newer: dict[str, Any]) -> None:
    assert shown(two(newer)) == [0, 1]


def test_a_newer_one_that_fits_much_worse_stays_behind() -> None:
    assert shown(two(), sums=[10, 10 - MAX_GAP + 0.1]) == [1, 0]
    assert shown(two(), sums=[10, 10 - MAX_GAP - 0.1]) == [0, 1]


def test_what_was_said_must_be_more_alike_than_facts() -> None:
    def talk(vector: tuple[float, ...], **rest: Any) -> View:
        return view(said(1, "x", vector=unit(1), occurred=10, **rest), said(2, "y", vector=vector, occurred=20, **rest))

    assert shown(talk(ALIKE)) == [0, 1]
    assert shown(talk(SAID)) == [1, 0]


@pytest.mark.parametrize(("one", "other"), [({"name": "Dana"}, {"name": "Omar"}), ({"role": "user"}, {"role": "assistant"})])
def test_turns_of_different_speakers_are_left_alone(one: dict[str, Any], other: dict[str, Any]) -> None:
    over = view(said(1, "x", vector=unit(1), occurred=10, **one), said(2, "y", vector=SAID, occurred=20, **other))
    assert shown(over) == [0, 1]


def test_of_three_states_the_newest_comes_first() -> None:
    vectors = (unit(1, 0.3), unit(1, -0.3), unit(1, 0, 0.3))
    for times, expected in (((10, 30, 20), [1, 2, 0]), ((10, 20, 30), [2, 1, 0]), ((30, 20, 10), [0, 1, 2])):
        states = zip(vectors, times, strict=True)
        over = view(*(told(n, "x", vector=vector, occurred=when) for n, (vector, when) in enumerate(states, 1)))
        assert shown(over) == expected


def test_of_two_that_say_the_same_the_newer_is_shown_and_the_older_is_the_repeat() -> None:
    made = ((unit(1), 10), (SAME, 20), (APART, 5))
    over = view(*(told(n, "x", vector=vector, occurred=when) for n, (vector, when) in enumerate(made, 1)))
    assert shown(over) == [1, 2, 0]


# -- always ------------------------------------------------------------------------------------------------------------
lines = st.tuples(
    st.integers(0, 5),
    st.sampled_from([None, unit(1), SAME, ALIKE, SAID, APART, unit(-1)]),
    st.sampled_from(["fact", "message"]),
    st.sampled_from([None, "Dana", "Omar"]),
)


@given(
    st.lists(st.tuples(lines, st.integers(0, 30)), max_size=30),
    st.integers(1, 20),
    st.sampled_from(["", "Where do I live?", "Where did I live last year?", "What was first?", "What is the latest?"]),
    st.randoms(),
)
def test_nothing_is_lost_or_comes_twice(made: list[tuple[Any, int]], limit: int, text: str, chance: Any) -> None:
    over = view(
        *(
            Line(n, ("a",), vector, kind=kind, session="s", name=name, occurred=when)
            for n, ((when, vector, kind, name), _) in enumerate(made, 1)
        )
    )
    sums = np.array([value for _, value in made], dtype=np.float32)
    slots = np.arange(over.size)
    chance.shuffle(slots)
    order = np.argsort(-sums, kind="stable")
    order = order[: chance.randint(0, len(order))]  # some did not pass
    found, given_sums = arrange(
        over, parse_question(text, over.speakers, NOW), slots, sums, order, limit, np.zeros(len(slots), dtype=np.float32)
    )
    assert sorted(found.tolist()) == sorted(order.tolist())
    assert sorted(given_sums[found].tolist()) == sorted(sums[order].tolist())
    assert (np.diff(given_sums[found]) <= 0).all()


@pytest.mark.parametrize(
    ("covered", "kind", "expected"),
    [
        ([1.0, 1.0], "fact", [1, 0]),  # both hold what is asked, so the newer may be the present state
        ([0.6, 0.55], "fact", [1, 0]),
        ([1.0, 0.6], "fact", [0, 1]),  # only the older holds all of it
        ([0.4, 0.4], "fact", [0, 1]),
        ([1.0, 1.0], "message", [0, 1]),
    ],
)
def test_facts_that_hold_what_is_asked_need_less_likeness(covered: list[float], kind: str, expected: list[int]) -> None:
    little = unit(1, 2)  # a cosine of .45 to unit(1)
    make = told if kind == "fact" else said
    over = view(make(1, "lives in Rome", vector=unit(1), occurred=1), make(2, "lives in Oslo", vector=little, occurred=9))
    assert shown(over, covered=covered) == expected
