"""wrap: an official OpenAI or Anthropic client with a memory.

    client = keepstone.wrap(OpenAI(), memory, session="chat-1")
    client.chat.completions.create(model=…, messages=[…])

The result is a shallow copy of the client, of the same class, that shares its connections. Every method of the vendors' clients
that starts a conversation (create, parse, stream, tool runners, raw responses) posts through `client.post`. The copy replaces
that one method: it adds what is known to the request and listens to the answer.

A stream's events pass through as they come. When it ends, however it ends, what was said until then is kept. A stream that is
left early ends when it is closed; one that is merely dropped, when Python clears it away.
"""

from __future__ import annotations

import asyncio
import copy
import inspect
import json
import logging
import threading
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import takewhile
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from keepstone.errors import ConfigurationError, KeepstoneError
from keepstone.integrations.bridge import as_sync_memory, digest
from keepstone.integrations.wrap_wires import ASSISTANT, USER, Said, Wire, text_of, wire_of
from keepstone.types import Message, clean_name

if TYPE_CHECKING:
    from keepstone.integrations.bridge import MemoryOrClient

C = TypeVar("C")
T = TypeVar("T")
log = logging.getLogger("keepstone.wrap")
_MAX_QUERY_CHARS = 4000
_MAX_MARKS = 1000  # of turns and requests that are told apart
_MAX_CONTEXTS = 64  # of tool loops under way
_EXTRA_TURNS = 20  # stored turns that are compared, beyond those of a request
_MAX_MESSAGE_BYTES = 60_000
_PLACES = ("system", "user")
_UNREAD = "the request was not read"
_UNHEARD = "the answer was not heard"
_JOIN_SECONDS = 5.0  # for which a dropped stream waits until its answer is kept
_CLIENTS = {"SyncAPIClient", "AsyncAPIClient"}  # base classes of the clients of both vendors, and of others
_RESOURCES = {"SyncAPIResource", "AsyncAPIResource"}
_VIEWS = ("with_raw_response", "with_streaming_response")
_BARE = "_keepstone_bare"  # the attribute of a wrapped client with the original


def wrap(
    client: C, memory: Any, *, session: str | None = None, max_tokens: int = 1500, save: bool = True, place: str = "system"
) -> C:
    """Add a memory to a client: what is known about the user's last message is added to each request, and the turns are stored.

    `client` is an official OpenAI or Anthropic client, for asyncio or not; it is not changed. `memory` is a Memory, AsyncMemory
    or Client, for one user for example `memory.with_scope(user="dana")`. `session` names the conversation that the turns are
    stored in; None: a new one. `max_tokens` is the budget for memories; 0 adds none. `save=False` stores nothing. `place` is
    where the memories are put: with the instructions ("system"), or in front of the user's last message ("user"). Raises
    ConfigurationError, ValidationError.

        client = wrap(OpenAI(), memory, session="monday")
        client.chat.completions.create(model="gpt-5", messages=[{"role": "user", "content": "Which theme do I like?"}])"""
    bare = vars(client).get(_BARE, client) if hasattr(client, "__dict__") else client
    _check(bare, max_tokens, save, place)
    name = f"chat-{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}-{uuid4().hex[:8]}" if session is None else clean_name(session, "session")
    keeper = _Keeper(as_sync_memory(memory), name, max_tokens, save)
    wrapped: C = _wrap_client(bare, _Hook(keeper, place), memory)
    return wrapped


