"""What mem0's client sends, by plain HTTP; a server to send it to, and who sends it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import httpx2
import pytest

from keepstone import Memory
from keepstone.types import Scope
from tests.server.running import Running, running

BASE = "/compat/mem0"
ABSENT = "m_0000000000000000"

_numbers = count()


@contextmanager
def served(folder: Path) -> Iterator[Running]:
    """A server with a store of its own, which is whole in the end."""
    with Memory.open(folder / "memory.db", settings={"durable": False}) as memory, running(memory) as made:
        yield made
        found = memory.upkeep.doctor()
        assert (found.healthy, found.findings) == (True, ()), "whatever came in, the store is whole"


class Mem0:
    """The requests of mem0's client."""

    def __init__(self, server: Running, key: str, **headers: str) -> None:
        self.http = httpx2.Client(
            base_url=server.url + BASE, headers={"authorization": f"Token {key}", **headers}, timeout=30, verify=False
        )
        server.clients.append(self.http)

    def ask(self, method: str, path: str, body: Any = None, **query: Any) -> httpx2.Response:
        given = {} if body is None else {"json": body}
        return self.http.request(method, path, **given, **({"params": query} if query else {}))

    def add(self, text: str, **more: Any) -> list[dict[str, Any]]:
        answer = self.ask("POST", "/v3/memories/add/", {"messages": [{"role": "user", "content": text}], **more})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["results"])

    def search(self, query: str, **more: Any) -> list[dict[str, Any]]:
        answer = self.ask("POST", "/v3/memories/search/", {"query": query, **more})
        assert answer.status_code == 200, answer.text
        return list(answer.json()["results"])

    def all(self, **more: Any) -> list[str]:
        answer = self.ask("POST", "/v3/memories/", more)
        assert answer.status_code == 200, answer.text
        return [each["memory"] for each in answer.json()["results"]]


def told(answer: httpx2.Response, status: int) -> str:
    """A refusal as the client reads it: JSON, with a detail."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json", "or the client shows the whole body for a message"
    detail = answer.json()["detail"]
    assert isinstance(detail, str)
    assert detail
    return detail


def scope_of(shared: Running, mem0: Mem0) -> Scope:
    """Whose a client's key is."""
    return shared.service.identify(mem0.http.headers["authorization"].removeprefix("Token ")).scope()


@pytest.fixture(scope="module", name="shared")
def shared_(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server for all tests of a file."""
    with served(tmp_path_factory.mktemp("mem0")) as made:
        yield made


@pytest.fixture(name="dana")
def dana_(shared: Running) -> Mem0:
    """A key of a new user."""
    return Mem0(shared, shared.key(f"dana-{next(_numbers)}"))


@pytest.fixture(name="shop")
def shop_(shared: Running) -> Mem0:
    """A service key in a new tenant."""
    number = next(_numbers)
    return Mem0(shared, shared.key(f"shop-{number}", service=True, tenant=f"shop-{number}"))
