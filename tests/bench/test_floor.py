"""The benchmark of the floor, run for real at tiny sizes: what it compares is what ours does, and sums go round by round."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest

from bench import floor
from bench.measure import Times, ratio
from bench.texts import texts
from keepstone import Memory

SUMMARY = {f"{clock}_{name}_ms" for clock in ("wall", "cpu") for name in ("p50", "p95", "p99")}


@pytest.fixture(scope="module")
def found() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(floor, "HELD", 30)
        said: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))
        assert floor.main(["--sizes", "40", "--rounds", "4", "--json"]) == 0
    last: dict[str, Any] = json.loads(said[-1])
    return last


def test_an_add_has_its_parts_and_a_sum_of_some(found: dict[str, Any]) -> None:
    add = found["add"]
    assert set(add["parts"]) == {"fsync_append", "fsync_overwrite", "commit_one_row", *floor.ADD_SUM}
    assert add["in_sum"] == list(floor.ADD_SUM)
    assert all(set(each) == SUMMARY for each in (*add["parts"].values(), add["sum"], add["ours"]))
    assert add["sum_ms"] == add["sum"]["wall_p50_ms"] >= max(add["parts"]["embed"]["wall_p50_ms"], 0)
    assert add["ratio"] == ratio(add["ours"]["wall_p50_ms"], add["sum_ms"])
    assert add["held"] == 30
    assert add["found"] == 1


def test_a_recall_has_its_parts_at_each_size(found: dict[str, Any]) -> None:
    (size, recall), *more = found["recall"].items()
    assert (size, more) == ("40", [])
    assert set(recall["parts"]) == {*floor.RECALL_SUM, *floor.LEAN_RECALL_SUM}
    assert recall["ratio"] == ratio(recall["ours"]["wall_p50_ms"], recall["sum_ms"])
    assert recall["lean_ratio"] == ratio(recall["ours"]["wall_p50_ms"], recall["lean_sum"]["wall_p50_ms"])
    assert found["command"] == "python -m bench floor --sizes 40 --rounds 4"


def test_a_sum_is_made_round_by_round() -> None:
    turns = floor.Turns({"one": lambda at: at, "two": lambda at: at, "ours": lambda at: at}).run(floor.TURN + 3)
    assert all(len(each.wall) == floor.TURN + 3 for each in turns.times.values())
    turns.times = {"one": Times([1, 5], [1, 1]), "two": Times([4, 1], [2, 2]), "ours": Times([10, 12], [3, 3])}
    assert turns.sum(["one", "two"]) == Times([5, 6], [3, 3])
    found = turns.compared(["one", "two"], ["one"])
    assert (found["ratio"], found["cpu_ratio"], found["lean_ratio"]) == (2.0, 1.0, 2.4)


def test_the_bare_commit_stores_what_a_memory_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(floor, "HELD", 12)
    facts = [text.content for text in texts(15, seed=3)]
    rows = floor._rows(tmp_path / "model.db", facts)
    with Memory.open(tmp_path / "bare.db") as memory:
        floor._remember(memory, facts[:12])
    with floor._durable(tmp_path / "bare.db") as db:
        for each in rows:
            floor._commit(db, each)
    last = {}
    for name in ("model", "bare"):
        db = apsw.Connection(str(tmp_path / f"{name}.db"))
        last[name] = [
            db.execute("SELECT * FROM audit WHERE number > 12").fetchall(),
            db.execute("SELECT * FROM record WHERE sequence > 12 ORDER BY sequence").fetchall(),
            db.execute("SELECT * FROM vector WHERE sequence > 12").fetchall(),
            db.execute("SELECT rowid FROM words WHERE words MATCH 's1' AND rowid > 12").fetchall(),
        ]
        db.close()
    assert last["model"] == last["bare"]
    assert [row[7] for row in last["bare"][1]] == facts[12:]


@pytest.mark.parametrize("wrong", [["--rounds", "0"], ["--sizes", "5"]])
def test_too_little_is_refused(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        floor.main(wrong)
    assert "or more" in capsys.readouterr().err
