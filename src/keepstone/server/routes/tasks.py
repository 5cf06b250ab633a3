"""Routes for tasks and working memories.

The server keeps no working memory between requests: each request restores it by name, changes it and saves it. Steps of one task
wait for each other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel, Field
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.memory import Memory
from keepstone.ports.serialize import document
from keepstone.server.identity import READ, WRITE
from keepstone.server.routing import Body, CurrentCaller, FailFastList, Json, api_router, json_response, problems
from keepstone.server.schemas import DroppedSchema, LessonSchema
from keepstone.server.service import Caller
from keepstone.tasks.working_memory import WorkingMemory
from keepstone.types import Receipt, clean_name

router = api_router("tasks")
_MAX_TASK_CHARS = 60_000  # a longer task does not fit a working memory
_LOCKS = tuple(threading.Lock() for _ in range(64))


class StartBody(Body):
    """A task to start; `working` names the working memory to keep it in (default: one of its own)."""

    task: str = Field(max_length=_MAX_TASK_CHARS)
    goal: str | None = Field(None, max_length=_MAX_TASK_CHARS)
    working: str | None = None


class StepBody(Body):
    """One step of a task."""

    thought: str
    action: str = ""
    result: str = ""
    working: str | None = None


class EndBody(Body):
    """The outcome of a task."""

    success: bool
    outcome: str
    working: str | None = None


class WorkingBody(Body):
    """A working memory; omitted fields are empty."""

    task: str | None = None
    task_id: str | None = None
    goal: str | None = None
    subgoals: FailFastList[str] = Field(default_factory=list)
    results: dict[str, Json] = Field(default_factory=dict)
    thoughts: FailFastList[str] = Field(default_factory=list)
    variables: dict[str, Json] = Field(default_factory=dict)
    steps: FailFastList[str] = Field(default_factory=list)
    done: int = 0
    step_ids: FailFastList[str] = Field(default_factory=list)
    lessons: FailFastList[str] = Field(default_factory=list)


class TaskSchema(BaseModel):
    """A started task."""

    id: str
    task: str
    session: str
    lessons: list[LessonSchema]
    working: WorkingBody


class StepSchema(BaseModel):
    """The receipt of a step, and the working memory after it."""

    receipt: Receipt
    working: WorkingBody


@router.post("/tasks", operation_id="start_task", response_model=TaskSchema, status_code=201, responses=problems(413))
async def start_task(caller: CurrentCaller, body: StartBody) -> Response:
    """Start a task. Its lessons are the outcomes of similar tasks, failures included."""
    caller.require(WRITE)
    return json_response(await caller.run(_start, caller, body), 201)


def _start(caller: Caller, body: StartBody) -> dict[str, Any]:
    memory = caller.memory
    name = None if body.working is None else _clean(body.working)
    memory.working.saved_as = name
    with _lock(caller, name or ""):
        task = memory.tasks.start(body.task, goal=body.goal)
    return {**document(task), "working": _document(memory.working)}


@router.post("/tasks/{id:path}/steps", operation_id="record_step", response_model=StepSchema, responses=problems(404, 413))
async def record_step(caller: CurrentCaller, id: str, body: StepBody) -> Response:
    """Record a step of a task. When this answers, the step is on disk."""
    caller.require(WRITE)
    return json_response(await caller.run(_record, caller, id, body))


def _record(caller: Caller, id: str, body: StepBody) -> dict[str, Any]:
    with _restore_task(caller, id, body.working) as memory:
        receipt = memory.tasks.record(body.thought, body.action, body.result)
        return {"receipt": receipt, "working": _document(memory.working)}


@router.post("/tasks/{id:path}/end", operation_id="end_task", response_model=StepSchema, responses=problems(404, 413))
async def end_task(caller: CurrentCaller, id: str, body: EndBody) -> Response:
    """End a task. Its steps and outcome are stored as an episode."""
    caller.require(WRITE)
    return json_response(await caller.run(_end, caller, id, body))


def _end(caller: Caller, id: str, body: EndBody) -> dict[str, Any]:
    with _restore_task(caller, id, body.working) as memory:
        receipt = memory.tasks.end(body.success, body.outcome)
        return {"receipt": receipt, "working": _document(memory.working)}


@contextmanager
def _restore_task(caller: Caller, id: str, working: str | None) -> Iterator[Memory]:
    """A memory with a task in progress; NotFound if there is no such task."""
    name = _clean(f"task:{id}" if working is None else working)
    memory = caller.memory
    memory.working.saved_as = None if working is None else name
    with _lock(caller, name):
        if not memory.working.restore(name) or memory.working.task_id != id:
            raise NotFound(f"task {id!r:.80} is not in progress in this scope: start one, or name its working memory.")
        yield memory


def _lock(caller: Caller, name: str) -> threading.Lock:
    """The lock of a working memory, so that simultaneous steps do not overwrite each other."""
    return _LOCKS[hash((caller.scope, name)) % len(_LOCKS)]


def _document(working: WorkingMemory) -> dict[str, Any]:
    """A working memory as JSON can hold it: it may contain lone surrogates from a library in the same process."""
    text = json.dumps(working.document(), ensure_ascii=False)
    value: dict[str, Any] = json.loads(text.encode("utf-8", "replace"))
    return value


def _clean(name: str) -> str:
    return clean_name(name, "the name of a working memory")


@router.get("/working/{name:path}", operation_id="working", response_model=WorkingBody, responses=problems(404))
async def get_working(caller: CurrentCaller, name: str) -> Response:
    """A working memory by name, with the steps of its task."""
    caller.require(READ)
    return json_response(await caller.run(_get_working, caller, name))


def _get_working(caller: Caller, name: str) -> dict[str, Any]:
    working = caller.memory.working
    if not working.restore(name):
        raise _no_working(name)
    return _document(working)


def _no_working(name: str) -> NotFound:
    return NotFound(f"working memory {name!r:.80} does not exist in this scope: check the name, or start a task.")


@router.put("/working/{name:path}", operation_id="save_working", response_model=WorkingBody, responses=problems(413))
async def save_working(caller: CurrentCaller, name: str, body: WorkingBody) -> Response:
    """Save a working memory under a name, replacing an earlier one."""
    caller.require(WRITE)
    return json_response(await caller.run(_save_working, caller, name, body))


def _save_working(caller: Caller, name: str, body: WorkingBody) -> dict[str, Any]:
    working = caller.memory.working
    working.load(body.model_dump())
    with _lock(caller, _clean(name)):
        working.save(name)
    return _document(working)


@router.delete("/working/{name:path}", operation_id="drop_working", response_model=DroppedSchema, responses=problems(404))
async def drop_working(caller: CurrentCaller, name: str) -> Response:
    """Delete a saved working memory."""
    caller.require(WRITE)
    if not await caller.run(caller.memory.working.drop, name):
        raise _no_working(name)
    return json_response({"dropped": True})
