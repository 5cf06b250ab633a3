"""PostgresStore keeps the contract of stores: on a real server, and under random operations."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from threading import Event, Thread
from unittest.mock import Mock

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, settings

from keepstone.memory import Memory
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.stores.postgres import scope_indexes
from keepstone.stores.postgres.store import PostgresStore, connected
from keepstone.stores.postgres.wire import PipelinedConnection
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, add, add_id, vector
from keepstone.types import Scope
from tests.contracts.store_machine import store_machine
from tests.contracts.store_rules import StoreRules
from tests.server_processes import PostgresServer
from tests.servers import emptied


@pytest.fixture(scope="session")
def made(postgres_url: str) -> str:
    """A database with the tables of a store."""
    PostgresStore.open(postgres_url).close()
    return postgres_url


class TestPostgresStore(StoreRules):
    @pytest.fixture
    def store(self, made: str) -> Iterator[Store]:
        store = PostgresStore.open(emptied(made))
        yield store
        store.close()

    def test_a_closed_store_opens_again_as_it_was(self, store: Store, made: str) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        add(store, "Rome", key="city")
        add(store, "Oslo", key="city")
        kept, known = list(store.export_records(HOME)), store.id
        store.close()
        again = PostgresStore.open(made)
        try:
            assert again.id == known
            assert again.embedder() == (EMBEDDER, DIMENSION)
            assert list(again.export_records(HOME)) == kept
        finally:
            again.close()

    def test_a_second_store_sees_what_the_first_wrote(self, store: Store, made: str) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        other = PostgresStore.open(made)
        try:
            stamp = other.stamp(HOME)
            id = add_id(store, "tea")
            assert other.stamp(HOME) != stamp
            assert other.get(HOME, id) == store.get(HOME, id) is not None
            assert add(other, "tea").action == "duplicate"
        finally:
            other.close()

    def test_writers_of_one_commit_see_what_those_before_them_did(self, store: PostgresStore) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        id = add_id(store, "tea")
        actions: list[str] = []
        works = [
            lambda: actions.append(add(store, "coffee").action),
            lambda: actions.append(f"{store.forget(HOME, Selector(ids=(id,))).forgotten} forgotten"),
            lambda: actions.append(add(store, "tea").action),
        ]
        queue, threads = store._driver._queues[HOME.tenant], [Thread(target=work) for work in works]
        with queue.lock:
            for place, thread in enumerate(threads, 1):
                thread.start()
                while len(queue.waiting) < place:
                    Event().wait(0.001)
        for thread in threads:
            thread.join(30)
        assert sorted(actions) == ["1 forgotten", "added", "added"]
        assert store.audit_log.verify(HOME.tenant).whole

    def test_one_write_takes_two_round_trips(self, store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        add(store, "the scope is known")
        trips = Mock(side_effect=PipelinedConnection.exchange, autospec=True)
        monkeypatch.setattr(PipelinedConnection, "exchange", lambda connection: trips(connection))
        assert add(store, "tea").action == "added"
        assert trips.call_count == 2

    def test_a_recall_takes_one_round_trip_and_three_after_a_change(self, made: str, monkeypatch: pytest.MonkeyPatch) -> None:
        trips = Mock(side_effect=PipelinedConnection.exchange, autospec=True)
        with Memory.open(emptied(made)) as memory, Memory.open(made) as other:
            memory.remember("Ana likes tea.")
            memory.recall("What does Ana like?")
            monkeypatch.setattr(PipelinedConnection, "exchange", lambda connection: trips(connection))
            memory.recall("What does Ana like?")
            assert trips.call_count == 1
            other.remember("Ana likes chess.")
            trips.reset_mock()
            assert len(memory.recall("What does Ana like?")) == 2
            assert trips.call_count == 3


class TestGrowing:
    @pytest.fixture
    def store(self, made: str) -> Iterator[PostgresStore]:
        store = PostgresStore.open(emptied(made))
        store.bind_embedder(EMBEDDER, DIMENSION)
        yield store
        store.close()
        emptied(made)
        store = PostgresStore.open(made)
        store.tune()  # no scope is large any more
        store.close()

    def test_a_large_scope_gets_an_index_of_its_own_and_finds_the_same(self, store: PostgresStore) -> None:
        other = Scope("local", "default", "eve")
        for number in range(120):
            add(store, f"fact {number}")
            if number < 20:
                add(store, f"fact {number}", other)
        asked = [vector(f"question {number}") for number in range(20)]
        exact = [store.search_vectors(HOME, each, 10) for each in asked]
        with connected(store._driver.target) as connection:
            assert scope_indexes.tune(store._driver, connection, None, 100) == [
                f"tenant {HOME.tenant}: a scope with 120 memories has an index of its own now"
            ]
            assert scope_indexes.tune(store._driver, connection, None, 100) == []
        found = [store.search_vectors(HOME, each, 10) for each in asked]
        assert np.mean([len({*a} & {*b}) / 10 for a, b in zip(exact, found, strict=True)]) >= 0.97
        assert len(store.search_vectors(other, asked[0], 100)) == 20
        assert store.doctor(lambda text, key: ()).findings != ()  # it reads on with an index there

    def test_another_embedder_has_an_index_of_another_width(self, store: PostgresStore) -> None:
        for number in range(30):
            add(store, f"fact {number}")
        with connected(store._driver.target) as connection:
            assert len(scope_indexes.tune(store._driver, connection, None, 30)) == 1
            store.prepare_embedder("another-8", 6)
            pending = store.pending(100, next=True)
            store.attach([(each, vector(each.content, 6)) for each in pending], next=True)
            assert store.change_embedder("another-8", 6) == 0
            done = scope_indexes.tune(store._driver, connection, None, 30)
        assert [line.split(" ")[0] for line in done] == ["dropped", "tenant"]
        store.bind_embedder("another-8", 6)
        assert store.search_vectors(HOME, vector("fact 3", 6), 1) == [next(e.sequence for e in pending if e.content == "fact 3")]

    def test_who_does_not_own_the_tables_is_told_who_has_to(self, store: PostgresStore, made: str) -> None:
        for number in range(5):
            add(store, f"fact {number}")
        with psycopg.connect(made, autocommit=True) as connection:
            connection.execute("DROP ROLE IF EXISTS grower")
            connection.execute("CREATE ROLE grower LOGIN")
            connection.execute("GRANT keepstone_app TO grower")
        app = PostgresStore.open(made.replace("postgres@", "grower@"))
        try:
            with connected(app._driver.target) as connection:
                (told,) = scope_indexes.tune(app._driver, connection, None, 5)
            assert "run 'keepstone upkeep run' with the role that owns the tables" in told
        finally:
            app.close()


@cache
def _server() -> PostgresServer:
    server = PostgresServer(Path(tempfile.mkdtemp(prefix="keepstone-machine-")))
    server.start()
    return server


def _opened(name: str) -> Store:
    schema = "m_" + hashlib.blake2b(name.encode(), digest_size=8).hexdigest()
    return PostgresStore.open(f"{_server().url}?schema={schema}")


TestPostgresStoreAtRandom = store_machine(_opened).TestCase
TestPostgresStoreAtRandom.settings = settings(
    max_examples=8, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
