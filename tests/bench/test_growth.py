"""The benchmark of growth, run for real at tiny sizes: one file, every verb, and the scope is as large afterwards as before."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from bench import growth
from bench.texts import texts
from keepstone import Memory

VERBS = {*growth.READING, *growth.WRITING}
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growth, "BATCHES", {"remember_many": 4, "ingest": 6})
        patch.setattr(growth, "STEP", 20)
        patch.setattr(growth, "TURN", 2)
        patch.setattr(growth, "STARTS", 1)
        said: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_: said.append(" ".join(map(str, words))))

        def run(folder: Path, *arguments: str) -> dict[str, Any]:
            assert growth.main([*arguments, "--folder", str(folder), "--rounds", "4", "--keep", "--json"]) == 0
            return json.loads([line for line in said if line.startswith("{")][-1])  # type: ignore[no-any-return]

        yield run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("growth")


@pytest.fixture(scope="module")
def found(run: Run, folder: Path) -> dict[str, Any]:
    return run(folder, "--sizes", "25,50")


def test_every_verb_is_measured_at_every_size(found: dict[str, Any]) -> None:
    assert list(found["sizes"]) == ["25", "50"]
    for figures in found["sizes"].values():
        for verb in VERBS:
            assert figures[verb]["wall_p50_ms"] > 0, verb
            assert figures[verb]["calls"] >= (1 if verb in growth.FEWER else 4), verb
        for verb in growth.MAINTENANCE:
            assert figures[verb]["cpu_us_a_memory"] > 0, verb
        assert figures["found_at_5"] >= 0.75
        assert figures["open_ms"] > 0
        assert figures["resident_mb"] >= figures["opened_mb"] > 10
        assert figures["disk_mb"] > 0
        assert "recall_at_10" not in figures  # every vector is compared at this size
    assert [figures["filled"] for figures in found["sizes"].values()] == [25, 25]


def test_what_was_added_while_measuring_is_gone(found: dict[str, Any], folder: Path) -> None:
    db = apsw.Connection(str(folder / "growth.db"))
    assert db.execute("SELECT count(*) FROM record").fetchall() == [(50,)]
    assert db.execute("SELECT count(*) FROM record WHERE session = ?", (growth.EXTRA,)).fetchall() == [(0,)]
    db.close()


def test_a_file_that_is_kept_goes_on_from_where_it_stood(found: dict[str, Any], run: Run, folder: Path) -> None:
    again = run(folder, "--sizes", "25,50", "--verbs", "get,list")
    assert list(again["sizes"]) == ["50"]
    assert again["sizes"]["50"]["filled"] == 0
    assert VERBS & set(again["sizes"]["50"]) == {"get", "list"}


def test_agreement_is_the_share_of_the_exact_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, held = tmp_path / "some.db", texts(40)
    with Memory.open(path) as memory:
        memory.remember_many([each.content for each in held])
    questions = [each.question for each in held[:5]]
    best = growth.exact(path, questions)
    assert all(len(set(each)) == growth.TOP for each in best)
    assert growth.agreement(path, questions) is None
    monkeypatch.setattr(growth, "approximate", lambda path, questions: [each[:5] + [0] * 5 for each in best])
    assert growth.agreement(path, questions) == 0.5
    monkeypatch.setattr(growth, "_vectors", lambda path, step=7, real=growth._vectors: real(path, step))
    assert growth.exact(path, questions) == best


def test_a_verb_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        growth.main(["--verbs", "recall,dream"])
    assert "'dream'" in capsys.readouterr().err
