"""Whatever keepstone writes can be read by its owner alone, whatever the umask says."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.cli import main
from tests.server.running import running

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are POSIX's")


@pytest.fixture(autouse=True)
def _open_umask() -> Iterator[None]:
    """The most generous of umasks: only what a program asks for itself keeps others out."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Files below a folder that anybody but their owner can look into or change."""
    found = {path: stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*") if path.is_file()}
    return {path.name: oct(mode) for path, mode in found.items() if mode & 0o077}


def test_a_store_its_log_its_backup_and_its_exports(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.remember("Dana prefers dark mode.")
        assert {path.name for path in tmp_path.iterdir()} >= {"memory.db", "memory.db-wal", "memory.db-shm"}
        memory.backup(tmp_path / "copy.db")
        memory.export(tmp_path / "memories.jsonl")
        memory.export(tmp_path / "everything.jsonl", everything=True)
        memory.forget(id=memory.list().records[0].id)  # may write the whole file anew
        assert modes(tmp_path) == {}
    with Memory.open(tmp_path / "copy.db") as memory:
        memory.remember("Dana has a dog.")
        assert modes(tmp_path) == {}
    assert len(list(tmp_path.iterdir())) == 4


def test_a_mode_that_was_given_on_purpose_stays(tmp_path: Path) -> None:
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.remember("Dana prefers dark mode.")
    (tmp_path / "memory.db").chmod(0o660)  # for a group of processes
    with Memory.open(tmp_path / "memory.db") as memory:
        memory.remember("Dana has a dog.")
        assert modes(tmp_path) == dict.fromkeys(("memory.db", "memory.db-wal", "memory.db-shm"), "0o660")


def test_what_a_client_fetches_from_a_server(tmp_path: Path) -> None:
    from keepstone import Client

    (tmp_path / "here").mkdir()
    with Memory.open(tmp_path / "memory.db") as memory, running(memory) as server:
        key = server.key("ops", service=True, rights=("read", "write", "operator"))
        with Client(server.url, key) as client:
            client.remember("Dana prefers dark mode.")
            client.export(tmp_path / "here" / "memories.jsonl")
            client.backup(tmp_path / "here" / "copy.db")
    assert len(list((tmp_path / "here").iterdir())) == 2
    assert modes(tmp_path) == {}


def test_what_commands_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "notes.jsonl").write_text('{"memory": "Dana likes tea."}\n')
    (tmp_path / "notes.jsonl").chmod(0o600)
    for command in (
        ("remember", "Dana prefers dark mode."), ("export", "out.jsonl"), ("backup", "copy.db"),
        ("import", "notes.jsonl", "--from", "mem0", "--report", "report.jsonl"),
    ):  # fmt: skip
        assert main([*command, "--db", "memory.db"]) == 0, command
    assert {path.name for path in tmp_path.iterdir()} >= {"memory.db", "out.jsonl", "copy.db", "report.jsonl"}
    assert modes(tmp_path) == {}
