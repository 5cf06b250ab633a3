"""A store that is moved to another embedder by processes that are killed: words serve, nothing is mixed, the next one goes on."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bench.torture.model_change import RECORDS, Moves
from bench.torture.support import check_store
from bench.torture.verdict import Verdict
from tests.server_processes import PostgresServer


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_a_move_that_was_killed_is_finished_by_the_next(store: str, path: Path, request: pytest.FixtureRequest) -> None:
    where: str | Path = path
    if store == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        where = server.database("torture_models")
    verdict = Verdict("model-change", store)
    moves = Moves(verdict, store, where, random.Random(2))
    moves.move()
    check_store(verdict, where)
    assert verdict.problems == []
    assert verdict.whole
    assert moves.kills > 0
    assert verdict.acknowledged > RECORDS
