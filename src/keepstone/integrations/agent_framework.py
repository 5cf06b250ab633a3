"""KeepstoneContextProvider and KeepstoneHistoryProvider: memory for agents of the Microsoft Agent Framework.

The history provider stores a session's messages unchanged, in order. Before each run the context provider adds what is known
about the new messages, from all sessions of the memory's scope, and stores messages if no history provider does.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_framework import AgentSession, ContextProvider, FunctionTool, HistoryProvider, Message, SessionContext

from keepstone.agent.tools import schemas
from keepstone.integrations.bridge import as_sync_memory, run_to_completion, to_name
from keepstone.integrations.message_items import SessionItem, SessionItems

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

OF = "agent-framework"
_SPEAKERS = ("user", "assistant")
_NO_SESSION = "default"


class KeepstoneHistoryProvider(HistoryProvider):
    """The messages of each session in a keepstone store: `Agent(client, context_providers=[KeepstoneHistoryProvider(memory)])`.

    `memory` is a Memory, AsyncMemory or Client, and is left open. `last` loads only so many of the latest messages, from the
    first of the user's among them on; the other options are those of every HistoryProvider."""

    def __init__(self, memory: Any, source_id: str = "keepstone_history", *, last: int | None = None, **options: Any) -> None:
        super().__init__(source_id, **options)
        self._memory = as_sync_memory(memory)
        self._last = last

    @property
    def memory(self) -> Memory | Client:
        """The memory that the messages are kept in."""
        return self._memory

    async def get_messages(self, session_id: str | None, *, state: dict[str, Any] | None = None, **kwargs: Any) -> list[Message]:
        """The session's messages, oldest first."""
        turns = await asyncio.to_thread(self._turns(session_id).all, self._last)
        messages = [message for turn in turns if (message := _to_message(turn)) is not None]
        if self._last is None or len(turns) < self._last:
            return messages
        # A cut must not leave an answer without its question, or a tool's result without its call.
        first = next((at for at, message in enumerate(messages) if message.role == "user"), len(messages))
        return messages[first:]

    async def save_messages(
        self, session_id: str | None, messages: Sequence[Message], *, state: dict[str, Any] | None = None, **kwargs: Any
    ) -> None:
        """Append messages; those that the session ends with already are not stored twice. Raises ValidationError, TooLarge."""
        await run_to_completion(_append, self._turns(session_id), list(messages))

    def _turns(self, session_id: str | None) -> SessionItems:
        return SessionItems(self._memory, session_id or _NO_SESSION, of=OF)


class KeepstoneContextProvider(ContextProvider):
    """What is known about the messages that come in, put before them: `Agent(client, context_providers=[…Provider(memory)])`.

    `tools` gives the agent the memory tools and the rules of using them as well. After a run what was said is kept, unless
    `store` is False or a KeepstoneHistoryProvider of the agent keeps it in the same memory."""

    def __init__(
        self,
        memory: Any,
        source_id: str = "keepstone",
        *,
        max_tokens: int = 1500,
        tools: bool = False,
        store: bool = True,
    ) -> None:
        super().__init__(source_id)
        self._memory = as_sync_memory(memory)
        self._max_tokens = max_tokens
        self._tools = memory_tools(memory) if tools else []
        self._store = store

    async def before_run(self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]) -> None:
        """Add what is known to the run: a block of its own, fenced, that says it is data."""
        if self._tools:
            context.extend_tools(self.source_id, self._tools)
            context.extend_instructions(self.source_id, await asyncio.to_thread(self._memory.system_prompt))
        query = "\n".join(filter(None, (message.text.strip() for message in context.input_messages if message.role == "user")))
        if not query:
            return
        known = await asyncio.to_thread(self._memory.context, query, max_tokens=self._max_tokens)
        if known:
            context.extend_messages(self, [Message("user", [known])])

    async def after_run(self, *, agent: Any, session: AgentSession, context: SessionContext, state: dict[str, Any]) -> None:
        """Keep what was asked and answered, as messages of the session."""
        others = getattr(agent, "context_providers", None) or ()
        kept = any(isinstance(each, KeepstoneHistoryProvider) and each.memory is self._memory for each in others)
        if not self._store or kept:
            return
        said = [*context.input_messages, *(context.response.messages if context.response else ())]
        turns = SessionItems(self._memory, context.session_id or _NO_SESSION, of=OF)
        await run_to_completion(_append, turns, said)


def memory_tools(memory: Any, *, allow_forget: bool = False) -> list[FunctionTool]:
    """recall_memory, write_memory and update_memory for an Agent's `tools`, and forget_memory where it is allowed. They work in
    the memory's own scope, whatever a model writes."""
    chosen = as_sync_memory(memory)
    return [_tool(chosen, schema["function"], allow_forget) for schema in schemas(allow_forget, "openai")]


# -- parts --------------------------------------------------------------------------------------------------------
def _tool(memory: Memory | Client, function: Mapping[str, Any], allow_forget: bool) -> FunctionTool:
    name = str(function["name"])

    async def call(**given: Any) -> str:
        answer = await run_to_completion(memory.call_tool, name, given, allow_forget=allow_forget)
        return json.dumps(answer, ensure_ascii=False)

    return FunctionTool(
        name=name,
        description=str(function["description"]),
        func=call,
        input_model=dict(function["parameters"]),
        approval_mode="never_require",
    )


def _append(turns: SessionItems, messages: Sequence[Message]) -> None:
    """Store the new messages: a caller may repeat the last ones of the session."""
    given = [_to_item(message) for message in messages]
    held = [turn.value for turn in turns.all(len(given))]
    turns.add(given[_count_repeated(held, [turn.value for turn in given]) :])


def _count_repeated(held: Sequence[Any], given: Sequence[Mapping[str, Any]]) -> int:
    """How many of the given messages the session ends with already. A single one counts only with an id: a user may repeat
    a message."""
    for count in range(min(len(held), len(given)), 0, -1):
        if list(held[-count:]) == list(given[:count]) and (count > 1 or given[0].get("message_id")):
            return count
    return 0


def _to_item(message: Message) -> SessionItem:
    role = message.role if message.role in ("user", "assistant", "system", "tool") else "assistant"
    said = message.text if role in _SPEAKERS else ""
    name = to_name(message.author_name) if message.author_name else None
    return SessionItem(role, said, message.to_dict(), name)


def _to_message(turn: SessionItem) -> Message | None:
    """The message of an item; a plain one for a message from elsewhere, None for a step from elsewhere."""
    if turn.value is not None:
        return Message.from_dict(dict(turn.value))
    if not turn.text or turn.role == "tool":
        return None
    return Message(turn.role, [turn.text], author_name=turn.name)
