"""kill -9 at any instant of any verb that writes: nothing that was acknowledged is lost, nothing is there by half."""

from __future__ import annotations

from pathlib import Path

from bench.torture import Torture
from bench.torture.command import share_out
from bench.torture.rows import ROWS
from bench.verbs import VERBS, Writer
from keepstone import Memory


def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    result = Torture(tmp_path, seed=7).run(200)
    assert result.problems == []
    assert (result.kills, result.lost, result.drift) == (200, 0, 0)
    assert result.acknowledged > 500
    assert {"remember", "remember_many", "update", "forget", "ingest", "supersede"} <= set(result.verbs)
    assert len(set(VERBS) & set(result.verbs)) > len(VERBS) * 2 // 3, "most verbs were killed in their middle"


def test_a_kill_while_a_store_is_created_leaves_a_whole_store_or_none(tmp_path: Path) -> None:
    result = Torture(tmp_path, seed=11).run(25, instants=("creating",))
    assert result.problems == []
    for number in range(25):
        path = tmp_path / f"kill{number}.db"
        assert not path.exists() or path.stat().st_size > 0
        with Memory.open(path) as memory:
            assert memory.remember("It works after the kill.").action == "added"


def test_every_verb_that_writes_is_there_to_be_killed() -> None:
    assert all(callable(getattr(Writer, verb)) for verb in VERBS)
    assert len(set(VERBS)) == len(VERBS) > 30


def test_the_kills_are_shared_out_over_the_rows() -> None:
    assert share_out(3000, list(ROWS)) == {
        "kill": 2030, "kill-postgres": 500, "upkeep": 250, "upkeep-postgres": 125, "upgrade": 125,
    }  # fmt: skip
    assert share_out(200, ["kill", "threads"]) == {"kill": 200}
    assert sum(share_out(7, list(ROWS)).values()) == 7
