"""A file that is encrypted: what is on disk, wrong keys, backups, forgetting, and the store's contract under a key."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import apsw
import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError
from keepstone.ports.values import StoreOptions
from keepstone.stores.sqlite.encryption import raw_key
from keepstone.stores.sqlite.files import read_salt
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing import StoreContract
from tests.docs import pages
from tests.docs.servers import Servers
from tests.faults.support import environment

KEY = "a long passphrase of the user"
RANDOM_KEY = "5e" * 32
SECRET = "Quillfeather"
FACT = f"Dana's cat is called {SECRET}."


def opened(path: Path, key: str | None = KEY, **settings: Any) -> Memory:
    return Memory.open(path, user="dana", settings={**settings, **({"encryption_key": key} if key else {})})


def on_disk(folder: Path) -> bytes:
    """Every byte of every file below a folder."""
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def decrypted(path: Path, key: str = KEY) -> bytes:
    """Every page of a file as who has the key can read it."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    connection.pragma("key", raw_key(key, read_salt(path)))
    connection.execute("SELECT count(*) FROM sqlite_schema").fetchall()
    pages = b"".join(connection.read("main", 0, at, 4096)[1] for at in range(0, path.stat().st_size, 4096))
    connection.close()
    assert pages.startswith(b"SQLite format 3\0")
    return pages


class TestEncryptedStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Any:
        store = SqliteStore.open(str(tmp_path / "memory.db"), StoreOptions(durable=False, encryption_key=RANDOM_KEY))
        yield store
        store.close()


@pytest.mark.parametrize("key", [KEY, RANDOM_KEY], ids=["passphrase", "random key"])
def test_nothing_readable_is_on_disk_while_the_store_is_used_and_after(path: Path, tmp_path: Path, key: str) -> None:
    with opened(path, key, approximate_from=1) as memory:
        memory.remember(FACT)
        memory.ingest([{"role": "user", "content": f"I fed {SECRET} today."}], session="evening")
        assert FACT in [hit.content for hit in memory.recall("What is Dana's cat called?")]
        memory.backup(tmp_path / "copy.db")
        assert (tmp_path / "memory.db-wal").stat().st_size > 0
        held = on_disk(tmp_path).lower()
        assert SECRET.lower().encode() not in held
        assert b"create table" not in held
    assert SECRET.lower().encode() not in on_disk(tmp_path).lower()
    assert not (tmp_path / "memory.db-index").exists(), "the index of a large scope is kept in memory"
    for each in (path, tmp_path / "copy.db"):
        with opened(each, key) as memory:
            assert FACT in [hit.content for hit in memory.recall("What is Dana's cat called?")]
            assert memory.upkeep.doctor().healthy


@pytest.mark.parametrize("key", ["another passphrase", "6f" * 32, None], ids=["passphrase", "random key", "none"])
def test_another_key_or_none_opens_nothing_and_changes_nothing(path: Path, tmp_path: Path, key: str | None) -> None:
    leave = f"from {__name__} import *\nmemory = opened(Path({str(path)!r}))\nmemory.remember(FACT)\nos.kill(os.getpid(), 9)"
    killed = subprocess.run([sys.executable, "-c", leave], env=environment(), check=False)
    assert killed.returncode == -signal.SIGKILL
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")}
    assert files["memory.db-wal"], "the fact is in the log only"
    with pytest.raises(ConfigurationError, match="is encrypted: set its key" if key is None else "does not open"):
        opened(path, key)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if not file.name.endswith("-shm")} == files
    with opened(path) as memory:
        assert [record.content for record in memory.list().records] == [FACT]


def test_a_key_for_a_file_that_is_not_encrypted(path: Path) -> None:
    opened(path, None).close()
    before = path.read_bytes()
    with pytest.raises(ConfigurationError, match="keepstone encrypt"):
        opened(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize("key", [KEY, None], ids=["encrypted", "in the clear"])
def test_what_is_forgotten_is_in_no_byte_of_the_file(path: Path, key: str | None) -> None:
    read: Callable[[Path], bytes] = (lambda path: decrypted(path)) if key else Path.read_bytes
    with opened(path, key) as memory:
        errands = memory.remember_many([{"content": f"Errand {number} is at the market."} for number in range(100)])
        receipt = memory.remember(FACT)
        memory.remember_many([{"content": f"Errand {number} is at the harbour."} for number in range(100, 200)])
        memory.update(receipt.id, f"Dana's cat is called {SECRET}, and is grey.")
        for number, errand in enumerate(errands):  # rows that grow are moved, and leave copies
            memory.update(errand.id, f"Errand {number} is at the market, {'and then back home, ' * 20} in the evening.")
    assert SECRET.encode() in read(path)
    with opened(path, key) as memory:
        gone = memory.forget(id=receipt.id)
        assert (gone.forgotten, gone.erased) == (1, True)
    assert SECRET.lower().encode() not in read(path).lower()
    assert SECRET.lower().encode() not in on_disk(path.parent).lower()


def test_the_key_from_a_file_a_command_and_a_keyring(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keyring
    from keyring.backend import KeyringBackend

    class InMemory(KeyringBackend):
        priority = 1.0  # type: ignore[assignment]

        def get_password(self, service: str, username: str) -> str | None:
            return KEY if (service, username) == ("keepstone", "dana") else None

        set_password = delete_password = None  # type: ignore[assignment]

    keyring.set_keyring(InMemory())
    (tmp_path / "secret").write_text(f"{KEY}\n")
    opened(path).close()
    sources: list[Mapping[str, str]] = [
        {"encryption_key_file": str(tmp_path / "secret")},
        {"encryption_key_command": f"cat {tmp_path / 'secret'}"},
        {"encryption_key_keyring": "keepstone/dana"},
    ]
    for source in sources:
        Memory.open(path, settings=source).close()
    monkeypatch.setenv("KEEPSTONE_ENCRYPTION_KEY", KEY)
    Memory.open(path).close()
    wrong: list[tuple[Mapping[str, str], str]] = [
        ({"encryption_key_file": str(tmp_path / "secret")}, "are both set"),
        ({"encryption_key": "", "encryption_key_file": str(tmp_path / "absent")}, "cannot be read"),
        ({"encryption_key": "", "encryption_key_command": "false"}, "ended with status 1"),
        ({"encryption_key": "", "encryption_key_command": "true"}, "no usable key"),
        ({"encryption_key": "", "encryption_key_keyring": "keepstone/erik"}, "has no entry"),
    ]
    for settings, problem in wrong:
        with pytest.raises(ConfigurationError, match=problem):
            Memory.open(path, settings=settings)


def test_every_block_of_the_guide_runs(tmp_path: Path) -> None:
    with Servers(tmp_path / "servers") as servers:
        pages.run_page(pages.ENCRYPTION, tmp_path, pages.environment_of({}), servers)


def test_a_project_folder_does_not_choose_the_key(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keepstone.toml").write_text(f'encryption_key = "{KEY}"\nencryption_key_command = "touch ran"\n')
    Memory.open(path).close()
    assert path.read_bytes().startswith(b"SQLite format 3")
    assert not Path("ran").exists()
    assert os.listdir(tmp_path).count("memory.db") == 1
