"""The store of docs/guides/own-store.md keeps the contract of stores, survives a kill, and rolls back what it cannot save."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from keepstone import AsyncMemory, Memory
from keepstone.errors import ConfigurationError, StoreDamaged, StoreError
from keepstone.ports.stores import Store
from keepstone.testing import StoreContract
from tests.docs.pages import ROOT, blocks

EXAMPLE = next(body for kind, body in blocks(ROOT / "docs/guides/own-store.md") if kind == "python")
_defined: dict[str, Any] = {}
exec(compile(EXAMPLE, "own-store.md", "exec"), _defined)
DictStore = _defined["DictStore"]


class TestDictStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = DictStore(tmp_path / "memory.json")
        yield store
        store.close()


def test_the_example_has_sixty_lines_at_most() -> None:
    assert len(EXAMPLE.splitlines()) <= 60


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    program = EXAMPLE + (
        "\nimport sys, time\nfrom keepstone import Memory\n"
        "memory = Memory.open(DictStore(sys.argv[1]))\n"
        "memory.remember('Dana prefers dark mode.')\nprint('done', flush=True)\ntime.sleep(600)\n"
    )
    path = tmp_path / "memory.json"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        process.kill()
    with Memory.open(DictStore(path)) as memory:
        assert [hit.content for hit in memory.recall("Which theme does Dana like?")] == ["Dana prefers dark mode."]
        assert memory.upkeep.doctor().healthy


def test_what_cannot_be_saved_is_not_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Memory.open(DictStore(tmp_path / "memory.json")) as memory:
        memory.remember("Dana prefers dark mode.")
        with monkeypatch.context() as broken:
            broken.setattr(DictStore, "save", _fail)
            with pytest.raises(StoreError, match=r"could not be saved \(OSError: no bucket\): nothing of this write was stored"):
                memory.remember("Dana drinks tea.")
        assert [record.content for record in memory.list()] == ["Dana prefers dark mode."]
        assert memory.remember("Omar rows.").action == "added"
    with Memory.open(DictStore(tmp_path / "memory.json")) as memory:
        assert {record.content for record in memory.list()} == {"Dana prefers dark mode.", "Omar rows."}


def _fail(store: object, changed: object) -> None:
    raise OSError("no bucket")


def test_no_blob_keeps_what_was_forgotten(tmp_path: Path) -> None:
    store = DictStore(tmp_path / "memory.json")
    with Memory.open(store) as memory:
        for number in range(50):
            memory.remember(f"Note {number} about the quetzalcoatlus in room {number}.")
        assert any(b"quetzalcoatlus" in blob for blob in store.blobs.values())
        assert memory.forget(everything=True).erased
        assert not any(b"quetzalcoatlus" in blob for blob in store.blobs.values())


def test_lost_blobs_are_noticed(tmp_path: Path) -> None:
    DictStore(tmp_path / "memory.json").close()
    store = DictStore(tmp_path / "memory.json")
    store.save({sorted(store.blobs)[3]: None})
    store.close()
    with pytest.raises(StoreDamaged, match="has lost blobs"):
        DictStore(tmp_path / "memory.json")


async def _remember(store: Store) -> int:
    async with AsyncMemory.open(store) as memory:
        await memory.remember("Dana prefers dark mode.")
        return len(await memory.recall("Which theme does Dana like?"))


def test_async_memory_takes_a_store_too(tmp_path: Path) -> None:
    import asyncio

    assert asyncio.run(_remember(DictStore(tmp_path / "memory.json"))) == 1


@pytest.mark.parametrize(
    ("target", "said"),
    [
        (42, "target must be a path, a URL or an open store, got 42"),
        (DictStore, "target must be a path, a URL or an open store, got <class"),
        (type("Half", (), {"get": print, "write": print, "close": print})(), "the store Half lacks all_rows, attach, audit"),
    ],
)
def test_what_is_no_store_is_refused_with_what_it_lacks(target: Any, said: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Memory.open(target)
    assert said in str(caught.value)
