"""A clock that steps back and forth: order is by sequence, and nothing is deleted early."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from bench.torture.clock import SteppingClock, open_with_clock
from tests.faults.support import healthy

FACTS = ["Dana lives in Oslo.", "Marek plays the oboe.", "The door code is 4711.", "Rosa prefers tea."]


def test_a_list_is_in_the_order_of_writing_whatever_the_clock_says(path: Path) -> None:
    clock = SteppingClock()
    with open_with_clock(path, clock) as memory:
        for fact, days in zip(FACTS, (-3, 3653, -3700, 1), strict=True):
            assert memory.remember(fact).action == "added"
            clock.step(days=days)
        assert [record.content for record in memory.list()] == FACTS[::-1]
        assert [row.number for row in memory.audit()] == sorted((row.number for row in memory.audit()), reverse=True)
    with open_with_clock(path, clock) as memory:
        assert [record.content for record in memory.list()] == FACTS[::-1]
        for fact in FACTS:
            assert memory.recall(fact)[0].content == fact
    assert healthy(path)


def test_what_lives_for_an_hour_is_back_when_the_clock_is_right_again(path: Path) -> None:
    clock = SteppingClock()
    with open_with_clock(path, clock) as memory:
        id = memory.remember("The parking permit is 88-A.", ttl=timedelta(hours=1)).id
        assert id is not None
        clock.step(days=3653)  # ten years ahead, by mistake
        assert not memory.recall("parking permit")
        assert len(memory.list()) == 0
        memory.remember("Something else is written meanwhile.")
        clock.step(days=-3653, minutes=30)
        assert memory.recall("parking permit")[0].id == id
        assert id in [record.id for record in memory.list()]
        record = memory.get(id)
        assert record is not None
        assert record.status == "active"
        clock.step(hours=1)
        assert not memory.recall("parking permit")


def test_what_is_written_while_the_clock_is_behind_expires_no_earlier(path: Path) -> None:
    clock = SteppingClock()
    clock.step(days=-3)
    with open_with_clock(path, clock) as memory:
        memory.remember("The guest password is sesame.", ttl=timedelta(days=7))
        clock.step(days=3)
        assert memory.recall("guest password")[0].content == "The guest password is sesame."


def test_the_value_written_last_is_the_value_even_if_its_time_is_earlier(path: Path) -> None:
    clock = SteppingClock()
    with open_with_clock(path, clock) as memory:
        first = memory.remember("dark", key="theme")
        clock.step(days=-3)
        second = memory.remember("light", key="theme")
        assert (second.action, second.id, second.version) == ("superseded", first.id, 2)
        assert memory.value("theme") == "light"
        assert [version.content for version in memory.history(first.id or "")] == ["dark", "light"]
        updated = memory.update(first.id or "", "sepia", expected_version=2)
        assert updated.version == 3
        assert memory.recall("theme")[0].content == "sepia"


def test_changes_made_with_the_clock_behind_reach_another_memory(path: Path) -> None:
    ahead, behind = SteppingClock(), SteppingClock()
    ahead.step(days=3653)
    behind.step(days=-3)
    with open_with_clock(path, ahead) as one, open_with_clock(path, behind) as other:
        id = one.remember("Aiko keeps bees.").id or ""
        assert other.recall("bees")[0].id == id
        other.update(id, "Aiko sold the bees.")
        assert one.recall("bees")[0].content == "Aiko sold the bees."
        other.forget(id)
        assert not one.recall("bees", min_similarity=0)
