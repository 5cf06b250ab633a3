"""A time in a question is a soft filter: what is from that time comes first, whether it happened then or its text says so."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepstone import Memory

TOLD = [
    ("2026-03-14", "Cycled along the canal for hours last spring holiday, my legs hurt"),
    ("2026-04-02", "The statistics exam is on the 19th of May in the sports hall"),
    ("2026-04-10", "On 3 June I have the dentist, a crown on the left"),
    ("2026-05-02", "Walked the dog around the reservoir, he swam twice"),
    ("2026-05-13", "Spent the evenings on flash cards, four hundred of them"),
    ("2026-05-20", "The exam is over, question four was unfair"),
    ("2026-06-05", "Planted beans and courgettes behind the shed"),
    ("2026-06-13", "Watched the swallows from the roof with Samir"),
    ("2026-06-17", "Repaired the kettle, a new fuse was enough"),
    ("2026-06-16", "We had pancakes on Sunday, the twins ate nine each"),
    ("2026-06-17", "The clock in the hall is wound on Sunday nights"),
]


@pytest.fixture(scope="module")
def memory() -> Iterator[Memory]:
    with Memory.open(":memory:") as memory:
        for day, text in TOLD:
            memory.remember(text, occurred_at=f"{day}T18:00:00Z")
        yield memory


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What did we eat last Sunday?", "pancakes"),  # by what the text says: it was told on a Tuesday
        ("What did I plant in early June?", "beans"),
        ("What happened on the second of May?", "reservoir"),
        ("What did I do on 3 June?", "dentist"),  # the text names the day
        ("What did I do the week before the statistics exam?", "flash cards"),  # the exam's record names the day
        ("What did I repair this week?", "kettle"),
    ],
)
def test_what_is_from_the_asked_time_comes_first(memory: Memory, question: str, answer: str) -> None:
    hits = memory.recall(question, asked_at="2026-06-18T09:00:00Z")
    assert answer in hits[0].content, [hit.content for hit in hits]


@pytest.mark.parametrize("question", ["What did I do last weekend?", "Was habe ich letztes Wochenende gemacht?"])
@pytest.mark.parametrize("embedder", ["static", None])
def test_words_for_a_time_match_no_text(question: str, embedder: str | None) -> None:
    """ "Last weekend" is not the "last" of another time, nor any weekend."""
    with Memory.open(":memory:", embedder=embedder) as memory:
        for day, text in (*TOLD, ("2026-04-22", "The last weekend of the month is for the choir")):
            memory.remember(text, occurred_at=f"{day}T18:00:00Z")
        hits = memory.recall(question, asked_at="2026-06-18T09:00:00Z")
    told = ["Watched the swallows from the roof with Samir", "We had pancakes on Sunday, the twins ate nine each"]
    assert sorted(hit.content for hit in hits[:2]) == told, [hit.content for hit in hits]


def test_other_times_are_far_behind(memory: Memory) -> None:
    first, *rest = memory.recall("What did I do on the second of May?", asked_at="2026-06-18", min_similarity=0)
    assert "reservoir" in first.content
    assert all(hit.score < first.score / 2 for hit in rest), [(hit.score, hit.content) for hit in (first, *rest)]


def test_an_empty_time_says_so(memory: Memory) -> None:
    empty = memory.recall("What did I do in January 2026?", asked_at="2026-06-18", min_similarity=0)
    assert any(note.startswith("nothing is from in January 2026 (2026-01-01 to 2026-02-01)") for note in empty.notes)
    assert not memory.recall("What did I do in May 2026?", asked_at="2026-06-18").notes


def test_what_happened_since_an_event() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("The neighbours downstairs complain about the piano", occurred_at="2026-01-05")
        memory.remember("We moved to the house by the lake today", occurred_at="2026-03-01")
        memory.remember("The neighbours here bring us eggs", occurred_at="2026-04-05")
        hits = memory.recall("What have the neighbours done since we moved to the house by the lake?", asked_at="2026-05-01")
        contents = [hit.content for hit in hits]
    assert contents.index("The neighbours here bring us eggs") < contents.index(
        "The neighbours downstairs complain about the piano"
    )


def test_a_habit_is_not_filtered_by_the_day_it_was_told() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("Yoga is on Tuesdays at seven in the gym", occurred_at="2026-01-05")
        memory.remember("Bought a new mat for the gym", occurred_at="2026-06-16")  # a Tuesday
        hits = memory.recall("When do I have yoga on Tuesday?", asked_at="2026-06-18")
    assert hits[0].content.startswith("Yoga")
    assert not hits.notes


@pytest.mark.parametrize(
    "question", ["What is the weather like today?", "Which films are on tonight?", "Who won the match yesterday?"]
)
def test_a_time_that_every_memory_is_from_makes_none_an_answer(question: str) -> None:
    with Memory.open(":memory:", user="dana") as memory:
        for text in ("Dana's router is a Fritzbox 7590.", "Dana pays by invoice.", "I moved to Lisbon last week."):
            memory.remember(text)
        assert memory.recall(question).hits == ()
