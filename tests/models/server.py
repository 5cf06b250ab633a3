"""The HTTP server behind the local endpoints: quiet, quick to close, and able to break off. No test lives here."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

NO_SUCH_PATH = b'{"error": {"message": "no such path", "type": "not_found_error"}}'


class Server(ThreadingHTTPServer):
    """Serves one endpoint on a free port; counts connections and can drop those that are open."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(self, endpoint: Any, handler: type[BaseHTTPRequestHandler]) -> None:
        self.endpoint = endpoint
        self.connections = 0
        self._open: set[Any] = set()
        super().__init__(("127.0.0.1", 0), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.connections += 1
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error here."""

    def drop(self) -> None:
        for each in list(self._open):
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                continue  # it had gone by itself


class Handler(BaseHTTPRequestHandler):
    """What the handlers of both endpoints have in common."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def received(self) -> dict[str, Any]:
        """The request: its path, headers and body."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        return {"path": self.path, "headers": {name.lower(): value for name, value in self.headers.items()}, "body": body}

    def whole(self, code: int, body: bytes, headers: Mapping[str, str] | None = None, cut: bool = False) -> None:
        """Answer with a JSON body, or with half of it."""
        self.send_response(code)
        for name, value in {"content-type": "application/json", "content-length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if cut else body)
        self.close_connection = self.close_connection or cut
