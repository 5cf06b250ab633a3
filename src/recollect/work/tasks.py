"""Tasks: begun with the lessons of similar ones, recorded step by step, ended as an episode.
Imports: ports, learn, recall, write.

A step is a message of the task's own session (tag "step"), on disk when it is recorded. What a task came to, success or failure,
is one memory of kind "episode" that names its steps: ten tasks leave ten episodes, not a hundred.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.errors import ValidationError
from recollect.learn.flow import STEP, Learning
from recollect.recall.flow import Recalling
from recollect.recall.query import RecallQuery
from recollect.types import Hit, Message, Receipt, Scope
from recollect.work.working import WorkingMemory
from recollect.write.flow import Writing
from recollect.write.request import WriteRequest

EPISODE = "episode"
LESSONS = 3
_SHORT = 240  # characters of a step's parts in an episode
_SHOWN = 20  # steps in an episode: the first and the last
_LONG = 4000  # characters of a task or an outcome in an episode


@dataclass(frozen=True, slots=True)
class Task:
    """A task under way: its id, the session its steps are kept in, and what similar tasks have taught."""

    id: str
    task: str
    session: str
    lessons: tuple[Hit, ...] = ()


class Tasks:
    """start_task, record_step, end_task for one working memory at a time."""

    def __init__(self, learning: Learning, recalling: Recalling, writing: Writing) -> None:
        self._learning = learning
        self._recalling = recalling
        self._writing = writing

    def start(self, scope: Scope, working: WorkingMemory, task: str, goal: str | None) -> Task:
        """Begin a task; what was tried on similar ones comes with it."""
        id = secrets.token_hex(8)
        working.start(task, task_id=id, goal=goal)
        self._say(scope, id, Message("user", task))
        lessons = self.lessons(scope, task, LESSONS)
        working.lessons = [hit.id for hit in lessons]
        working.save()
        return Task(id, task, session_of(id), tuple(lessons))

    def lessons(self, scope: Scope, task: str, limit: int) -> Sequence[Hit]:
        """Episodes of similar tasks, failures among them."""
        return self._recalling.recall(scope, RecallQuery.checked(task[:4000], limit=limit, kinds={EPISODE})).hits

    def record(self, scope: Scope, working: WorkingMemory, thought: str, action: str, result: str) -> Receipt:
        """Keep one step of the task under way."""
        id = _under_way(working)
        parts = {"thought": thought, "action": action, "result": result}
        for name, value in parts.items():
            if not isinstance(value, str):
                raise ValidationError(f"{name} must be text, got {type(value).__name__}: describe it in words or as JSON.")
        if not any(value.strip() for value in parts.values()):
            raise ValidationError("a step is empty: give at least one of thought, action, result.")
        receipt = self._say(scope, id, Message("assistant", [{"type": STEP, **parts}], metadata={"step": len(working.steps) + 1}))
        working.steps.append(_line(thought, action, result))
        working.step_ids.append(receipt.id or "")
        if thought.strip():
            working.think(thought)
        working.save()
        return receipt

    def end(self, scope: Scope, working: WorkingMemory, success: bool, outcome: str) -> Receipt:
        """Turn the task under way into an episode."""
        id = _under_way(working)
        if success not in (True, False):
            raise ValidationError(f"success is {success!r:.40}: use True or False.")
        if not isinstance(outcome, str) or not outcome.strip():
            raise ValidationError(f"outcome is {outcome!r:.60}: say in words how it ended.")
        request = WriteRequest(
            _told(working, bool(success), outcome),
            kind=EPISODE,
            tag="success" if success else "failure",
            importance=0.7,
            metadata={"task_id": id, "success": bool(success), "steps": len(working.steps)},
            source="agent",
            session=session_of(id),
            parents=tuple(each for each in working.step_ids if each),
        )
        receipt = self._writing.remember(scope, [request])[0]
        self._say(scope, id, Message("assistant", outcome, metadata={"success": bool(success)}))
        working.clear()
        working.save()
        return receipt

    def _say(self, scope: Scope, id: str, message: Message) -> Receipt:
        return self._learning.ingest(scope, [message], session_of(id), tag=STEP)[0]


def session_of(task_id: str) -> str:
    """The session that a task's steps are kept in."""
    return f"task:{task_id}"


def _under_way(working: WorkingMemory) -> str:
    if working.task is None or working.task_id is None:
        raise ValidationError("no task is under way: call start_task first, or working.restore() after a restart.")
    return working.task_id


def _line(thought: str, action: str, result: str) -> str:
    done = _short(action) or _short(thought)
    return f"{done} -> {_short(result)}" if result.strip() else done


def _short(text: str) -> str:
    one = " ".join(text.split())
    return one if len(one) <= _SHORT else f"{one[:_SHORT]}…"


def _told(working: WorkingMemory, success: bool, outcome: str) -> str:
    """A task as a memory: what was wanted, what was tried, how it ended."""
    steps = working.steps
    lines = [f"{at}. {step}" for at, step in enumerate(steps, 1)]
    if len(lines) > _SHOWN:
        half = _SHOWN // 2
        lines = [*lines[:half], f"… {len(lines) - _SHOWN} more steps …", *lines[-half:]]
    ended = "It worked" if success else "It failed"
    parts = [f"Task: {(working.task or '')[:_LONG]}", f"{ended}: {outcome[:_LONG]}"]
    return "\n".join([*parts, *(["What was tried:", *lines] if lines else [])])