# -- requests ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Hook:
    """Adds a memory to the calls of a client."""

    keeper: _Keeper
    place: str

    def around(self, send: Callable[..., Any]) -> Callable[..., Any]:
        """`post` with a memory."""

        def post(path: str, **given: Any) -> Any:
            request = self._read_request(path, given.get("body"))
            if request is None:
                return send(path, **given)
            wire, body = request
            body = self._add_context(wire, body, self.keeper.before(wire.turns(body)))
            return listen(send(path, **{**given, "body": body}), _Tape(wire, self.keeper))

        async def apost(path: str, **given: Any) -> Any:
            request = self._read_request(path, given.get("body"))
            if request is None:
                return await send(path, **given)
            wire, body = request
            turns = wire.turns(body)
            body = self._add_context(wire, body, await _in_thread(lambda: self.keeper.before(turns)))
            return await alisten(await send(path, **{**given, "body": body}), _Tape(wire, self.keeper))

        return apost if inspect.iscoroutinefunction(send) else post

    def _read_request(self, path: str, body: Any) -> tuple[Wire, dict[str, Any]] | None:
        """The format and a copy of a request that is a conversation; None for every other, and for one that cannot be read."""
        wire = wire_of(path)
        if wire is None or not isinstance(body, Mapping):
            return None

        def read() -> tuple[Wire, dict[str, Any]]:
            taken = wire.copy_body(body)
            wire.turns(taken)
            return wire, taken

        return safely(read, None, _UNREAD)

    def _add_context(self, wire: Wire, body: dict[str, Any], context: str) -> dict[str, Any]:
        return safely(lambda: wire.with_context(body, context, self.place), body, _UNREAD) if context else body


def _wrap_client(client: Any, hook: _Hook, memory: Any) -> Any:
    """A copy of a client that posts with a memory."""
    twin = copy.copy(client)
    post = hook.around(twin.post)

    def copy_client(*args: Any, **options: Any) -> Any:
        return _wrap_client(type(client).copy(twin, *args, **options), hook, memory)

    vars(twin).update({"post": post, "copy": copy_client, "with_options": copy_client, _BARE: client})
    vars(twin).update(memory=memory, session=hook.keeper.session)
    for name, value in list(vars(twin).items()):  # cached resources post through the original client
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
            "or AsyncAnthropic()."
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
    """Whether a client has a resource, without creating it."""
    return hasattr(type(client), resource) or resource in vars(client)


# -- answers ----------------------------------------------------------------------------------------------------------
class _Tape:
    """The text of one answer; it is stored once."""

    def __init__(self, wire: Wire, keeper: _Keeper) -> None:
        self._wire = wire
        self._keeper = keeper
        self._pieces: list[str] = []
        self._done = False
        self.dropped = False

    def hear(self, event: Any) -> None:
        self._pieces.append(safely(lambda: self._wire.piece(event), "", _UNHEARD))

    def hear_all(self, result: Any) -> None:
        """An answer in one piece, as an object or as JSON."""
        self._pieces = [safely(lambda: self._wire.answer(result), "", _UNHEARD)]

    def keep(self) -> None:
        if self._done:
            return
        self._done = True
        text = "".join(self._pieces).strip()
        if not self.dropped:
            self._keeper.after(text)
            return
        # Python may clear a stream away in the middle of a call to the store: another thread can wait for it.
        thread = threading.Thread(target=self._keeper.after, args=(text,), daemon=True)
        safely(thread.start, None, "the answer was not saved")
        if thread.ident is not None:
            thread.join(_JOIN_SECONDS)


async def _in_thread(work: Callable[[], T]) -> T:
    """Run a call in a thread; without a thread, under another event loop or at its end, run it here."""
    try:
        return await asyncio.to_thread(work)
    except RuntimeError:  # of asyncio: `safely` has caught those of the memory
        return work()


def listen(result: T, tape: _Tape) -> T:
    """The same result, with its answer kept: at once, or when its stream ends."""
    if _hear_now(result, tape, _tape_stream, _tape_parse):
        tape.keep()
    return result


async def alisten(result: T, tape: _Tape) -> T:
    """`listen` for clients of asyncio."""
    if _hear_now(result, tape, _atape_stream, _atape_parse):
        await _in_thread(tape.keep)
    return result


def _hear_now(
    result: Any, tape: _Tape, tape_stream: Callable[[Any, _Tape], None], tape_parse: Callable[[Any, _Tape], None]
) -> bool:
    """Hear an answer that is complete; False if it is still to come, and will be heard then."""
    if _is_stream(result):
        safely(lambda: tape_stream(result, tape), None, _UNHEARD)
        return False
    raw = hasattr(result, "http_response") and callable(getattr(result, "parse", None))
    if raw and not result.http_response.is_closed:
        safely(lambda: tape_parse(result, tape), None, _UNHEARD)
        return False
    safely(lambda: tape.hear_all(json.loads(result.http_response.content) if raw else result), None, _UNHEARD)
    return True


