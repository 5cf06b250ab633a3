"""Several processes and threads forget at the same time."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from keepstone import Memory
from tests.faults.support import environment, healthy, run

FORGETS = """
import sys, threading
from keepstone import Memory

def forget(memory, number):
    view = memory.with_scope(user=f"user{number}")
    for turn in range(8):
        count = 100 if (turn + number) % 2 else 5
        said = [{"role": "user", "content": f"Box {number}-{turn}-{n} holds {n * 7919} jars of honey."} for n in range(count)]
        view.ingest(said, session=f"s{turn}", extract=False)
        view.forget(session=f"s{turn}")

with Memory.open(sys.argv[1], settings={"durable": False}) as memory:
    threads = [threading.Thread(target=forget, args=(memory, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print("null")
"""

LOCKED = """
import fcntl, json, sys

with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 510, 0x40000002)  # where SQLite's readers have theirs
        print(json.dumps(False))
    except OSError:
        print(json.dumps(True))
"""


def test_concurrent_forgets_all_succeed(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", FORGETS, str(path)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert healthy(path)
    assert b"jars of honey" not in path.read_bytes(), "and nothing of it is left"


@pytest.mark.skipif(sys.platform == "win32", reason="locks of another kind")
def test_a_forget_lets_go_of_no_lock(path: Path) -> None:
    with Memory.open(path) as memory:
        id = memory.remember("Dana keeps bees in the orchard.").id
        assert run(LOCKED, path) is True
        memory.forget(id)
        assert run(LOCKED, path) is True, "another process would take this one for gone"
