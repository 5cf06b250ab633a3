"""SqliteStore keeps the contract of stores: on a real file, in memory, and under random operations."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing import StoreContract
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, NOON, add, add_id, contents, past
from tests.contracts.store_machine import store_machine
from tests.contracts.store_rules import StoreRules


class TestSqliteStore(StoreRules):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Store]:
        store = SqliteStore.open(str(tmp_path / "memory.db"))
        yield store
        store.close()

    def test_a_closed_store_opens_again_as_it_was(self, store: Store, tmp_path: Path) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        id = add_id(store, "Rome", key="city")
        add(store, "Oslo", key="city")
        kept, known, latest = list(store.export_records(HOME)), store.id, store.changes(HOME, 0).latest
        store.close()
        again = SqliteStore.open(str(tmp_path / "memory.db"))
        try:
            assert again.id == known
            assert again.embedder() == (EMBEDDER, DIMENSION)
            assert list(again.export_records(HOME)) == kept
            assert len(again.changes(HOME, latest).rows) == 0
            again.forget(HOME, Selector(id=id))
            assert len(again.changes(HOME, latest).removed) == 1
        finally:
            again.close()

    def test_a_second_connection_sees_what_the_first_wrote(self, store: Store, tmp_path: Path) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        other = SqliteStore.open(str(tmp_path / "memory.db"))
        try:
            stamp = other.stamp(HOME)
            id = add_id(store, "tea")
            assert other.stamp(HOME) != stamp
            assert other.get(HOME, id) == store.get(HOME, id) is not None
            assert add(other, "tea").action == "duplicate"
        finally:
            other.close()

    def test_a_backup_is_a_store_with_the_same_records(self, store: Store, tmp_path: Path) -> None:
        store.bind_embedder(EMBEDDER, DIMENSION)
        for number in range(20):
            add(store, f"fact {number}")
        calls: list[tuple[int, int]] = []
        store.backup(str(tmp_path / "copy.db"), lambda done, total: calls.append((done, total)))
        copy = SqliteStore.open(str(tmp_path / "copy.db"))
        try:
            assert list(copy.export_records(HOME)) == list(store.export_records(HOME))
            assert copy.embedder() == store.embedder()
        finally:
            copy.close()
        assert calls
        assert calls[-1][0] == calls[-1][1]


@pytest.mark.parametrize("back", [timedelta(days=3), timedelta(days=3650)])
def test_a_clock_that_steps_back_hides_nothing(tmp_path: Path, back: timedelta) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    store = SqliteStore.open(str(tmp_path / "memory.db"), clock=lambda: now)
    try:
        store.bind_embedder(EMBEDDER, DIMENSION)
        add(store, "Rome", key="city")
        add(store, "Dana likes tea")
        now -= back
        add(store, "Oslo", key="city")
        assert contents(store) == ["Dana likes tea", "Oslo"]
        city = store.by_key(HOME, "city")
        assert city is not None
        assert [version.content for version in past(store, city.id)] == ["Rome", "Oslo"]
        for as_of in (None, NOON, datetime(2035, 1, 1, tzinfo=UTC)):
            seen = {record.content for record in store.snapshot(HOME, as_of, None).records}
            assert seen == {"Oslo", "Dana likes tea"}
    finally:
        store.close()


class TestSqliteStoreInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[Store]:
        store = SqliteStore.open(":memory:")
        yield store
        store.close()


_folder = tempfile.TemporaryDirectory(prefix="keepstone-machine-")
_many = os.environ.get("KEEPSTONE_MACHINE_RUNS")

TestSqliteStoreAtRandom = store_machine(lambda name: SqliteStore.open(str(Path(_folder.name) / f"{name}.db"))).TestCase
TestSqliteStoreAtRandom.settings = settings(
    max_examples=int(_many) if _many else 30,
    stateful_step_count=50 if _many else 40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
