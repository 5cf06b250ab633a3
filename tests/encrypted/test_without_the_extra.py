"""A key without the extra, and what a server writes on its own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from keepstone import Client, Memory
from keepstone.errors import ConfigurationError
from keepstone.settings import Settings
from tests.server.running import running

KEY = {"encryption_key": "a passphrase"}


def test_the_extra_is_named_and_nothing_is_written(path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\[encrypted\].*apsw-sqlite3mc"):
        Memory.open(path, settings=KEY)
    assert not path.exists()


def test_a_key_for_a_database_server() -> None:
    with pytest.raises(ConfigurationError, match="an encryption key is for a file"):
        Memory.open("postgresql://owner@127.0.0.1:9/none", settings=KEY)


def test_settings_do_not_show_the_key() -> None:
    assert "a passphrase" not in repr(Settings.load(KEY))


def test_files_of_requests_stay_in_memory_where_the_store_is_encrypted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from keepstone.server import files

    monkeypatch.setattr(files, "_MEMORY_FOLDER", str(tmp_path))

    def folder(settings: dict[str, str]) -> Path:
        caller: Any = SimpleNamespace(service=SimpleNamespace(settings=Settings.load(settings)))
        with files._make_folder(cast(Any, caller)) as name:
            return Path(name)

    assert folder(KEY).parent == tmp_path
    assert folder({}).parent != tmp_path


def test_every_surface_asks_before_it_writes_in_the_clear(path: Path, tmp_path: Path) -> None:
    with Memory.open(path, user="alice") as memory, running(memory) as server, Client(server.url, server.key()) as client:
        memory.conversation("evening").add("user", "I fed Quillfeather today.")
        memory.conversation("evening").add("assistant", "Well done.")
        memory._engine.transfer._encrypted = True  # as with a key, for which this environment has no cipher
        for each in (memory, client):
            out = tmp_path / f"{type(each).__name__}.jsonl"
            for write in (each.export, each.conversation.export_chats):
                with pytest.raises(ConfigurationError, match="the store is encrypted, and this file would not be"):
                    write(out)
                assert not out.exists()
                assert write(out, plaintext=True) > 0
                assert "Quillfeather" in out.read_text()
                out.unlink()
