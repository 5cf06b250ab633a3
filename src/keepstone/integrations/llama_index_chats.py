"""Chats: messages of LlamaIndex by key, each key a session.

Whether a message is active or archived is its label. Which keys there are, a document for each says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llama_index.core.base.llms.types import ChatMessage, TextBlock
from llama_index.core.storage.chat_store.base_db import MessageStatus
from pydantic_core import to_jsonable_python

from keepstone.errors import NotFound
from keepstone.integrations.coerce import plain
from keepstone.integrations.document_store import Shelf
from keepstone.integrations.message_items import Turn, Turns

OF = "llama-index"
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
        self._memory = plain(memory)
        self._keys = Shelf(self._memory, OF)
        self._extract = extract

    def turns(self, key: str, status: MessageStatus | None) -> list[Turn]:
        """The messages of a key and a status (None: any), as they are kept."""
        found = [turn for turn in Turns(self._memory, key, of=OF).all() if _message(turn) is not None]
        return [turn for turn in found if status is None or turn.labels.get(STATUS, MessageStatus.ACTIVE) == status]

    def messages(self, key: str, status: MessageStatus | None) -> list[ChatMessage]:
        """The same as LlamaIndex has them."""
        return _messages(self.turns(key, status))

    def add(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        """Append messages."""
        if not self.has(key):
            self._keys.put(("key", key), key)
        turns = [_turn(message, {STATUS: status.value}) for message in messages]
        Turns(self._memory, key, of=OF).add(turns, extract=self._extract)

    def replace(self, key: str, messages: Sequence[ChatMessage], status: MessageStatus) -> None:
        """Put messages in the place of those that there are; what stays as it is, in its place, is not written again."""
        held = self.turns(key, None)
        same = 0
        for turn, message in zip(held, messages, strict=False):
            if turn.value != _value(message) or turn.labels.get(STATUS) != status.value:
                break
            same += 1
        if same < len(held):
            Turns(self._memory, key, of=OF).remove([turn.id or "" for turn in held[same:]])
        self.add(key, messages[same:], status)

    def keep(self, messages: Sequence[ChatMessage]) -> None:
        """Append messages to the sessions they say they come from, but for those that stand there already."""
        by_session: dict[str, list[ChatMessage]] = {}
        for message in messages:
            kwargs = {key: each for key, each in message.additional_kwargs.items() if key != _SESSION}
            session = str(message.additional_kwargs.get(_SESSION) or OF)
            by_session.setdefault(session, []).append(message.model_copy(update={"additional_kwargs": kwargs}))
        for session, given in by_session.items():
            turns = Turns(self._memory, session, of=OF)
            held = [turn.value for turn in turns.all()]
            turns.add([_turn(each, {}) for each in given if _value(each) not in held], extract=self._extract)

    def drop(self, key: str, status: MessageStatus | None = None) -> list[ChatMessage]:
        """Erase the messages of a status, or all and the key; what they were."""
        held = self.turns(key, status)
        if status is not None:
            Turns(self._memory, key, of=OF).remove([turn.id or "" for turn in held])
        else:
            Turns(self._memory, key, of=OF).clear()
            self._keys.delete(("key", key))
        return _messages(held)

    def drop_at(self, key: str, at: int) -> ChatMessage | None:
        """Erase one message by its place; what it was."""
        held = self.turns(key, None)
        if not -len(held) <= at < len(held):
            return None
        Turns(self._memory, key, of=OF).remove([held[at].id or ""])
        return _message(held[at])

    def drop_oldest(self, key: str, n: int) -> list[ChatMessage]:
        """Erase the oldest active messages; what they were."""
        held = self.turns(key, MessageStatus.ACTIVE)[: max(0, n)]
        Turns(self._memory, key, of=OF).remove([turn.id or "" for turn in held])
        return _messages(held)

    def archive(self, key: str, n: int) -> list[ChatMessage]:
        """Mark the oldest active messages as archived; which they are."""
        held = self.turns(key, MessageStatus.ACTIVE)[: max(0, n)]
        for turn in held:
            try:
                self._memory.update(turn.id or "", metadata={**turn.labels, STATUS: MessageStatus.ARCHIVED.value})
            except NotFound:
                continue  # forgotten meanwhile
        return _messages(held)

    def has(self, key: str) -> bool:
        """Whether a key is in use."""
        return self._keys.get(("key", key)) is not None

    def keys(self) -> list[str]:
        """The keys in use, oldest first."""
        return [path[1] for path in self._keys.paths(("key",))][::-1]


def said(message: ChatMessage) -> str:
    """The words of a message."""
    return "\n".join(block.text for block in message.blocks if isinstance(block, TextBlock) and block.text)


def _turn(message: ChatMessage, labels: dict[str, str]) -> Turn:
    role = _ROLES.get(message.role.value, "system")
    return Turn(role, said(message) if role in ("user", "assistant") else "", _value(message), labels=labels)


def _value(message: ChatMessage) -> dict[str, Any]:
    """A message as JSON data; what has no such form in it as its text."""
    value: dict[str, Any] = to_jsonable_python(message.model_dump(mode="json"), fallback=repr, inf_nan_mode="null")
    return value


def _message(turn: Turn) -> ChatMessage | None:
    """The message of a turn; for what was said in the session by other means, a plain one, and None for what was only done."""
    if turn.value is not None:
        return ChatMessage.model_validate(turn.value)
    return ChatMessage(turn.text, role=turn.role) if turn.text and turn.role in ("user", "assistant") else None


def _messages(turns: Sequence[Turn]) -> list[ChatMessage]:
    return [message for turn in turns if (message := _message(turn)) is not None]
