"""Bodies of requests: how large, of which type, how long they may take, and JSON without surprises.

`Intake` is ASGI middleware: it looks at the headers and the bytes before anybody else does. A body that is too large, packed
to become too large, or too slow is refused while it arrives; what was read of it is dropped.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keepstone.errors import ValidationError
from keepstone.server.problems import Refused, problem_of

_DEEPEST = 100  # levels of JSON; what is stored has limits of its own
_LARGEST = 2**63
_CHUNK = 65536


class BodyLimitMiddleware:
    """Bounds what a request's body may be. `larger` are paths whose bodies are files: (bytes, seconds) of each."""

    def __init__(self, app: ASGIApp, most: int, seconds: float, larger: dict[str, tuple[int, float]]) -> None:
        self._app, self._usual, self._larger = app, (most, seconds), larger

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = _Body(scope, receive, *self._larger.get(scope["path"], self._usual))
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            body.examine()
            await self._app(scope, body.receive, sent)
        except Refused as error:
            if begun:
                raise
            await problem_of(error)(scope, receive, send)


class _Body:
    """The body of one request as it comes in."""

    def __init__(self, scope: Scope, receive: Receive, most: int, seconds: float) -> None:
        self._headers = {name: value for name, value in scope["headers"] if name in (b"content-length", b"content-encoding")}
        self._receive, self._most, self._seconds = receive, most, seconds
        self._size = self._came = 0  # bytes, unpacked and as they were sent
        self._until: float | None = None
        self._done = False
        self._unpack: Any = None

    def examine(self) -> None:
        """Refuse by the headers alone what cannot be taken."""
        length = self._headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > self._most):
            raise self._too_large()
        packed = self._headers.get(b"content-encoding", b"identity").strip().lower()
        if packed == b"gzip":
            self._unpack = zlib.decompressobj(31)
        elif packed not in (b"identity", b""):
            raise Refused(415, "content-encoding must be gzip or identity: send the body as it is.")

    def _too_large(self) -> Refused:
        return Refused(413, f"the body has more than {self._most} bytes: send less at a time.", {"connection": "close"})

    async def receive(self) -> Message:
        if self._done:
            return await self._receive()  # whether the client is still there
        self._until = self._until or time.monotonic() + self._seconds
        try:
            message = await asyncio.wait_for(self._receive(), max(self._until - time.monotonic(), 0.001))
        except TimeoutError:
            said = f"the body did not arrive within {self._seconds:g} seconds: send it again over a faster line, or less of it."
            raise Refused(408, said, {"connection": "close"}) from None
        if message["type"] != "http.request":
            return message
        raw = message.get("body", b"")
        self._came += len(raw)
        if self._came > self._most:
            raise self._too_large()
        self._done = not message.get("more_body", False)
        if self._unpack is not None:
            raw = self._unpacked(raw)
        self._size += len(raw)
        if self._size > self._most:
            raise self._too_large()
        return {**message, "body": raw}

    def _unpacked(self, raw: bytes) -> bytes:
        """What gzip packed, never more of it than may be there."""
        try:
            out: bytes = self._unpack.decompress(raw, self._most - self._size + 1)
        except zlib.error:
            raise Refused(400, "the body is not gzip, though its content-encoding says so: send it as it is.") from None
        if self._unpack.unused_data:  # it would be dropped without a word, or held for nothing
            raise Refused(400, "the body goes on after the end of its gzip: pack all of it as one.", {"connection": "close"})
        if self._done and not self._unpack.eof and len(out) + self._size <= self._most:
            raise Refused(400, "the gzip of the body ends too early: send all of it.")
        return out


class StrictRoute(APIRoute):
    """A route that reads its JSON strictly, and before anything of the request is acted on."""

    async def before(self, request: Request) -> None:
        """Who may send a body at all, before any of it is read."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()
        takes_json = self.body_field is not None

        async def handle(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            if takes_json:
                await self.before(strict)
            if takes_json and await _all_of(strict):
                kind = strict.headers.get("content-type", "").partition(";")[0].strip().lower()
                if kind != "application/json" and not kind.endswith("+json"):
                    raise Refused(415, f"content-type is {kind!r:.60}: send application/json.")
                await strict.json()
            return await answer(strict)

        return handle


async def _all_of(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect:
        raise Refused(400, "the body ended before all of it had come: send it again.") from None


class StrictRequest(Request):
    """A request whose JSON is what JSON is: no NaN, no number past 64 bits, no key twice, no tower of brackets."""

    async def json(self) -> Any:
        if not hasattr(self, "_strict"):
            self._strict = strict_json(await self.body())
        return self._strict


def strict_json(raw: bytes) -> Any:
    """JSON of a body; ValidationError says what is wrong with it."""
    try:
        text = raw.decode("utf-8")
        found = json.loads(
            text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates, parse_int=_whole, parse_float=_real
        )
    except UnicodeDecodeError:
        raise ValidationError("the body is not UTF-8: encode it so.") from None
    except RecursionError:
        raise ValidationError(f"the body is nested deeper than {_DEEPEST} levels: flatten it.") from None
    except json.JSONDecodeError as error:
        raise ValidationError(f"the body is not JSON ({error.msg} at character {error.pos}): send a JSON object.") from None
    if _depth(found) > _DEEPEST:
        raise ValidationError(f"the body is nested deeper than {_DEEPEST} levels: flatten it.")
    if "\\ud" in text.lower():
        _no_halves(found)
    return found


def _no_halves(found: Any) -> None:
    try:
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValidationError("the body holds half of a surrogate pair: decode the text before you send it.") from None


def _no_constant(name: str) -> Any:
    raise ValidationError(f"{name} is not JSON: leave it out, or send a number.")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValidationError("a key stands twice in one object of the body: send each once.")
    return found


def _whole(text: str) -> int:
    number = int(text) if len(text) < 25 else _LARGEST
    if not -_LARGEST <= number < _LARGEST:
        raise ValidationError("a whole number in the body does not fit 64 bits: send it as text.")
    return number


def _real(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValidationError("a number in the body is larger than any: send it as text.")
    return number


def _depth(value: Any) -> int:
    """How deep a value is nested; no deeper than is looked at."""
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner += each.values()
            elif isinstance(each, list):
                inner += each
        level, depth = inner, depth + 1
    return depth
