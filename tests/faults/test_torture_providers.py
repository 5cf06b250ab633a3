"""Services that misbehave under a store on PostgreSQL; test_embedder_faults and test_model_faults do so under a file."""

from __future__ import annotations

from bench.torture.providers import ANSWERS, VECTORS, embedders, models
from bench.torture.support import check_store
from bench.torture.verdict import Verdict
from tests.server_processes import PostgresServer


def test_what_is_said_is_stored_and_caught_up_later(postgres_server: PostgresServer) -> None:
    verdict = Verdict("providers", "postgres")
    url = postgres_server.database("torture_providers")
    embedders(verdict, "postgres", url, {name: VECTORS[name] for name in ("429", "another dimension", "NaN", "too few")})
    models(verdict, "postgres", url, {name: ANSWERS[name] for name in ("500", "half a JSON")})
    check_store(verdict, url)
    assert verdict.problems == []
    assert verdict.whole
    assert (verdict.tries, verdict.acknowledged) == (8, 28)
