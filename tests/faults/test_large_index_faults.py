"""The files of large scopes are caches: damaged, foreign, stale or half written, the store answers all the same."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from keepstone import Memory
from keepstone.scope_index import segment
from tests.faults.support import healthy, start
from tests.scope_index.large import Asker, facts, files, filled, held, large, opened, top, words_left

ASKED = facts(200)[5]


@pytest.fixture
def made(path: Path) -> Path:
    """A store with the segment of a large scope beside it."""
    with opened(path) as memory:
        filled(memory, facts(200))
        large(memory)
    assert len(files(path)) == 1
    return path


def answers(path: Path) -> None:
    """It does, through a segment that is whole."""
    with opened(path) as memory:
        assert top(memory, ASKED, limit=1) == [ASKED]
        assert large(memory)._segment.size == held(path).size
    assert held(path).size == len(facts(200))


def _cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def _halved(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def _longer(file: Path) -> None:
    file.write_bytes(file.read_bytes() + b"\0" * 64)


def _garbage(file: Path) -> None:
    file.write_bytes(bytes(range(256)) * 50)


def _empty(file: Path) -> None:
    file.write_bytes(b"")


def _start_only(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:20])


def _head(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[60] ^= 1
    file.write_bytes(bytes(whole))


def _huge_head(file: Path) -> None:
    whole = bytearray(file.read_bytes())
    whole[16:24] = b"\xff" * 8
    file.write_bytes(bytes(whole))


@pytest.mark.parametrize(
    "damage", [_cut, _halved, _longer, _garbage, _empty, _start_only, _head, _huge_head], ids=lambda each: each.__name__
)
def test_a_file_that_is_not_whole_is_made_anew(made: Path, damage: Callable[[Path], None]) -> None:
    damage(files(made)[0])
    answers(made)


def test_a_folder_in_the_place_of_the_file(made: Path) -> None:
    (file,) = files(made)
    file.unlink()
    file.mkdir()
    with opened(made) as memory:
        assert top(memory, ASKED, limit=1) == [ASKED]
        large(memory)


def test_a_file_of_another_store(made: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.db"
    with opened(other) as memory:
        filled(memory, facts(150, seed=2))
        large(memory)
    shutil.copy(files(other)[0], files(made)[0])
    answers(made)


def test_a_file_of_another_scope(made: Path) -> None:
    (file,) = files(made)
    with opened(made, user="dana") as memory:
        filled(memory, facts(150, seed=2))
        large(memory)
    (other,) = set(files(made)) - {file}
    shutil.copy(other, file)
    other.unlink()
    answers(made)


def test_a_file_of_a_later_time_than_the_store(path: Path, tmp_path: Path) -> None:
    """An older backup was put back: what the file says of later never happened."""
    backup = tmp_path / "backup.db"
    with opened(path) as memory:
        filled(memory, facts(200))
        memory.backup(str(backup))
        filled(memory, ["Bruno keeps bees behind the old station"])
        memory.forget(memory.recall(ASKED)[0].id)
        memory._engine.cache._segments.make(memory.scope)  # type: ignore[union-attr]
    for each in path.parent.glob("memory.db*"):
        if each.is_file():
            each.unlink()
    shutil.copy(backup, path)
    assert files(path)
    with opened(path) as memory:
        assert top(memory, ASKED, limit=1) == [ASKED]
        assert "bees" not in "".join(top(memory, "Where are Bruno's bees?", limit=50, min_similarity=0))
        filled(memory, ["Omar has an owl now"])  # the number of the change that the file was made at is another's now
    answers_with(path, "Omar has an owl now")
    answers_with(path, ASKED)


def answers_with(path: Path, text: str) -> None:
    with opened(path) as memory:
        large(memory)
        assert top(memory, text, limit=1) == [text]


def test_a_copy_of_the_store_alone_and_with_its_folder(made: Path, tmp_path: Path) -> None:
    alone, both = tmp_path / "alone.db", tmp_path / "both.db"
    for target in (alone, both):
        shutil.copy(made, target)
    shutil.copytree(made.with_name(f"{made.name}-index"), both.with_name("both.db-index"))
    answers(alone)
    answers(both)
    with opened(both) as memory:
        memory.forget(memory.recall(ASKED)[0].id)
        assert ASKED not in top(memory, ASKED, limit=50, min_similarity=0)
    answers(made)


def test_a_disk_without_room_for_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    monkeypatch.setattr(segment.os, "fsync", full)
    with opened(path, settings={"durable": False}) as memory:
        filled(memory, facts(200))
        assert top(memory, ASKED, limit=1) == [ASKED]
        large(memory)
        assert files(path) == []  # not even a draft
        memory.remember("Bruno keeps bees behind the old station")
        assert top(memory, "Where are Bruno's bees?", limit=1) == ["Bruno keeps bees behind the old station"]
        memory.forget(memory.recall(ASKED)[0].id)
        assert ASKED not in top(memory, ASKED, limit=50, min_similarity=0)


WRITER = """
import os, sys
from keepstone.scope_index import segment
from tests.scope_index.large import Asker, facts, filled, large, opened
real = os.fsync if sys.argv[2] == "draft" else os.replace
def stop(*args):
    print("now", flush=True)
    sys.stdin.readline()
