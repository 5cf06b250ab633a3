"""kill -9 in the middle of a conversation or a task: what was acknowledged is there, the task goes on, the summary holds."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from keepstone import Memory
from tests.faults.support import healthy, run, start

TALK = """
import json, sys
from keepstone import Memory
memory = Memory.open(sys.argv[1])
talk = memory.conversation("s", max_messages=6, max_tokens=600)
for at in range(100_000):
    talk.add("user" if at % 2 == 0 else "assistant", f"message {at}", number=at)
    print(at, flush=True)
    talk.messages()
"""

WORK = """
import sys
from keepstone import Memory
memory = Memory.open(sys.argv[1])
task = memory.tasks.start("Count all the herons", goal="A number")
memory.working.push("Count the river")
print(task.id, flush=True)
for at in range(100_000):
    memory.tasks.record(f"thought {at}", f"count pond {at}", f"{at} herons")
    print(at, flush=True)
"""

IMPORT = """
import json, sys
from keepstone import Memory
memory = Memory.open(sys.argv[1])
messages = [{"role": "user", "content": f"message {at} " + "x" * 200} for at in range(5000)]
data = {"keepstone": 1, "session": "s", "messages": messages, "summary": None}
print("now", flush=True)
memory.conversation("s").import_(data)
print("done", flush=True)
sys.stdin.read()
"""

AGAIN = """
import json, sys
from keepstone import Memory
with Memory.open(sys.argv[1]) as memory:
    assert memory.working.restore()
    print(json.dumps([memory.working.task, memory.working.current_goal, memory.working.steps]))
"""


def killed_after(process: subprocess.Popen[str], lines: int) -> list[str]:
    """What a process said until it was killed: at least so many lines, and what it wrote while the signal was on its way."""
    assert process.stdin is not None
    assert process.stdout is not None
    said = [process.stdout.readline().strip() for _ in range(lines)]
    process.kill()
    said += [line.strip() for line in process.stdout.read().splitlines() if line.strip()]
    process.wait()
    process.stdin.close()
    process.stdout.close()
    return said


def test_messages_acknowledged_before_the_kill_are_there(path: Path) -> None:
    acknowledged = 0
    for lines in (1, 7, 30, 3):
        said = killed_after(start("-c", TALK, str(path)), lines)
        assert said[:lines] == [str(at) for at in range(lines)], "the process did talk"
        acknowledged += len(said)
        with Memory.open(path) as memory:
            talk = memory.conversation("s", max_messages=6, max_tokens=600)
            kept = list(talk)
            assert acknowledged <= len(kept) <= acknowledged + 1
            acknowledged = len(kept)
            assert all(each.content == f"message {each.metadata['number']}" for each in kept)
            built = talk.build()
            assert built.messages[-1]["content"] == kept[-1].content
            assert built.ids[-1] == kept[-1].id
            assert built.summary.messages + len(built.ids) == len(kept), "every message is in the summary or in the window"
    assert healthy(path)


def test_a_task_resumes_after_kill_9(path: Path) -> None:
    id, *steps = killed_after(start("-c", WORK, str(path)), 6)
    assert len(steps) >= 5
    task, goal, done = run(AGAIN, path)
    assert (task, goal) == ("Count all the herons", "Count the river")
    assert len(steps) <= len(done) <= len(steps) + 1, "every step that was acknowledged"
    with Memory.open(path) as memory:
        assert memory.working.restore()
        assert memory.working.task_id == id
        on_disk = [each for each in memory.conversation(f"task:{id}") if not isinstance(each.content, str)]
        assert len(done) <= len(on_disk) <= len(done) + 1, "a step is stored before it is noted as done"
        memory.tasks.record("Go on", "count the last pond", "3 herons")
        episode = memory.get(memory.tasks.end(True, "There are many herons.").id or "")
        assert episode is not None
        assert f"{len(done) + 1}. count the last pond -> 3 herons" in episode.content
        assert "1. count pond 0 -> 0 herons" in episode.content
        assert "There are many herons." in memory.tasks.start("Count all the herons of the lake").lessons[0].content
    assert healthy(path)


def test_an_import_that_is_killed_leaves_all_of_it_or_nothing(tmp_path: Path) -> None:
    for lines in (1, 2):
        path = tmp_path / f"memory{lines}.db"
        said = killed_after(start("-c", IMPORT, str(path)), lines)
        with Memory.open(path) as memory:
            kept = len(memory.conversation("s"))
        assert kept in ((5000,) if "done" in said else (0, 5000))
        assert healthy(path)


def test_two_sessions_over_a_kill_are_read_in_order(path: Path) -> None:
    killed_after(start("-c", TALK, str(path)), 4)
    with Memory.open(path) as memory:
        before = len(memory.conversation("s"))
        memory.conversation("later").add("user", "And in the second session?")
        recent = memory.conversation.recent(3)
        assert [each.content for each in recent] == [
            f"message {before - 2}",
            f"message {before - 1}",
            "And in the second session?",
        ]
        exported = memory.conversation("s").export()
        assert json.loads(json.dumps(exported)) == exported
        assert len(exported["messages"]) == before
