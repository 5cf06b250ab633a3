"""What all models behind an official client share: clients, retries, errors, costs."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import json
import math
import os
import re
import threading
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, ModelError
from keepstone.ports.chat import Answer, Block, Prompt, Stop, Usage

Prices = tuple[float, float] | tuple[float, float, float]
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_PLAIN = re.compile(r"[a-z_]{1,40}")  # what of a server's error may be repeated: a word of its own, never ours or a key
_PAUSE = 0.1  # seconds before a stream that was cut is asked for again, doubled each time
_STATUS = {
    400: ("refused the request", "check the model's name and whether it knows tools, images, schemas and so many tokens"),
    401: ("does not accept the API key", "set {package}_API_KEY, or pass api_key"),
    403: ("does not allow this API key to use it", "check what the key may do"),
    404: ("is not known to the server", "check the model's name and the base URL"),
    413: ("was sent more than it takes", "send fewer or shorter messages"),
    429: ("has no more room for this key now", "wait, ask less often, or raise the limit of the account"),
    500: ("failed on its own side", "try again later"),
}
_STREAM_ERRORS = {"authentication_error": 401, "permission_error": 403, "not_found_error": 404, "rate_limit_error": 429}


class Unusable(Exception):
    """What a model cannot be sent, or sent that cannot be used: what happened, and what to do."""


class Cut(Exception):
    """A stream that ended before the answer did."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A provider's answer in the common tongue. `tokens` are input (all of it), output and cached, None where nobody counted."""

    blocks: Sequence[Block]
    stop: Stop
    tokens: tuple[int, int, int] | None
    model: str


class Pieces(Protocol):
    """A stream being put together."""

    def take(self, event: Mapping[str, Any]) -> str:
        """The text that an event brings, "" for none."""

    def reading(self) -> Reading:
        """The whole; raises Cut where the end did not come."""


def tool_use(id: str, name: str, arguments: object) -> Block:
    """A tool use as the model wrote it: arguments that are no JSON object leave `input` empty, and `error` says so."""
    block: dict[str, Any] = {"type": "tool_use", "id": id or f"call_{uuid.uuid4().hex}", "name": name, "input": {}}
    try:
        given = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments or {}
    except ValueError as error:
        return {**block, "error": f"The arguments are not JSON ({error}). Send one JSON object."}
    if not isinstance(given, Mapping):
        return {**block, "error": f"The arguments are a JSON {type(given).__name__}. Send one JSON object."}
    return {**block, "input": dict(given)}