def _is_stream(result: Any) -> bool:
    return hasattr(type(result), "__stream__") and hasattr(result, "response")


def _events_of(stream: Any) -> Any:
    """A stream's events, from a copy of it: an iterator that held the stream itself would keep it from being cleared away."""
    twin = copy.copy(stream)
    vars(twin).pop("_iterator", None)
    return twin.__stream__()


def _tape_stream(stream: Any, tape: _Tape) -> None:
    inner, close = _events_of(stream), stream.response.close

    def close_and_keep() -> None:
        close()
        tape.keep()

    def events() -> Iterator[Any]:
        try:
            for event in inner:
                tape.hear(event)
                yield event
        except GeneratorExit:
            tape.dropped = True
            raise
        finally:
            inner.close()
            tape.keep()

    stream.response.close = close_and_keep  # the vendors' helpers close the response, not the stream
    stream._iterator = events()


def _atape_stream(stream: Any, tape: _Tape) -> None:
    inner, close = _events_of(stream), stream.response.aclose

    async def close_and_keep() -> None:
        await close()
        await _in_thread(tape.keep)

    async def events() -> AsyncIterator[Any]:
        try:
            async for event in inner:
                tape.hear(event)
                yield event
        finally:
            await inner.aclose()
            await _in_thread(tape.keep)

    stream.response.aclose = close_and_keep
    stream._iterator = events()


def _tape_parse(result: Any, tape: _Tape) -> None:
    """Listen when a raw response is parsed for the first time, which is when it is read."""
    parse, first = result.parse, [True]

    def parse_and_listen(*args: Any, **options: Any) -> Any:
        value = parse(*args, **options)
        return listen(value, tape) if first and first.pop() else value

    result.parse = parse_and_listen


def _atape_parse(result: Any, tape: _Tape) -> None:
    parse, first = result.parse, [True]

    async def parse_and_listen(*args: Any, **options: Any) -> Any:
        value = await parse(*args, **options)
        return await alisten(value, tape) if first and first.pop() else value

    def parse_at_once(*args: Any, **options: Any) -> Any:  # openai's raw responses are parsed without waiting
        value = parse(*args, **options)
        if first and first.pop() and _is_stream(value):
            safely(lambda: _atape_stream(value, tape), None, _UNHEARD)
        return value

    result.parse = parse_and_listen if inspect.iscoroutinefunction(parse) else parse_at_once


