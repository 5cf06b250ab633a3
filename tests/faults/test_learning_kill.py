"""Several processes on one queue: each job is done once; a process killed in the middle of a model call loses nothing, and
another does its job when the lease is over."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory, Scope
from keepstone.open import open_engine
from keepstone.ports.chat import Prompt
from tests.faults.support import everything, healthy, start

FACT = {"turns": [1], "content": "The user lives in Porto.", "type": "profile", "key": "home.city", "confidence": 0.9}

HANGS = """
import sys
from keepstone import Memory
def model(prompt):
    print("asked", flush=True)
    sys.stdin.readline()  # killed here
    return {"facts": []}
memory = Memory.open(sys.argv[1], model=model, settings={"extract_after": 0, "worker": sys.argv[2] == "worker"})
memory.conversation("s").add("user", "I live in Porto.")
print("said", flush=True)
if sys.argv[2] == "worker":
    sys.stdin.readline()
else:
    memory.jobs.run()
"""

WORKS = """
import json, os, re, sys
from keepstone import Memory
log = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def model(prompt):
    if "contradicted" in prompt.system:
        return {"contradicted": []}
    name = re.search("role=.user.[^>]*>Parcel (p[0-9]+q)", prompt.messages[-1]["content"])[1]
    os.write(log, f"{os.getpid()} {name}\\n".encode())
    fact = {"turns": [1], "content": f"Parcel {name} is on shelf {name}.", "type": "other", "key": None, "confidence": 0.9}
    return {"facts": [fact]}
with Memory.open(sys.argv[1], model=model, settings={"worker": False}) as memory:
    print("ready", flush=True)
    sys.stdin.readline()
    report = memory.upkeep.run()
print(json.dumps([report.done, report.failed, len(report.learned)]))
"""


def facts(memory: Memory) -> list[str]:
    return sorted(record.content for record in everything(memory) if record.kind == "fact")


def later(path: Path, hours: float, model: Any) -> Memory:
    """A memory of a process that looks at the store so much later."""
    ahead = timedelta(hours=hours)
    engine = open_engine(path, clock=lambda: datetime.now(UTC) + ahead, model=model, settings={"worker": False})
    return Memory(engine, Scope())


@pytest.mark.parametrize("way", ["worker", "run"])
def test_a_kill_in_the_middle_of_a_model_call_leaves_the_job_to_another(path: Path, way: str) -> None:
    child = start("-c", HANGS, str(path), way)
    assert child.stdout is not None
    assert {child.stdout.readline(), child.stdout.readline()} == {"said\n", "asked\n"}
    child.kill()
    child.communicate()
    asked: list[Prompt] = []

    def model(prompt: Prompt) -> Any:
        asked.append(prompt)
        return {"facts": [FACT]}

    with later(path, 0, model) as memory:
        assert [message.content for message in memory.conversation.recent()] == ["I live in Porto."]
        (job,) = memory.jobs.list()
        assert (job.state, job.attempts) == ("running", 1)
        assert memory.jobs.run().done == 0  # the lease is the dead process's still
        assert asked == []
    with later(path, 1, model) as memory:
        report = memory.jobs.run()
        assert (report.done, report.failed) == (1, 0)
        assert facts(memory) == ["The user lives in Porto."]
        assert list(memory.jobs.list()) == []
        assert len(asked) == 1
    assert healthy(path)


def test_two_processes_share_the_queue_and_each_job_is_done_once(tmp_path: Path, path: Path) -> None:
    names = [f"p{number}q" for number in range(40)]
    with Memory.open(path, model=lambda prompt: "", settings={"worker": False}) as memory:
        for at, name in enumerate(names):
            memory.with_scope(user=f"u{at % 3}").conversation(name).add("user", f"Parcel {name} is on shelf {name}.")
    log = tmp_path / "asked"
    children = [start("-c", WORKS, str(path), str(log)) for _ in range(2)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    reports = [json.loads(child.communicate(timeout=120)[0]) for child in children]
    assert [child.returncode for child in children] == [0, 0]
    assert [sum(parts) for parts in zip(*reports, strict=True)] == [40, 0, 40]
    asked = [line.split() for line in log.read_text().splitlines()]
    assert sorted(name for _, name in asked) == sorted(names)
    with Memory.open(path) as memory:
        learned = [fact for user in ("u0", "u1", "u2") for fact in facts(memory.with_scope(user=user))]
        assert sorted(learned) == sorted(f"Parcel {name} is on shelf {name}." for name in names)
        assert all(not memory.with_scope(user=user).jobs.list() for user in ("u0", "u1", "u2"))
    assert healthy(path)


def test_a_process_killed_again_and_again_at_the_same_job_loses_no_word(path: Path) -> None:
    for _ in range(3):
        child = start("-c", HANGS, str(path), "run")
        assert child.stdout is not None
        assert [child.stdout.readline(), child.stdout.readline()] == ["said\n", "asked\n"]
        child.kill()
        child.communicate()
    with later(path, 1, lambda prompt: {"facts": [FACT]}) as memory:
        assert len(memory.conversation.recent()) == 3
        report = memory.jobs.run()
        assert (report.done, report.failed) == (3, 0)
        assert facts(memory) == ["The user lives in Porto."]
        assert list(memory.jobs.list()) == []
    assert healthy(path)
