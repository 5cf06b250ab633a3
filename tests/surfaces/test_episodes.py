"""Tasks and what they come to: steps on disk as they are done, success and failure as one memory each, recalled as lessons."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from keepstone import AsyncMemory, Memory
from keepstone.errors import ValidationError
from tests.surfaces.support import contents

OTHERS = ["Plan a birthday party for Mei", "Translate the brochure into Danish", "Repair the coffee machine in the kitchen"]


def done(memory: Memory, task: str, success: bool, outcome: str, *steps: tuple[str, str, str]) -> Any:
    """A whole task; the receipt of its episode."""
    memory.tasks.start(task)
    for step in steps:
        memory.tasks.record(*step)
    return memory.tasks.end(success, outcome)


# -- episodes -----------------------------------------------------------------------------------------------------
def test_episodic_memory_a_task_becomes_one_episode_with_what_was_tried(memory: Memory) -> None:
    task = memory.tasks.start("Deploy the shop to production")
    steps = [
        memory.tasks.record("Build it first", "make image", "built in 40 s"),
        memory.tasks.record("Push", "push to the registry", "denied: token expired"),
    ]
    receipt = memory.tasks.end(False, "The registry token had expired.")
    episode = memory.get(receipt.id or "")
    assert episode is not None
    assert (episode.kind, episode.tag, episode.session, episode.source) == ("episode", "failure", task.session, "agent")
    assert episode.parents == tuple(step.id for step in steps)
    assert episode.metadata == {"task_id": task.id, "success": False, "steps": 2}
    assert episode.content.splitlines() == [
        "Task: Deploy the shop to production",
        "It failed: The registry token had expired.",
        "What was tried:",
        "1. make image -> built in 40 s",
        "2. push to the registry -> denied: token expired",
    ]
    assert (memory.working.task, memory.working.steps) == (None, [])


def test_steps_are_on_disk_when_they_are_recorded(path: Path) -> None:
    with Memory.open(path) as memory, Memory.open(path) as other:
        task = memory.tasks.start("Count the herons")
        for at in range(3):
            memory.tasks.record(f"thought {at}", f"action {at}", f"result {at}")
            assert len(other.conversation(task.session)) == at + 2, "the task itself, and its steps"
        blocks = [each.content for each in other.conversation(task.session)]
        assert blocks[0] == "Count the herons"
        assert blocks[1] == [{"type": "step", "thought": "thought 0", "action": "action 0", "result": "result 0"}]
        assert [each.name for each in memory.conversation.list()] == [], "no conversation"


def test_episodic_memory_failures_are_recalled_for_a_similar_task(memory: Memory) -> None:
    for other in OTHERS:
        done(memory, other, True, "Done without trouble.", ("", "just did it", "fine"))
    done(memory, "Migrate the billing database to Postgres 16", False, "The invoices table was locked for an hour.",
         ("Try it at noon", "run the migration", "lock timeout"))  # fmt: skip
    task = memory.tasks.start("Migrate the billing database to Postgres 17")
    assert task.lessons
    best = task.lessons[0]
    assert (best.record.tag, best.record.metadata["success"]) == ("failure", False)
    assert "The invoices table was locked for an hour." in best.content
    assert "run the migration -> lock timeout" in best.content
    assert not any(other in hit.content for other in OTHERS for hit in task.lessons[:1])
    assert memory.working.lessons == [hit.id for hit in task.lessons]
    assert "The invoices table was locked" in memory.context("Migrate the billing database to Postgres 17")


def test_episodic_memory_successes_are_recalled_too(memory: Memory) -> None:
    done(
        memory, "Order flowers for the office", True, "The shop on Mill Street delivers by nine.", ("", "call Mill Street", "ok")
    )
    lessons = memory.tasks.start("Order flowers for the reception").lessons
    assert "Mill Street delivers by nine" in lessons[0].content
    assert lessons[0].record.tag == "success"


def test_the_first_task_has_no_lessons_and_those_of_another_scope_are_never_given(memory: Memory) -> None:
    assert memory.tasks.start("Deploy the shop").lessons == ()
    memory.tasks.end(True, "Deployed the shop.")
    assert memory.with_scope(user="other").tasks.start("Deploy the shop").lessons == ()
    assert len(memory.tasks.start("Deploy the shop").lessons) == 1


def test_ten_ordinary_tasks_leave_ten_episodes(memory: Memory) -> None:
    for at in range(10):
        done(memory, f"Answer support ticket {at}", at % 3 > 0, f"Ticket {at} was answered.",
             *((f"thought {step}", f"look at page {step} of {at}", "read") for step in range(5)))  # fmt: skip
    assert len(memory.list(kind="episode", limit=100)) == 10
    assert {each.kind for each in memory.list(limit=100)} <= {"episode", "message"}


def test_a_long_task_is_told_by_its_first_and_last_steps(memory: Memory) -> None:
    receipt = done(memory, "Read the archive", True, "All was read.", *(("", f"read volume {at}", "x" * 500) for at in range(60)))
    episode = memory.get(receipt.id or "")
    assert episode is not None
    assert episode.metadata["steps"] == len(episode.parents) == 60
    assert "read volume 0 " in episode.content
    assert "read volume 59 " in episode.content
    assert "… 40 more steps …" in episode.content
    assert "read volume 30 " not in episode.content
    assert len(episode.content) < 10_000


# -- what is wrong ------------------------------------------------------------------------------------------------
def test_without_a_task_nothing_is_recorded(memory: Memory) -> None:
    with pytest.raises(ValidationError, match=r"no task is under way: call tasks\.start"):
        memory.tasks.record("a thought")
    with pytest.raises(ValidationError, match=r"no task is under way: call tasks\.start"):
        memory.tasks.end(True, "done")
    done(memory, "One task", True, "done")
    with pytest.raises(ValidationError, match="no task is under way"):
        memory.tasks.end(True, "again")
    assert len(memory.list(kind="episode")) == 1


@pytest.mark.parametrize("step", [("",), ("  ", "", "\n"), (None,), ("a", 5), ("a", "b", {"c": 1})])
def test_a_step_needs_words(memory: Memory, step: Any) -> None:
    task = memory.tasks.start("Something")
    with pytest.raises(ValidationError, match=r"must be text|step is empty"):
        memory.tasks.record(*step)
    assert (memory.working.steps, len(memory.conversation(task.session))) == ([], 1)


@pytest.mark.parametrize(
    ("success", "outcome"), [("yes", "done"), (None, "done"), (2, "done"), (True, ""), (True, " "), (True, None)]
)
def test_a_task_ends_in_success_or_failure_with_words(memory: Memory, success: Any, outcome: Any) -> None:
    memory.tasks.start("Something")
    with pytest.raises(ValidationError, match=r"success is|outcome is"):
        memory.tasks.end(success, outcome)
    assert memory.working.task == "Something", "it is still under way"
    assert memory.tasks.end(True, "Now it is done.").action == "added"


@pytest.mark.parametrize("task", ["", "  ", None, 5])
def test_a_task_needs_words(memory: Memory, task: Any) -> None:
    memory.tasks.start("The one before")
    with pytest.raises(ValidationError, match="task is"):
        memory.tasks.start(task)
    assert memory.working.task == "The one before"


def test_the_same_tasks_through_async_memory(path: Path) -> None:
    async def worked() -> None:
        async with AsyncMemory.open(path) as memory:
            await memory.tasks.start("Deploy the shop to production")
            await memory.tasks.record("Push", "push to the registry", "denied")
            assert (await memory.tasks.end(False, "The registry token had expired.")).action == "added"
            task = await memory.tasks.start("Deploy the shop to staging")
            assert "token had expired" in contents(task.lessons)[0]
            view = memory.with_scope(user="other")
            await view.tasks.start("Something else")
            assert (view.working.task, memory.working.task) == ("Something else", "Deploy the shop to staging")
            with pytest.raises(ValidationError):
                await memory.tasks.record("")

    asyncio.run(worked())
