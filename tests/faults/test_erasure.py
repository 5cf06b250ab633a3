"""forget leaves no byte: not in the file, not in the log, not in any process's cache."""

from __future__ import annotations

import random
import string
from pathlib import Path

import apsw
import pytest

from keepstone import Memory
from keepstone.stores.sqlite.free_space import VFS, uncleared_pages
from keepstone.text.words import stem
from tests.faults.support import Remote, everything, healthy, start


class Secrets:
    """Words that stand nowhere else, and a search for any trace of them on disk."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def word(self) -> str:
        """A random word; some end in what the index strips."""
        letters = "".join(self._random.choices("bcdfghjklmnpqrtvwxz", k=12))
        return (letters + self._random.choice(("", "ing", "ed", "7", "s"))).capitalize()

    @staticmethod
    def traces(path: Path, words: list[str]) -> list[str]:
        """The words of which something is left, as written, lower-cased or as indexed. The index shares the beginnings
        of neighbouring words, so it is the ends that are searched for."""
        blobs = {file.name: file.read_bytes() for file in path.parent.glob(path.name + "*")}
        assert path.name in blobs
        return [
            f"{word} in {name}"
            for word in words
            for name, blob in blobs.items()
            for form in {word, word.lower(), stem(word.lower())}
            if form.encode()[4:12] in blob
        ]


def filled(memory: Memory, secrets: Secrets, chance: random.Random, count: int) -> dict[str, list[str]]:
    """A store of many shapes and sizes; the secret words of each record by its id."""
    held: dict[str, list[str]] = {}
    for number in range(count):
        words = [secrets.word() for _ in range(3)]
        size = chance.choice((0, 0, 40, 400, 4000, 20_000, 59_000))
        filler = " ".join("".join(chance.choices(string.ascii_lowercase, k=7)) for _ in range(size // 8))
        content = f"{words[0]} {filler[: size // 2]} {words[1]} {filler[size // 2 :]} {words[2]}"
        more = [secrets.word() for _ in range(4)]
        shape = number % 5
        receipt = memory.remember(
            content,
            tag=f"tag{more[0]}" if shape == 1 else "general",
            key=f"key {more[1]}" if shape == 2 else None,
            metadata={f"note{more[2]}": f"about {more[2]}"} if shape in (1, 3) else None,
            session=f"session {more[3]}" if shape == 4 else None,
            source="web:https://example.org" if number % 7 == 0 else "user",
            idempotency_key=f"request {number}" if number % 6 == 0 else None,
        )
        id = receipt.id or ""
        used = {1: [more[0], more[2]], 2: [more[1]], 3: [more[2]], 4: [more[3]]}.get(shape, [])
        held.setdefault(id, []).extend(words + used)
        for _ in range(chance.choice((0, 0, 1, 3))):
            word = secrets.word()
            memory.update(id, f"Now it says {word}. " + "Padding. " * chance.choice((0, 5, 900)))
            held[id].append(word)
        if shape == 2 and chance.random() < 0.5:
            word = secrets.word()
            memory.remember(f"The key now means {word}.", key=f"key {more[1]}", idempotency_key=f"again {number}")
            held[id].append(word)
    for _ in range(10):  # near-duplicates: whichever wording is kept, the other goes to history
        word = secrets.word()
        one = memory.remember(f"{word} seems happy.").id or ""
        other = memory.remember(f"{word} is happy today.").id or ""
        held.setdefault(one, []).append(word)
        held.setdefault(other, []).append(word)
    said = [{"role": "user", "content": f"I told you {secrets.word()}."} for _ in range(20)]
    for receipt, message in zip(memory.ingest(said, session="talk"), said, strict=True):
        held[receipt.id or ""] = [message["content"].split()[-1].rstrip(".")]
    return held


def test_no_byte_of_forgotten_records_is_left(path: Path) -> None:
    secrets, chance = Secrets(0), random.Random(0)
    with Memory.open(path) as memory:
        held = filled(memory, secrets, chance, 150)
        ids = [id for id in held if id]
        assert Secrets.traces(path, held[ids[0]])  # the search does find what is there
        gone: list[str] = []
        for id in chance.sample(ids, 50):
            receipt = memory.forget(id)
            assert (receipt.forgotten, receipt.erased) == (1, True)
            gone.append(id)
        _check(memory, path, held, gone)
        memory.remember("Something new is written over the holes.")
    assert Secrets.traces(path, _words(held, gone)) == []
    with Memory.open(path) as memory:
        _check(memory, path, held, gone)
    assert healthy(path)


def _words(held: dict[str, list[str]], ids: list[str]) -> list[str]:
    kept = {word for id, words in held.items() if id not in ids for word in words}
    return [word for id in ids for word in held[id] if word not in kept]


def _check(memory: Memory, path: Path, held: dict[str, list[str]], gone: list[str]) -> None:
    """Nothing of what is gone, everything of the rest."""
    assert Secrets.traces(path, _words(held, gone)) == []
    there = {record.id for record in everything(memory)}
    assert there.isdisjoint(gone)
    assert {id for id in held if id not in gone} <= there
    for id in gone[:10]:
        assert memory.get(id) is None
        assert id not in [hit.id for hit in memory.recall(" ".join(held[id][:3]), limit=100, min_similarity=0)]


def test_rewording_a_record_leaves_no_word_of_its_past_in_the_index(path: Path) -> None:
    """FTS5's secure delete misses words when a row is taken out and put back in one transaction without a flush."""
    with Memory.open(path) as memory:
        id = memory.remember("First it says abc.").id or ""
        for content in ("Padding. " * 5 + "One.", "Padding. " * 900 + "Two.", "Three remains."):
            memory.update(id, content)
    assert healthy(path)
    with Memory.open(path) as memory:
        memory.forget(id)
    assert healthy(path)


