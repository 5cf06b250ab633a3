"""Tasks, and what is in hand meanwhile.

The server holds nothing in hand between two requests: each brings the working memory back by its name, goes on with it and saves
it again. Steps of one task wait for each other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import Field
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.memory import Memory
from keepstone.ports.serialize import document
from keepstone.server.identity import READ, WRITE
from keepstone.server.responses import Asking, Given, Json, Many, also, answer, group
from keepstone.server.service import Caller
from keepstone.server.shapes_talking import DroppedShape, StepShape, TaskShape, WorkingShape
from keepstone.tasks.working_memory import WorkingMemory
from keepstone.types import clean_name

router = group("tasks")
_LONGEST = 60_000  # characters of a task or a goal: more could not be kept in hand
_LOCKS = tuple(threading.Lock() for _ in range(64))


class Start(Given):
    """A task to begin; `working` names the working memory that it is kept in (none: one of its own)."""

    task: str = Field(max_length=_LONGEST)
    goal: str | None = Field(None, max_length=_LONGEST)
    working: str | None = None


class Step(Given):
    """One step of a task."""

    thought: str
    action: str = ""
    result: str = ""
    working: str | None = None


class End(Given):
    """How a task ended."""

    success: bool
    outcome: str
    working: str | None = None


class Working(Given):
    """What is in hand, as it was given before; what is left out is empty."""

    task: str | None = None
    task_id: str | None = None
    goal: str | None = None
    subgoals: Many[str] = Field(default_factory=list)
    results: dict[str, Json] = Field(default_factory=dict)
    thoughts: Many[str] = Field(default_factory=list)
    variables: dict[str, Json] = Field(default_factory=dict)
    steps: Many[str] = Field(default_factory=list)
    done: int = 0
    step_ids: Many[str] = Field(default_factory=list)
    lessons: Many[str] = Field(default_factory=list)


@router.post("/tasks", operation_id="start_task", response_model=TaskShape, status_code=201, responses=also(413))
async def start_task(asking: Asking, given: Start) -> Response:
    """Begin a task; its lessons are what similar tasks came to, failures included."""
    asking.need(WRITE)
    return answer(await asking.run(_start, asking, given), 201)


def _start(asking: Caller, given: Start) -> dict[str, Any]:
    memory = asking.memory
    name = None if given.working is None else _named(given.working)
    memory.working.saved_as = name
    with _alone(asking, name or ""):
        task = memory.tasks.start(given.task, goal=given.goal)
    return {**document(task), "working": _shown(memory.working)}


@router.post("/tasks/{id:path}/steps", operation_id="record_step", response_model=StepShape, responses=also(404, 413))
async def record_step(asking: Asking, id: str, given: Step) -> Response:
    """Keep one step of a task: on disk when this answers."""
    asking.need(WRITE)
    return answer(await asking.run(_record, asking, id, given))


def _record(asking: Caller, id: str, given: Step) -> dict[str, Any]:
    with _under_way(asking, id, given.working) as memory:
        receipt = memory.tasks.record(given.thought, given.action, given.result)
        return {"receipt": receipt, "working": _shown(memory.working)}


@router.post("/tasks/{id:path}/end", operation_id="end_task", response_model=StepShape, responses=also(404, 413))
async def end_task(asking: Asking, id: str, given: End) -> Response:
    """End a task: what was tried and how it ended becomes an episode."""
    asking.need(WRITE)
    return answer(await asking.run(_end, asking, id, given))


def _end(asking: Caller, id: str, given: End) -> dict[str, Any]:
    with _under_way(asking, id, given.working) as memory:
        receipt = memory.tasks.end(given.success, given.outcome)
        return {"receipt": receipt, "working": _shown(memory.working)}


@contextmanager
def _under_way(asking: Caller, id: str, working: str | None) -> Iterator[Memory]:
    """A memory with a task in hand; NotFound where there is none such under way."""
    name = _named(f"task:{id}" if working is None else working)
    memory = asking.memory
    memory.working.saved_as = None if working is None else name
    with _alone(asking, name):
        if not memory.working.restore(name) or memory.working.task_id != id:
            raise NotFound(f"there is no task {id!r:.80} under way in this scope: start one, or name its working memory.")
        yield memory


@contextmanager
def _alone(asking: Caller, name: str) -> Iterator[None]:
    """One at a time for each working memory, or two steps at once would count as one."""
    with _LOCKS[hash((asking.scope, name)) % len(_LOCKS)]:
        yield


def _shown(working: WorkingMemory) -> dict[str, Any]:
    """What is in hand as an answer can have it: a library in the same process may have left half a surrogate pair in it."""
    shown: dict[str, Any] = json.loads(json.dumps(working.document(), ensure_ascii=False).encode("utf-8", "replace"))
    return shown


def _named(name: str) -> str:
    return clean_name(name, "the name of a working memory")


@router.get("/working/{name:path}", operation_id="working", response_model=WorkingShape, responses=also(404))
async def get(asking: Asking, name: str) -> Response:
    """What is in hand under a name, with the steps of its task."""
    asking.need(READ)
    return answer(await asking.run(_get, asking, name))


def _get(asking: Caller, name: str) -> dict[str, Any]:
    working = asking.memory.working
    if not working.restore(name):
        raise _nothing(name)
    return _shown(working)


def _nothing(name: str) -> NotFound:
    return NotFound(f"nothing is in hand under the name {name!r:.80} in this scope: check the name, or start a task.")


@router.put("/working/{name:path}", operation_id="save_working", response_model=WorkingShape, responses=also(413))
async def put(asking: Asking, name: str, given: Working) -> Response:
    """Put what is in hand under a name, in place of what was there."""
    asking.need(WRITE)
    return answer(await asking.run(_put, asking, name, given))


def _put(asking: Caller, name: str, given: Working) -> dict[str, Any]:
    working = asking.memory.working
    working.load(given.model_dump())
    with _alone(asking, _named(name)):
        working.save(name)
    return _shown(working)


@router.delete("/working/{name:path}", operation_id="drop_working", response_model=DroppedShape, responses=also(404))
async def drop(asking: Asking, name: str) -> Response:
    """Take what is in hand under a name from the disk."""
    asking.need(WRITE)
    if not await asking.run(asking.memory.working.drop, name):
        raise _nothing(name)
    return answer({"dropped": True})
