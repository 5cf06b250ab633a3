"""Lists and overviews bring every member; a context holds no filler, keeps its order and says what it takes."""

from __future__ import annotations

import pytest

from keepstone import Memory

COLLEAGUES = [
    "My colleague Tom runs the night shift.",
    "Anna sits across from me at the office and hums.",
    "My boss is called Henrik.",
    "Priya from work lent me her drill.",
]
MARTA = [f"Marta {what}." for what in ("is my sister-in-law", "lives in Gdańsk", "has two cats", "is allergic to shellfish")]
OTHERS = [
    "The boiler needs a new valve.", "I take the 7:40 train.", "My bike is blue.", "The dentist is on Thursday.",
    "Gym costs 30 euros a month.", "I bake on Sundays.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("question", "members"),
    [
        ("Tell me about my colleagues.", COLLEAGUES),
        ("Who are my colleagues?", COLLEAGUES),
        ("What do you know about Marta?", MARTA),
    ],
)
def test_a_list_or_an_overview_brings_every_member(question: str, members: list[str]) -> None:
    with Memory.open(":memory:") as memory:
        memory.remember_many([*COLLEAGUES, *MARTA, *OTHERS])
        assert set(members) <= {hit.content for hit in memory.recall(question, limit=10)}


def test_members_are_grouped_by_subject() -> None:
    with Memory.open(":memory:") as memory:
        for text in ("My colleague Tom runs the night shift.", "My colleague Anna hums.", "My colleague Tom has a beard."):
            memory.remember(text)
        subjects = ["Tom" if "Tom" in hit.content else "Anna" for hit in memory.recall("Tell me about my colleagues.")]
    assert subjects in (["Tom", "Tom", "Anna"], ["Anna", "Tom", "Tom"])


def test_a_context_holds_no_filler() -> None:
    with Memory.open(":memory:", settings={"extract": False}) as memory:
        memory.ingest(
            [
                {"role": "user", "content": "Hello!"},
                {"role": "user", "content": "Which plumber do I use?"},
                {"role": "user", "content": "My plumber is Gil Marchetti in Rutland."},
                {"role": "assistant", "content": "Noted."},
            ],
            session="monday",
        )
        block = memory.context("Hello, which plumber do I call? Noted.")
    assert "Gil Marchetti" in block
    assert "Noted." not in block
    assert "Which plumber" not in block
    assert "Hello!" not in block


def test_a_new_fact_comes_last_and_moves_no_other_line() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("The spare key is with Marta.", occurred_at="2026-05-01")
        memory.remember("Olle built a kennel for the dog.", occurred_at="2026-03-01")
        before = memory.context("What do you know about Marta and Olle?")
        assert memory.context("What do you know about Marta and Olle?") == before
        memory.remember("Marta was born in Toruń.", occurred_at="1990-01-01")
        after = memory.context("What do you know about Marta and Olle?")
    assert after.startswith(before.removesuffix("</memory>"))
    assert "Toruń" in after


def test_a_former_value_stands_with_its_date() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("Dana lives in Oslo.", key="home", occurred_at="2025-01-10")
        memory.remember("Dana lives in Lisbon.", key="home", occurred_at="2026-05-02")
        block = memory.context("Where does Dana live?")
    assert "home = Dana lives in Lisbon. (until 2026-05-02: Dana lives in Oslo.)" in block


def test_a_statement_that_a_later_one_replaces_says_since_when() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("I live in Oslo.", occurred_at="2025-01-10")
        memory.remember("I moved to Lisbon.", occurred_at="2026-05-02")
        hits = memory.recall("Where do I live?")
        assert any(hit.superseded_by for hit in hits)
        block = memory.context("Where do I live?")
    assert "I live in Oslo. (may be out of date since 2026-05-02)" in block
    assert block.count("out of date") == 1


def test_a_context_says_what_it_takes() -> None:
    with Memory.open(":memory:") as memory:
        id = memory.remember("Marta lives in Gdańsk.").id
        memory.remember("Always show prices with tax.")
        block = memory.context("Where does Marta live?", max_tokens=300)
        assert 0 < block.tokens <= 300
        assert id in block.ids
        assert len(block.ids) == 2
        empty = memory.with_scope(user="other").context("Where does Marta live?")
        assert (empty, empty.tokens, empty.ids) == ("", 0, ())


def test_what_is_known_about_somebody_is_an_overview(memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    memory.remember("Dana lives in Porto.")
    shown = memory.context("What is known about Dana?")
    assert "Porto" in shown
    assert "dark mode" in shown
