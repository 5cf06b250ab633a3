"""Pinned (importance 1) and buried (importance 0) memories, tags that change, and lists by time: on every surface."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Client, Memory
from keepstone.errors import Conflict, ValidationError
from tests.cli.support import Cli
from tests.server.running import running
from tests.surfaces.support import contents

TEXTS = [f"Dana drinks tea in room {number}." for number in range(4)]


def stored(memory: Memory) -> list[str]:
    return [receipt.id or "" for receipt in memory.remember_many(TEXTS)]


def test_what_is_buried_is_recalled_after_all_others(memory: Memory) -> None:
    ids = stored(memory)
    best = memory.recall("Where does Dana drink tea?", limit=4)[0]
    memory.update(best.id, importance=0)
    assert {hit.id for hit in memory.recall("Where does Dana drink tea?", limit=3)} == set(ids) - {best.id}
    assert memory.recall("Where does Dana drink tea?", limit=4)[-1].id == best.id
    memory.update(best.id, importance=0.5)
    assert memory.recall("Where does Dana drink tea?", limit=4)[0].id == best.id


def test_what_is_pinned_outlives_every_retention_job(memory: Memory) -> None:
    pinned, *others = stored(memory)
    memory.update(pinned, importance=1)
    for report in (
        memory.upkeep.age(older_than=0, dry_run=True), memory.upkeep.fade(importance=1.0, older_than=0, dry_run=True),
        memory.upkeep.cap(0, dry_run=True),
    ):  # fmt: skip
        assert set(report.ids) == set(others), report.why
    assert memory.upkeep.archive([pinned]).ids == (pinned,), "a person may archive it all the same"


def test_what_is_pinned_comes_first_in_the_budget(memory: Memory) -> None:
    ids = stored(memory)
    whole = memory.context("Where does Dana drink tea?", max_tokens=2000)
    left_out = ids[-1]
    memory.update(left_out, importance=1)
    small = memory.context("Where does Dana drink tea?", max_tokens=whole.tokens // 2)
    assert (left_out in small.ids, len(small.ids) < len(whole.ids)) == (True, True)


def test_feedback_neither_pins_nor_buries(memory: Memory) -> None:
    id = memory.remember("Dana drinks tea.", importance=0.8).id or ""
    for _ in range(5):
        memory.feedback(id, helped=True)
    assert [0.8 < record.importance < 1 for record in memory.list()] == [True]


def test_a_tag_changes_with_its_history(memory: Memory) -> None:
    id, other = (memory.remember("Dana drinks tea.", tag=tag).id or "" for tag in ("drinks", "habits"))
    with pytest.raises(Conflict, match=other):
        memory.update(id, tag="habits")
    assert memory.update(id, tag="food").action == "updated"
    assert [version.tag for version in memory.history(id)] == ["drinks", "food"]
    assert [record.id for record in memory.list(tag="food")] == [id]
    assert memory.recall("What does Dana drink?", tag="food")[0].id == id
    assert memory.update(id, tag="food").action == "duplicate"


def test_a_list_by_the_time_it_happened_goes_on_in_pages(memory: Memory) -> None:
    for day in (3, 1, 4, 2, 5):
        memory.remember(f"Day {day}.", occurred_at=f"2026-03-0{day}")
    first = memory.list(order="occurred", limit=2)
    second = memory.list(order="occurred", limit=2, cursor=first.cursor)
    third = memory.list(order="occurred", limit=2, cursor=second.cursor)
    assert [*contents(first), *contents(second), *contents(third)] == ["Day 5.", "Day 4.", "Day 3.", "Day 2.", "Day 1."]
    assert third.cursor is None
    assert contents(memory.list()) == ["Day 5.", "Day 2.", "Day 4.", "Day 1.", "Day 3."]
    with pytest.raises(ValidationError, match="cursor"):
        memory.list(cursor=first.cursor)
    with pytest.raises(ValidationError, match="order is 'size': use stored or occurred"):
        memory.list(order="size")


def test_over_http_and_on_the_command_line(cli: Cli, tmp_path: Path) -> None:
    with (
        Memory.open(tmp_path / "keepstone.db", user="alice") as memory,
        running(memory) as server,
        Client(server.url, server.key()) as client,
    ):
        old = client.remember("Dana drank tea.", occurred_at="2026-01-01").id or ""
        new = client.remember("Dana drinks mate.", occurred_at="2026-02-01").id or ""
        client.remember("Dana drank milk.", occurred_at="2025-01-01")
        assert contents(client.list(order="occurred"))[0] == "Dana drinks mate."
        assert client.update(new, tag="drinks", importance=1).action == "updated"
        assert client.upkeep.archive([old]).ids == (old,)
    shown = cli("get", new, "--user", "alice", "--json").json
    assert (shown["tag"], shown["importance"]) == ("drinks", 1.0)
    for command, importance in (("bury", 0.0), ("pin", 1.0), ("unpin", 0.5)):
        assert cli(command, new[:8], "--user", "alice").code == 0
        assert cli("get", new, "--user", "alice", "--json").json["importance"] == importance
    assert cli("list", "--order", "occurred", "--user", "alice", "--json").json["records"][0]["id"] == new
    assert cli("upkeep", "archive", new, "--user", "alice", "--json").json["ids"] == [new]
