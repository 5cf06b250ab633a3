"""Request bodies: limits on size, type and time, and strict JSON.

A body that is too large, unpacks to too much, or arrives too slowly is refused while it arrives.
"""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.types import Message, Receive, Scope

from keepstone.errors import ValidationError
from keepstone.server.problems import RequestRefused

_MAX_JSON_DEPTH = 100
_INT_LIMIT = 2**63
_MAX_GZIP_RATIO = 100  # an export packs to a tenth or so
_MIN_UNPACKED_BYTES = 1_000_000  # that any body may unpack to
_CLOSE = {"connection": "close"}


class BodyReader:
    """The body of one request, read within a limit of bytes and seconds. `receive` replaces the ASGI callable of that name."""

    def __init__(self, scope: Scope, receive: Receive, max_bytes: int, seconds: float) -> None:
        self._headers = {name: value for name, value in scope["headers"] if name in (b"content-length", b"content-encoding")}
        self._receive, self._max_bytes, self._seconds = receive, max_bytes, seconds
        self._sent_bytes = self._bytes = 0  # as sent, and unpacked
        self._deadline: float | None = None
        self._complete = False
        self._gzip: Any = None

    def check_headers(self) -> None:
        """Refuse a body by its headers."""
        length = self._headers.get(b"content-length")
        if length is not None and (not length.isdigit() or int(length) > self._max_bytes):
            raise self._too_large()
        encoding = self._headers.get(b"content-encoding", b"identity").strip().lower()
        if encoding == b"gzip":
            self._gzip = zlib.decompressobj(31)
        elif encoding not in (b"identity", b""):
            raise RequestRefused(415, "content-encoding must be gzip or identity: send the body uncompressed.")

    def _too_large(self) -> RequestRefused:
        return RequestRefused(413, f"the body has more than {self._max_bytes} bytes: send less at a time.", _CLOSE)

    async def receive(self) -> Message:
        if self._complete:
            return await self._receive()
        self._deadline = self._deadline or time.monotonic() + self._seconds
        try:
            message = await asyncio.wait_for(self._receive(), max(self._deadline - time.monotonic(), 0.001))
        except TimeoutError:
            detail = f"the body did not arrive within {self._seconds:g} seconds: send it again, or send less."
            raise RequestRefused(408, detail, _CLOSE) from None
        if message["type"] != "http.request":
            return message
        raw = message.get("body", b"")
        self._sent_bytes += len(raw)
        if self._sent_bytes > self._max_bytes:
            raise self._too_large()
        self._complete = not message.get("more_body", False)
        if self._gzip is not None:
            raw = self._unpack(raw)
        self._bytes += len(raw)
        if self._bytes > self._max_bytes:
            raise self._too_large()
        if self._bytes > _MIN_UNPACKED_BYTES + _MAX_GZIP_RATIO * self._sent_bytes:
            detail = f"the body unpacks to more than {_MAX_GZIP_RATIO} times what was sent: send it uncompressed."
            raise RequestRefused(413, detail, _CLOSE)
        return {**message, "body": raw}

    def _unpack(self, raw: bytes) -> bytes:
        """Unpack gzip, to at most one byte more than the limit."""
        try:
            unpacked: bytes = self._gzip.decompress(raw, self._max_bytes - self._bytes + 1)
        except zlib.error:
            raise RequestRefused(400, "the body is not gzip, as its content-encoding says: send it uncompressed.") from None
        if self._gzip.unused_data:
            raise RequestRefused(400, "the body continues after the end of its gzip data: pack it as one member.", _CLOSE)
        if self._complete and not self._gzip.eof and len(unpacked) + self._bytes <= self._max_bytes:
            raise RequestRefused(400, "the body's gzip data is incomplete: send all of it.")
        return unpacked


class StrictRequest(Request):
    """A request whose JSON is strict: no NaN, no integer beyond 64 bits, no duplicate key, bounded nesting."""

    async def json(self) -> Any:
        if not hasattr(self, "_strict"):
            self._strict = parse_json(await self.body())
        return self._strict

    async def read_json(self) -> None:
        """Read and check a JSON body before it is used."""
        try:
            raw = await self.body()
        except ClientDisconnect:
            raise RequestRefused(400, "the body is incomplete: send it again.") from None
        if raw:
            media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
            if media_type != "application/json" and not media_type.endswith("+json"):
                raise RequestRefused(415, f"content-type is {media_type!r:.60}: send application/json.")
            await self.json()


def parse_json(raw: bytes) -> Any:
    """Parse strict JSON; ValidationError says what is wrong."""
    too_deep = f"the body is nested deeper than {_MAX_JSON_DEPTH} levels: flatten it."
    try:
        text = raw.decode("utf-8")
        value = json.loads(
            text,
            parse_constant=_reject_constant,
            object_pairs_hook=_reject_duplicates,
            parse_int=_parse_int,
            parse_float=_parse_float,
        )
    except UnicodeDecodeError:
        raise ValidationError("the body is not UTF-8: encode it as UTF-8.") from None
    except RecursionError:
        raise ValidationError(too_deep) from None
    except json.JSONDecodeError as error:
        raise ValidationError(f"the body is not JSON ({error.msg} at character {error.pos}): send a JSON object.") from None
    if _is_deeper_than(value, _MAX_JSON_DEPTH):
        raise ValidationError(too_deep)
    if "\\ud" in text.lower():
        try:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            raise ValidationError("the body holds half of a surrogate pair: decode the text before you send it.") from None
    return value


def _reject_constant(name: str) -> Any:
    raise ValidationError(f"{name} is not JSON: leave it out, or send a number.")


def _reject_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValidationError("an object in the body has a key twice: send each key once.")
    return value


def _parse_int(text: str) -> int:
    number = int(text) if len(text) < 25 else _INT_LIMIT
    if not -_INT_LIMIT <= number < _INT_LIMIT:
        raise ValidationError("an integer in the body does not fit 64 bits: send it as text.")
    return number


def _parse_float(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValidationError("a number in the body is too large: send it as text.")
    return number


def _is_deeper_than(value: Any, depth: int) -> bool:
    level = [value]
    for _ in range(depth):
        level = [
            child
            for parent in level
            if isinstance(parent, dict | list)
            for child in (parent.values() if isinstance(parent, dict) else parent)
        ]
        if not level:
            return False
    return True
