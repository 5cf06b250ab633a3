"""The half of AsyncMemory that is about talking and doing. Made by tools/make_aio.py; do not edit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from keepstone.memory import Memory, Path, Time
from keepstone.ports.queue import Session
from keepstone.types import Message, Receipt

if TYPE_CHECKING:
    from keepstone.tasks.flow import Task

T = TypeVar("T")


class AsyncVerbs(ABC):
    """Learning, tasks, tools and prompts in one scope."""

    @abstractmethod
    async def _run(self, work: Callable[[Memory], T]) -> T:
        """Do something with the memory, off the event loop."""

    async def ingest(
        self, messages: Iterable[Message | Mapping[str, Any]], *, session: str, extract: bool = True, source: str | None = None
    ) -> list[Receipt]:
        """Append what was said in a session, in order, as records of kind "message"; a receipt for each.

        Facts are then looked for in what users said: by the model in the background, where one is set, else at once by rules
        (`learned` in the receipt). `extract=False` only stores. `source`: as whose words they count at the most, whatever their
        roles say; "import:…" for what another product has kept."""
        return await self._run(lambda memory: memory.ingest(messages, session=session, extract=extract, source=source))

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
        return await self._run(
            lambda memory: memory.learn(content, metadata=metadata, source=source, session=session, occurred_at=occurred_at)
        )

    async def recent(self, n: int = 20) -> list[Message]:
        """The user's last n messages across all sessions, oldest first."""
        return await self._run(lambda memory: memory.recent(n))

    async def sessions(self, *, limit: int = 100) -> Sequence[Session]:
        """The conversations there are, the last one spoken in first."""
        return await self._run(lambda memory: memory.sessions(limit=limit))

    async def export_chats(self, path: Path, *, format: str = "openai", only_successes: bool = False) -> int:
        """Write every conversation and task as a line of chat messages, ready for fine-tuning (JSONL). How many lines.

        `format` is "openai" or "anthropic"; `only_successes` leaves out tasks that failed."""
        return await self._run(lambda memory: memory.export_chats(path, format=format, only_successes=only_successes))

    async def start_task(self, task: str, *, goal: str | None = None) -> Task:
        """Begin a task in working memory; its `lessons` are what similar tasks came to, failures included."""
        return await self._run(lambda memory: memory.start_task(task, goal=goal))

    async def record_step(self, thought: str, action: str = "", result: str = "") -> Receipt:
        """Keep one step of the task under way: on disk when this returns. Raises ValidationError without a task."""
        return await self._run(lambda memory: memory.record_step(thought, action, result))

    async def end_task(self, success: bool, outcome: str) -> Receipt:
        """End the task under way: what was tried and how it ended becomes an episode. Raises ValidationError without a task."""
        return await self._run(lambda memory: memory.end_task(success, outcome))

    async def context(self, query: str, *, max_tokens: int = 1500) -> str:
        """What is known about a query, what similar tasks have taught, and what is in hand, as one block for a prompt: fenced,
        escaped, each line with its date and source, in a stable order, within the budget."""
        return await self._run(lambda memory: memory.context(query, max_tokens=max_tokens))

    async def tools(self, *, allow_forget: bool = False, format: str = "anthropic") -> list[dict[str, Any]]:
        """The memory tools' schemas for a model: recall_memory, write_memory, update_memory, and forget_memory where it is
        allowed. `format` is "anthropic" or "openai"."""
        return await self._run(lambda memory: memory.tools(allow_forget=allow_forget, format=format))

    async def call_tool(self, name: str, input: Mapping[str, Any], *, allow_forget: bool | None = None) -> dict[str, Any]:
        """Answer a model's use of a memory tool, in this Memory's scope whatever the input says; what is wrong with the input is
        in the answer under "error". `allow_forget` None: as it was last asked of `tools`."""
        return await self._run(lambda memory: memory.call_tool(name, input, allow_forget=allow_forget))

    async def system_prompt(self, query: str = "", *, max_tokens: int = 1500) -> str:
        """The rules of remembering for a model with the memory tools, with examples and the tags in use. With a query, or a task
        under way, what is known for it follows: task, goal, what was done already, memories."""
        return await self._run(lambda memory: memory.system_prompt(query, max_tokens=max_tokens))
