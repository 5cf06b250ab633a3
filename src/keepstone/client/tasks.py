"""Tasks on a server.

The working memory is in this process, as in the library. It is saved on the server before a step is recorded or a task ended,
and afterwards it is what the server has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from keepstone.client.codec import path_segment, read
from keepstone.client.plans import Asynchronous, Plan, RemoteGroup, Synchronous, verb
from keepstone.client.working_memory import saved_name, take_over
from keepstone.errors import ValidationError
from keepstone.tasks.flow import Task, Tasks, check_current, current_task
from keepstone.tasks.working_memory import WorkingMemory, check_task
from keepstone.types import Receipt

if TYPE_CHECKING:
    from keepstone.client.client import RemoteMemory


class Lock(Protocol):
    """A lock of threading, or of asyncio whose `acquire` is awaited."""

    def acquire(self) -> Any: ...

    def release(self) -> None: ...


class TaskVerbs(RemoteGroup):
    """Starts, records and ends the task of a working memory."""

    def __init__(self, client: RemoteMemory) -> None:
        super().__init__(client)
        self._working: WorkingMemory = client.working
        self._lock: Lock = client._task_lock()  # held while a step is recorded

    @verb(Tasks.start)
    def start(self, task: str, *, goal: str | None = None) -> Plan[Task]:
        check_task(task, goal)
        yield self._lock.acquire
        try:
            fields = {"task": task, "goal": goal, "working": self._working.saved_as}
            response = yield from self._wire.request("POST", "/v1/tasks", fields)
            self._working.load(response["working"])
        finally:
            self._lock.release()
        return read(Task, response)

    @verb(Tasks.record)
    def record(self, thought: str, action: str = "", result: str = "") -> Plan[Receipt]:
        working = self._working
        id = current_task(working)
        yield self._lock.acquire
        try:
            check_current(working, id)
            problem = yield from self._save()
            fields = {"thought": thought, "action": action, "result": result, "working": saved_name(working)}
            response = yield from self._wire.request("POST", f"/v1/tasks/{path_segment(id)}/steps", fields)
            take_over(working, response["working"], thought, saved=problem is None)
        finally:
            self._lock.release()
        receipt = read(Receipt, response["receipt"])
        return receipt if problem is None else replace(receipt, reasons=(*receipt.reasons, problem))

    @verb(Tasks.end)
    def end(self, success: bool, outcome: str) -> Plan[Receipt]:
        working = self._working
        id = current_task(working)
        yield self._lock.acquire
        try:
            check_current(working, id)
            yield from self._save()
            ended = bool(success) if success in (True, False) else success
            fields = {"success": ended, "outcome": outcome, "working": saved_name(working)}
            response = yield from self._wire.request("POST", f"/v1/tasks/{path_segment(id)}/end", fields)
            receipt = read(Receipt, response.get("receipt", response))
            if receipt.action != "refused":  # else the task goes on
                working.load(response["working"])
        finally:
            self._lock.release()
        return receipt

    def _save(self) -> Plan[str | None]:
        """Save the working memory on the server. A failure is reported in the receipt and loses no step."""
        address = f"/v1/working/{path_segment(saved_name(self._working), 'working')}"
        try:
            yield from self._wire.request("PUT", address, self._working.document(), repeatable=True)
        except ValidationError as error:
            return f"the step is stored, but the working memory could not be saved: {error}"
        return None


class RemoteTasks(TaskVerbs, Synchronous):
    """What `client.tasks` offers."""


class AsyncRemoteTasks(TaskVerbs, Asynchronous):
    """What `client.tasks` offers, for asyncio."""
