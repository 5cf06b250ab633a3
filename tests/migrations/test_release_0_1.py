"""A store, a key and exports written by 0.1.0, when the project had another name, are still read."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import apsw
import pytest

from bench.torture.released_stores import FOLDER
from keepstone import Memory
from keepstone.backend import Backend
from keepstone.open import open_engine
from keepstone.server.keys import Keys

EXPECTED = json.loads((FOLDER / "release_0_1_0.json").read_text(encoding="utf-8"))


@pytest.fixture
def store_path(tmp_path: Path) -> Path:
    path = tmp_path / "old.db"
    path.write_bytes(lzma.decompress((FOLDER / "release_0_1_0.db.xz").read_bytes()))
    return path


def test_every_memory_of_the_store_is_there(store_path: Path, tmp_path: Path) -> None:
    with Memory.open(store_path, user="dana") as memory:
        assert memory.recall("Where does Dana live?")[0].content == "Dana lives in Lisbon."
        assert memory.value("account") == "4411-999"
        exported = tmp_path / "again.jsonl"
        assert memory.export(exported) == len(EXPECTED["export"])
    old = {json.loads(line)["id"]: json.loads(line) for line in EXPECTED["export"]}
    new = {json.loads(line)["id"]: json.loads(line) for line in exported.read_text(encoding="utf-8").splitlines()}
    assert old.keys() == new.keys()
    assert all(new[id]["versions"] == old[id]["versions"] and new[id]["content"] == old[id]["content"] for id in old)


def test_a_record_that_0_1_called_expired_is_archived(store_path: Path, tmp_path: Path) -> None:
    connection = apsw.Connection(str(store_path))
    update = (
        "UPDATE record SET status = 'expired', aside_at = 1, aside_why = 'aged', ticket = 1 WHERE content LIKE 'Dana lives%' "
        "RETURNING id"
    )
    ((id,),) = connection.execute(update).fetchall()
    connection.close()
    with Memory.open(store_path, user="dana") as memory:
        archived = memory.upkeep.archived()
        assert [(row.record.id, row.record.status, row.why) for row in archived] == [(id, "archived", "aged")]
        assert memory.upkeep.restore([id]) == 1


def test_an_export_of_an_expired_record_is_imported_as_archived(tmp_path: Path) -> None:
    lines = [json.loads(line) for line in EXPECTED["export"]]
    line = next(line for line in lines if line["content"] == "Dana lives in Lisbon.")
    line |= {"status": "expired", "aside_at": line["updated_at"], "aside_why": "aged"}
    exported = tmp_path / "export.jsonl"
    exported.write_text(json.dumps(line) + "\n", encoding="utf-8")
    with Memory.open(tmp_path / "new.db", user="dana") as memory:
        assert memory.import_(exported).added == 1
        assert [(row.record.status, row.why) for row in memory.upkeep.archived()] == [("archived", "aged")]


def test_its_audit_log_is_whole(store_path: Path) -> None:
    with Memory.open(store_path, user="dana") as memory:
        report = memory.audit.verify()
    assert (report.whole, report.unchained) == (True, 0)


def test_its_api_keys_are_accepted(store_path: Path) -> None:
    engine = open_engine(store_path)
    try:
        assert Keys(Backend(engine)).check(EXPECTED["key"]).name == "dana"
    finally:
        engine.close()


def test_its_exports_are_imported(tmp_path: Path) -> None:
    exported = tmp_path / "export.jsonl"
    exported.write_text("\n".join(EXPECTED["export"]) + "\n", encoding="utf-8")
    with Memory.open(tmp_path / "new.db", user="dana") as memory:
        assert memory.import_(exported).added == len(EXPECTED["export"])
        assert memory.conversation("copy").import_(EXPECTED["conversation"]) == 2