# -- turns ------------------------------------------------------------------------------------------------------------
class _Keeper:
    """Reads memory before a call and stores messages after it, in one session. Threads may share it.

    Clients resend what was said before. Only what the user has said since the assistant's last turn can be new, and it is kept
    once: not again if the same request comes again (a retry, another answer asked for), in this process or after a restart, when
    the end of the stored session is compared. Memory must never cost the answer: a failure is logged, and the call goes on."""

    def __init__(self, memory: MemoryOrClient, session: str, max_tokens: int, save: bool) -> None:
        self.memory = memory
        self.session = session
        self._max_tokens = max_tokens
        self._save = save
        self._lock = threading.RLock()
        self._contexts: OrderedDict[str, str] = OrderedDict()
        self._last = ""
        self._tail: list[str] | None = None  # marks of the session's last turns; None: not read yet
        self._seen: OrderedDict[str, None] = OrderedDict()  # marks of requests that were kept
        self._unanswered = False

    def before(self, turns: Sequence[Said]) -> str:
        """What is known about the user's last words, "" for nothing; what is new of them is kept."""
        context = safely(lambda: self._context(turns), "", "memory could not be read")
        if self._save and _new_turns(turns):
            safely(lambda: self._keep(turns), None, "the message was not saved")
        return context

    def after(self, text: str) -> None:
        """Keep what the assistant said."""
        if self._save:
            safely(lambda: self._keep_answer(text), None, "the answer was not saved")

    def _context(self, turns: Sequence[Said]) -> str:
        said = [at for at, turn in enumerate(turns) if turn.role == USER and turn.text]
        if not self._max_tokens or not said:  # without words of the user a request goes on with what came before
            return self._last
        mark = digest("".join(map(_mark, turns[: said[-1] + 1])))
        if _new_turns(turns) or mark not in self._contexts:
            context: str = self.memory.context(turns[said[-1]].text[:_MAX_QUERY_CHARS], max_tokens=self._max_tokens)
            with self._lock:
                _store_bounded(self._contexts, mark, context, _MAX_CONTEXTS)
        else:
            context = self._contexts.get(mark, self._last)  # the same through a whole loop of tools
        self._last = context
        return context

    def _keep(self, turns: Sequence[Said]) -> None:
        new = _new_turns(turns)
        marks = [_mark(turn) for turn in turns if turn.text]
        request = digest("".join(marks)) if any(turn.role == ASSISTANT for turn in turns) else ""
        with self._lock:
            tail = self._read(len(marks))
            if request and (request in self._seen or _contains(marks, tail)):
                return
            fresh = new[self._count_repeated([_mark(turn) for turn in new], tail) :]
            self._store(fresh)
            self._unanswered = True
            if request:
                _store_bounded(self._seen, request, None, _MAX_MARKS)

    def _keep_answer(self, text: str) -> None:
        with self._lock:
            self._unanswered = False
            if text:
                self._read(0)
                self._store([Said(ASSISTANT, text)])

    def _read(self, turns: int) -> list[str]:
        """The marks of the session's last turns, from the store the first time."""
        if self._tail is None:
            stored = self.memory.conversation(self.session).last(turns + _EXTRA_TURNS)
            said = [Said(each.role, text_of(each.content, each.role)) for each in stored if each.role in (USER, ASSISTANT)]
            self._tail = [_mark(turn) for turn in said if turn.text]
            self._unanswered = bool(stored) and stored[-1].role == USER
        return self._tail

    def _count_repeated(self, new: Sequence[str], tail: Sequence[str]) -> int:
        """How many of the new turns stand at the session's end already, without an answer: the call is a retry."""
        waiting = list(takewhile(lambda mark: mark.startswith(USER), reversed(tail)))[::-1] if self._unanswered else []
        most = min(len(new), len(waiting))
        return next((count for count in range(most, 0, -1) if waiting[-count:] == list(new[:count])), 0)

    def _store(self, turns: Sequence[Said]) -> None:
        if not turns:
            return
        messages = [Message(turn.role, _fit(turn.text)) for turn in turns]
        for receipt in self.memory.ingest(messages, session=self.session):
            if receipt.action == "refused":
                log.warning("a message was not saved: %s", "; ".join(receipt.reasons))
        self._tail = [*(self._tail or ()), *map(_mark, turns)][-_MAX_MARKS:]


def safely(work: Callable[[], T], otherwise: T, what: str) -> T:
    """Use memory; log a failure and return `otherwise`."""
    try:
        return work()
    except KeepstoneError as error:
        log.warning("%s: %s", what, error)
    except Exception:  # a fault of ours, or a format that is not known: it must not cost the answer
        log.exception("%s", what)
    return otherwise


def _new_turns(turns: Sequence[Said]) -> list[Said]:
    """What the user has said since the assistant's last turn."""
    return [turn for turn in list(takewhile(lambda turn: turn.role == USER, reversed(turns)))[::-1] if turn.text]


def _mark(turn: Said) -> str:
    return f"{turn.role}:{digest(' '.join(turn.text.split()))}"


def _contains(marks: Sequence[str], tail: Sequence[str]) -> bool:
    """Whether all turns of a request stand in the session one after the other."""
    size = len(marks)
    return any(tail[at : at + size] == list(marks) for at in range(len(tail) - size + 1))


def _store_bounded(held: OrderedDict[str, T], mark: str, value: T, most: int) -> None:
    held[mark] = value
    held.move_to_end(mark)
    while len(held) > most:
        held.popitem(last=False)


def _fit(text: str) -> str:
    """A text without characters that a store cannot hold, cut to the length of a message."""
    clean = text.replace("\0", "\ufffd").encode("utf-8", "replace")
    if len(clean) <= _MAX_MESSAGE_BYTES:
        return clean.decode("utf-8")
    return clean[:_MAX_MESSAGE_BYTES].decode("utf-8", "ignore") + " … [cut]"
