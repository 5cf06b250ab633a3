"""Facts about the user among much that was only said: they are found, and the newer of two comes first, from whichever source."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from bench.year_words import ASKS, TOPICS
from keepstone import Memory
from tests.surfaces.support import Clock, timed


def test_a_fact_is_found_however_much_was_said(memory: Memory) -> None:
    memory.remember("The user works at Wonka Works.", key="user.employer")
    talk = [ask.format(topic) for topic in TOPICS for ask in ASKS] * 4
    assert len(talk) > 500
    memory.ingest([{"role": "user", "content": text} for text in talk], session="s", extract=False)
    found, *others = memory.recall("Which company do I work for?")
    assert found.content == "The user works at Wonka Works."
    assert all(hit.score < 0.1 < found.score for hit in others)


def test_who_asks_about_themselves_is_told_what_is_known(memory: Memory) -> None:
    for fact in ("The user is learning Maltese.", "The user drives a Fiat Panda.", "The user is vegan.", "The user sails."):
        memory.remember(fact)
    assert memory.recall("What language am I studying?")[0].content == "The user is learning Maltese."
    assert memory.recall("What is the boiling point of water?").hits == ()


def test_the_newer_of_two_facts_comes_first_under_whichever_tag(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("The user's dentist is Dr Okafor.", key="user.dentist", tag="profile", importance=1.0)
        clock.forward(days=30)
        memory.remember("The user's dentist is Dr Nakamura.", source="agent")
        found = memory.recall("Who is the user's dentist?")
        assert [hit.content for hit in found] == ["The user's dentist is Dr Nakamura.", "The user's dentist is Dr Okafor."]


def test_a_fact_that_is_said_again_is_the_newer_one(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        for city in ("Rome", "Oslo", "Rome"):
            memory.remember(f"The user's home town is {city}.")
            clock.forward(days=30)
        assert memory.recall("What is the user's home town?")[0].content == "The user's home town is Rome."
        before = memory.recall("What is the user's home town?", known_at=clock() - timedelta(days=50))
        assert before[0].content == "The user's home town is Oslo.", "what was known then does not change"
