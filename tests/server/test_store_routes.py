"""The doctor and backups over HTTP: for an operator alone."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import pytest

from keepstone import Memory
from tests.server.running import Running

REST = ("read", "write", "forget", "admin")


def test_the_doctor(server: Running) -> None:
    server.http().post("/v1/memories", json={"content": "Ada likes tea."})
    found = server.http(server.key(rights=("operator",))).get("/v1/store/doctor").json()
    assert (found["healthy"], found["records"], found["findings"]) == (True, 1, [])


def test_a_backup_is_a_store_that_opens(server: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = tmp_path / "spool"
    spool.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(spool))
    server.http().post("/v1/memories", json={"content": "Ada likes tea."})
    answer = server.http(server.key(rights=("operator",))).get("/v1/store/backup")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/vnd.sqlite3")
    assert int(answer.headers["content-length"]) == len(answer.content)
    assert 'filename="keepstone.db"' in answer.headers["content-disposition"]
    copy = tmp_path / "copy.db"
    copy.write_bytes(answer.content)
    with Memory.open(copy, user="alice") as memory:
        assert [record.content for record in memory.list()] == ["Ada likes tea."]
    until = time.monotonic() + 30
    while list(spool.iterdir()):  # it goes right after the last byte
        assert time.monotonic() < until


@pytest.mark.parametrize("path", ["/v1/store/doctor", "/v1/store/backup"])
def test_an_operator_alone(server: Running, path: str) -> None:
    refused = server.http(server.key(rights=REST)).get(path)
    assert (refused.status_code, refused.json()["error"]) == (403, "Forbidden")
