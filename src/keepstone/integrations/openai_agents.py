"""KeepstoneSession: the session of an agent of the OpenAI Agents SDK, and the memory tools and instructions for its agents.

A session returns exactly the items that the SDK stored, in order. Recall finds what users and assistants said; calls, outputs,
reasoning and images are steps, which are never recalled.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from agents import Agent, FunctionTool, RunContextWrapper, TResponseInputItem
from agents.memory import SessionSettings
from agents.memory.session_settings import coerce_session_settings, resolve_session_limit
from agents.tool_context import ToolContext

from keepstone.agent.tools import RECALL, schemas
from keepstone.errors import ConfigurationError, StoreClosed
from keepstone.integrations.bridge import as_sync_memory, open_memory, run_to_completion
from keepstone.integrations.message_items import SessionItem, SessionItems

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

OF = "openai-agents"
_IN_MEMORY = ":memory:"
_MAX_LAST_ITEMS = 10_000  # items that are asked for by number; for more, all are read
_TEXT_TYPES = {"text", "input_text", "output_text"}
_SPEAKERS = ("user", "assistant")

Base = str | Callable[[RunContextWrapper[Any], Agent[Any]], Any]


class SessionClosed(StoreClosed, RuntimeError):
    """A session was used after close(); a RuntimeError, as the SDK's own sessions raise it."""


class KeepstoneSession:
    """One conversation of an agent, in a keepstone store: `Runner.run(agent, "…", session=KeepstoneSession("chat-1", "me.db"))`.

    `target` is what `SQLiteSession` calls its db_path: a path, ":memory:", or a postgresql:// URL; sessions of one process share
    the store of a path, and the last to close closes it. With `memory`, a Memory, AsyncMemory or Client, that one is used, in its
    scope, and left open. Raises ConfigurationError."""

    session_settings: SessionSettings | None = None

    def __init__(
        self,
        session_id: str,
        target: str | PathLike[str] = _IN_MEMORY,
        *,
        memory: Any = None,
        session_settings: SessionSettings | dict[str, Any] | None = None,
        db_path: str | PathLike[str] | None = None,  # as SQLiteSession names it
    ) -> None:
        where = target if db_path is None else db_path
        if memory is not None and str(where) != _IN_MEMORY:
            raise ConfigurationError(f"both memory and target={str(where)!r:.80} are given: give the one or the other.")
        self.session_id = session_id
        self.session_settings = SessionSettings() if session_settings is None else coerce_session_settings(session_settings)
        self._closed = False
        self._store = _Store.of(where, self) if memory is None else None
        self._memory = self._store.memory if self._store is not None else as_sync_memory(memory)
        self._turns = SessionItems(self._memory, session_id, of=OF)

    @property
    def memory(self) -> Memory | Client:
        """The memory behind the session: what was said in it is found by its `recall`."""
        return self._memory

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """The items, oldest first; with a limit, here or in the settings, the latest so many. A negative one is none."""
        self._check()
        wanted = resolve_session_limit(limit, self.session_settings)
        last = None if wanted is None or wanted < 0 or wanted > _MAX_LAST_ITEMS else wanted
        items = [item for turn in await asyncio.to_thread(self._turns.all, last) if (item := _from_item(turn)) is not None]
        return items if wanted is None or wanted < 0 else items[len(items) - min(wanted, len(items)) :]

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Append items; they are on disk when this returns, also where the caller was cancelled meanwhile.
        Raises ValidationError, TooLarge."""
        self._check()
        if items:
            await run_to_completion(self._turns.add, [_to_item(item) for item in items])

    async def pop_item(self) -> TResponseInputItem | None:
        """Erase the newest item and return it; None if there is none."""
        self._check()
        while (turn := await run_to_completion(self._turns.pop)) is not None:
            if (item := _from_item(turn)) is not None:
                return item
        return None

    async def clear_session(self) -> None:
        """Erase the session's items. Facts that were learned from them stay."""
        self._check()
        await run_to_completion(self._turns.clear)

    def close(self) -> None:
        """End the session. A store that sessions opened is closed with the last of them, a given memory stays open. It may be
        called twice."""
        self._closed = True
        if self._store is not None:
            self._store.leave(self)

    def _check(self) -> None:
        if self._closed:
            raise SessionClosed(f"{type(self).__name__} is closed: make a new one for session {self.session_id!r:.80}.")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.session_id!r})"


def memory_tools(memory: Any, *, allow_forget: bool = False) -> list[FunctionTool]:
    """recall_memory, write_memory and update_memory for an Agent's `tools`, and forget_memory where it is allowed. They work in
    the memory's own scope, whatever a model writes."""
    chosen = as_sync_memory(memory)
    return [_tool(chosen, schema["function"], allow_forget) for schema in schemas(allow_forget, "openai")]


