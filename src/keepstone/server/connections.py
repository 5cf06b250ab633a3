"""HTTP connections with limits on the size of a request's head and the time it may take.

uvicorn with httptools has neither limit: a client that opens connections and sends nothing, or never ends a header, would hold
them and their memory. Bodies are limited in bodies.py.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD_BYTES = 65_536
_HEAD_SECONDS = 20.0
_TOO_LARGE = b"the head of the request is too large: send fewer or shorter headers."
_TOO_SLOW = b"the head of the request took too long to arrive: send it again."


class LimitedHttpProtocol(HttpToolsProtocol):
    """A connection with a timer that runs from its start, and from the end of each response, until the next head is complete."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_head = False
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        in_head = self._in_head
        super().data_received(data)
        if in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > _MAX_HEAD_BYTES:
                self._refuse(b"431 Request Header Fields Too Large", _TOO_LARGE)
        if self.cycle is None or self.cycle.response_complete:  # an incomplete head, or the rest of an unread body
            self._start_timer()

    def on_message_begin(self) -> None:
        self._in_head, self._head_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def _start_timer(self) -> None:
        if self._timer is None and not self.transport.is_closing():
            self._timer = self.loop.call_later(_HEAD_SECONDS, self._refuse, b"408 Request Timeout", _TOO_SLOW)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _refuse(self, status: bytes, message: bytes) -> None:
        self._stop_timer()
        if self.transport.is_closing():
            return
        if self._in_head:
            head = b"HTTP/1.1 %s\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            self.transport.write(head % (status, len(message)) + message)
        self.transport.close()
