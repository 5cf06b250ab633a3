"""Base of chat models behind an official client: clients, retries, errors, costs."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import math
import re
import threading
import time
import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit

from keepstone.errors import ConfigurationError, ModelError
from keepstone.ports.chat import Answer, Block, Prompt, Stop, Usage
from keepstone.ports.coroutines import iterate_blocking, run_blocking
from keepstone.ports.forks import reset_after_fork
from keepstone.provider_http import (
    check_model_name,
    check_package,
    check_retries,
    check_timeout,
    public_url,
    single_words,
    status_failure,
    transport_failure,
    transport_problem,
)

Prices = tuple[float, float] | tuple[float, float, float]
_CODE_FENCE = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL)
_STREAM_PAUSE_SECONDS = 0.1  # before an interrupted stream is requested again; doubled each time
_ADVICE = {
    400: "check the name of the model and whether it supports tools, images, schemas and this many tokens",
    401: "set {variable}, or pass api_key",
    404: "check the name of the model and the base URL",
    413: "send fewer or shorter messages",
}
_STREAM_ERROR_STATUS = {"authentication_error": 401, "permission_error": 403, "not_found_error": 404, "rate_limit_error": 429}


class UnusableMessage(Exception):
    """A request that a model cannot be sent, or a response that cannot be used: (problem, advice)."""


class StreamInterrupted(Exception):
    """A stream that ended before the response did."""


@dataclass(frozen=True, slots=True)
class Completion:
    """A provider's response in common form. `tokens` are input (all of it), output and cached, None if they were not counted."""

    blocks: Sequence[Block]
    stop: Stop
    tokens: tuple[int, int, int] | None
    model: str


class StreamParser(Protocol):
    """Assembles the events of a stream."""

    def add(self, event: Mapping[str, Any]) -> str:
        """The text that an event adds, "" for none."""

    def completion(self) -> Completion:
        """The whole response; StreamInterrupted if its end is missing."""


def tool_use(id: str, name: str, arguments: object) -> Block:
    """A tool use as the model wrote it. Arguments that are not a JSON object leave `input` empty, and `error` says so."""
    block: dict[str, Any] = {"type": "tool_use", "id": id or f"call_{uuid.uuid4().hex}", "name": name, "input": {}}
    try:
        value = json.loads(arguments or "{}") if isinstance(arguments, str) else arguments or {}
    except ValueError as error:
        return {**block, "error": f"The arguments are not JSON ({error}). Send one JSON object."}
    if not isinstance(value, Mapping):
        return {**block, "error": f"The arguments are a JSON {type(value).__name__}. Send one JSON object."}
    return {**block, "input": dict(value)}


