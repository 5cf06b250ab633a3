"""`keepstone test` on a store that exists: it is copied, and not changed by a byte; what cannot be tested is said."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from keepstone import Memory
from tests.cli.support import process


def digests(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    """A folder with a store that has a past, and a suite beside it."""
    with Memory.open(tmp_path / "agent.db", user="dana") as memory:
        memory.remember("Dana prefers dark mode.")
        memory.remember("Dana lives in Porto.")
    suite = """
version: 1
memory: {store: agent.db, user: dana}
given:
  - remember: "Dana has a dog."
  - {set: plan, value: pro, tag: account}
tests:
  - ask: "Which theme does Dana like?"
    must_recall: [dark mode]
  - ask: "Does Dana have a dog?"
    must_recall: [a dog]
  - context: "What is known about Dana?"
    must_contain: [Porto]
  - value: plan
    must_be: pro
  - isolation: true
"""
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "memtest.yaml").write_text(suite.replace("agent.db", "../agent.db"))
    return tmp_path


def test_the_store_under_test_is_not_changed_by_a_byte(agent: Path) -> None:
    store = agent / "agent.db"
    before, there, changed = digests(agent), set(agent.iterdir()), store.stat().st_mtime_ns
    for arguments in ((), ("--db", "agent.db"), ("--db", str(store), "--user", "dana")):
        done = process("test", *arguments, cwd=agent)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, "tests/memtest.yaml  a copy of agent.db"), done.stdout
    assert (digests(agent), set(agent.iterdir()), store.stat().st_mtime_ns) == (before, there, changed)


def test_a_store_that_is_in_use_is_copied_with_what_is_in_its_log(agent: Path) -> None:
    with Memory.open(agent / "agent.db", user="dana") as memory:
        memory.remember("Dana has a parrot.")
        log = agent / "agent.db-wal"
        assert log.stat().st_size > 0
        (agent / "memtest.json").write_text(
            json.dumps({"version": 1, "tests": [{"ask": "Does Dana have a parrot?", "must_recall": "parrot"}]})
        )
        held = ((agent / "agent.db").read_bytes(), log.read_bytes())
        done = process("test", "memtest.json", "--db", "agent.db", "--user", "dana", cwd=agent)
        assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed"), done.stdout + done.stderr
        assert ((agent / "agent.db").read_bytes(), log.read_bytes()) == held
        assert [record.access_count for record in memory.list()] == [0, 0, 0]


KILLED = """
import os, sys
from keepstone import Memory
memory = Memory.open(sys.argv[1], user="dana")
memory.remember("Dana has a parrot.")
os.kill(os.getpid(), 9)
"""


def test_a_store_whose_process_was_killed(agent: Path) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(agent / "agent.db")], check=False, timeout=60)
    (agent / "agent.db-shm").unlink()
    assert (agent / "agent.db-wal").stat().st_size > 0
    (agent / "memtest.json").write_text(
        json.dumps({"version": 1, "tests": [{"ask": "Does Dana have a parrot?", "must_recall": "parrot"}]})
    )
    before = digests(agent)
    done = process("test", "memtest.json", "--db", "agent.db", "--user", "dana", cwd=agent)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "1 passed"), done.stdout + done.stderr
    assert digests(agent) == before


def test_what_cannot_be_a_store(agent: Path) -> None:
    (agent / "text.db").write_text("no store")
    done = process("test", "--db", "text.db", cwd=agent)
    assert done.returncode == 8
    assert f"cannot be run  StoreDamaged: {agent / 'text.db'} is not a keepstone store" in done.stdout
    missing = process("test", "--db", "missing.db", cwd=agent)
    assert "there is no store at" in missing.stdout
    assert not (agent / "missing.db").exists()


def test_nothing_is_given_to_a_store_that_others_use(agent: Path) -> None:
    done = process("test", "--db", "postgresql://app:secret@127.0.0.1:1/none", cwd=agent)
    assert done.returncode == 8
    assert "'given' would be written into a store that others use: take it out" in done.stdout
    assert "secret" not in done.stdout + done.stderr


def test_a_server_is_not_tested(agent: Path) -> None:
    done = process("test", cwd=agent, KEEPSTONE_URL="http://127.0.0.1:1")
    assert done.returncode == 5
    assert "'keepstone test' needs a store" in done.stderr


def test_neither_a_buffer_nor_an_index_of_the_environment_is_used(agent: Path) -> None:
    done = process("test", cwd=agent, KEEPSTONE_BUFFER="redis://127.0.0.1:1/0", KEEPSTONE_INDEX="qdrant:http://127.0.0.1:1")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "5 passed"), done.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("nowhere.yaml",), 5, "nowhere.yaml cannot be read"),
        (("bad.yaml",), 2, "bad.yaml:1: the file has no tests"),
        (("--junit", "no/such/folder.xml", "tests"), 5, "--junit no/such/folder.xml cannot be written"),
    ],
    ids=["missing", "bad", "junit"],
)
def test_what_is_said_of_bad_arguments(agent: Path, arguments: tuple[str, ...], code: int, said: str) -> None:
    (agent / "bad.yaml").write_text("version: 1")
    done = process("test", *arguments, cwd=agent)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("error: ")
    assert said in done.stderr


def test_a_store_on_postgresql_is_read_where_it_is(tmp_path: Path, postgres_url: str) -> None:
    with Memory.open(postgres_url, user="dana") as memory:
        memory.remember("Dana prefers dark mode.")
        trail = len(memory.audit())
    suite = {
        "version": 1,
        "memory": {"user": "dana"},
        "tests": [{"ask": "Which theme?", "must_recall": "dark", "asked_at": "2090-01-01"}, {"isolation": True}],
    }
    (tmp_path / "memtest.json").write_text(json.dumps(suite))
    done = process("test", "--db", postgres_url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (
        0,
        "memtest.json  a store on a server\n  passed  Which theme?\n  passed  isolation\n2 passed\n",
    )
    with Memory.open(postgres_url, user="dana") as memory:
        assert (len(memory.list()), len(memory.audit())) == (1, trail)
        (record,) = memory.list()
        assert record.last_accessed_at is not None
        assert record.last_accessed_at.year < 2090, "when it was read is not when the test pretends to ask"
