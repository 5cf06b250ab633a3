"""AsyncRemoteConversation: one session of a server.

Made by tools/make_client_aio.py from conversation.py; do not edit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any

from keepstone.client.aio_transport import AsyncTransport
from keepstone.client.codec import read, read_all
from keepstone.client.request_args import check_int, exported, message, travelling
from keepstone.client.responses import part
from keepstone.errors import ValidationError
from keepstone.ports.queue import Session
from keepstone.types import ForgetReceipt, Message, Receipt, clean_name

if TYPE_CHECKING:
    from keepstone.conversation.flow import Built

_PAGE = 500
_MOST = 100_000
_SUFFIXES = ("messages", "window", "search", "export")  # of addresses of a conversation


class AsyncRemoteConversation:
    """One session. `count()` counts its messages, `async for` gives them."""

    def __init__(self, wire: AsyncTransport, session: str, limits: Mapping[str, Any]) -> None:
        self._wire = wire
        self._session = clean_name(session, "session")
        self._limits = travelling(limits)
        self._path = f"/v1/conversations/{part(self._session, 'session')}"

    @property
    def session(self) -> str:
        """The name of the session."""
        return self._session

    async def add(self, /, role: str, content: str | Sequence[Mapping[str, Any]], **metadata: Any) -> Receipt:
        """Store a message: text, or blocks as the Messages API has them (images by reference). `name=` is who spoke and `at=`
        when, where it was not just now; everything else is kept with it as metadata. It is sent once."""
        name, at = metadata.pop("name", None), metadata.pop("at", None)
        said = message(Message(role, content, name=name, at=at, metadata=metadata))
        found = await self._wire.post(f"{self._path}/messages", {"messages": [said]})
        return read_all(Receipt, found["receipts"])[0]

    async def messages(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> list[dict[str, Any]]:
        """What to send to a model: the summary of the older part in front, where there is one, then the recent messages as they
        were. Never more than the limits, never beginning with a tool result whose use is missing."""
        built = await self.build(max_tokens=max_tokens, max_messages=max_messages)
        return built.messages

    async def build(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> Built:
        """The same with the ids of the messages, the tokens they take, and what a model took for a summary."""
        from keepstone.conversation.flow import Built

        look = travelling({"max_tokens": max_tokens, "max_messages": max_messages})
        view = {f"view_{name.removeprefix('max_')}": value for name, value in look.items()}
        return read(Built, await self._wire.get(f"{self._path}/window", long=True, **self._limits, **view))

    async def tokens(self) -> int:
        """About how many tokens `messages()` takes."""
        built = await self.build()
        return built.tokens

    async def summary(self) -> str:
        """The summary of the older part; "" while everything fits the window."""
        built = await self.build()
        return built.summary.text

    async def last(self, n: int = 10) -> list[Message]:
        """The last n messages, oldest first."""
        found = await self._wire.get(f"{self._path}/messages", last=check_int(n, "n", 0, 100_000))
        return read_all(Message, found["messages"])

    async def search(self, words: str, *, limit: int = 20) -> list[Message]:
        """The newest messages in which all the words stand, oldest first; capitals do not matter, parts of words do."""
        if not isinstance(words, str):
            raise ValidationError(f"words is {words!r:.60}: give at least one word to look for.")
        found = await self._wire.get(f"{self._path}/search", words=words, limit=check_int(limit, "limit", 1, 1000))
        return read_all(Message, found["messages"])

    async def consolidate(self) -> Receipt | None:
        """Store what the session came to (facts about the user, decisions, open tasks) as one memory of kind "summary" that
        names the messages it was made from. None if too little was said."""
        found = await self._wire.post(f"{self._path}/consolidate", long=True)
        return None if found["receipt"] is None else read(Receipt, found["receipt"])

    async def export(self) -> dict[str, Any]:
        """The whole conversation as plain data that JSON can hold."""
        found = await self._wire.get(f"{self._path}/export", long=True)
        return dict(found)

    async def import_(self, data: Mapping[str, Any] | str) -> int:
        """Append an exported conversation, all of it or, if anything is wrong, nothing. How many messages: those that the policy
        for sensitive data refuses are left out."""
        found = await self._wire.post(f"{self._path}/import", exported(data), long=True)
        return int(found["messages"])

    async def clear(self) -> ForgetReceipt:
        """Erase the session's messages and every summary made of them. Facts that were learned from them stay;
        `client.forget(session=…)` erases those too."""
        return read(ForgetReceipt, await self._wire.delete(self._path))

    async def count(self) -> int:
        """How many there are."""
        if self._session.rpartition("/")[2] in _SUFFIXES:  # the address would be another one's
            found = await self._wire.get(f"{self._path}/messages", last=_MOST)
            return len(found["messages"])
        found = await self._wire.get(self._path)
        return int(found["messages"])

    def __bool__(self) -> bool:
        return True  # a conversation without messages is still one

    async def __aiter__(self) -> AsyncIterator[Message]:
        cursor: str | None = None
        while True:
            found = await self._wire.get(f"{self._path}/messages", limit=_PAGE, cursor=cursor)
            page, cursor = read_all(Message, found["messages"]), found["cursor"]
            for each in page:
                yield each
            if cursor is None:
                return

    def __repr__(self) -> str:
        return f"AsyncRemoteConversation({self._session!r})"


class AsyncRemoteConversations:
    """What `client.conversation` offers. Calling it with the name of a session gives one of them."""

    def __init__(self, wire: AsyncTransport) -> None:
        self._wire = wire

    def __call__(self, session: str, **limits: Any) -> AsyncRemoteConversation:
        """One session's messages, and what a model is given of them.

        Limits: `max_messages`, `max_tokens` and `summarise`; `counter` and `model` cannot be sent to a server."""
        return AsyncRemoteConversation(self._wire, session, limits)

    async def recent(self, n: int = 20) -> list[Message]:
        """The last n messages across all sessions, oldest first."""
        found = await self._wire.get("/v1/messages", n=check_int(n, "n", 0, 100_000))
        return read_all(Message, found["messages"])

    async def list(self, *, limit: int = 100) -> Sequence[Session]:
        """List the sessions, the one with the newest message first."""
        found = await self._wire.get("/v1/conversations", limit=check_int(limit, "limit", 1, 10_000))
        return read_all(Session, found["sessions"])

    async def export_chats(self, path: str | PathLike[str], *, format: str = "openai", only_successes: bool = False) -> int:
        """Write every conversation and task as a line of chat messages for fine-tuning (JSONL). Returns the number of lines."""
        lines, _ = await self._wire.fetch("/v1/chats", path, format=format, only_successes=only_successes)
        return lines
