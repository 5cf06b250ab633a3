"""Chat histories and memory tools for LangChain.

A history is a conversation of the memory: its messages come back as they were given, are found by recall, and are learned from
like any other conversation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage, ChatMessage, message_to_dict, messages_from_dict
from langchain_core.tools import BaseTool, StructuredTool

from keepstone.errors import ValidationError
from keepstone.integrations.bridge import as_sync_memory, in_thread, to_name
from keepstone.integrations.message_items import SessionItem, SessionItems

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


class KeepstoneChatMessageHistory(BaseChatMessageHistory):
    """The messages of one session.

    >>> from keepstone import Memory
    >>> history = KeepstoneChatMessageHistory(Memory.open(":memory:"), "thread-1")
    >>> history.add_user_message("I moved to Lisbon.")
    >>> history.messages
    [HumanMessage(content='I moved to Lisbon.', additional_kwargs={}, response_metadata={})]

    `extract` says whether facts are learned from what is added."""

    def __init__(self, memory: Any, session: str, *, extract: bool = True) -> None:
        super().__init__()
        self._turns = SessionItems(memory, session, of="langchain")
        self._extract = extract

    @property
    def messages(self) -> list[BaseMessage]:
        """Every message, oldest first; one that came to the session another way as what it says, if it says anything."""
        return [_to_message(turn) for turn in self._turns.all() if turn.value is not None or turn.text]

    @messages.setter
    def messages(self, messages: Sequence[BaseMessage]) -> None:
        self.clear()
        self.add_messages(messages)

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """Append messages; they are on disk when this returns. Raises ValidationError for one that is not JSON."""
        self._turns.add([_to_item(message) for message in messages], extract=self._extract)

    def clear(self) -> None:
        """Erase the session's messages. Facts that were learned from them stay."""
        self._turns.clear()

    @in_thread
    def aget_messages(self) -> list[BaseMessage]:
        """The same without blocking the loop."""
        return self.messages

    aadd_messages, aclear = in_thread(add_messages), in_thread(clear)


def memory_tools(memory: Any, *, allow_forget: bool = False) -> list[BaseTool]:
    """The memory tools as LangChain's: recall_memory, write_memory, update_memory, and forget_memory where it is allowed. What is
    wrong with a call is in its answer under "error", for the model to read."""
    inner = as_sync_memory(memory)

    def make(schema: Mapping[str, Any]) -> BaseTool:
        def call(**input: Any) -> dict[str, Any]:
            return inner.call_tool(schema["name"], input, allow_forget=allow_forget)

        name, description, arguments = schema["name"], schema["description"], schema["input_schema"]
        return StructuredTool(name=name, description=description, args_schema=arguments, func=call, coroutine=in_thread(call))

    return [make(schema) for schema in inner.tools(allow_forget=allow_forget)]


def _to_item(message: BaseMessage) -> SessionItem:
    value = message_to_dict(message)
    try:
        messages_from_dict([value])
    except Exception as error:
        kind = type(message).__name__
        raise ValidationError(f"a {kind} cannot be read back by LangChain ({error}): use one of its own messages.") from None
    role = message.role if isinstance(message, ChatMessage) else message.type
    name = message.name if message.name and to_name(message.name) == message.name else None  # another is in the message alone
    return SessionItem(_role(role), str(message.text), value, name)


def _role(kind: str) -> str:
    """Whose word a message is. One in a role of its own (a critic, a narrator) is not the user's: nothing is learned from it."""
    return _ROLES.get(kind.lower().removesuffix("messagechunk"), kind if kind in _ROLES.values() else "assistant")


def _to_message(turn: SessionItem) -> BaseMessage:
    if turn.value is not None:
        return messages_from_dict([turn.value])[0]
    if turn.role == "tool":
        return ChatMessage(content=turn.text, role=turn.role, name=turn.name)
    kind = {"assistant": "ai", "system": "system"}.get(turn.role, "human")
    return messages_from_dict([{"type": kind, "data": {"content": turn.text, "name": turn.name}}])[0]
