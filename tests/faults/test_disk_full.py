"""A full disk: StorageFull, nothing stored by half, reads go on, writes resume once there is space."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.torture.disk_full import fill_disk, limit_file_size
from bench.torture.support import Unavailable, fill, small_disk
from bench.torture.verdict import Verdict
from keepstone import Memory
from keepstone.errors import StorageFull


@pytest.mark.parametrize("limit", [200_000, 450_000, 1_000_000, 3_000_000])
def test_a_limit_on_the_size_of_files(path: Path, limit: int) -> None:
    verdict = Verdict("disk-full", "sqlite")
    limit_file_size(verdict, path, limit)
    assert verdict.problems == []
    assert verdict.whole
    assert verdict.acknowledged > 5


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MB."""
    try:
        with small_disk(tmp_path / "disk", "4m") as folder:
            yield folder
    except Unavailable as reason:
        pytest.skip(str(reason))


def test_a_disk_that_is_full(disk: Path) -> None:
    verdict = Verdict("disk-full", "sqlite")
    fill_disk(verdict, disk)
    assert verdict.problems == []
    assert verdict.whole
    assert verdict.acknowledged > 50


def test_a_disk_too_full_for_a_new_store(disk: Path) -> None:
    ballast = disk / "ballast"
    fill(ballast)
    path = disk / "memory.db"
    with pytest.raises(StorageFull):
        Memory.open(path)
    assert sorted(file.name for file in disk.iterdir()) == ["ballast"]
    ballast.unlink()
    with Memory.open(path) as memory:
        assert memory.remember("There is room now.").action == "added"


def test_opening_a_store_on_a_full_disk_works_or_says_that_it_is_full(disk: Path) -> None:
    """The engine needs a little room to open; without it the cause must be named, and nothing may change."""
    path, ballast = disk / "memory.db", disk / "ballast"
    with Memory.open(path) as memory:
        memory.remember("Rosa prefers tea.")
    fill(ballast)
    before = path.read_bytes()
    with contextlib.suppress(StorageFull), Memory.open(path):
        pass
    assert path.read_bytes() == before
    ballast.unlink()
    with Memory.open(path) as memory:
        assert memory.recall("What does Rosa drink?")[0].content == "Rosa prefers tea."
