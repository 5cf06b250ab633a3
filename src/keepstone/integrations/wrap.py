"""wrap: an official OpenAI or Anthropic client with a memory.

    client = keepstone.wrap(OpenAI(), memory, session="chat-1")
    client.chat.completions.create(model=…, messages=[…])

What is wrapped is a shallow copy of the client, of the same class, that shares its connections: `isinstance` holds, every
attribute is there, and the client it came from stays as it was. The vendors' clients are made alike: every method of theirs that
starts a conversation (create, parse, stream, tool runners, raw responses) posts through `client.post`. There, and nowhere else,
the copy adds what is known and listens to the answer; so nothing has to be done for each method, nor for each way to call it.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar
from uuid import uuid4

from keepstone.errors import ConfigurationError
from keepstone.integrations.coerce import as_sync_memory
from keepstone.integrations.wrap_keeper import Keeper, safely
from keepstone.integrations.wrap_streams import Tape, aheard, archived, heard
from keepstone.integrations.wrap_wires import Wire, wire_of
from keepstone.types import clean_name

C = TypeVar("C")
_PLACES = ("system", "user")
_UNREAD = "the request was not read"
_CLIENTS = {"SyncAPIClient", "AsyncAPIClient"}  # what the clients of both vendors, and of others, are made of
_RESOURCES = {"SyncAPIResource", "AsyncAPIResource"}
_VIEWS = ("with_raw_response", "with_streaming_response")
_BARE = "_keepstone_bare"  # where a wrapped client holds the one it was made of


def wrap(
    client: C, memory: Any, *, session: str | None = None, max_tokens: int = 1500, save: bool = True, place: str = "system"
) -> C:
    """A client that remembers: what is known about the user's last message goes into each request, and the turns are kept.

    `client` is an official OpenAI or Anthropic client, for asyncio or not; it stays as it is. `memory` is a Memory, AsyncMemory
    or Client; `memory.with_scope(user="dana")` for one user's. `session` names the conversation that turns are kept in; None: a
    new one. `max_tokens` is the budget of what is known, 0 for nothing. `save=False` keeps no turn. `place` says where what is
    known stands: with the instructions ("system"), or in front of the user's last words ("user").
    Raises ConfigurationError, ValidationError."""
    bare = vars(client).get(_BARE, client) if hasattr(client, "__dict__") else client
    _check(bare, max_tokens, save, place)
    name = f"chat-{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}-{uuid4().hex[:8]}" if session is None else clean_name(session, "session")
    keeper = Keeper(as_sync_memory(memory), name, max_tokens, save)
    wrapped: C = _wrapped(bare, _Hook(keeper, place), memory)
    return wrapped


@dataclass(frozen=True, slots=True)
class _Hook:
    """What is done around each call."""

    keeper: Keeper
    place: str

    def around(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """`post` with a memory."""

        def post(path: str, **given: Any) -> Any:
            asked = self._asked(path, given.get("body"))
            if asked is None:
                return send(path, **given)
            wire, body = asked
            body = self._told(wire, body, self.keeper.before(wire.turns(body)))
            return heard(send(path, **{**given, "body": body}), Tape(wire, self.keeper))

        async def apost(path: str, **given: Any) -> Any:
            asked = self._asked(path, given.get("body"))
            if asked is None:
                return await send(path, **given)
            wire, body = asked
            turns = wire.turns(body)
            body = self._told(wire, body, await archived(lambda: self.keeper.before(turns)))
            return await aheard(await send(path, **{**given, "body": body}), Tape(wire, self.keeper))

        return apost if inspect.iscoroutinefunction(send) else post

    def _asked(self, path: str, body: Any) -> tuple[Wire, dict[str, Any]] | None:
        """The format and a copy of a request that is a conversation; None for every other, and for one that cannot be read."""
        wire = wire_of(path)
        if wire is None or not isinstance(body, Mapping):
            return None

        def read() -> tuple[Wire, dict[str, Any]]:
            taken = wire.taken(body)
            wire.turns(taken)
            return wire, taken

        return safely(read, None, _UNREAD)

    def _told(self, wire: Wire, body: dict[str, Any], context: str) -> dict[str, Any]:
        return safely(lambda: wire.told(body, context, self.place), body, _UNREAD) if context else body


def _wrapped(client: Any, hook: _Hook, memory: Any) -> Any:
    """A copy of a client that posts with a memory."""
    twin = copy.copy(client)
    post = hook.around(twin.post)

    def copied(*args: Any, **options: Any) -> Any:
        return _wrapped(type(client).copy(twin, *args, **options), hook, memory)

    vars(twin).update({"post": post, "copy": copied, "with_options": copied, _BARE: client})
    vars(twin).update(memory=memory, session=hook.keeper.session)
    for name, value in list(vars(twin).items()):  # what posts through the client that it was made with
        if _is_a(type(value), _RESOURCES):
            vars(twin)[name] = type(value)(twin)
        elif name in _VIEWS:
            del vars(twin)[name]
    resource = twin.chat.completions if _has(twin, "chat") else twin.messages
    if getattr(resource, "_post", None) is not post:
        kind = f"{type(client).__module__.partition('.')[0]}.{type(client).__name__}"
        raise ConfigurationError(f"this version of {kind} does not post through client.post: it cannot be wrapped, use another.")
    return twin


def _check(client: Any, max_tokens: Any, save: Any, place: Any) -> None:
    kind = type(client)
    if not _is_a(kind, _CLIENTS) or not (_has(client, "chat") or _has(client, "messages")):
        shown = f"the module {client.__name__}" if inspect.ismodule(client) else f"a {kind.__module__}.{kind.__qualname__}"
        raise ConfigurationError(
            f"client is {shown}: give a client of the packages openai or anthropic, such as OpenAI(), AsyncOpenAI(), Anthropic() "
            "or AsyncAnthropic(), or one made alike."
        )
    if isinstance(max_tokens, bool) or not isinstance(max_tokens, int) or not 0 <= max_tokens <= 10_000_000:
        raise ConfigurationError(f"max_tokens is {max_tokens!r:.40}: use a whole number from 0 to 10000000.")
    if not isinstance(save, bool):
        raise ConfigurationError(f"save is {save!r:.40}: use True or False.")
    if place not in _PLACES:
        raise ConfigurationError(f"place is {place!r:.40}: use {' or '.join(_PLACES)}.")


def _is_a(kind: type, names: set[str]) -> bool:
    return any(each.__name__ in names for each in kind.__mro__)


def _has(client: Any, resource: str) -> bool:
    """Whether a client has a resource; nothing is made for the question."""
    return hasattr(type(client), resource) or resource in vars(client)
