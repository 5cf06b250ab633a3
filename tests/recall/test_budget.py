"""Token estimates, and the hits that are worth most within a budget."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.recall.selection import fit_budget
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Hit
from tests.facade.test_types import record


def hit(content: str, number: int = 0, score: float = 0.5) -> Hit:
    return Hit(record(f"m_{number}", content=content), score, {})


def cost(hits: Iterable[Hit]) -> int:
    return sum(estimate_tokens(each.content) for each in hits)


def worth(hits: Iterable[Hit]) -> float:
    return sum(each.score for each in hits)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("tea", 1, 2),
        ("Dana prefers dark mode.", 5, 8),
        ("2026-03-01", 5, 8),
        ("internationalization", 4, 6),
        ("    \n\n", 1, 2),
        ("東京都", 3, 5),
        ("😀", 2, 3),
        ("def f(x):\n    return x + 1\n", 11, 18),
    ],
)
def test_estimates_are_near_what_tokenizers_give(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


@given(st.text(max_size=100), st.text(max_size=100))
def test_more_text_is_never_fewer_tokens(left: str, right: str) -> None:
    assert estimate_tokens(left + " " + right) >= max(estimate_tokens(left), estimate_tokens(right)) - 1


@given(st.text(max_size=200))
def test_a_text_with_something_in_it_costs_something(text: str) -> None:
    assert estimate_tokens(text) <= 5 * len(text)
    assert (estimate_tokens(text) > 0) or not text.strip()


made = st.tuples(st.integers(1, 30), st.integers(1, 1000)).map(lambda each: ("tea " * each[0], each[1] / 1000))


@given(st.lists(made, max_size=10), st.integers(1, 120))
def test_the_set_that_is_worth_most_is_kept(given_hits: list[tuple[str, float]], budget: int) -> None:
    hits = [hit(text, number, score) for number, (text, score) in enumerate(given_hits)]
    kept, cut = fit_budget(hits, budget)
    fitting = [each for each in hits if estimate_tokens(each.content) <= budget]
    if not fitting:
        assert (kept, cut) == ([], hits)
        return
    assert kept[0] is fitting[0], "the best that fits is not there"
    sets = (
        [fitting[0], *others]
        for count in range(len(fitting))
        for others in combinations(fitting[1:], count)
        if cost([fitting[0], *others]) <= budget
    )
    assert worth(kept) == pytest.approx(max(worth(each) for each in sets))


@given(st.lists(st.tuples(st.text(max_size=40), st.floats(0, 1)), max_size=12), st.integers(1, 60))
def test_what_is_kept_fits_and_all_is_told_in_order(given_hits: list[tuple[str, float]], budget: int) -> None:
    hits = [hit(text, number, score) for number, (text, score) in enumerate(given_hits)]
    kept, cut = fit_budget(hits, budget)
    assert cost(kept) <= budget
    assert sorted(each.id for each in (*kept, *cut)) == sorted(each.id for each in hits)
    for part in (kept, cut):
        places = [hits.index(each) for each in part]
        assert places == sorted(places)


@given(st.lists(made, min_size=2, max_size=10), st.integers(1, 200))
def test_nothing_of_worth_that_would_still_fit_is_cut(given_hits: list[tuple[str, float]], budget: int) -> None:
    hits = [hit(text, number, score) for number, (text, score) in enumerate(given_hits)]
    kept, cut = fit_budget(hits, budget)
    assert all(cost(kept) + cost([each]) > budget for each in cut)


def test_hits_that_are_worth_nothing_are_kept_where_they_fit() -> None:
    hits = [hit("tea", 0, 0.5), hit("word " * 40, 1, 0.4), hit("word " * 30, 2, 0.3), hit("milk", 3, 0.0)]
    assert fit_budget(hits, 50) == ([hits[0], hits[1], hits[3]], [hits[2]])


def test_a_large_budget_is_respected_and_nearly_filled() -> None:
    hits = [hit("tea " * (70 + number), number, 0.5 + number / 1000) for number in range(100)]
    for budget in (1999, 2000, 2001, 2500, 4001, 9000):
        kept, cut = fit_budget(hits, budget)
        assert budget * 0.9 < cost(kept) <= budget
        assert len(kept) + len(cut) == 100
        assert kept[0] is hits[0]


def test_two_short_hits_may_be_worth_more_than_a_long_one() -> None:
    hits = [hit("tea", 0, 0.9), hit("word " * 9, 1, 0.6), hit("day " * 4, 2, 0.4), hit("time " * 4, 3, 0.4)]
    assert fit_budget(hits, cost([hits[0], hits[2], hits[3]])) == ([hits[0], hits[2], hits[3]], [hits[1]])


def test_the_best_stays_though_two_others_would_be_worth_more() -> None:
    hits = [hit("word " * 10, 0, 0.5), hit("day " * 4, 1, 0.4), hit("time " * 4, 2, 0.4)]
    assert cost(hits[1:]) <= cost(hits[:1])
    assert fit_budget(hits, cost(hits[:1])) == ([hits[0]], hits[1:])


def test_without_a_budget_all_are_kept() -> None:
    hits = [hit("word " * 10_000), hit("tea")]
    assert fit_budget(hits, None) == (hits, [])
    assert fit_budget([], 5) == ([], [])


def test_a_long_hit_does_not_stop_shorter_ones() -> None:
    hits = [hit("word " * 100), hit("tea", 1), hit("milk", 2)]
    assert fit_budget(hits, cost(hits[1:])) == (hits[1:], hits[:1])


def test_where_nothing_fits_nothing_is_kept() -> None:
    hits = [hit("word " * 100, 0), hit("word " * 50, 1)]
    assert fit_budget(hits, 10) == ([], hits)
