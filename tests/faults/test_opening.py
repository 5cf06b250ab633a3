"""What is at the path is no healthy store: it is refused and left exactly as it was, and the message says what to do."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import apsw
import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError, KeepstoneError, StoreDamaged, StoreError
from tests.faults.support import start

OLD = 1_600_000_000


def refused(path: Path, kind: type[KeepstoneError]) -> str:
    """Opening fails with `kind` and touches nothing; the message."""
    os.utime(path, (OLD, OLD))
    before, others = path.read_bytes(), set(path.parent.iterdir())
    with pytest.raises(kind) as caught:
        Memory.open(path)
    assert path.read_bytes() == before
    assert path.stat().st_mtime == OLD
    assert set(path.parent.iterdir()) == others
    assert str(path) in str(caught.value)
    return str(caught.value)


def test_an_empty_file_where_a_store_was(path: Path) -> None:
    path.touch()
    assert "Restore it from a backup, or delete it" in refused(path, StoreDamaged)


@pytest.mark.parametrize("content", [b"x", b"Dear diary, today I wrote a file.\n" * 50, b"SQLite format 3\0", os.urandom(8192)])
def test_a_file_that_is_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "Choose another path" in refused(path, StoreDamaged)


def test_another_programs_database(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE bookmark (url TEXT); INSERT INTO bookmark VALUES ('about:blank')")
    other.close()
    assert "another program" in refused(path, StoreDamaged)


def test_a_store_of_a_newer_version(path: Path) -> None:
    Memory.open(path).close()
    newer = apsw.Connection(str(path))
    newer.pragma("user_version", 9999)
    newer.close()
    message = refused(path, StoreError)
    assert "9999" in message
    assert "upgrade" in message


def test_a_read_only_file(path: Path) -> None:
    Memory.open(path).close()
    path.chmod(0o444)
    try:
        assert "chmod u+w" in refused(path, StoreError)
    finally:
        path.chmod(0o644)


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="name a file in it"):
        Memory.open(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="create it, or choose another path"):
        Memory.open(tmp_path / "nowhere" / "memory.db")
    assert list(tmp_path.iterdir()) == []


def test_a_file_where_a_folder_should_be(path: Path) -> None:
    path.write_text("no folder")
    with pytest.raises(ConfigurationError, match="choose another path"):
        Memory.open(path / "memory.db")
    assert path.read_text() == "no folder"


@pytest.mark.parametrize("name", ["nul\0byte.db", "x" * 300 + ".db", ""])
def test_a_name_that_cannot_be_a_file(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError):
        Memory.open(f"{tmp_path}/{name}" if name else "")
    assert list(tmp_path.iterdir()) == []


def test_a_special_file_is_refused(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(ConfigurationError, match="not an ordinary file"):
        Memory.open(path)


def test_a_link_to_nothing_is_followed_or_refused(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "target.db")
    with contextlib.suppress(KeepstoneError), Memory.open(link) as memory:
        assert memory.remember("A link leads here.").action == "added"
    assert link.is_symlink()
    assert not link.exists() or link.stat().st_size > 0
    assert {file.name for file in tmp_path.iterdir()} <= {"link.db", "target.db"}


OPENER = """
import json, sys
from keepstone import Memory
print("ready", flush=True)
for line in sys.stdin:
    with Memory.open(line.strip()) as memory:
        receipt = memory.remember(f"Process {sys.argv[1]} was here.")
        print(json.dumps([memory._engine.store.id, receipt.action]), flush=True)
"""


def test_processes_that_create_one_path_together_share_the_store(tmp_path: Path) -> None:
    openers = [start("-c", OPENER, str(number)) for number in range(4)]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for round in range(15):
        path = tmp_path / f"{round}.db"
        for opener in openers:
            assert opener.stdin is not None
            opener.stdin.write(f"{path}\n")
            opener.stdin.flush()
        answers = [json.loads(opener.stdout.readline()) for opener in openers if opener.stdout is not None]
        assert {action for _, action in answers} == {"added"}
        with Memory.open(path) as memory:
            assert {id for id, _ in answers} == {memory._engine.store.id}
            assert len(memory.list()) == 4
    for opener in openers:
        opener.communicate()
        assert opener.returncode == 0
    assert [file.name for file in tmp_path.iterdir() if file.name.endswith(".new")] == []
