"""Token estimates: never far below what real tokenizers count, not far above it in English and code, sound on any text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.text.token_count import Counter, estimate_tokens
from tests.text.token_samples import SAMPLES

# How far above the tokenizer that makes most of a text the estimate may be; kinds not named: 1.3.
MOST = {"blank": 1.6, "capitals": 1.7, "korean": 1.4}

# Any code point, lone surrogates and NUL among them, and texts that look like words and code.
anything = st.one_of(
    st.text(st.characters(), max_size=40),
    st.text("aeintrsQXZ09 _-.(){}\n\t", max_size=40),
    st.lists(st.sampled_from([each[-1][:25] for each in SAMPLES]), max_size=4).map("".join),
)


@pytest.mark.parametrize("sample", SAMPLES, ids=[f"{kind}-{at}" for at, (kind, *_) in enumerate(SAMPLES)])
def test_an_estimate_is_near_the_tokenizer_that_makes_most(sample: tuple[str, int, int, int, str]) -> None:
    kind, *counts, text = sample
    estimate = estimate_tokens(text)
    for count in counts:
        assert estimate >= 0.85 * count
    assert estimate <= MOST.get(kind, 1.3) * max(counts)


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("the", 1, 1),
        ("tea", 1, 2),
        (" ", 1, 1),
        ("Dana prefers dark mode.", 5, 8),
        ("2026-03-01", 6, 8),
        ("東京都", 3, 5),
        ("\ufdfa", 3, 16),
        ("\x00", 1, 1),
        ("\ud800", 1, 4),
    ],
)
def test_short_texts(text: str, least: int, most: int) -> None:
    assert least <= estimate_tokens(text) <= most


@given(anything)
def test_only_the_empty_text_has_none(text: str) -> None:
    assert (estimate_tokens(text) == 0) == (text == "")
    assert estimate_tokens(text) >= 0


@given(anything, anything)
def test_adding_text_never_lowers_the_estimate_by_more_than_one(text: str, more: str) -> None:
    assert estimate_tokens(text + more) >= estimate_tokens(text) - 1


@given(anything, anything)
def test_a_whole_is_about_the_sum_of_its_parts(one: str, other: str) -> None:
    assert abs(estimate_tokens(one + " " + other) - estimate_tokens(one) - estimate_tokens(other)) <= 4


def test_a_long_text_counts_as_its_parts_do() -> None:
    text = "".join(each[-1] + "\n\n" for each in SAMPLES)
    assert estimate_tokens(text * 50) == pytest.approx(50 * estimate_tokens(text), rel=0.01)


def test_what_is_remembered_of_pieces_changes_nothing() -> None:
    texts = [each[-1] for each in SAMPLES]
    before = [estimate_tokens(each) for each in texts]
    estimate_tokens(" ".join(f"w{number:x}z" for number in range(60_000)))  # more pieces than are remembered
    assert [estimate_tokens(each) for each in texts] == before


def test_it_is_a_counter() -> None:
    counter: Counter = estimate_tokens
    assert counter("the") == 1
