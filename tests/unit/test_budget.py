"""Token estimates and the budget of a recall."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.recall.budget import estimate_tokens, within
from recollect.types import Hit
from tests.unit.test_types import record


def hit(content: str, number: int = 0) -> Hit:
    return Hit(record(f"m_{number}", content=content), 0.5, {})


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("tea", 1, 1),
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
    assert estimate_tokens(left + " " + right) >= max(estimate_tokens(left), estimate_tokens(right))


@given(st.text(max_size=200))
def test_a_text_with_something_in_it_costs_something(text: str) -> None:
    assert estimate_tokens(text) <= 3 * len(text)
    assert (estimate_tokens(text) > 0) or not text.strip()


@given(st.lists(st.text(max_size=40), max_size=12), st.integers(1, 60))
def test_what_is_kept_fits_and_nothing_that_fits_is_left_out(texts: list[str], budget: int) -> None:
    hits = [hit(text, number) for number, text in enumerate(texts)]
    kept, left_out = within(hits, budget)
    spent = sum(estimate_tokens(each.content) for each in kept)
    assert spent <= budget
    assert len(kept) + left_out == len(hits)
    assert [each.id for each in kept] == [each.id for each in hits if each in kept]
    for each in hits:
        if each not in kept:
            before = sum(estimate_tokens(other.content) for other in kept if hits.index(other) < hits.index(each))
            assert before + estimate_tokens(each.content) > budget


def test_without_a_budget_all_are_kept() -> None:
    hits = [hit("word " * 10_000), hit("tea")]
    assert within(hits, None) == (hits, 0)


def test_a_long_hit_does_not_stop_shorter_ones() -> None:
    hits = [hit("tea"), hit("word " * 100), hit("milk")]
    assert within(hits, 3) == ([hits[0], hits[2]], 1)
