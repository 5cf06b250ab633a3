"""Servers for a whole test run: one of each for every worker, started when a test first asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.server_processes import PostgresServer, RedisServer


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """This worker's Postgres. Tests that stop or kill a server start one of their own."""
    with PostgresServer(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url(postgres_server: PostgresServer) -> str:
    """A database of this worker's own."""
    return postgres_server.database("keepstone_tests")


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """This worker's Redis."""
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


TABLES = (
    "tenant", "scope", "audit", "record", "access", "history", "vector", "words", "idempotency", "state", "job", "lineage",
    "bucket", "review", "vector_next", "lease",
)  # fmt: skip


def emptied(url: str) -> str:
    """A store on PostgreSQL without anything in it, if there is one."""
    import psycopg  # not in the environments of the frameworks

    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("SELECT to_regclass('keepstone.meta')").fetchone() != (None,):
            for table in TABLES:
                connection.execute(f"DELETE FROM keepstone.{table}")
            connection.execute("DELETE FROM keepstone.meta WHERE name IN ('embedder', 'next embedder')")
    return url
