"""kill -9 at any instant: nothing that was acknowledged is lost, nothing is there by half."""

from __future__ import annotations

from pathlib import Path

from bench.torture import Torture
from recollect import Memory


def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    result = Torture(tmp_path, seed=7).run(200)
    assert result.problems == []
    assert (result.kills, result.lost, result.drift) == (200, 0, 0)
    assert result.acknowledged > 500
    assert {"remember", "remember_many", "update", "forget", "ingest", "supersede"} <= set(result.verbs)


def test_a_kill_while_a_store_is_created_leaves_a_whole_store_or_none(tmp_path: Path) -> None:
    result = Torture(tmp_path, seed=11).run(25, instants=("creating",))
    assert result.problems == []
    for number in range(25):
        path = tmp_path / f"torture{number}.db"
        assert not path.exists() or path.stat().st_size > 0
        with Memory.open(path) as memory:
            assert memory.remember("It works after the kill.").action == "added"
