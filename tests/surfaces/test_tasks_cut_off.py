"""Tasks whose steps and ends come at the same time, or are cut off by a kill."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from tests.faults.support import start


# tasks
def blocked(memory: Memory, work: Any, meanwhile: Any) -> None:
    """`work` has looked whether a task is under way and waits for the lock; `meanwhile` happens first."""
    failures: list[BaseException] = []

    def attempt() -> None:
        try:
            work()
        except Exception as error:
            failures.append(error)

    memory.working.lock.acquire()
    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join(0.3)  # it is at the lock by then; if not, the test passes
    meanwhile()
    memory.working.lock.release()
    thread.join()


def test_a_step_that_comes_after_the_end_leaves_nothing_in_hand(memory: Memory) -> None:
    memory.tasks.start("Find the zebra")
    blocked(memory, lambda: memory.tasks.record("late"), lambda: memory.tasks.end(True, "Found it."))
    assert memory.working.done == 0
    assert not memory.working.restore()


def test_a_step_of_a_task_is_not_put_into_the_next(memory: Memory) -> None:
    memory.tasks.start("Find the zebra")

    def switch() -> None:
        memory.tasks.end(True, "Found it.")
        memory.tasks.start("Find the giraffe")

    blocked(memory, lambda: memory.tasks.record("about the zebra"), switch)
    assert memory.working.steps == []


def test_a_task_ends_once(memory: Memory) -> None:
    memory.tasks.start("Find the zebra")
    blocked(memory, lambda: memory.tasks.end(False, "It was cut off."), lambda: memory.tasks.end(True, "Found it."))
    assert len([each for each in memory.list(limit=100) if each.kind == "episode"]) == 1


def test_a_task_that_was_killed_between_its_episode_and_the_end_is_not_restored(path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(*arguments: Any) -> None:
        raise Killed

    with Memory.open(path) as memory:
        memory.tasks.start("Find the zebra")
        memory.tasks.record("looking")
        memory.working._drop = die  # the process ends here
        with pytest.raises(Killed):
            memory.tasks.end(True, "Found it.")
    with Memory.open(path) as memory:
        assert not memory.working.restore() or memory.working.task is None


# a step that was recorded when the process was killed
def test_a_step_recorded_before_a_kill_is_known_after_it(path: Path) -> None:
    class Killed(BaseException):
        pass

    def die(*arguments: Any) -> None:
        raise Killed

    with Memory.open(path) as memory:
        task = memory.tasks.start("Find the zebra")
        memory.working._keep = die  # the process ends here: the step is on disk, the working memory is not
        with pytest.raises(Killed):
            memory.tasks.record("looked in the barn")
    with Memory.open(path) as memory:
        assert memory.working.restore()
        memory.tasks.record("looked in the field")
        memory.tasks.end(True, "Found it.")
        numbers = [each.metadata.get("step") for each in memory.conversation(task.session) if "step" in each.metadata]
        assert numbers == [1, 2]
        assert "barn" in next(each.content for each in memory.list(limit=10) if each.kind == "episode")


# a task that was cut off leaves a lesson
TASK = "Find out why the queue service answers with error 502"
CUT_OFF = """
import sys
from keepstone import Memory
from keepstone.agent import MemoryAgent

def read_log(lines: int) -> str:
    "The last lines of the log."
    return "out of memory"

def model(prompt):
    if len(prompt.messages) == 1:
        return {"type": "tool_use", "id": "1", "name": "read_log", "input": {"lines": 5}}
    print("waiting", flush=True)
    sys.stdin.read()  # until the kill

memory = Memory.open(sys.argv[1])
MemoryAgent(memory, model, tools=[read_log]).run(sys.argv[2])
"""


def cut_off(path: Path) -> None:
    """An agent that is killed in the middle of its task, after one step."""
    with start("-c", CUT_OFF, str(path), TASK) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.kill()
        process.wait()


def test_a_task_cut_off_by_a_kill_leaves_a_lesson(path: Path) -> None:
    cut_off(path)
    with Memory.open(path) as memory:
        begun = memory.tasks.start("The queue service answers with error 502 again: mend it")
        [lesson] = begun.lessons
        assert (lesson.record.kind, lesson.record.tag, lesson.record.metadata["success"]) == ("episode", "failure", False)
        assert TASK in lesson.content
        assert "It failed: it was cut off" in lesson.content
        assert "read_log" in lesson.content
        assert "out of memory" in lesson.content
    with Memory.open(path) as memory:  # once is enough
        memory.tasks.start("Another task")
        assert [record.id for record in memory.list(kind="episode")] == [lesson.id]


def test_a_task_that_goes_on_after_a_kill_leaves_only_its_end(path: Path) -> None:
    cut_off(path)
    with Memory.open(path) as memory:
        [lesson] = memory.tasks.start("The queue service answers with error 502 again: mend it").lessons
        memory.tasks.end(True, "Raised the limit.")
        assert memory.working.restore(f"task:{lesson.record.metadata['task_id']}")
        memory.working.saved_as = None
        memory.tasks.end(True, "Raised the limit here too.")
        episodes = memory.list(kind="episode")
        assert [record.metadata["success"] for record in episodes] == [True, True]
        assert memory.get(lesson.id) is None


def test_a_task_under_way_in_another_process_is_no_lesson(path: Path) -> None:
    with start("-c", CUT_OFF, str(path), TASK) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        with Memory.open(path) as memory:
            assert memory.tasks.start(TASK).lessons == ()
            memory.tasks.end(False, "Nothing was found.")
        process.kill()
        process.wait()
    with Memory.open(path) as memory:
        assert len(memory.tasks.start(TASK).lessons) == 2