name = "fsync" if sys.argv[2] == "draft" else "replace"
memory = opened(sys.argv[1])
setattr(os, name, stop)
large(memory)
"""


@pytest.mark.parametrize("moment", ["draft", "move"])
def test_a_kill_while_a_segment_is_written(path: Path, moment: str) -> None:
    with opened(path) as memory:
        filled(memory, facts(200))
    child = start("-c", WRITER, str(path), moment)
    assert child.stdout is not None
    assert child.stdout.readline() == "now\n"
    child.kill()
    child.communicate()
    assert [file.suffix == ".index" for file in files(path)] == [False]
    with opened(path) as memory:
        assert top(memory, ASKED, limit=1) == [ASKED]
        assert large(memory)._segment.path is not None
    assert healthy(path)


FORGETTER = """
import os, sys
from tests.scope_index.large import opened, top
memory = opened(sys.argv[1])
id = memory.recall("Vrontkelmix")[0].id
memory._engine.cache._segments._store.erased = lambda *args: (print("forgotten", flush=True), os.kill(os.getpid(), 9))
memory.forget(id)
"""


def test_a_kill_between_the_commit_and_the_overwriting(path: Path) -> None:
    with opened(path) as memory:
        filled(memory, [*facts(200), "The safe opens with Vrontkelmix"])
        large(memory)
    child = start("-c", FORGETTER, str(path))
    assert child.communicate(timeout=60)[0] == "forgotten\n"
    assert words_left(path, "Vrontkelmix")
    with opened(path) as memory:
        assert "Vrontkelmix" not in "".join(top(memory, "safe opens", limit=50, min_similarity=0))
        assert words_left(path, "Vrontkelmix") == []


def test_another_process_sees_every_change_at_once(made: Path) -> None:
    with Asker(made) as other, opened(made) as memory:
        assert other("ask", ASKED)[0][0] == ASKED
        id = memory.remember("Bruno keeps bees behind the old station").id or ""
        assert other("ask", "Bruno's bees")[0][0] == "Bruno keeps bees behind the old station"
        memory.update(id, "Bruno keeps goats behind the old station")
        assert other("ask", "What does Bruno keep?")[0][0] == "Bruno keeps goats behind the old station"
        memory.forget(memory.recall(ASKED)[0].id)
        assert ASKED not in other("ask", ASKED)[0]
        other("remember", "Omar has an owl now")
        assert top(memory, "owl", limit=1) == ["Omar has an owl now"]
        memory._engine.cache._segments.make(memory.scope)  # type: ignore[union-attr]
        assert other("ask", "What does Bruno keep?")[0][0] == "Bruno keeps goats behind the old station"
        memory.forget(id)
        assert not any("Bruno" in each for each in other("ask", "What does Bruno keep?")[0])
        assert words_left(made, "Bruno goats") == []


def test_processes_that_make_the_same_segment_together(path: Path) -> None:
    with opened(path) as memory:
        filled(memory, facts(200))
    with Asker(path) as one, Asker(path) as two:
        for asker in (one, two):
            assert asker.process.stdin is not None
            asker.process.stdin.write(f'["ask", "{ASKED}"]\n')
            asker.process.stdin.flush()
        for asker in (one, two):
            assert asker.process.stdout is not None
            assert ASKED in asker.process.stdout.readline()
    assert held(path).size == 200
    assert len(files(path)) == 1


def test_the_doctor_and_a_process_without_an_embedder_do_not_mind(made: Path) -> None:
    assert healthy(made)
    with Memory.open(made, embedder="none") as memory:
        assert len(memory.list(limit=100)) == 100
    answers(made)