class Hosted:
    """A model behind an official client. An adapter says what is sent (`_arguments`), to which method (`_method`) and how an
    answer is read (`_read`, `_pieces`). Clients are made when first needed: one for all threads, and one for each event loop."""

    package = ""  # what is imported, which is also the name of the extra
    classes = ("", "")  # the client, and the one for asyncio

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None,
        api_key: str | None,
        timeout: float,
        retries: int,
        prices: Prices | None,
        client: Any,
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ConfigurationError(f"{name!r} is no name of a model: give the one {self.package} knows it by.")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise ConfigurationError(f"timeout must be a number of seconds above 0, got {timeout!r}.")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise ConfigurationError(f"retries must be 0 or a larger whole number, got {retries!r}.")
        if prices is not None and (len(prices) not in (2, 3) or not all(0 <= each < math.inf for each in prices)):
            raise ConfigurationError(
                f"prices must be (input, output) or (input, output, cached) a million tokens, got {prices!r}."
            )
        if client is None and importlib.util.find_spec(self.package) is None:
            raise ConfigurationError(
                f"The model {self.package}:{name} needs the package {self.package}: {install_command(self.package)}."
            )
        self.name, self.timeout, self.retries, self.prices = name, timeout, retries, prices
        self.base_url = base_url
        self._api_key, self._given = api_key, client
        self._lock = threading.Lock()
        self._client: Any = None
        self._owner = 0
        self._by_loop: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncIterator[None]]] = {}
        self._without: frozenset[str] = frozenset()  # what this server turned out not to take

    @property
    def id(self) -> str:
        return f"{self.package}:{self.name}" + (f"@{_address(self.base_url)}" if self.base_url else "")

    def __repr__(self) -> str:
        return f"<{self.id}>"

    def _method(self, client: Any) -> Any:
        raise NotImplementedError

    def _arguments(self, prompt: Prompt, without: frozenset[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _read(self, body: Mapping[str, Any]) -> Reading:
        raise NotImplementedError

    def _pieces(self) -> Pieces:
        raise NotImplementedError

    def _refused(self, error: Exception, sent: Mapping[str, Any], without: frozenset[str]) -> frozenset[str] | None:
        """What to leave out when asking once more, None where that would not help."""
        return None

    def _streaming(self, without: frozenset[str]) -> dict[str, Any]:
        """What is sent besides, to have the answer streamed."""
        return {"stream": True}

    def ask(self, prompt: Prompt) -> Answer:
        """The model's answer."""
        raw = None
        try:
            raw, retries = self._open(prompt, False, self.retries)
            return self._answer(prompt, self._read(_body(raw)), retries)
        except Exception as error:
            raise self._failure(error, raw is not None) from None

    async def aask(self, prompt: Prompt) -> Answer:
        """The model's answer."""
        raw = None
        try:
            raw, retries = await self._aopen(prompt, False, self.retries)
            return self._answer(prompt, self._read(_body(raw)), retries)
        except Exception as error:
            raise self._failure(error, raw is not None) from None

    def stream(self, prompt: Prompt) -> Iterator[str | Answer]:
        """The text as it comes, the answer last. A stream that is cut before any text came is asked for again."""
        taken = 0
        while True:
            pieces, begun, opened = self._pieces(), False, False
            try:
                raw, retries = self._open(prompt, True, self.retries - taken)
                taken, opened = taken + retries, True
                with raw.parse() as events:
                    for event in events:
                        if text := pieces.take(_plain(event)):
                            begun = True
                            yield text
                yield self._answer(prompt, pieces.reading(), taken)
                return
            except Exception as error:
                if begun or not opened or taken >= self.retries or isinstance(error, Unusable):
                    raise self._failure(error, opened) from None
            time.sleep(_PAUSE * 2**taken)
            taken += 1

    async def astream(self, prompt: Prompt) -> AsyncIterator[str | Answer]:
        """The text as it comes, the answer last. A stream that is cut before any text came is asked for again."""
        taken = 0
        while True:
            pieces, begun, opened = self._pieces(), False, False
            try:
                raw, retries = await self._aopen(prompt, True, self.retries - taken)
                taken, opened = taken + retries, True
                parsed = raw.parse()
                async with await parsed if inspect.isawaitable(parsed) else parsed as events:
                    async for event in events:
                        if text := pieces.take(_plain(event)):
                            begun = True
                            yield text
                yield self._answer(prompt, pieces.reading(), taken)
                return
            except Exception as error:
                if begun or not opened or taken >= self.retries or isinstance(error, Unusable):
                    raise self._failure(error, opened) from None
            await asyncio.sleep(_PAUSE * 2**taken)
            taken += 1

    def _open(self, prompt: Prompt, streamed: bool, left: int) -> tuple[Any, int]:
        """The provider's response, and how many requests it took beyond the first."""
        method = self._method(self._patient(self._sync_client(), left))
        without, more = self._without, 0
        while True:
            sent = self._sent(prompt, streamed, without)
            try:
                raw = method(**sent)
            except Exception as error:
                fewer = self._refused(error, sent, without)
                if fewer is None:
                    raise
                without, more = fewer, more + 1
            else:
                self._without |= without  # only now: what helped was worth leaving out
                return raw, raw.retries_taken + more

    async def _aopen(self, prompt: Prompt, streamed: bool, left: int) -> tuple[Any, int]:
        method = self._method(self._patient(await self._async_client(), left))
        without, more = self._without, 0
        while True:
            sent = self._sent(prompt, streamed, without)
            try:
                raw = await method(**sent)
            except Exception as error:
                fewer = self._refused(error, sent, without)
                if fewer is None:
                    raise
                without, more = fewer, more + 1
            else:
                self._without |= without
                return raw, raw.retries_taken + more

    def _sent(self, prompt: Prompt, streamed: bool, without: frozenset[str]) -> dict[str, Any]:
        try:
            return self._arguments(prompt, without) | (self._streaming(without) if streamed else {})
        except (KeyError, TypeError, AttributeError):
            raise Unusable("was given messages or tools of another shape", "see keepstone.ports.chat for theirs") from None

    def _answer(self, prompt: Prompt, reading: Reading, retries: int) -> Answer:
        if reading.stop != "refusal" and not any(block["type"] in ("text", "tool_use") for block in reading.blocks):
            if reading.stop == "length":
                raise Unusable(f"spent all {prompt.max_tokens} tokens before it said anything", "raise max_tokens")
            raise Unusable("answered with nothing", "ask again, or ask another model")
        whole, output, cached = reading.tokens or (0, 0, 0)
        cost = None
        if self.prices and reading.tokens:
            dear, out, cheap = (*self.prices, self.prices[0])[:3]
            cost = ((whole - cached) * dear + cached * cheap + output * out) / 1_000_000
        usage = Usage(whole, output, cached, calls=1, retries=retries, cost=cost)
        answer = Answer(tuple(reading.blocks), reading.stop, usage, reading.model or self.name)
        if prompt.schema is None or reading.stop != "end":
            return answer
        others = tuple(block for block in answer.blocks if block["type"] != "text")
        return Answer((*others, {"type": "text", "text": _json_in(answer.text)}), answer.stop, usage, answer.model)

    def _patient(self, client: Any, retries: int) -> Any:
        return client if self._given is not None or retries == self.retries else client.with_options(max_retries=max(retries, 0))

    def _sync_client(self) -> Any:
        if self._given is not None:
            if inspect.iscoroutinefunction(self._given.close):
                raise Unusable("was given a client for asyncio", "use aask and astream, or pass the other kind of client")
            return self._given
        with self._lock:
            if self._client is None or self._owner != os.getpid():  # a fork must not share its parent's connections
                self._client, self._owner = self._make(self.classes[0]), os.getpid()
            return self._client

    async def _async_client(self) -> Any:
        """This event loop's client: its connections cannot be used in another loop, and are closed when this one ends."""
        if self._given is not None:
            if not inspect.iscoroutinefunction(self._given.close):
                raise Unusable(
                    "was given a client that is not for asyncio", "use ask and stream, or pass the other kind of client"
                )
            return self._given
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._by_loop and not self._by_loop[loop][0].is_closed():
                return self._by_loop[loop][0]
            for each in [each for each in self._by_loop if each.is_closed()]:
                del self._by_loop[each]
            client = self._make(self.classes[1])
            life = _life(client)
            self._by_loop[loop] = client, life
        await anext(life)
        return client

    def _make(self, kind: str) -> Any:
        make = getattr(importlib.import_module(self.package), kind)
        return make(api_key=self._api_key, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries)

    def _failure(self, error: Exception, opened: bool) -> ModelError:
        """The error for the caller. It repeats nothing that was sent and nothing a server wrote but single words."""
        if isinstance(error, ModelError):
            return error
        what, do = self._told(error, opened)
        return ModelError(f"{self.id} {what}: {do}.")

    def _told(self, error: Exception, opened: bool) -> tuple[str, str]:
        if isinstance(error, Unusable):
            return error.args[0], error.args[1]
        package = importlib.import_module(self.package)
        httpx = importlib.import_module("httpx2")
        request = getattr(error, "request", None) if isinstance(error, package.APIError) else None
        retries = request.headers.get("x-stainless-retry-count", "0") if request is not None else "0"
        after = f" (after {retries} retries)" if retries != "0" else ""
        if isinstance(error, package.APITimeoutError | httpx.TimeoutException):
            seconds = f"within {self.timeout:g} seconds" if self._given is None else "in time"
            return f"did not answer {seconds}{after}", "try again, or allow a longer timeout"
        lost = isinstance(error.__cause__, httpx.ReadError | httpx.RemoteProtocolError) or opened
        if isinstance(error, Cut | httpx.TransportError) or (lost and isinstance(error, package.APIConnectionError)):
            return f"broke off before its answer was whole{after}", "ask again"
        if isinstance(error, package.APIConnectionError):
            return f"cannot be reached{after}", "check the network, the base URL and whether the server runs"
        if isinstance(error, package.APIError):
            return self._told_by_status(error, after)
        if opened:
            return "answered with something that is no answer", f"check that the base URL speaks the API of {self.package}"
        if any(word in f"{type(error).__name__} {error}".lower() for word in ("credentials", "authentication")):
            return "has no API key", f"set {self.package.upper()}_API_KEY, or pass api_key"
        return f"could not be asked ({type(error).__name__})", "check the messages, tools and schema"

    def _told_by_status(self, error: Any, after: str) -> tuple[str, str]:
        status = getattr(error, "status_code", 200)
        words = [getattr(error, each, None) for each in ("type", "code", "param", "error_code")]
        known = [each for each in words if isinstance(each, str) and _PLAIN.fullmatch(each)]
        if status < 400:  # it came in a stream that had begun well
            status = _STREAM_ERRORS.get(str(words[0]), 500)
        else:
            known.insert(0, str(status))
        what, do = _STATUS.get(status) or _STATUS[500 if status >= 500 else 400]
        shown = f" ({', '.join(dict.fromkeys(known))})" if known else ""
        return f"{what}{shown}{after}", do.format(package=self.package.upper())


async def _life(client: Any) -> AsyncIterator[None]:
    """Open for as long as its event loop, which closes the asynchronous generators it has seen when it ends."""
    try:
        yield
    finally:
        await client.close()


def _address(url: str) -> str:
    """A URL without the name, the password and the query it may have: an id is shown."""
    parts = urlsplit(str(url))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path.rstrip('/')}"


def _plain(event: Any) -> Mapping[str, Any]:
    plain: Mapping[str, Any] = event if isinstance(event, Mapping) else event.to_dict(warnings=False)
    return plain


def _body(raw: Any) -> Mapping[str, Any]:
    body = raw.http_response.json()
    if not isinstance(body, dict):
        raise ValueError("the body is no object")
    return body


def _json_in(text: str) -> str:
    """The JSON object in an answer that was to be one: alone, in a fence or between other words."""
    fenced = _FENCED.search(text)
    for candidate in (text, fenced[1] if fenced else "", text[text.find("{") : text.rfind("}") + 1]):
        try:
            if isinstance(json.loads(candidate), dict):
                return candidate.strip()
        except ValueError:
            continue
    raise Unusable("answered with text where JSON was asked for", "ask again, or use a model that knows structured output")
