"""keepstone encrypt, decrypt and rekey, killed at any instant."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest

from keepstone import Memory
from keepstone.errors import KeepstoneError
from keepstone.stores.sqlite import encryption
from keepstone.stores.sqlite.free_space import uncleared_pages
from tests.faults.support import environment

KEYS = {"one": "the first passphrase", "two": "7d" * 32}
FACTS = [f"Parcel {number} went to Quillfeather Lane." for number in range(90)]


def run(*arguments: str, key: str | None = None) -> subprocess.Popen[str]:
    surroundings = {**environment(), **({"KEEPSTONE_ENCRYPTION_KEY": key} if key else {})}
    command = [sys.executable, "-m", "keepstone", *arguments, "--json"]
    return subprocess.Popen(command, env=surroundings, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def result(process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate(timeout=60)
    return {"code": process.returncode, **json.loads(out or err)}


def filled(path: Path) -> list[str]:
    with Memory.open(path, embedder="none") as memory:
        memory.remember_many([{"content": fact} for fact in FACTS])
    return contents(path, None)


def contents(path: Path, key: str | None) -> list[str]:
    with Memory.open(path, embedder="none", settings={"encryption_key": key or ""}) as memory:
        assert memory.upkeep.doctor().healthy
        return sorted(record.content for record in memory.list(limit=100).records)


def test_a_store_is_encrypted_rekeyed_and_decrypted(path: Path, tmp_path: Path) -> None:
    facts = filled(path)
    (tmp_path / "memory.db-index").mkdir()
    (tmp_path / "memory.db-index" / "segment").write_text("Quillfeather")
    (tmp_path / "two").write_text(KEYS["two"])
    path.chmod(0o640)
    assert result(run("encrypt", "--db", str(path), key=KEYS["one"]))["encrypted"] is True
    assert b"Quillfeather" not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert path.stat().st_mode & 0o777 == 0o640
    assert contents(path, KEYS["one"]) == facts
    changed = result(run("rekey", "--db", str(path), "--new-key-file", str(tmp_path / "two"), key=KEYS["one"]))
    assert changed["code"] == 0
    assert contents(path, KEYS["two"]) == facts
    with pytest.raises(KeepstoneError, match="does not open"):
        contents(path, KEYS["one"])
    refused = result(run("export", str(tmp_path / "out.jsonl"), "--db", str(path), key=KEYS["two"]))
    assert "--plaintext" in str(refused["error"])
    exported = result(run("export", str(tmp_path / "out.jsonl"), "--db", str(path), "--plaintext", key=KEYS["two"]))
    assert exported["records"] == len(FACTS)
    assert result(run("decrypt", "--db", str(path), key=KEYS["one"]))["code"] != 0
    assert result(run("decrypt", "--db", str(path), key=KEYS["two"]))["encrypted"] is False
    assert contents(path, None) == facts


def test_a_key_change_that_fails_leaves_no_bytes_of_deleted_rows(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of the log that it writes into the old file are cleared like any other."""
    filled(path)
    with Memory.open(path, embedder="none") as memory:
        for record in memory.list(limit=60):
            memory.update(record.id, record.content + " It was heavy." * 9)
        shutil.copy(path, path.with_name("copy.db"))
        shutil.copy(f"{path}-wal", path.with_name("copy.db-wal"))  # as a kill leaves them
    copy = path.with_name("copy.db")
    monkeypatch.setattr(encryption, "_write", lambda *given: (_ for _ in ()).throw(OSError("no space")))
    with pytest.raises(OSError, match="no space"):
        encryption.change_key(str(copy), None, KEYS["two"], 5)
    monkeypatch.undo()
    db = apsw.Connection(str(copy))
    assert uncleared_pages(db) == 0
    db.close()
    assert len(contents(copy, None)) == len(FACTS)


def test_a_store_in_use_is_not_touched(path: Path) -> None:
    facts = filled(path)
    with Memory.open(path, embedder="none") as memory:
        memory.list()
        refused = result(run("encrypt", "--db", str(path), key=KEYS["one"]))
        assert "is in use" in str(refused["error"])
        memory.remember("Written after the refusal.")
    assert contents(path, None) == sorted([*facts, "Written after the refusal."])


def test_a_kill_leaves_the_old_file_or_the_new_one(path: Path, tmp_path: Path) -> None:
    """Killed at an instant that is chosen at random in the time that the command takes; then it is run to its end."""
    facts = filled(path)
    (tmp_path / "two").write_text(KEYS["two"])
    choose, key, seen = random.Random(5), None, set()
    begun = time.monotonic()
    assert result(run("encrypt", "--db", str(path), key=KEYS["one"]))["code"] == 0
    usual, key = time.monotonic() - begun, KEYS["one"]
    steps = {None: ("encrypt", KEYS["one"]), KEYS["one"]: ("rekey", KEYS["two"]), KEYS["two"]: ("decrypt", None)}
    for number in range(6):
        verb, after = steps[key]
        options = ("--new-key-file", str(tmp_path / "two")) if verb == "rekey" else ()
        process = run(verb, "--db", str(path), *options, key=key or KEYS["one"])
        try:
            process.communicate(timeout=usual * choose.uniform(0.5, 1.0))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        encrypted = not path.read_bytes().startswith(b"SQLite format 3")
        found = next(each for each in (key, after) if (each is not None) == encrypted and opens(path, each))
        assert contents(path, found) == facts, f"{number}: killed in {verb}"
        seen.add(found == after)
        if found == key:
            assert result(run(verb, "--db", str(path), *options, key=key or KEYS["one"]))["code"] == 0
            assert contents(path, after) == facts
        key = after
    assert False in seen, "no command was killed before its end"
    journal = tmp_path / "memory.db-journal"  # a kill may leave it behind
    assert not journal.exists() or not any(journal.read_bytes()[:8]), "it is never one that would be played back"
    names = {name for name in os.listdir(tmp_path) if not name.startswith(".memory.db.")} - {journal.name}
    assert names == {"memory.db", "two"}


def opens(path: Path, key: str | None) -> bool:
    try:
        Memory.open(path, embedder="none", settings={"encryption_key": key or ""}).close()
    except KeepstoneError:
        return False
    return True
