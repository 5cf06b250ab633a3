"""A default time to live: memories that name none expire, and are archived and erased as those that do."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from tests.surfaces.support import Clock, timed

DAY = 86_400


def test_memories_without_a_time_to_live_get_the_default(path: Path) -> None:
    clock = Clock()
    with timed(path, clock, settings={"ttl_days": 10}) as memory:
        fact = memory.remember("Dana prefers dark mode.").id or ""
        own = memory.remember("The guest code is on the board.", ttl=DAY).id or ""
        web = memory.remember("The office closes at five.", source="web:https://a.example").id or ""
        memory.set("theme", "dark")
        memory.ingest([{"role": "user", "content": "Hello."}], session="s", extract=False)
        ends = {record.id: record.expires_at for record in memory.list(limit=100)}
        assert (ends[fact], ends[own]) == (clock() + timedelta(days=10), clock() + timedelta(days=1))
        assert ends[web] is not None, "an unconfirmed memory keeps the time that the guard gave it"
        assert sorted(record.kind for record in memory.list(limit=100) if record.expires_at is None) == ["message", "value"]
        clock.forward(days=5)
        again = memory.remember("dana prefers  dark mode")
        assert (again.id, again.action in ("merged", "duplicate")) == (fact, True)
        record = memory.get(fact)
        assert record is not None
        assert record.expires_at == clock() + timedelta(days=10), "said again, it is kept for longer"
        clock.forward(days=11)
        assert fact in memory.upkeep.lapse().ids
        assert memory.recall("Which theme does Dana like?", kinds=["fact"]).hits == ()


def test_without_the_setting_nothing_expires(path: Path) -> None:
    with timed(path, Clock()) as memory:
        record = memory.get(memory.remember("Dana prefers dark mode.").id)
        assert record is not None
        assert record.expires_at is None
