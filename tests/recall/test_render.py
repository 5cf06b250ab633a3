"""Memories in a prompt: nothing inside can leave the fence, the order is stable, the budget holds."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.recall.render import CLOSE, OPEN, escape_text, render_line
from keepstone.tasks.context import composed
from keepstone.text.token_count import estimate_tokens
from keepstone.types import Record
from tests.facade.test_types import NOON, record

PLENTY = 10_000_000
hostile = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            ["</memory>", "<memory", "&lt;", "&", ">", "<", "\n", "\r", "\u2028", "\x85", "\x0b", "\u202e", "\u200b", "a"]
        ),
        max_size=12,
    ).map("".join),
)


def context_block(records: list[Record], budget: int) -> tuple[str, list[str]]:
    return composed(records, [], [], budget)


@given(hostile)
def test_escaped_text_is_one_line_without_brackets(text: str) -> None:
    safe = escape_text(text)
    assert "<" not in safe
    assert ">" not in safe
    assert len(safe.splitlines()) <= 1
    assert not any(each in safe for each in "\u202a\u202e\u2066\u200b\u200f\ufeff\x00\x1b\x7f")


@given(hostile)
def test_what_can_be_seen_is_still_there(text: str) -> None:
    back = escape_text(text).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
    visible = [c for c in text if c.isalnum() or c in "<>&"]
    assert [c for c in back if c.isalnum() or c in "<>&"] == visible


@given(hostile, hostile, hostile, hostile, hostile, hostile)
def test_nothing_inside_closes_the_fence(content: str, tag: str, source: str, key: str, name: str, kind: str) -> None:
    block = context_block([record(content=content, tag=tag, source=source, key=key, name=name, kind=kind)], PLENTY)[0]
    lines = block.splitlines()
    assert len(lines) == 3
    assert (lines[0], lines[2]) == (OPEN, CLOSE)
    assert lines[1].startswith("- [2026-03-01, ")
    assert "<" not in lines[1]
    assert ">" not in lines[1]


def test_a_line_says_when_who_and_what() -> None:
    assert render_line(record(content="tea")) == "- [2026-03-01, user, fact] tea"
    assert render_line(record(content="tea", tag="drinks")) == "- [2026-03-01, user, drinks] tea"
    assert render_line(record(content="tea", key="drink")) == "- [2026-03-01, user, fact] drink = tea"
    assert render_line(record(content="hi", kind="message", role="user", name="Dana")) == "- [2026-03-01, user, message] Dana: hi"
    assert (
        render_line(record(content="hi", kind="message", role="assistant", source="agent"))
        == "- [2026-03-01, agent, message] assistant: hi"
    )


def test_no_hits_no_block() -> None:
    assert context_block([], PLENTY)[0] == ""
    assert context_block([record()], 5)[0] == ""


def test_equal_hits_give_equal_text_in_whatever_order_they_come() -> None:
    hits = [record(id=f"m_{n}", content=f"fact {n}", created_at=NOON + timedelta(days=n // 2)) for n in range(8)]
    expected = context_block(hits, PLENTY)[0]
    for seed in range(5):
        shuffled = random.Random(seed).sample(hits, len(hits))
        assert context_block(shuffled, PLENTY)[0] == expected
    placed = [expected.index(f"fact {n}") for n in range(8)]
    assert placed == sorted(placed)  # in the order of storing: what is new comes last


@given(st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=10), st.integers(1, 200))
def test_the_block_fits_the_budget(contents: list[str], budget: int) -> None:
    hits = [record(id=f"m_{n}", content=content) for n, content in enumerate(contents)]
    block = context_block(hits, budget)[0]
    assert estimate_tokens(block) <= budget


def test_the_best_hits_come_in_first() -> None:
    hits = [record(id=f"m_{n}", content=f"some fact with the number {n}") for n in range(20)]
    for budget in range(60, 200, 20):
        block = context_block(hits, budget)[0]
        found = [f"number {n}\n" in block for n in range(20)]
        assert found == sorted(found, reverse=True)
    assert "number 0\n" in context_block(hits, 100)[0]


@pytest.mark.parametrize("character", ["\U000e0041", "\u061c", "\u00ad", "\u180e", "\U000e0100"])
def test_every_character_that_hides_or_reorders_text_is_dropped(character: str) -> None:
    assert escape_text(f"a{character}b") == "ab"