class HostedModel:
    """A model behind an official client. A subclass builds the request (`_arguments`), names the method that sends it (`_method`)
    and parses the response (`_parse`, `_stream_parser`). Clients are made when first needed: one for all threads, and one for
    each event loop."""

    package = ""  # the package of the client, which is also the name of the extra
    classes = ("", "")  # the client, and the one for asyncio

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 2,
        prices: Prices | None = None,
        client: Any = None,
    ) -> None:
        check_model_name(name, self.package)
        self.name, self.timeout, self.retries = name, check_timeout(timeout), check_retries(retries)
        if prices is not None and (len(prices) not in (2, 3) or not all(0 <= price < math.inf for price in prices)):
            raise ConfigurationError(
                f"prices must be (input, output) or (input, output, cached) per million tokens, got {prices!r}."
            )
        if client is None:
            check_package(self.package, f"The model {self.package}:{name}", self.package)
        self.prices = prices
        self.base_url = base_url
        self._api_key, self._own_client = api_key, client
        self._unsupported: frozenset[str] = frozenset()  # arguments that this server refused
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._client: Any = None
        self._by_loop: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncIterator[None]]] = {}

    @property
    def id(self) -> str:
        return f"{self.package}:{self.name}" + (f"@{public_url(urlsplit(self.base_url))}" if self.base_url else "")

    def __repr__(self) -> str:
        return f"<{self.id}>"

    def _method(self, client: Any) -> Any:
        raise NotImplementedError

    def _arguments(self, prompt: Prompt, unsupported: frozenset[str]) -> dict[str, Any]:
        raise NotImplementedError

    def _parse(self, body: Mapping[str, Any]) -> Completion:
        raise NotImplementedError

    def _stream_parser(self) -> StreamParser:
        raise NotImplementedError

    def _refused_arguments(self, error: Exception, sent: Mapping[str, Any], unsupported: frozenset[str]) -> frozenset[str] | None:
        """The arguments to leave out of another request, None if that would not help."""
        return None

    def _stream_arguments(self, unsupported: frozenset[str]) -> dict[str, Any]:
        """The further arguments of a request whose response is streamed."""
        return {"stream": True}

    def ask(self, prompt: Prompt) -> Answer:
        """The model's answer."""
        return run_blocking(self._ask(prompt, blocking=True))

    async def aask(self, prompt: Prompt) -> Answer:
        """The model's answer."""
        return await self._ask(prompt, blocking=False)

    def stream(self, prompt: Prompt) -> Iterator[str | Answer]:
        """The text in pieces, the answer last. A stream that is interrupted before any text is requested again."""
        return iterate_blocking(self._stream(prompt, blocking=True))

    def astream(self, prompt: Prompt) -> AsyncIterator[str | Answer]:
        """The text in pieces, the answer last. A stream that is interrupted before any text is requested again."""
        return self._stream(prompt, blocking=False)

    # What follows is a coroutine for both: with a synchronous client it is never suspended, and run to its end at once.
    async def _ask(self, prompt: Prompt, blocking: bool) -> Answer:
        raw = None
        try:
            raw, retries = await self._open(prompt, False, self.retries, blocking)
            return self._answer(prompt, self._parse(_json_body(raw)), retries)
        except Exception as error:
            raise self._failure(error, raw is not None) from None

    async def _stream(self, prompt: Prompt, blocking: bool) -> AsyncGenerator[str | Answer, None]:
        taken = 0
        while True:
            parser, begun, opened = self._stream_parser(), False, False
            try:
                raw, retries = await self._open(prompt, True, self.retries - taken, blocking)
                taken, opened = taken + retries, True
                async with aclosing(_events(await _value(raw.parse()))) as events:
                    async for event in events:
                        if text := parser.add(event):
                            begun = True
                            yield text
                yield self._answer(prompt, parser.completion(), taken)
                return
            except Exception as error:
                if begun or not opened or taken >= self.retries or isinstance(error, UnusableMessage):
                    raise self._failure(error, opened) from None
            sleep: Callable[[float], Any] = time.sleep if blocking else asyncio.sleep
            await _value(sleep(_STREAM_PAUSE_SECONDS * 2**taken))
            taken += 1

    async def _open(self, prompt: Prompt, streamed: bool, left: int, blocking: bool) -> tuple[Any, int]:
        """The provider's response, and how many requests it took beyond the first."""
        client = self._sync_client() if blocking else await self._async_client()
        method = self._method(self._with_retries(client, left))
        unsupported, more = self._unsupported, 0
        while True:
            sent = self._request_arguments(prompt, streamed, unsupported)
            try:
                raw = await _value(method(**sent))
            except Exception as error:
                refused = self._refused_arguments(error, sent, unsupported)
                if refused is None:
                    raise
                unsupported, more = refused, more + 1
            else:
                self._unsupported |= unsupported  # only after a success: leaving them out helped
                return raw, raw.retries_taken + more

    def _request_arguments(self, prompt: Prompt, streamed: bool, unsupported: frozenset[str]) -> dict[str, Any]:
        try:
            return self._arguments(prompt, unsupported) | (self._stream_arguments(unsupported) if streamed else {})
        except (KeyError, TypeError, AttributeError):
            raise UnusableMessage("was given messages or tools in another format", "see keepstone.ports.chat") from None

    def _answer(self, prompt: Prompt, completion: Completion, retries: int) -> Answer:
        if completion.stop != "refusal" and not any(block["type"] in ("text", "tool_use") for block in completion.blocks):
            if completion.stop == "length":
                raise UnusableMessage(f"spent all {prompt.max_tokens} tokens before it wrote any text", "raise max_tokens")
            raise UnusableMessage("answered with nothing", "ask again, or ask another model")
        whole, output, cached = completion.tokens or (0, 0, 0)
        cost = None
        if self.prices and completion.tokens:
            input_price, output_price, cached_price = (*self.prices, self.prices[0])[:3]
            cost = ((whole - cached) * input_price + cached * cached_price + output * output_price) / 1_000_000
        usage = Usage(whole, output, cached, calls=1, retries=retries, cost=cost)
        answer = Answer(tuple(completion.blocks), completion.stop, usage, completion.model or self.name)
        if prompt.schema is None or completion.stop != "end":
            return answer
        other_blocks = tuple(block for block in answer.blocks if block["type"] != "text")
        return Answer((*other_blocks, {"type": "text", "text": _extract_json(answer.text)}), answer.stop, usage, answer.model)

    def _with_retries(self, client: Any, retries: int) -> Any:
        if self._own_client is not None or retries == self.retries:
            return client
        return client.with_options(max_retries=max(retries, 0))

    def _sync_client(self) -> Any:
        if self._own_client is not None:
            if inspect.iscoroutinefunction(self._own_client.close):
                raise UnusableMessage("was given a client for asyncio", "use aask and astream, or pass a synchronous client")
            return self._own_client
        with self._lock:
            if self._client is None:
                self._client = self._make_client(self.classes[0])
            return self._client

    async def _async_client(self) -> Any:
        """This event loop's client: its connections cannot be used in another loop and are closed when this one ends."""
        if self._own_client is not None:
            if not inspect.iscoroutinefunction(self._own_client.close):
                raise UnusableMessage(
                    "was given a client that is not for asyncio", "use ask and stream, or pass a client for asyncio"
                )
            return self._own_client
        loop = asyncio.get_running_loop()
        with self._lock:
            if loop in self._by_loop and not self._by_loop[loop][0].is_closed():
                return self._by_loop[loop][0]
            for closed in [known for known in self._by_loop if known.is_closed()]:
                del self._by_loop[closed]
            client = self._make_client(self.classes[1])
            lifetime = _close_with_loop(client)
            self._by_loop[loop] = client, lifetime
        await anext(lifetime)
        return client

    def _make_client(self, kind: str) -> Any:
        client_class = getattr(importlib.import_module(self.package), kind)
        return client_class(api_key=self._api_key, base_url=self.base_url, timeout=self.timeout, max_retries=self.retries)

    def _failure(self, error: Exception, opened: bool) -> ModelError:
        """The error for the caller. It repeats nothing that was sent, and only single words that the server wrote."""
        if isinstance(error, ModelError):
            return error
        problem, advice = self._describe(error, opened)
        return ModelError(f"{self.id} {problem}: {advice}.")

    def _describe(self, error: Exception, opened: bool) -> tuple[str, str]:
        if isinstance(error, UnusableMessage):
            return error.args[0], error.args[1]
        package = importlib.import_module(self.package)
        request = getattr(error, "request", None) if isinstance(error, package.APIError) else None
        retries = request.headers.get("x-stainless-retry-count", "0") if request is not None else "0"
        after = f" (after {retries} retries)" if retries != "0" else ""
        problem = "interrupted" if isinstance(error, StreamInterrupted) else transport_problem(error)
        if problem is not None:
            problem = "interrupted" if opened and problem == "unreachable" else problem
            failure = transport_failure(problem, self.timeout if self._own_client is None else None)
            return f"{failure.problem}{after}", failure.advice
        if isinstance(error, package.APIError):
            return self._describe_status(error, after)
        if opened:
            return "answered with something other than a completion", f"check that the base URL is the API of {self.package}"
        if any(word in f"{type(error).__name__} {error}".lower() for word in ("credentials", "authentication")):
            return "has no API key", f"set {self._key_variable}, or pass api_key"
        return f"could not be asked ({type(error).__name__})", "check the messages, tools and schema"

    def _describe_status(self, error: Any, after: str) -> tuple[str, str]:
        status = getattr(error, "status_code", 200)
        fields = [getattr(error, name, None) for name in ("type", "code", "param", "error_code")]
        words = single_words(fields)
        if status < 400:  # an error event in a stream that began well
            status = _STREAM_ERROR_STATUS.get(str(fields[0]), 500)
        else:
            words.insert(0, str(status))
        detail = f" ({', '.join(dict.fromkeys(words))})" if words else ""
        failure = status_failure(status, self._key_variable, _ADVICE, f"{detail}{after}")
        return failure.problem, failure.advice

    @property
    def _key_variable(self) -> str:
        return f"{self.package.upper()}_API_KEY"


