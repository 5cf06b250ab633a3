"""A server that answers as it is told, on a real socket: for answers that a good server does not give."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    """One answer; `cut` ends it after so many bytes of the body, None for a status: the connection is closed without one."""

    status: int | None = 200
    body: bytes = b"{}"
    media: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None


def problem(status: int, error: str, detail: str = "what was wrong: what to do", **more: Any) -> Answer:
    headers = more.pop("headers", {})
    body = json.dumps({"status": status, "error": error, "detail": detail, **more}).encode()
    return Answer(status, body, "application/problem+json", headers)


@dataclass
class Scripted:
    """`answers` are given one after the other, the last one again and again; `asked` are the requests that came."""

    url: str = ""
    answers: list[Answer] = field(default_factory=lambda: [Answer()])
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)

    def next(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for _, _, _, body in self.asked]


@contextmanager
def scripted() -> Iterator[Scripted]:
    made = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            made.asked.append((self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            answer = made.next()
            if answer.status is None:
                self.close_connection = True
                self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(answer.status)
            for name, value in {"content-type": answer.media, "content-length": str(len(answer.body)), **answer.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(answer.body[: answer.cut])
            self.close_connection = self.close_connection or answer.cut is not None

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *given: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join(120)
