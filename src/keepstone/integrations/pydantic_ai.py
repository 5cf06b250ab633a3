"""Pydantic AI: the memory tools as a toolset, what is known as instructions, message histories, and the conversation store."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from pydantic import TypeAdapter
from pydantic_ai import RunContext
from pydantic_ai.messages import ModelMessage
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.toolsets import AbstractToolset, ToolsetTool

from keepstone.agent.tools import schemas
from keepstone.integrations.coerce import plain
from keepstone.integrations.message_items import Turns
from keepstone.integrations.pydantic_ai_messages import message_of, text_of, turn_of
from keepstone.integrations.pydantic_ai_store import KeepstoneConversationStore
from keepstone.integrations.run_to_completion import settled

__all__ = ["KeepstoneConversationStore", "KeepstoneHistory", "KeepstoneToolset", "memory_instructions"]

OF = "pydantic-ai"
_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(dict[str, Any])


class KeepstoneToolset(AbstractToolset[Any]):
    """recall_memory, write_memory and update_memory for `Agent(toolsets=[KeepstoneToolset(memory)])`, and forget_memory where it
    is allowed. They work in the memory's own scope, whatever a model writes; the rules of remembering come as instructions."""

    def __init__(self, memory: Any, *, allow_forget: bool = False, id: str | None = "keepstone") -> None:
        self._memory = plain(memory)
        self._allow_forget = allow_forget
        self._id = id

    @property
    def id(self) -> str | None:
        """The toolset's name among those of an agent."""
        return self._id

    async def get_tools(self, ctx: RunContext[Any]) -> dict[str, ToolsetTool[Any]]:
        """The tools by their names."""
        return {each["name"]: self._tool(each) for each in schemas(self._allow_forget)}

    async def get_instructions(self, ctx: RunContext[Any]) -> str:
        """The rules of remembering, with the tags in use."""
        return await settled(self._memory.system_prompt)

    async def call_tool(self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]) -> Any:
        """The answer for the model; what is wrong with its input stands there under "error"."""
        return await settled(self._memory.call_tool, name, tool_args, allow_forget=self._allow_forget)

    def _tool(self, schema: dict[str, Any]) -> ToolsetTool[Any]:
        defined = ToolDefinition(
            name=schema["name"], description=schema["description"], parameters_json_schema=schema["input_schema"]
        )
        return ToolsetTool(toolset=self, tool_def=defined, max_retries=1, args_validator=_OBJECT.validator)


def memory_instructions(memory: Any, *, max_tokens: int = 1500) -> Callable[[RunContext[Any]], Awaitable[str]]:
    """One of an Agent's `instructions`: what is known about what the user asks now, within `max_tokens`; each memory fenced, with
    its date and source."""
    chosen = plain(memory)

    async def instructions(ctx: RunContext[Any]) -> str:
        query = text_of(ctx.prompt).strip()
        return await settled(chosen.context, query, max_tokens=max_tokens) if query else ""

    return instructions


class KeepstoneHistory:
    """The messages of one session: `agent.run_sync("…", message_history=history.load())`, and after it
    `history.save(result.new_messages())`.

    They come back as they were; what was said in them is found by recall. `aload`, `asave` and `aclear` are for event loops. With
    `extract`, facts are learned from what the user says."""

    def __init__(self, memory: Any, session: str, *, extract: bool = True) -> None:
        self._turns = Turns(memory, session, of=OF)
        self._extract = extract

    def load(self, last: int | None = None) -> list[ModelMessage]:
        """The messages, oldest first: all, or the last so many."""
        return [message for turn in self._turns.all(last) if (message := message_of(turn)) is not None]

    def save(self, messages: Iterable[ModelMessage]) -> None:
        """Append messages; they are on disk when this returns. Raises ValidationError, TooLarge."""
        self._turns.add([turn_of(message, {}, {}) for message in messages], extract=self._extract)

    def clear(self) -> None:
        """Erase the session's messages. Facts that were learned from them stay."""
        self._turns.clear()

    async def aload(self, last: int | None = None) -> list[ModelMessage]:
        """`load`, in an event loop."""
        return await settled(self.load, last)

    async def asave(self, messages: Iterable[ModelMessage]) -> None:
        """`save`, in an event loop."""
        await settled(self.save, list(messages))

    async def aclear(self) -> None:
        """`clear`, in an event loop."""
        await settled(self.clear)