def memory_instructions(
    memory: Any, base: Base = "", *, max_tokens: int = 1500
) -> Callable[[RunContextWrapper[Any], Agent[Any]], Awaitable[str]]:
    """An Agent's `instructions` that say what is known about what the user asks now, after those in `base` (text, or a function
    as the SDK takes it). For an agent with the memory tools the rules of remembering stand between them."""
    chosen = as_sync_memory(memory)

    async def instructions(context: RunContextWrapper[Any], agent: Agent[Any]) -> str:
        given = base(context, agent) if callable(base) else base
        said = str(await given if inspect.isawaitable(given) else given)
        query = _last_user_text(context.turn_input)
        has_tools = any(getattr(tool, "name", None) == RECALL for tool in agent.tools)
        if has_tools:
            known = await asyncio.to_thread(chosen.system_prompt, query, max_tokens=max_tokens)
        else:
            known = await asyncio.to_thread(chosen.context, query, max_tokens=max_tokens) if query else ""
        return "\n\n".join(filter(None, (said, known)))

    return instructions


# -- parts --------------------------------------------------------------------------------------------------------
def _tool(memory: Memory | Client, function: Mapping[str, Any], allow_forget: bool) -> FunctionTool:
    name = str(function["name"])

    async def invoke(_: ToolContext[Any], arguments: str) -> str:
        try:
            given = json.loads(arguments or "{}")
        except ValueError:
            return json.dumps({"error": f"The arguments of {name} are not JSON: send an object."})
        answer = await run_to_completion(memory.call_tool, name, given, allow_forget=allow_forget)
        return json.dumps(answer, ensure_ascii=False)

    return FunctionTool(
        name=name,
        description=str(function["description"]),
        params_json_schema=dict(function["parameters"]),
        on_invoke_tool=invoke,
        strict_json_schema=False,  # in strict mode every argument is required
    )


def _to_item(item: TResponseInputItem) -> SessionItem:
    """An item as it is stored: a message with its text, everything else as a step."""
    held = cast(Mapping[str, Any], item)
    role, kind = held.get("role"), str(held.get("type", "message"))
    if role in _SPEAKERS and kind == "message":
        return SessionItem(str(role), _text_of(held.get("content")), item)
    if kind == "message":
        return SessionItem("system", "", item)
    return SessionItem("tool" if kind.endswith(("_output", "_response")) else "assistant", "", item)


def _from_item(turn: SessionItem) -> TResponseInputItem | None:
    """The SDK's item; a plain message for a message from elsewhere, None for a step from elsewhere."""
    if turn.value is not None:
        return cast(TResponseInputItem, turn.value)
    if not turn.text or turn.role == "tool":
        return None
    return cast(TResponseInputItem, {"role": turn.role, "content": turn.text})


def _text_of(content: Any) -> str:
    """The text of a message's content."""
    if isinstance(content, str):
        return content
    parts = [part for part in content if isinstance(part, Mapping)] if isinstance(content, (list, tuple)) else []
    return "\n".join(str(part.get("text") or "") for part in parts if part.get("type") in _TEXT_TYPES)


def _last_user_text(items: list[TResponseInputItem]) -> str:
    """The user's last message."""
    for item in reversed(items):
        if item.get("role") == "user" and (said := _text_of(item.get("content")).strip()):
            return said
    return ""


# -- stores that sessions of this process have opened ---------------------------------------------------------------
class _Store:
    """A store, and the sessions that have it open. A session that is collected without close() does not keep it open."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._sessions: weakref.WeakSet[KeepstoneSession] = weakref.WeakSet()

    @classmethod
    def of(cls, target: str | PathLike[str], session: KeepstoneSession) -> _Store:
        """The store of a target, opened once; each ":memory:" is one of its own."""
        text = os.fspath(target)
        key = text if "://" in text or text == _IN_MEMORY else os.path.realpath(text)
        with _guard:
            store = None if key == _IN_MEMORY else _stores.get(key)
            if store is None:
                store = cls(open_memory(target))
                if key != _IN_MEMORY:
                    _stores[key] = store
            store._sessions.add(session)
        return store

    def leave(self, session: KeepstoneSession) -> None:
        """Close the store with its last session."""
        with _guard:
            held = session in self._sessions
            self._sessions.discard(session)
            if held and not self._sessions:
                for key in [key for key, store in _stores.items() if store is self]:
                    del _stores[key]
                self.memory.close()


_stores: weakref.WeakValueDictionary[str, _Store] = weakref.WeakValueDictionary()
_guard = threading.Lock()
