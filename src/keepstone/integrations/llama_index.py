"""LlamaIndex: a memory block, and the chat stores behind its memories.

`KeepstoneMemoryBlock`, one of the memory_blocks of `Memory.from_defaults`, stores what leaves the short-term memory and returns
what is known about the last message. `KeepstoneMemoryStore` is the chat store of a `Memory`, `KeepstoneChatStore` that of a
`ChatMemoryBuffer`: their messages survive a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic_core import to_jsonable_python

from keepstone.errors import NotFound
from keepstone.integrations.bridge import as_sync_memory, in_thread, run_to_completion
from keepstone.integrations.document_store import DocumentStore
from keepstone.integrations.message_items import SessionItem, SessionItems
from keepstone.text.token_count import estimate_tokens

CHAT_STORE = "llama-index"
STATUS = "llama_index_status"
_ACTIVE = MessageStatus.ACTIVE
_SESSION = "session_id"  # where a Memory tells its blocks the session
_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "tool": "tool",
    "function": "tool",
}


class _OnMemory(BaseModel):
    """What the block and the stores have in common: a memory, whether facts are learned, and the items of each key."""

    memory: Any = Field(exclude=True, repr=False, description="A keepstone Memory, AsyncMemory or Client.")
    extract: bool = Field(default=True, description="Whether facts are learned from what users say.")
    _keys: DocumentStore = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the list of keys."""
        super().model_post_init(context)
        self._keys = DocumentStore(self.memory, CHAT_STORE)

    def _items(self, key: str) -> SessionItems:
        return SessionItems(self.memory, key, of=CHAT_STORE)

    def _read(self, key: str, status: MessageStatus | None) -> list[SessionItem]:
        """The messages of a key and a status (None: any), as they are stored."""
        found = [turn for turn in self._items(key).all() if _to_message(turn) is not None]
        return [turn for turn in found if status is None or turn.labels.get(STATUS, _ACTIVE) == status]

    def _append(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        if self._keys.get(("key", key)) is None:
            self._keys.put(("key", key), key)
        turns = [_to_item(message, {STATUS: status.value}) for message in messages]
        self._items(key).add(turns, extract=self.extract)

    def _erase(self, key: str, turns: Sequence[SessionItem]) -> list[ChatMessage]:
        """Erase items, and return their messages."""
        self._items(key).remove([turn.id or "" for turn in turns])
        return _to_messages(turns)


class KeepstoneMemoryBlock(_OnMemory, BaseMemoryBlock[str]):
    """What a keepstone memory knows about what is said now, for a `Memory`'s memory_blocks.

    `memory` is a keepstone Memory, AsyncMemory or Client; its scope is whose memory it is. `max_tokens` is the most that the
    block takes; with `extract`, facts are learned from what users said in the messages that it is given."""

    name: str = Field(default="keepstone", description="The name of the memory block.")
    max_tokens: int = Field(default=1500, ge=64, description="How many tokens of memories are given at the most.")

    async def _aget(self, messages: list[ChatMessage] | None = None, **block_kwargs: Any) -> str:
        """What is known about what the user said last; "" where nothing is."""
        asked = [text_of(message).strip() for message in messages or () if message.role == "user"]
        query = next(filter(None, reversed(asked)), "")
        return await run_to_completion(as_sync_memory(self.memory).context, query, max_tokens=self.max_tokens) if query else ""

    @in_thread
    def _aput(self, messages: list[ChatMessage]) -> None:
        """Append messages to the sessions they name, except those that are stored there already."""
        by_session: dict[str, list[ChatMessage]] = {}
        for message in messages:
            kwargs = {key: each for key, each in message.additional_kwargs.items() if key != _SESSION}
            session = str(message.additional_kwargs.get(_SESSION) or CHAT_STORE)
            by_session.setdefault(session, []).append(message.model_copy(update={"additional_kwargs": kwargs}))
        for session, given in by_session.items():
            turns = self._items(session)
            held = [turn.value for turn in turns.all()]
            turns.add([_to_item(each, {}) for each in given if _value(each) not in held], extract=self.extract)

    async def atruncate(self, content: str, tokens_to_truncate: int) -> str | None:
        """The block without its first lines, the oldest memories; None if no line would be left."""
        first, *lines = content.splitlines()
        while tokens_to_truncate > 0 and len(lines) > 1:
            tokens_to_truncate -= estimate_tokens(lines.pop(0)) + 1
        return "\n".join([first, *lines]) if len(lines) > 1 else None


class KeepstoneChatStore(_OnMemory, BaseChatStore):
    """Chat histories by their keys, for `ChatMemoryBuffer.from_defaults(chat_store=KeepstoneChatStore(memory=memory))`.

    A key is a session of the memory, and its messages come back as they were; what was said in them is found by recall."""

    @classmethod
    def class_name(cls) -> str:
        """The name of the class, for LlamaIndex."""
        return "KeepstoneChatStore"

    def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Replace all messages; those that stay unchanged, in their place, are not written again."""
        held = self._read(key, None)
        same = 0
        for turn, message in zip(held, messages, strict=False):
            if turn.value != _value(message) or turn.labels.get(STATUS) != status.value:
                break
            same += 1
        self._erase(key, held[same:])
        self._append(key, messages[same:], status)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """The messages, oldest first."""
        return _to_messages(self._read(key, None))

    def add_message(self, key: str, message: ChatMessage, status: MessageStatus = _ACTIVE) -> None:
        """Append a message; it is on disk when this returns."""
        self._append(key, [message], status)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Erase a history, and return what it was; None where there is none."""
        if self._keys.get(("key", key)) is None:
            return None
        held = _to_messages(self._read(key, None))
        self._items(key).clear()
        self._keys.delete(("key", key))
        return held

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the message at a place, and return it; None where there is none."""
        held = self._read(key, None)
        return self._erase(key, [held[idx]])[0] if -len(held) <= idx < len(held) else None

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Erase the last message, and return it; None where there is none."""
        return self.delete_message(key, -1)

    def get_keys(self) -> list[str]:
        """The keys in use, oldest first."""
        return [path[1] for path in self._keys.paths(("key",))][::-1]


class KeepstoneMemoryStore(_OnMemory, AsyncDBChatStore):
    """The chat store of a `Memory`: `Memory.from_defaults(session_id=…, chat_store=KeepstoneMemoryStore(memory=memory))`.

    Messages that are archived stay, marked so. Where `delete_message` is given an index, it is a place in the whole history."""

    @classmethod
    def class_name(cls) -> str:
        """The name of the class, for LlamaIndex."""
        return "KeepstoneMemoryStore"

    add_message, set_messages = in_thread(KeepstoneChatStore.add_message), in_thread(KeepstoneChatStore.set_messages)
    delete_message, get_keys = in_thread(KeepstoneChatStore.delete_message), in_thread(KeepstoneChatStore.get_keys)

    @in_thread
    def get_messages(
        self, key: str, status: MessageStatus | None = _ACTIVE, limit: int | None = None, offset: int | None = None
    ) -> list[ChatMessage]:
        """Messages of a status (None: any), oldest first, from an offset on, at most so many."""
        return _to_messages(self._read(key, status))[offset or 0 :][:limit]

    @in_thread
    def count_messages(self, key: str, status: MessageStatus | None = _ACTIVE) -> int:
        """How many messages of a status there are."""
        return len(self._read(key, status))

    @in_thread
    def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Append messages."""
        self._append(key, messages, status)

    @in_thread
    def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Erase the messages of a status, or all and the key."""
        if status is not None:
            self._erase(key, self._read(key, status))
        else:
            self._items(key).clear()
            self._keys.delete(("key", key))

    @in_thread
    def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest active messages, and return them."""
        return self._erase(key, self._read(key, _ACTIVE)[: max(0, n)])

    @in_thread
    def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Mark the oldest active messages as archived, and return them."""
        held = self._read(key, _ACTIVE)[: max(0, n)]
        for turn in held:
            with suppress(NotFound):  # forgotten meanwhile
                as_sync_memory(self.memory).update(turn.id or "", metadata={**turn.labels, STATUS: MessageStatus.ARCHIVED.value})
        return _to_messages(held)


def text_of(message: ChatMessage) -> str:
    """The words of a message."""
    return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock) and block.text)


def _to_item(message: ChatMessage, labels: dict[str, str]) -> SessionItem:
    role = _ROLES.get(message.role.value, "system")
    return SessionItem(role, text_of(message) if role in ("user", "assistant") else "", _value(message), labels=labels)


def _value(message: ChatMessage) -> dict[str, Any]:
    """A message as JSON data; what JSON cannot hold becomes its repr."""
    value: dict[str, Any] = to_jsonable_python(message.model_dump(mode="json"), fallback=repr, inf_nan_mode="null")
    return value


def _to_message(turn: SessionItem) -> ChatMessage | None:
    """The message of an item; a plain one for a message from elsewhere, None for a step from elsewhere."""
    if turn.value is not None:
        return ChatMessage.model_validate(turn.value)
    return ChatMessage(turn.text, role=turn.role) if turn.text and turn.role in ("user", "assistant") else None


def _to_messages(turns: Sequence[SessionItem]) -> list[ChatMessage]:
    return [message for turn in turns if (message := _to_message(turn)) is not None]
