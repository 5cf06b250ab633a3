"""LlamaIndex: a memory block, and the chat stores behind its memories.

`KeepstoneMemoryBlock` stands in `Memory.from_defaults(memory_blocks=[…])`: it takes what the short-term memory lets go of, and
gives what is known about what is said now. `KeepstoneMemoryStore` is the chat store of a `Memory`, `KeepstoneChatStore` that of a
`ChatMemoryBuffer`: what was said is there after a restart.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.bridge.pydantic import BaseModel, Field, PrivateAttr
from llama_index.core.memory import BaseMemoryBlock
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus

from keepstone.integrations.coerce import plain
from keepstone.integrations.llama_index_chats import Chats, said
from keepstone.integrations.run_to_completion import settled
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
        asked = [said(message).strip() for message in messages or () if message.role == "user"]
        query = next(filter(None, reversed(asked)), "")
        return await settled(plain(self.memory).context, query, max_tokens=self.max_tokens) if query else ""

    async def _aput(self, messages: list[ChatMessage]) -> None:
        """Keep messages; those that the same session of a chat store holds already are there once."""
        await settled(self._chats.keep, messages)

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
        found = await settled(self._chats.messages, key, status)
        return found[offset or 0 :][:limit]

    async def count_messages(self, key: str, status: MessageStatus | None = _ACTIVE) -> int:
        """How many messages of a status there are."""
        return len(await settled(self._chats.turns, key, status))

    async def add_message(self, key: str, message: ChatMessage, status: MessageStatus = _ACTIVE) -> None:
        """Append a message; it is on disk when this returns."""
        await settled(self._chats.add, key, [message], status)

    async def add_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Append messages."""
        await settled(self._chats.add, key, messages, status)

    async def set_messages(self, key: str, messages: list[ChatMessage], status: MessageStatus = _ACTIVE) -> None:
        """Put messages in the place of all that there are."""
        await settled(self._chats.replace, key, messages, status)

    async def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        """Erase the message at a place, and return it; None where there is none."""
        return await settled(self._chats.drop_at, key, idx)

    async def delete_messages(self, key: str, status: MessageStatus | None = None) -> None:
        """Erase the messages of a status, or all."""
        await settled(self._chats.drop, key, status)

    async def delete_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest active messages, and return them."""
        return await settled(self._chats.drop_oldest, key, n)

    async def archive_oldest_messages(self, key: str, n: int) -> list[ChatMessage]:
        """Mark the oldest active messages as archived, and return them."""
        return await settled(self._chats.archive, key, n)

    async def get_keys(self) -> list[str]:
        """The keys that there are."""
        return await settled(self._chats.keys)
