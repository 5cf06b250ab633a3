"""Connections as 'keepstone serve' has them: a head is bounded in size and time, whatever else comes is not cut off."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvicorn

from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.server import connections
from keepstone.server.app import make_app
from keepstone.server.keys import KeyDraft
from keepstone.server.serve import _uvicorn_config
from keepstone.server.service import Service
from tests.server.raw import Line, assert_problem, head


@pytest.fixture
def served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, str]]:
    """(port, key) of a server with the connections of 'keepstone serve', in a hurry."""
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    with Memory.open(tmp_path / "memory.db") as memory:
        made = Service(backend_of(memory))
        key = made.keys.create(KeyDraft("dana"))[0]
        server = uvicorn.Server(_uvicorn_config(make_app(made), port=0))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        ticks = threading.Event()
        while not server.started:
            assert thread.is_alive()
            ticks.wait(0.005)
        try:
            yield server.servers[0].sockets[0].getsockname()[1], key
        finally:
            server.should_exit = True
            thread.join(30)


def connected(served: tuple[int, str]) -> Line:
    return Line(socket.create_connection(("127.0.0.1", served[0]), timeout=30))


def test_a_head_without_an_end_is_refused(served: tuple[int, str]) -> None:
    with connected(served) as made:
        made.send(b"GET /healthz HTTP/1.1\r\nhost: here\r\nx-long: ")
        with pytest.raises(ConnectionError):  # a client that goes on is cut off
            made.send(b"x" * 50_000_000)


def test_very_many_headers_are_refused(served: tuple[int, str]) -> None:
    with connected(served) as made:
        made.send(b"GET /healthz HTTP/1.1\r\nhost: here\r\n")
        reply = None
        try:
            for _ in range(1000):
                made.send(b"x-a: b\r\n" * 1000)
            reply = made.reply()
        except ConnectionError:
            pass
    assert reply is None or reply.status == 431


@pytest.mark.parametrize(
    "sent", [b"", b"\r\n", b"GET /healthz HTTP/1.1\r\nhost: here\r\n"], ids=["nothing", "a line", "half a head"]
)
def test_a_connection_that_never_asks_is_closed(served: tuple[int, str], sent: bytes) -> None:
    with connected(served) as made:
        made.send(sent)
        reply = made.reply()
        assert (reply is None) if sent in (b"", b"\r\n") else (reply is not None and reply.status == 408)
        assert made.closed()


def test_a_connection_that_asks_takes_its_time_otherwise(served: tuple[int, str]) -> None:
    """A slow body, several requests on one connection, one that was refused before its body had come."""
    body = json.dumps({"content": "Dana rows."}).encode()
    with connected(served) as made:
        post = ("POST", "/v1/memories", f"authorization: Bearer {served[1]}", "content-type: application/json")
        made.send(head(*post, f"content-length: {len(body)}"))
        ticks = threading.Event()
        for byte in body:
            made.send(bytes([byte]))
            ticks.wait(0.02)  # longer altogether than a head may take
        reply = made.reply()
        assert reply is not None
        assert reply.status == 201
        made.send(head("GET", "/healthz") * 3)
        assert [each.status for each in (made.reply(), made.reply(), made.reply()) if each is not None] == [200] * 3
    with connected(served) as made:
        made.send(head("POST", "/v1/memories", "content-type: application/json", "content-length: 500000") + b"x" * 500_000)
        assert_problem(made.reply(), 401)
        made.send(head("GET", "/healthz"))
        reply = made.reply()
        assert reply is not None
        assert reply.status == 200, "the rest of the body was passed over"
