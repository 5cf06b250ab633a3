"""Requests by hand, byte for byte, on sockets that can be held half-way and dropped; and what every refusal must look like."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx2

from keepstone import Memory
from tests.server.running import Running

PROBLEM = "application/problem+json"


@dataclass(frozen=True)
class Reply:
    """An answer as it came: its status, its headers by small names, its body."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Line:
    """A connection to a server."""

    made: socket.socket
    rest: bytes = b""

    def __enter__(self) -> Line:
        return self

    def __exit__(self, *_: object) -> None:
        self.made.close()

    def send(self, raw: bytes) -> None:
        self.made.sendall(raw)

    def reply(self) -> Reply | None:
        """The next answer; None where the server closed the connection without one."""
        while b"\r\n\r\n" not in self.rest:
            if not self._more():
                return None
        head, _, self.rest = self.rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        while len(self.rest) < size and self._more():
            pass
        body, self.rest = self.rest[:size], self.rest[size:]
        return Reply(int(first.split(" ")[1]), headers, body)

    def closed(self) -> bool:
        """Whether the server closes the connection and says nothing more."""
        return not self.rest and not self._more()

    def _more(self) -> bool:
        try:
            got = self.made.recv(65536)
        except ConnectionError:
            return False
        self.rest += got
        return bool(got)


def line(server: Running) -> Line:
    to = urlsplit(server.url)
    return Line(socket.create_connection((to.hostname, to.port), timeout=30))


def head(method: str, path: str, *headers: str | bytes) -> bytes:
    """The first lines of a request, with a host."""
    lines = [each if isinstance(each, bytes) else each.encode() for each in headers]
    return b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), b"host: 127.0.0.1", *lines, b"", b""])


def once(server: Running, raw: bytes) -> Reply | None:
    """What a request is answered with, on a connection of its own."""
    with line(server) as made:
        made.send(raw)
        return made.reply()


@dataclass
class Guest:
    """A user with one memory, who is about to send something bad."""

    server: Running
    name: str
    key: str
    http: httpx2.Client
    memory: Memory
    id: str
    before: list[Any] = field(default_factory=list)

    def holds(self) -> list[Any]:
        """All that is kept of them: records with their versions, sessions, states but those that count tokens."""
        store = self.server.engine.store
        records = [(each.id, each.version, each.status) for each in self.memory.list(limit=100)]
        states = sorted(name for name, _ in store.unguarded_states.all(self.memory.scope) if not name.startswith("cost:"))
        return [records, len(self.memory.review.list()), [each.name for each in self.memory.conversation.list()], states]

    def unharmed(self) -> None:
        """Nothing came, went or changed, and the store takes and gives as before."""
        assert self.holds() == self.before
        self.usable()

    def usable(self) -> None:
        probe = self.server.memory.with_scope(tenant="probe", user=self.name)
        id = probe.remember("The lighthouse keeper is called Nour.").id
        hits = probe.recall("Who keeps the lighthouse?").hits
        assert [hit.id for hit in hits] == [id]


def guest(server: Running, name: str, **given: Any) -> Guest:
    key = server.key(name, **given)
    memory = server.memory.with_scope(user=name, agent=given.get("agent"), tenant=given.get("tenant"))
    id = memory.remember("Dana keeps a boat called Heron.", key="boat").id or ""
    made = Guest(server, name, key, server.http(key), memory, id)
    made.before = made.holds()
    return made


def assert_problem(answer: httpx2.Response | Reply | None, status: int, error: str | None = None) -> dict[str, Any]:
    """A problem as every refusal is one: of this status, of a type and a name that clients know, in a sentence."""
    assert answer is not None, "the server closed the connection without an answer"
    found = answer.status if isinstance(answer, Reply) else answer.status_code
    assert found == status, answer.body if isinstance(answer, Reply) else answer.text
    assert answer.headers["content-type"] == PROBLEM
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["type"]) == (status, "about:blank")
    assert problem["title"]
    assert problem["detail"].endswith(".")
    assert problem["error"]
    assert error is None or problem["error"] == error
    return problem
