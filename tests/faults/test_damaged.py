"""A damaged file: a clear error that names file and remedy, or an older whole state; never a new empty store."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from bench.torture.damaged import COUNT, LATE, PAGE, Whole, run, use_store
from bench.torture.verdict import Options
from keepstone import Memory
from keepstone.errors import StoreDamaged
from tests.faults.support import everything, healthy


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """A healthy store with many pages, and one whose last writes are only in the log."""
    return Whole.create(tmp_path_factory.mktemp("whole"))


@pytest.fixture
def whole(store: Whole) -> bytes:
    """The bytes of the healthy one."""
    return store.file


@pytest.fixture
def logged(path: Path, store: Whole) -> Path:
    """The other one, as a killed process left it; its log."""
    path.write_bytes(store.logged)
    log = Path(f"{path}-wal")
    log.write_bytes(store.log)
    assert log.stat().st_size > 0
    return log


def flip(data: bytearray) -> None:
    for at in range(len(data) // 2, len(data) // 2 + 20 * PAGE, PAGE // 2):
        data[at] ^= 0xFF


def scramble(data: bytearray) -> None:
    data[PAGE * 3 : PAGE * 12] = random.Random(1).randbytes(PAGE * 9)


def zero_a_page(data: bytearray) -> None:
    data[PAGE * 4 : PAGE * 5] = bytes(PAGE)


def zero_the_schema(data: bytearray) -> None:
    data[100:PAGE] = bytes(PAGE - 100)


def truncate(data: bytearray) -> None:
    del data[len(data) // 2 :]


def truncate_unevenly(data: bytearray) -> None:
    del data[len(data) - 5 * PAGE - 123 :]


@pytest.mark.parametrize("damage", [flip, scramble, zero_a_page, zero_the_schema, truncate, truncate_unevenly])
def test_damage_is_named_and_the_file_is_never_made_anew(path: Path, whole: bytes, damage: Callable[[bytearray], None]) -> None:
    data = bytearray(whole)
    damage(data)
    path.write_bytes(data)
    inode, size = path.stat().st_ino, len(data)
    seen = use_store(path)
    assert seen.errors or seen.findings, "the damage went unnoticed"
    for error in seen.errors:
        assert isinstance(error, StoreDamaged), repr(error)
        assert str(path) in str(error)
        assert f"keepstone doctor --db {path}" in str(error)
    assert path.stat().st_ino == inode
    assert path.stat().st_size >= size
    assert path.read_bytes().count(b"Shelf") >= bytes(data).count(b"Shelf") - 5  # what could be read still can


@pytest.mark.parametrize("header", [bytes(100), b"SQLite format 3\0" + bytes(84), b"\xff" * 100])
def test_a_header_that_was_overwritten(path: Path, whole: bytes, header: bytes) -> None:
    path.write_bytes(header + whole[100:])
    with pytest.raises(StoreDamaged, match=r"left untouched"):
        Memory.open(path)
    assert path.read_bytes() == header + whole[100:]


@pytest.mark.parametrize("garbage", [b"", b"garbage", random.Random(2).randbytes(50_000), bytes(32 + 4096 + 24)])
def test_a_log_of_garbage_is_ignored(path: Path, whole: bytes, garbage: bytes) -> None:
    path.write_bytes(whole)
    Path(f"{path}-wal").write_bytes(garbage)
    with Memory.open(path) as memory:
        assert len(everything(memory)) == COUNT
        assert memory.remember("The log was garbage and nothing was lost.").action == "added"
    assert healthy(path)


def test_a_log_cut_off_in_the_middle_gives_an_earlier_whole_state(path: Path, logged: Path) -> None:
    logged.write_bytes(logged.read_bytes()[: logged.stat().st_size // 2 + 77])
    with Memory.open(path) as memory:
        assert COUNT <= len(everything(memory)) < COUNT + LATE
    assert healthy(path)


def test_a_log_that_was_deleted_gives_the_state_before_it(path: Path, logged: Path) -> None:
    logged.unlink()
    with Memory.open(path) as memory:
        assert len(everything(memory)) == COUNT
    assert healthy(path)


def test_a_byte_that_changed_inside_a_text_is_found_by_its_hash(path: Path, whole: bytes) -> None:
    path.write_bytes(whole)
    db = apsw.Connection(str(path))
    id = db.execute("SELECT id FROM record WHERE content LIKE 'Shelf 7 %'").fetchone()[0]
    db.execute("UPDATE record SET content = replace(content, 'Shelf 7', 'Shelf 8') WHERE id = ?", (id,))
    db.execute("UPDATE history SET content = 'x' || content WHERE rowid = (SELECT min(rowid) FROM history)")
    assert db.pragma("integrity_check") == "ok"  # SQLite itself sees nothing wrong
    db.close()
    with Memory.open(path) as memory:
        diagnosis = memory.upkeep.doctor()
    assert not diagnosis.healthy
    checks = {finding.check for finding in diagnosis.findings}
    assert {"content hashes", "history"} <= checks
    assert any(id in finding.problem for finding in diagnosis.findings)
    assert all(finding.remedy for finding in diagnosis.findings)


@pytest.mark.parametrize(
    ("statement", "check"),
    [
        ("DELETE FROM vector WHERE sequence = (SELECT max(sequence) FROM record)", "vectors"),
        ("UPDATE vector SET vector = zeroblob(1024) WHERE sequence = (SELECT max(sequence) FROM record)", "vectors"),
        ("UPDATE vector SET terms = x'00000000' WHERE sequence = (SELECT max(sequence) FROM record)", "vectors"),
        ("INSERT INTO vector VALUES (999999, 1, x'', NULL, NULL, NULL, NULL)", "vectors"),
        ("INSERT INTO words (rowid, scope, text) VALUES (999999, 's1', 'ghost')", "words"),
        ("DELETE FROM record WHERE sequence = (SELECT max(sequence) FROM record)", "words"),
        ("DELETE FROM record WHERE sequence = (SELECT max(sequence) FROM history)", "history"),
    ],
)
def test_text_words_and_vectors_that_disagree_are_found(path: Path, whole: bytes, statement: str, check: str) -> None:
    path.write_bytes(whole)
    db = apsw.Connection(str(path))
    db.execute(statement)
    db.close()
    with Memory.open(path) as memory:
        assert check in {finding.check for finding in memory.upkeep.doctor().findings}


def test_the_doctor_is_not_misled_by_a_store_in_use(path: Path) -> None:
    """A reader's view of the full-text index must be as fresh as the file when it is checked. Scopes that are too large
    for the cache are searched in the file, which is when a reader keeps such a view."""
    with Memory.open(path, settings={"cache_mb": 1}) as memory:
        memory.ingest([{"role": "user", "content": f"Room {n} is cleaned at {n * 3}."} for n in range(1500)], session="s")
        for n in range(40):
            memory.remember(f"Fact {n}: service {n * 7} is deployed on a Tuesday at {n} o'clock in hall {n * 13}.")
            if n % 9 == 0:
                assert memory.recall(f"service {n * 7}")
            if n % 4 == 3:
                assert memory.upkeep.doctor().findings == ()


def test_random_damages_are_told_or_harmless_and_stop_no_process(tmp_path: Path) -> None:
    """Many, each used in another process: an error may come, but only one of keepstone's own, and no wrong answer unnoticed."""
    verdict = run(Options(folder=tmp_path, rounds=4, seed=3))
    assert verdict.problems == []
    assert verdict.whole
    assert verdict.tries == 40
    outcomes = verdict.figures["outcomes"]
    assert outcomes["told"] > 5
    assert outcomes["whole"] > 5
    assert outcomes["told"] + outcomes["whole"] == verdict.tries
