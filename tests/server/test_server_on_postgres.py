"""The server on PostgreSQL: what it answers while the database is away, and that it goes on by itself afterwards."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest

from bench.torture.restarts import over_http
from bench.torture.verdict import Verdict
from keepstone import Memory
from tests.server.running import Running, running
from tests.server_processes import PostgresServer


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres"), durable=True) as started:
        yield started


@pytest.fixture
def server(database: PostgresServer) -> Iterator[Running]:
    with Memory.open(database.database("served"), settings={"busy_timeout": 5}) as memory, running(memory) as made:
        yield made


def test_while_the_database_is_away_it_says_so_and_then_it_goes_on(database: PostgresServer) -> None:
    verdict = Verdict("postgres-restarts", "postgres")
    over_http(verdict, database)
    assert verdict.problems == []
    assert (verdict.tries, verdict.acknowledged) == (1, 2)


def test_keys_and_scopes_hold_there_too(server: Running) -> None:
    secret = server.http(server.key("ann", tenant="one"))
    id = secret.post("/v1/memories", json={"content": "Ann's locker is number 9."}).json()["id"]
    for other in (server.key("ann", tenant="two"), server.key("bob", tenant="one")):
        http: httpx2.Client = server.http(other)
        assert http.get(f"/v1/memories/{id}").status_code == 404
        assert http.post("/v1/recall", json={"query": "Ann's locker", "min_similarity": 0}).json()["hits"] == []
    identity = server.service.keys.list("one")[0]
    assert server.http(server.key("boss", tenant="one", rights=("admin",))).delete(f"/v1/keys/{identity.id}").status_code == 200
    assert secret.get("/v1/me").status_code == 401
