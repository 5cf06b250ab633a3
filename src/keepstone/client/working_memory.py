"""A working memory that is saved on a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import path_segment
from keepstone.client.plans import run
from keepstone.errors import NotFound

if TYPE_CHECKING:
    from keepstone.client.transport import Transport
    from keepstone.tasks.working_memory import WorkingMemory


def saved_name(working: WorkingMemory) -> str:
    """The name that a working memory is saved under."""
    return working.saved_as or f"task:{working.task_id}"


def take_over(working: WorkingMemory, document: Mapping[str, Any], thought: str, *, saved: bool) -> None:
    """Load the server's working memory after a step. Where this one could not be saved there, only the step is taken over."""
    if saved:
        working.load(document)
        return
    working.steps, working.done, working.step_ids = document["steps"], document["done"], document["step_ids"]
    if thought.strip():
        working.think(thought)


def remote_working_memory(wire: Callable[[], Transport]) -> WorkingMemory:
    """A working memory whose `save`, `restore` and `drop` go to the server over a synchronous transport."""
    from keepstone.tasks.working_memory import WorkingMemory

    def path(name: str) -> str:
        return f"/v1/working/{path_segment(name.removeprefix('working:'), 'the name of a working memory')}"

    def save(name: str, value: str, task_id: str | None) -> None:
        run(wire().request("PUT", path(name), json.loads(value), repeatable=True))

    def restore(name: str) -> str | None:
        try:
            return json.dumps(run(wire().request("GET", path(name))))
        except NotFound:
            return None

    def drop(name: str) -> bool:
        try:
            run(wire().request("DELETE", path(name)))
        except NotFound:
            return False
        return True

    return WorkingMemory(save, restore, drop)
