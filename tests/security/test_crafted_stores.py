"""A store file that another program has changed: what it planted never runs and is never copied."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from keepstone import Memory
from keepstone.errors import StoreDamaged

PLANTED = {
    "trigger": "CREATE TRIGGER planted AFTER INSERT ON record BEGIN DELETE FROM record; END",
    "view": "CREATE VIEW planted AS SELECT content FROM record",
    "table": "CREATE TABLE planted (content TEXT CHECK (length(content) > 0))",
    "index": "CREATE INDEX planted ON record (lower(content))",
}


def plant(path: Path, statement: str) -> None:
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.remember("Dana lives in Lisbon")
    return tmp_path / "memory.db"


@pytest.mark.parametrize("kind", PLANTED)
def test_a_store_with_an_unknown_schema_object_is_refused(path: Path, kind: str) -> None:
    plant(path, PLANTED[kind])
    with pytest.raises(StoreDamaged, match=rf"{kind} 'planted'"):
        Memory.open(path)


def test_what_is_planted_under_an_open_store_never_runs_is_reported_and_is_not_backed_up(path: Path, tmp_path: Path) -> None:
    with Memory.open(path) as memory:
        plant(path, PLANTED["trigger"])
        memory.remember("Erik lives in Oslo")
        assert {record.content for record in memory.list()} == {"Dana lives in Lisbon", "Erik lives in Oslo"}
        assert "trigger 'planted'" in memory.upkeep.doctor().findings[0].problem
        with pytest.raises(StoreDamaged, match="planted"):
            memory.backup(tmp_path / "copy.db")
    assert not (tmp_path / "copy.db").exists()
