"""LlamaIndex: a memory block, and the chat stores behind its memories.

`KeepstoneMemoryBlock` stands in `Memory.from_defaults(memory_blocks=[…])`: it takes what the short-term memory lets go of, and
gives what is known about what is said now. `KeepstoneMemoryStore` is the chat store of a `Memory`, `KeepstoneChatStore` that of a
`ChatMemoryBuffer`: what was said is there after a restart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from pydantic_core import to_jsonable_python

from keepstone.errors import NotFound
from keepstone.integrations.bridge import as_sync_memory, run_to_completion
from keepstone.integrations.document_store import DocumentStore
from keepstone.integrations.message_items import SessionItem, SessionItems
from keepstone.text.token_count import estimate_tokens

_ACTIVE = MessageStatus.ACTIVE


class _OnMemory(BaseModel):
    """What the block and the stores have in common: a memory, and whether facts are learned."""

    memory: Any = Field(exclude=True, repr=False, description="A keepstone Memory, AsyncMemory or Client.")
    extract: bool = Field(default=True, description="Whether facts are learned from what users say.")
    _chats: Chats = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """The memory as it is called."""
        super().model_post_init(context)
        self._chats = Chats(self.memory, self.extract)


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

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Keep messages; those that the same session of a chat store holds already are there once."""
        await run_to_completion(self._chats.keep, messages)

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

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        """Put messages in the place of all that there are; where they only go on, what is new is appended."""
        self._chats.replace(key, messages, _ACTIVE)

    def get_messages(self, key: str) -> list[ChatMessage]:
        """The messages, oldest first."""
        return self._chats.messages(key, None)

    def add_message(self, key: str, message: ChatMessage) -> None:
        """Append a message; it is on disk when this returns."""
        self._chats.add(key, [message], _ACTIVE)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        """Erase a history, and return what it was; None where there is none."""
        return self._chats.drop(key) if self._chats.has(key) else None

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the message at a place, and return it; None where there is none."""
        return self._chats.drop_at(key, idx)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        """Erase the last message, and return it; None where there is none."""
        return self._chats.drop_at(key, -1)

    def get_keys(self) -> list[str]:
        """The keys that there are."""
        return self._chats.keys()


class KeepstoneMemoryStore(_OnMemory, AsyncDBChatStore):
    """The chat store of a `Memory`: `Memory.from_defaults(session_id=…, chat_store=KeepstoneMemoryStore(memory=memory))`.

    Messages that are archived stay, marked so. Where `delete_message` is given an index, it is a place in the whole history."""

    @classmethod
    def class_name(cls) -> str:
        """The name of the class, for LlamaIndex."""
        return "KeepstoneMemoryStore"

    async def get_messages(
        self, key: str, status: MessageStatus | None = _ACTIVE, limit: int | None = None, offset: int | None = None
    ) -> list[ChatMessage]:
        """Messages of a status (None: any), oldest first, from an offset on, at most so many."""
        found = await run_to_completion(self._chats.messages, key, status)
        return found[offset or 0 :][:limit]

    async def count_messages(self, key: str, status: MessageStatus | None = _ACTIVE) -> int:
        """How many messages of a status there are."""
        return len(await run_to_completion(self._chats.turns, key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = _ACTIVE) -> None:
        """Append a message; it is on disk when this returns."""
        await run_to_completion(self._chats.add, key, [message], status)

    async def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Append messages."""
        await run_to_completion(self._chats.add, key, messages, status)

    async def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Put messages in the place of all that there are."""
        await run_to_completion(self._chats.replace, key, messages, status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the message at a place, and return it; None where there is none."""
        return await run_to_completion(self._chats.drop_at, key, idx)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Erase the messages of a status, or all."""
        await run_to_completion(self._chats.drop, key, status)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest active messages, and return them."""
        return await run_to_completion(self._chats.drop_oldest, key, n)

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Mark the oldest active messages as archived, and return them."""
        return await run_to_completion(self._chats.archive, key, n)

    async def get_keys(self) -> list[str]:
        """The keys that there are."""
        return await run_to_completion(self._chats.keys)


CHAT_STORE = "llama-index"
STATUS = "llama_index_status"
_SESSION = "session_id"  # where a Memory tells its blocks the session
_ROLES = {
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "chatbot": "assistant",
    "tool": "tool",
    "function": "tool",
}


class Chats:
    """What the block and the stores do, in a thread."""

    def __init__(self, memory: Any, extract: bool) -> None:
        self._memory = as_sync_memory(memory)
        self._keys = DocumentStore(self._memory, CHAT_STORE)
        self._extract = extract

    def _items(self, key: str) -> SessionItems:
        return SessionItems(self._memory, key, of=CHAT_STORE)

    def turns(self, key: str, status: MessageStatus | None) -> list[SessionItem]:
        """The messages of a key and a status (None: any), as they are kept."""
        found = [turn for turn in self._items(key).all() if _to_message(turn) is not None]
        return [turn for turn in found if status is None or turn.labels.get(STATUS, MessageStatus.ACTIVE) == status]

    def messages(self, key: str, status: MessageStatus | None) -> list[ChatMessage]:
        """The same as LlamaIndex has them."""
        return _to_messages(self.turns(key, status))

    def add(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        """Append messages."""
        if not self.has(key):
            self._keys.put(("key", key), key)
        turns = [_to_item(message, {STATUS: status.value}) for message in messages]
        self._items(key).add(turns, extract=self._extract)

    def replace(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        """Put messages in the place of those that there are; what stays as it is, in its place, is not written again."""
        held = self.turns(key, None)
        same = 0
        for turn, message in zip(held, messages, strict=False):
            if turn.value != _value(message) or turn.labels.get(STATUS) != status.value:
                break
            same += 1
        if same < len(held):
            self._items(key).remove([turn.id or "" for turn in held[same:]])
        self.add(key, messages[same:], status)

    def keep(self, messages: Sequence[ChatMessage]) -> None:
        """Append messages to the sessions they say they come from, but for those that stand there already."""
        by_session: dict[str, list[ChatMessage]] = {}
        for message in messages:
            kwargs = {key: each for key, each in message.additional_kwargs.items() if key != _SESSION}
            session = str(message.additional_kwargs.get(_SESSION) or CHAT_STORE)
            by_session.setdefault(session, []).append(message.model_copy(update={"additional_kwargs": kwargs}))
        for session, given in by_session.items():
            turns = self._items(session)
            held = [turn.value for turn in turns.all()]
            turns.add([_to_item(each, {}) for each in given if _value(each) not in held], extract=self._extract)

    def drop(self, key: str, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Erase the messages of a status, or all and the key; what they were."""
        held = self.turns(key, status)
        if status is not None:
            self._items(key).remove([turn.id or "" for turn in held])
        else:
            self._items(key).clear()
            self._keys.delete(("key", key))
        return _to_messages(held)

    def drop_at(self, key: str, at: int) -> ChatMessage | None:
        """Erase one message by its place; what it was."""
        held = self.turns(key, None)
        if not -len(held) <= at < len(held):
            return None
        self._items(key).remove([held[at].id or ""])
        return _to_message(held[at])

    def drop_oldest(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest active messages; what they were."""
        held = self.turns(key, MessageStatus.ACTIVE)[: max(0, n)]
        self._items(key).remove([turn.id or "" for turn in held])
        return _to_messages(held)

    def archive(self, key: str, n: int) -> list[ChatMessage]:
        """Mark the oldest active messages as archived; which they are."""
        held = self.turns(key, MessageStatus.ACTIVE)[: max(0, n)]
        for turn in held:
            try:
                self._memory.update(turn.id or "", metadata={**turn.labels, STATUS: MessageStatus.ARCHIVED.value})
            except NotFound:
                continue  # forgotten meanwhile
        return _to_messages(held)

    def has(self, key: str) -> bool:
        """Whether a key is in use."""
        return self._keys.get(("key", key)) is not None

    def keys(self) -> list[str]:
        """The keys in use, oldest first."""
        return [path[1] for path in self._keys.paths(("key",))][::-1]


def text_of(message: ChatMessage) -> str:
    """The words of a message."""
    return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock) and block.text)


def _to_item(message: ChatMessage, labels: dict[str, str]) -> SessionItem:
    role = _ROLES.get(message.role.value, "system")
    return SessionItem(role, text_of(message) if role in ("user", "assistant") else "", _value(message), labels=labels)


def _value(message: ChatMessage) -> dict[str, Any]:
    """A message as JSON data; what has no such form in it as its text."""
    value: dict[str, Any] = to_jsonable_python(message.model_dump(mode="json"), fallback=repr, inf_nan_mode="null")
    return value


def _to_message(turn: SessionItem) -> ChatMessage | None:
    """The message of a turn; for what was said in the session by other means, a plain one, and None for what was only done."""
    if turn.value is not None:
        return ChatMessage.model_validate(turn.value)
    return ChatMessage(turn.text, role=turn.role) if turn.text and turn.role in ("user", "assistant") else None


def _to_messages(turns: Sequence[SessionItem]) -> list[ChatMessage]:
    return [message for turn in turns if (message := _to_message(turn)) is not None]
