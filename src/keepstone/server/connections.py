"""Connections: how large the head of a request may be, and how long it may take to come.

uvicorn bounds neither where httptools reads for it, and waits for a first request for ever: whoever opens connections and says
nothing, or never ends a header, would hold them, and the memory behind them. Bodies are bounded further in; see bodies.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_BYTES = 65_536  # of a head
_SECONDS = 20.0  # that one may take
_LARGE = b"the head of the request is too large: send fewer or shorter headers."
_SLOW = b"the request took too long to begin: send it again."


class Connection(HttpToolsProtocol):
    """A connection of one client. Nobody but this watches over it from its beginning, and from the end of each answer, until
    the head of the next request is whole."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self._heading = False  # the head of a request has begun
        self._head = 0  # bytes that have come of it since
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        begun = self._heading
        super().data_received(data)
        if begun and self._heading:
            self._head += len(data)
            if self._head > _BYTES:
                self._refuse(b"431 Request Header Fields Too Large", _LARGE)
        if self.cycle is None or self.cycle.response_complete:  # half a head, or the rest of a body that nobody wants
            self._watch()

    def on_message_begin(self) -> None:
        self._heading, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._heading = False
        self._unwatch()
        super().on_headers_complete()

    def _watch(self) -> None:
        if self._deadline is None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(_SECONDS, self._refuse, b"408 Request Timeout", _SLOW)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _refuse(self, status: bytes, said: bytes) -> None:
        self._unwatch()
        if self.transport.is_closing():
            return
        if self._heading:
            head = b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, len(said)) + said)
        self.transport.close()
