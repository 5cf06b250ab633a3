"""What is in hand, between this process and a server. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keepstone.errors import ValidationError

if TYPE_CHECKING:
    from keepstone.client.transport import Transport
    from keepstone.tasks.working_memory import WorkingMemory


def held(working: WorkingMemory) -> dict[str, Any]:
    """What is in hand as it is sent."""
    return working.document()


def named(working: WorkingMemory) -> str:
    """The name that it is saved under by itself."""
    return working.saved_as or f"task:{working.task_id}"


def under_way(working: WorkingMemory) -> str:
    """The id of the task in hand; ValidationError without one."""
    if working.task is None or working.task_id is None:
        raise ValidationError("no task is under way: call start_task first, or working.restore() after a restart.")
    return working.task_id


def still(working: WorkingMemory, id: str) -> None:
    """ValidationError where the task in hand is another by now."""
    if working.task_id != id:
        raise ValidationError("the task was ended, or another was started, while this waited: nothing was recorded.")


def taken(working: WorkingMemory, document: Mapping[str, Any], thought: str, whole: bool) -> None:
    """Take over what the server has after a step; where it could not be told what is in hand, the step alone."""
    if whole:
        working.load(document)
        return
    working.steps, working.done, working.step_ids = document["steps"], document["done"], document["step_ids"]
    if thought.strip():
        working.think(thought)


def working_over(wire: Callable[[], Transport]) -> WorkingMemory:
    """A working memory that is saved on a server."""
    from keepstone.client.responses import part
    from keepstone.errors import NotFound
    from keepstone.tasks.working_memory import WorkingMemory

    def path(name: str) -> str:
        return f"/v1/working/{part(name.removeprefix('working:'), 'the name of a working memory')}"

    def kept(name: str) -> str | None:
        try:
            return json.dumps(wire().get(path(name)))
        except NotFound:
            return None

    def drop(name: str) -> bool:
        try:
            wire().delete(path(name))
        except NotFound:
            return False
        return True

    return WorkingMemory(lambda name, value, task_id: wire().put(path(name), json.loads(value), again=True), kept, drop)
