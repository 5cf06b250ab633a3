"""AsyncDoing: the half of a client that is about talking and doing.

What is in hand lives in this process, as in the library; before a step is recorded or a task ended it is saved on the server, and
afterwards it is what the server has.

Made by tools/make_client_aio.py from agent_verbs.py; do not edit.
"""

from __future__ import annotations

import asyncio
import secrets
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keepstone.client.aio_conversation import AsyncRemoteConversations
from keepstone.client.aio_parts import AsyncRemoteJobs
from keepstone.client.aio_transport import AsyncTransport
from keepstone.client.codec import read, read_all, when
from keepstone.client.request_args import message, tool_problem, usual
from keepstone.client.responses import part
from keepstone.client.working_memory import held, named, still, taken, under_way
from keepstone.errors import ValidationError
from keepstone.types import Message, Receipt

if TYPE_CHECKING:
    from keepstone.tasks.flow import Task
    from keepstone.tasks.working_memory import WorkingMemory

Time = datetime | str
_AT_ONCE = 100  # messages in one request


class AsyncDoing(ABC):
    """Conversations, learning, tasks, tools and prompts, over HTTP."""

    _wire: AsyncTransport
    _working: WorkingMemory | None
    _may_forget: bool
    _step: asyncio.Lock  # held while a task's step is recorded

    # -- talking --------------------------------------------------------------------------------------------------
    @property
    def conversation(self) -> AsyncRemoteConversations:
        """The conversations of this scope; `conversation("session")` is one of them."""
        return AsyncRemoteConversations(self._wire)

    async def ingest(
        self,
        messages: Iterable[Message | Mapping[str, Any]],
        *,
        session: str,
        extract: bool = True,
        source: str | None = None,
    ) -> list[Receipt]:
        """Append what was said in a session, in order, as records of kind "message"; a receipt for each.

        Facts are then looked for in what users said, unless `extract` is False. `source`: as whose words they count at the most,
        whatever their roles say. It is sent once, a hundred messages at a time: where the answer is lost, look before sending it
        again."""
        given, receipts = [message(each) for each in messages], list[Receipt]()
        for at in range(0, len(given), _AT_ONCE):
            body = {"session": session, "messages": given[at : at + _AT_ONCE], "extract": extract}
            body |= {} if source is None else {"source": source}
            found = await self._wire.post("/v1/ingest", body)
            receipts += read_all(Receipt, found["receipts"])
        return receipts

    async def learn(
        self,
        content: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        source: str = "user",
        session: str | None = None,
        occurred_at: Time | None = None,
    ) -> Receipt:
        """Keep a text as it is, as a note, and look for facts in it as `ingest` does."""
        given = {
            "content": content, "metadata": metadata, "source": usual(source), "session": session,
            "occurred_at": when(occurred_at),
        }  # fmt: skip
        return read(Receipt, await self._wire.post("/v1/learn", given))

    # -- doing ----------------------------------------------------------------------------------------------------
    @property
    @abstractmethod
    def working(self) -> WorkingMemory:
        """What is in hand."""

    @property
    def tasks(self) -> AsyncRemoteTasks:
        """The current task: `tasks.start()`, `tasks.record()`, `tasks.end()`."""
        return AsyncRemoteTasks(self)

    async def _start_task(self, task: str, goal: str | None) -> Task:
        """Begin a task in working memory; its `lessons` are what similar tasks came to, failures included."""
        from keepstone.tasks.flow import Task
        from keepstone.tasks.working_memory import checked_task

        checked_task(task, goal)
        working = self.working
        async with self._step:
            found = await self._wire.post("/v1/tasks", {"task": task, "goal": goal, "working": working.saved_as})
            working.load(found["working"])
        return read(Task, found)

    async def _record_step(self, thought: str, action: str = "", result: str = "") -> Receipt:
        """Keep one step of the task under way: on disk when this returns. Raises ValidationError without a task."""
        working = self.working
        id = under_way(working)
        async with self._step:
            still(working, id)
            problem = await self._saved(working)
            given = {"thought": thought, "action": action, "result": result, "working": named(working)}
            found = await self._wire.post(f"/v1/tasks/{part(id)}/steps", given)
            taken(working, found["working"], thought, whole=problem is None)
        receipt = read(Receipt, found["receipt"])
        return receipt if problem is None else replace(receipt, reasons=(*receipt.reasons, problem))

    async def _end_task(self, success: bool, outcome: str) -> Receipt:
        """End the task under way: what was tried and how it ended becomes an episode. Raises ValidationError without a task."""
        working = self.working
        id = under_way(working)
        async with self._step:
            still(working, id)
            await self._saved(working)
            ended = bool(success) if success in (True, False) else success
            given = {"success": ended, "outcome": outcome, "working": named(working)}
            found = await self._wire.post(f"/v1/tasks/{part(id)}/end", given)
            receipt = read(Receipt, found.get("receipt", found))
            if receipt.action != "refused":  # else the task stays in hand
                working.load(found["working"])
        return receipt

    async def _saved(self, working: WorkingMemory) -> str | None:
        """Put what is in hand on the server; what keeps it from that is said, and costs no step."""
        try:
            await self._wire.put(f"/v1/working/{part(named(working), 'working')}", held(working), again=True)
        except ValidationError as error:
            return f"the step is kept, but what is in hand could not be saved: {error}"
        return None

    async def context(self, query: str, *, max_tokens: int = 1500) -> str:
        """What is known about a query, what similar tasks have taught, and what is in hand, as one block for a prompt."""
        found = await self._with_what_is_in_hand("/v1/context", {"query": query, "max_tokens": max_tokens})
        return str(found["context"])

    async def _with_what_is_in_hand(self, path: str, given: Mapping[str, Any]) -> Any:
        """Ask for a block of a prompt; what is in hand is there for the server meanwhile, a task under its own name."""
        working = self._working
        if working is None or not working.lines():
            return await self._wire.post(path, given, again=True)
        name = named(working) if working.task_id is not None else f"client:{secrets.token_hex(8)}"
        await self._wire.put(f"/v1/working/{part(name, 'working')}", held(working), again=True)
        try:
            return await self._wire.post(path, {**given, "working": name}, again=True)
        finally:
            if working.task_id is None:
                await self._wire.delete(f"/v1/working/{part(name, 'working')}")

    @property
    def jobs(self) -> AsyncRemoteJobs:
        """Work on this scope's messages that waits for a model, or has failed."""
        return AsyncRemoteJobs(self._wire)

    # -- for a model ----------------------------------------------------------------------------------------------
    async def tools(self, *, allow_forget: bool = False, format: str = "anthropic") -> list[dict[str, Any]]:
        """The memory tools' schemas for a model; `format` is "anthropic" or "openai"."""
        from keepstone.agent.tools import schemas

        schemas(allow_forget, format)  # refuses a format that there is not
        self._may_forget = allow_forget
        found = await self._wire.get("/v1/tools", allow_forget=allow_forget, format=format)
        return list(found["tools"])

    async def call_tool(self, name: str, input: Mapping[str, Any], *, allow_forget: bool | None = None) -> dict[str, Any]:
        """Answer a model's use of a memory tool; what is wrong with the input is in the answer under "error". `allow_forget`
        None: as it was last asked of `tools`."""
        may = self._may_forget if allow_forget is None else allow_forget
        problem = tool_problem(name, input, may)
        if problem is not None:
            return {"error": problem}
        try:
            found = await self._wire.post(f"/v1/tools/{part(name)}", {"input": input, "allow_forget": may}, long=True)
        except ValidationError as error:
            return {"error": str(error)}
        return dict(found)

    async def system_prompt(self, query: str = "", *, max_tokens: int = 1500) -> str:
        """The rules of remembering for a model with the memory tools, and what is known for a query or a task under way."""
        found = await self._with_what_is_in_hand("/v1/prompt", {"query": query, "max_tokens": max_tokens})
        return str(found["prompt"])


class AsyncRemoteTasks:
    """What `client.tasks` offers."""

    def __init__(self, client: AsyncDoing) -> None:
        self._client = client

    async def start(self, task: str, *, goal: str | None = None) -> Task:
        """Start a task in working memory. The `lessons` of the result are episodes of similar tasks, failures included."""
        return await self._client._start_task(task, goal)

    async def record(self, thought: str, action: str = "", result: str = "") -> Receipt:
        """Store one step of the current task: it is on disk when this returns. Raises ValidationError without a task."""
        return await self._client._record_step(thought, action, result)

    async def end(self, success: bool, outcome: str) -> Receipt:
        """End the current task: its steps and its outcome become an episode. Raises ValidationError without a task."""
        return await self._client._end_task(success, outcome)
