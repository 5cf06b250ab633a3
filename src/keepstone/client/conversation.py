"""Conversations on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keepstone.client.codec import check_int, message, path_segment, read, read_all, sendable_limits
from keepstone.client.plans import Asynchronous, Plan, Remote, RemoteGroup, Synchronous, route, run, run_async, verb
from keepstone.conversation.conversation import MAX_MESSAGES, MAX_SESSIONS, Conversation, Conversations, parse_export
from keepstone.conversation.flow import Built
from keepstone.types import Message, ModelMessage, Receipt, clean_name

if TYPE_CHECKING:
    from keepstone.client.transport import Transport
    from keepstone.memory import Path

_PAGE_MESSAGES = 500
_SUFFIXES = ("messages", "window", "search", "export")  # of addresses of a conversation


def _messages(response: Any) -> list[Message]:
    return read_all(Message, response["messages"])


class ConversationVerbs(Remote):
    """One session over HTTP."""

    def __init__(self, wire: Transport, session: str, limits: Mapping[str, Any]) -> None:
        self._wire = wire
        self._session = clean_name(session, "session")
        self._limits = sendable_limits(limits)
        self._base = f"/v1/conversations/{path_segment(self._session, 'session')}"

    @property
    def session(self) -> str:
        """The name of the session."""
        return self._session

    @verb(Conversation.add)
    def add(self, /, role: str, content: str | Sequence[Mapping[str, Any]], **metadata: Any) -> Plan[Receipt]:
        name, at = metadata.pop("name", None), metadata.pop("at", None)
        sent = message(Message(role, content, name=name, at=at, metadata=metadata))
        response = yield from self._wire.request("POST", f"{self._base}/messages", {"messages": [sent]})
        return read_all(Receipt, response["receipts"])[0]

    @verb(Conversation.messages)
    def messages(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> Plan[list[ModelMessage]]:
        built = yield from self._build(max_tokens, max_messages)
        return [ModelMessage(each) for each in built.messages]

    @verb(Conversation.build)
    def build(self, *, max_tokens: int | None = None, max_messages: int | None = None) -> Plan[Built]:
        return (yield from self._build(max_tokens, max_messages))

    @verb(Conversation.tokens)
    def tokens(self) -> Plan[int]:
        built = yield from self._build()
        return built.tokens

    @verb(Conversation.summary)
    def summary(self) -> Plan[str]:
        built = yield from self._build()
        return built.summary.text

    def _build(self, max_tokens: int | None = None, max_messages: int | None = None) -> Plan[Built]:
        view = sendable_limits({"max_tokens": max_tokens, "max_messages": max_messages})
        view = {f"view_{name.removeprefix('max_')}": value for name, value in view.items()}
        response = yield from self._wire.request("GET", f"{self._base}/window", {**self._limits, **view}, long=True)
        return read(Built, response)

    @verb(Conversation.last)
    def last(self, n: int = 10) -> Plan[list[Message]]:
        count = check_int(n, "n", 0, MAX_MESSAGES)
        return _messages((yield from self._wire.request("GET", f"{self._base}/messages", {"last": count})))

    search = route(Conversation.search, "GET", "/search", result="messages", bounds={"limit": (1, 1000)})
    consolidate = route(Conversation.consolidate, "POST", "/consolidate", result="receipt", long=True)
    export = route(Conversation.export, "GET", "/export", "export_conversation", long=True)

    @verb(Conversation.import_)
    def import_(self, data: Mapping[str, Any] | str) -> Plan[int]:
        response = yield from self._wire.request("POST", f"{self._base}/import", parse_export(data), long=True)
        return int(response["messages"])

    clear = route(Conversation.clear, "DELETE", "")

    def _count(self) -> Plan[int]:
        if self._session.rpartition("/")[2] in _SUFFIXES:  # the address would be that of another resource
            response = yield from self._wire.request("GET", f"{self._base}/messages", {"last": MAX_MESSAGES})
            return len(response["messages"])
        response = yield from self._wire.request("GET", self._base)
        return int(response["messages"])

    def _page(self, cursor: str | None) -> Plan[tuple[list[Message], str | None]]:
        fields = {"limit": _PAGE_MESSAGES, "cursor": cursor}
        response = yield from self._wire.request("GET", f"{self._base}/messages", fields)
        return _messages(response), response["cursor"]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._session!r})"


class RemoteConversation(ConversationVerbs, Synchronous):
    """One session. `len` counts its messages, iterating gives them oldest first."""

    def __len__(self) -> int:
        return run(self._count())

    def __bool__(self) -> bool:
        return True  # a conversation without messages is still one

    def __iter__(self) -> Iterator[Message]:
        page, cursor = run(self._page(None))
        yield from page
        while cursor is not None:
            page, cursor = run(self._page(cursor))
            yield from page


class AsyncRemoteConversation(ConversationVerbs, Asynchronous):
    """One session, for asyncio. `count()` counts its messages, `async for` gives them oldest first."""

    async def count(self) -> int:
        """The number of messages."""
        return await run_async(self._count())

    async def __aiter__(self) -> AsyncIterator[Message]:
        page, cursor = await run_async(self._page(None))
        for item in page:
            yield item
        while cursor is not None:
            page, cursor = await run_async(self._page(cursor))
            for item in page:
                yield item


class ConversationsVerbs(RemoteGroup):
    """All sessions over HTTP."""

    recent = route(Conversations.recent, "GET", "/messages", result="messages", bounds={"n": (0, MAX_MESSAGES)})
    list = route(Conversations.list, "GET", "/conversations", "sessions", result="sessions", bounds={"limit": (1, MAX_SESSIONS)})

    @verb(Conversations.export_chats)
    def export_chats(
        self, path: Path, *, format: str = "openai", only_successes: bool = False, plaintext: bool = False
    ) -> Plan[int]:
        options: dict[str, Any] = {"format": format, "only_successes": only_successes, "plaintext": plaintext or None}
        lines, _ = yield from self._wire.fetch("/v1/chats", path, **options)
        return lines


class RemoteConversations(ConversationsVerbs, Synchronous):
    """What `client.conversation` offers. Calling it with the name of a session gives one of them."""

    def __call__(self, session: str, **limits: Any) -> RemoteConversation:
        """One session's messages, and what a model is given of them.

        Limits: `max_messages`, `max_tokens` and `summarise`; `counter` and `model` cannot be sent to a server."""
        return RemoteConversation(self._wire, session, limits)


class AsyncRemoteConversations(ConversationsVerbs, Asynchronous):
    """What `client.conversation` offers, for asyncio."""

    def __call__(self, session: str, **limits: Any) -> AsyncRemoteConversation:
        """One session's messages, and what a model is given of them.

        Limits: `max_messages`, `max_tokens` and `summarise`; `counter` and `model` cannot be sent to a server."""
        return AsyncRemoteConversation(self._wire, session, limits)
