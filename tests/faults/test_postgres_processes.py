"""Several processes on one Postgres: nothing lost, nothing twice, every message seen; a killed writer leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.fleet import Fleet
from bench.torture import Options, Verdict, kill
from bench.torture.processes import WRITERS, rounds
from bench.verbs import VERBS
from tests.server_processes import PostgresServer, RedisServer

KILLS = 20


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("postgres"), durable=True) as started:
        yield started


def test_a_fleet_on_one_postgres_and_one_redis(server: PostgresServer, redis_server: RedisServer) -> None:
    result = Fleet(server.database("fleet"), redis_server.url, processes=3).run(6)
    assert result.problems == []
    assert (result.lost, result.duplicates, result.unseen, result.errors) == (0, 0, 0, 0)
    assert result.whole
    assert result.healthy
    assert result.acknowledged > 100
    assert result.forgotten > 0
    assert set(result.looks) == {"the same process", "another process"}
    assert {"remember", "conversation.add", "conversation.messages", "recall", "update", "set", "value", "forget"} <= set(
        result.verbs
    )


def test_writers_that_are_killed_lose_nothing_and_leave_no_lock(server: PostgresServer, tmp_path: Path) -> None:
    """One process is not killed, and none of its writes is lost either."""
    verdict = kill.postgres(Options(kills=KILLS, seed=5, folder=tmp_path, postgres=server.url))
    assert verdict.problems == []
    assert (verdict.tries, verdict.lost, verdict.drift) == (KILLS, 0, 0)
    assert verdict.acknowledged > KILLS
    in_doubt = sum(count for verb, count in verdict.figures["killed_in"].items() if verb in VERBS)
    assert in_doubt > KILLS // 2, "most of them were killed in the middle of a verb"
    assert verdict.figures["bystander"] >= KILLS


def test_eight_writers_and_four_readers_on_a_server(server: PostgresServer, tmp_path: Path) -> None:
    verdict = Verdict("processes-postgres", "postgres")
    rounds(server.database("twelve"), tmp_path, verdict, own=5, shared=5)
    assert verdict.problems == []
    assert (verdict.lost, verdict.duplicates, verdict.errors, verdict.drift) == (0, 0, 0, 0)
    assert verdict.acknowledged == WRITERS * 10
