"""Tasks whose steps and ends come at the same time, or are cut off by a kill."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory


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