def test_forgetting_by_key_source_session_and_everything(path: Path) -> None:
    secrets, chance = Secrets(9), random.Random(9)
    with Memory.open(path) as memory:
        held = filled(memory, secrets, chance, 100)
        records = everything(memory)
        gone: list[str] = []
        key = next(record for record in records if record.key)
        memory.forget(key=key.key)
        gone.append(key.id)
        _check(memory, path, held, gone)
        session = next(record for record in records if record.session and record.session != "talk")
        memory.forget(session=session.session)
        gone.append(session.id)
        _check(memory, path, held, gone)
        assert memory.forget(source="web").forgotten > 5
        gone += [record.id for record in records if record.source.startswith("web") and record.id not in gone]
        _check(memory, path, held, gone)
        assert memory.forget(session="talk").forgotten == 20
        gone += [record.id for record in records if record.session == "talk"]
        _check(memory, path, held, gone)
        other = memory.with_scope(user="dana")
        other.remember("Dana's own record stays.")
        left = len(everything(memory))
        assert memory.forget(everything=True).forgotten == left
        assert Secrets.traces(path, [word for words in held.values() for word in words]) == []
        assert [record.content for record in other.list()] == ["Dana's own record stays."]
    assert Secrets.traces(path, [word for words in held.values() for word in words]) == []
    assert healthy(path)