async def _close_with_loop(client: Any) -> AsyncIterator[None]:
    """Close a client when its event loop ends, since a loop closes its asynchronous generators."""
    try:
        yield
    finally:
        await client.close()


async def _value(result: Any) -> Any:
    """What a synchronous client returned, or an asynchronous one promised."""
    return await result if inspect.isawaitable(result) else result


async def _events(stream: Any) -> AsyncGenerator[Mapping[str, Any], None]:
    """The events of a stream of either client."""
    if hasattr(stream, "__aiter__"):
        async with stream as events:
            async for event in events:
                yield _event_dict(event)
    else:
        with stream as events:
            for event in events:
                yield _event_dict(event)


def _event_dict(event: Any) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = event if isinstance(event, Mapping) else event.to_dict(warnings=False)
    return fields


def _json_body(raw: Any) -> Mapping[str, Any]:
    body = raw.http_response.json()
    if not isinstance(body, dict):
        raise ValueError("the body is not a JSON object")
    return body


def _extract_json(text: str) -> str:
    """The JSON object in a text: alone, in a code fence or between other words."""
    fenced = _CODE_FENCE.search(text)
    for candidate in (text, fenced[1] if fenced else "", text[text.find("{") : text.rfind("}") + 1]):
        try:
            if isinstance(json.loads(candidate), dict):
                return candidate.strip()
        except ValueError:
            continue
    raise UnusableMessage("answered with text where JSON was requested", "ask again, or use a model with structured output")
