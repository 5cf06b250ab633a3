"""Routes for tasks and working memories.

The server keeps no working memory between requests: each request restores it by name, changes it and saves it. Steps of one task
wait for each other.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.memory import Memory
from keepstone.ports.serialize import document
from keepstone.server.identity import READ, WRITE
from keepstone.server.routing import Body, FailFastList, Json, api_router, json_response, operation
from keepstone.server.schemas import LessonSchema, envelope
from keepstone.server.service import Caller
from keepstone.tasks.working_memory import WorkingMemory
from keepstone.types import Receipt, clean_name

router = api_router("tasks")
_MAX_TASK_CHARS = 60_000  # a longer task does not fit a working memory
_LOCKS = tuple(threading.Lock() for _ in range(64))


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


TaskText = Annotated[str, Field(max_length=_MAX_TASK_CHARS)]
# `working` names the working memory that a task is kept in; without it, the task has one of its own.


@operation(router, "POST", "/tasks", "start_task", rights=(READ, WRITE), schema=TaskSchema, status_code=201, statuses=(413,))
def start_task(caller: Caller, task: TaskText, goal: TaskText | None = None, working: str | None = None) -> Response:
    """Start a task. Its lessons are the outcomes of similar tasks, failures included."""
    memory = caller.memory
    name = None if working is None else _clean(working)
    memory.working.saved_as = name
    with _lock(caller, name or ""):
        started = memory.tasks.start(task, goal=goal)
    return json_response({**document(started), "working": _document(memory.working)}, 201)


@operation(router, "POST", "/tasks/{id:path}/steps", "record_step", rights=(READ, WRITE), schema=StepSchema, statuses=(404, 413))
def record_step(
    caller: Caller, id: str, thought: str, action: str = "", result: str = "", working: str | None = None
) -> dict[str, Any]:
    """Record a step of a task. When this answers, the step is on disk."""
    with _restore_task(caller, id, working) as memory:
        receipt = memory.tasks.record(thought, action, result)
        return {"receipt": receipt, "working": _document(memory.working)}


@operation(router, "POST", "/tasks/{id:path}/end", "end_task", rights=(READ, WRITE), schema=StepSchema, statuses=(404, 413))
def end_task(caller: Caller, id: str, success: bool, outcome: str, working: str | None = None) -> dict[str, Any]:
    """End a task. Its steps and outcome are stored as an episode."""
    with _restore_task(caller, id, working) as memory:
        receipt = memory.tasks.end(success, outcome)
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


# -- working memories ----------------------------------------------------------------------------------------------------------
@operation(router, "GET", "/working/{name:path}", "working", schema=WorkingBody, statuses=(404,))
def get_working(caller: Caller, name: str) -> dict[str, Any]:
    """A working memory by name, with the steps of its task."""
    working = caller.memory.working
    if not working.restore(name):
        raise _no_working(name)
    return _document(working)


def _no_working(name: str) -> NotFound:
    return NotFound(f"working memory {name!r:.80} does not exist in this scope: check the name, or start a task.")


@operation(
    router,
    "PUT",
    "/working/{name:path}",
    "save_working",
    rights=(WRITE,),
    model=WorkingBody,
    schema=WorkingBody,
    statuses=(413,),
)
def save_working(caller: Caller, name: str, **fields: Any) -> dict[str, Any]:
    """Save a working memory under a name, replacing an earlier one."""
    working = caller.memory.working
    working.load(fields)
    with _lock(caller, _clean(name)):
        working.save(name)
    return _document(working)


@operation(
    router,
    "DELETE",
    "/working/{name:path}",
    "drop_working",
    rights=(WRITE,),
    schema=envelope("DropWorkingResult", dropped=Literal[True]),
    statuses=(404,),
)
def drop_working(caller: Caller, name: str) -> dict[str, bool]:
    """Delete a saved working memory."""
    if not caller.memory.working.drop(name):
        raise _no_working(name)
    return {"dropped": True}