def _leave_in_free_space(path: Path, text: bytes) -> None:
    """Write a text into the free space of a page, where SQLite leaves copies of rows that it moved."""
    data = path.read_bytes()
    for at in range(4096, len(data), 4096):
        cells, end = int.from_bytes(data[at + 3 : at + 5], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        if data[at] == 13 and end - 8 - 2 * cells > 2 * len(text):
            with path.open("r+b") as file:
                file.seek(at + end - len(text))
                file.write(text)
            return
    raise AssertionError("no page has room for it")


def test_the_free_space_of_an_earlier_versions_file_is_cleared_by_the_first_forget(path: Path) -> None:
    with Memory.open(path) as memory:
        id = memory.remember("Dana keeps bees in the orchard.").id
    with apsw.Connection(str(path)) as db:
        db.execute("DELETE FROM meta WHERE name = 'free space cleared'")
    db.close()
    _leave_in_free_space(path, b"Vrontkelmix")
    with Memory.open(path) as memory:
        assert Secrets.traces(path, ["Vrontkelmix"]) != []
        assert memory.forget(id).erased
        assert Secrets.traces(path, ["Vrontkelmix"]) == []
    assert healthy(path)


def test_doctor_finds_bytes_in_the_free_space(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("Dana keeps bees in the orchard.")
    _leave_in_free_space(path, b"Vrontkelmix")
    with Memory.open(path) as memory:
        (finding,) = memory.upkeep.doctor().findings
    assert finding.problem.startswith("1 pages hold bytes of deleted rows")


@pytest.mark.parametrize("vfs", [None, VFS])
def test_rows_that_sqlite_moves_leave_copies_only_without_our_vfs(path: Path, vfs: str | None) -> None:
    db = apsw.Connection(str(path), vfs=vfs)
    db.pragma("journal_mode", "wal")
    db.pragma("secure_delete", 1)
    db.execute("CREATE TABLE note (number INTEGER PRIMARY KEY, text TEXT); CREATE INDEX note_text ON note (text)")
    chance = random.Random(0)
    rows = {number: "".join(chance.choices(string.ascii_lowercase, k=chance.randint(30, 300))) for number in range(500)}
    db.executemany("INSERT INTO note VALUES (?, ?)", rows.items())
    for number in chance.sample(sorted(rows), 100):
        rows[number] += "".join(chance.choices(string.ascii_lowercase, k=200))
        db.execute("UPDATE note SET text = ? WHERE number = ?", (rows[number], number))
    for number in chance.sample(sorted(rows), 100):
        db.execute("DELETE FROM note WHERE number = ?", (number,))
        del rows[number]
    db.pragma("wal_checkpoint(TRUNCATE)")
    assert dict(db.execute("SELECT number, text FROM note")) == rows
    assert db.pragma("integrity_check") == "ok"
    assert (uncleared_pages(db) == 0) is bool(vfs)
    db.close()


def test_another_process_that_held_the_record_does_not_return_it(path: Path) -> None:
    with Remote(path) as reader, Memory.open(path) as memory:
        id = memory.remember("The safe opens with Vrontkelmix.").id or ""
        assert reader.contents("How does the safe open?") == ["The safe opens with Vrontkelmix."]
        memory.forget(id)
        assert reader.contents("How does the safe open?") == []
        assert reader("get", id) is None
        assert Secrets.traces(path, ["Vrontkelmix"]) == []


def _pinned(path: Path) -> apsw.Connection:
    """A connection that keeps reading the present state of the file."""
    reader = apsw.Connection(str(path))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM record").fetchall()
    return reader


@pytest.mark.parametrize("ending", ["remember", "update", "ingest", "set", "forget", "recall", "close"])
def test_what_a_reader_holds_up_is_erased_by_the_next_write(path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstone.stores.sqlite.store._ERASE_WAIT_SECONDS", 0.05)
    memory = Memory.open(path)
    memory.remember("The lamp stays.")
    other = memory.remember("The chair goes to Oslo.").id or ""
    id = memory.remember("The safe opens with Vrontkelmix.").id or ""
    reader = _pinned(path)
    receipt = memory.forget(id)
    assert (receipt.forgotten, receipt.erased) == (1, False)
    assert "being read" in receipt.reasons[0]
    assert memory.get(id) is None
    assert not any(hit.id == id for hit in memory.recall("safe", min_similarity=0))
    reader.execute("COMMIT")
    reader.close()
    match ending:
        case "remember":
            memory.remember("A later fact about the harbour.")
        case "update":
            memory.update(other, "The chair went to Bergen.")
        case "ingest":
            memory.ingest([{"role": "user", "content": "Hello there."}], session="s")
        case "set":
            memory.set("colour", "green")
        case "forget":
            memory.forget(other)
        case "recall":
            memory.recall("lamp")
            memory.close()  # a read writes nothing at once, the close does
        case "close":
            memory.close()
    assert Secrets.traces(path, ["Vrontkelmix"]) == []
    memory.close()
    assert healthy(path)


HOLDER = """
import sys
import keepstone.stores.sqlite.store as store
from keepstone import Memory
store._ERASE_WAIT_SECONDS = 0.05
memory = Memory.open(sys.argv[1])
id = memory.remember("The safe opens with Vrontkelmix.").id
print("stored", flush=True)
sys.stdin.readline()
print(memory.forget(id).erased, flush=True)
sys.stdin.readline()
"""


def test_an_erasure_that_was_due_is_finished_by_another_process(path: Path) -> None:
    """The process that owed it was killed; the next one that opens the file and writes pays."""
    with Memory.open(path) as memory:
        memory.remember("The lamp stays.")
        child = start("-c", HOLDER, str(path))
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "stored\n"
        reader = _pinned(path)
        child.stdin.write("go\n")
        child.stdin.flush()
        assert child.stdout.readline() == "False\n"
        child.kill()
        child.communicate()
        reader.close()
    with Memory.open(path) as memory:
        memory.remember("A later fact about the harbour.")
        assert [record.content for record in memory.list()] == ["A later fact about the harbour.", "The lamp stays."]
        assert Secrets.traces(path, ["Vrontkelmix"]) == []
