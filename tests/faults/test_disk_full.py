"""A full disk: StorageFull, nothing stored by half, reads go on, writes resume once there is space."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from recollect import Memory
from recollect.errors import StorageFull
from tests.faults.support import everything, healthy, run

LIMITED = """
import json, resource, signal, sys
from recollect import Memory
from recollect.errors import StorageFull
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
memory = Memory.open(sys.argv[1])
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), hard))
kept, message = [], None
for number in range(2000):
    try:
        if number % 3:
            kept.append(memory.remember(f"Pallet {number} went to dock {number * 3}. " + "More of it. " * (number % 90)).id)
        else:
            texts = [f"Box {number}-{part} is sealed with tape {number * part}." for part in range(1, 6)]
            kept += [receipt.id for receipt in memory.remember_many(texts)]
    except StorageFull as error:
        message = str(error)
        break
found = len(memory.recall("pallet dock", limit=100))
listed = memory.list(limit=1)[0].id
refused = 0
for number in range(3):
    try:
        memory.remember(f"Still no room for crate {number}. " + "Padding. " * 3000)
    except StorageFull:
        refused += 1
try:
    memory.forget(kept[0])
    kept.pop(0)
except StorageFull:
    refused += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
resumed = [memory.remember(f"Space is back for crate {number}.") for number in range(5)]
kept += [receipt.id for receipt in resumed]
memory.close()
print(json.dumps({"kept": kept, "message": message, "found": found, "listed": listed, "refused": refused,
                  "resumed": [receipt.action for receipt in resumed]}))
"""


@pytest.mark.parametrize("limit", [200_000, 450_000, 1_000_000, 3_000_000])
def test_a_limit_on_the_size_of_files(path: Path, limit: int) -> None:
    result = run(LIMITED, path, str(limit))
    assert result["message"] is not None
    assert str(path) in result["message"]
    assert "Free some space" in result["message"]
    assert result["found"] > 0
    assert result["listed"]
    assert result["resumed"] == ["added"] * 5
    with Memory.open(path) as memory:
        assert sorted(record.id for record in everything(memory)) == sorted(result["kept"])
    assert healthy(path)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(folder)], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this machine does not let a test mount a file system: {mounted.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_full(small_disk: Path) -> None:
    path, ballast = small_disk / "memory.db", small_disk / "ballast"
    with Memory.open(path) as memory:
        kept = [memory.remember(f"Pallet {number} went to dock {number * 3}.").id for number in range(50)]
        _fill(ballast)
        with pytest.raises(StorageFull, match="Free some space"):
            _overfill(memory, kept)
        with pytest.raises(StorageFull):
            memory.remember_many([f"Crate {number} " + "is heavy " * 100 for number in range(50)])
        assert memory.recall("pallet 7 dock")[0].content == "Pallet 7 went to dock 21."
        assert sorted(record.id for record in everything(memory)) == sorted(id for id in kept if id)
        ballast.unlink()
        assert memory.remember("There is room again.").action == "added"
    with Memory.open(path) as memory:
        assert len(everything(memory)) == len(kept) + 1
    assert healthy(path)


def test_a_disk_too_full_for_a_new_store(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    _fill(ballast)
    path = small_disk / "memory.db"
    with pytest.raises(StorageFull):
        Memory.open(path)
    assert sorted(file.name for file in small_disk.iterdir()) == ["ballast"]
    ballast.unlink()
    with Memory.open(path) as memory:
        assert memory.remember("There is room now.").action == "added"


def test_opening_a_store_on_a_full_disk_works_or_says_that_it_is_full(small_disk: Path) -> None:
    """The engine needs a little room to open; without it the cause must be named, and nothing may change."""
    path, ballast = small_disk / "memory.db", small_disk / "ballast"
    with Memory.open(path) as memory:
        memory.remember("Rosa prefers tea.")
    _fill(ballast)
    before = path.read_bytes()
    with contextlib.suppress(StorageFull), Memory.open(path):
        pass
    assert path.read_bytes() == before
    ballast.unlink()
    with Memory.open(path) as memory:
        assert memory.recall("What does Rosa drink?")[0].content == "Rosa prefers tea."


def _overfill(memory: Memory, kept: list[str | None]) -> None:
    for number in range(200):
        kept.append(memory.remember(f"Late pallet {number} stays outside gate {number * 7}. " + "Cold. " * 40).id)


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        for size in (65536, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue
