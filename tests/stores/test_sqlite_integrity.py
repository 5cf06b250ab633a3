"""Integrity of a SQLite store: a changed audit log, rows without a record, rate limits used up by a clock that ran ahead."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from keepstone.ports.values import Limit, Write
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, add, draft
from keepstone.text.words import record_terms
from tests.surfaces.support import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[SqliteStore]:
    """Three records, and a move to another embedder that has begun."""
    store = SqliteStore.open(str(path), clock=clock)
    store.bind_embedder(EMBEDDER, DIMENSION)
    for number in range(3):
        add(store, f"fact {number}")
    store.prepare_embedder("wide-16", 16)
    yield store
    store.close()


def tamper(path: Path, statement: str) -> None:
    """Change the file behind the store's back, past its own checks of values."""
    db = apsw.Connection(str(path))
    try:
        db.execute("PRAGMA ignore_check_constraints = 1")
        db.execute(statement)
        assert db.changes(), f"nothing was changed by {statement}"
    finally:
        db.close()


# -- the trail ----------------------------------------------------------------------------------------------------------
COPY = "INSERT INTO audit SELECT -1, scope, at, verb, action, sequence, id, version, source, reasons, NULL FROM audit LIMIT 1"
CHANGES = {
    "a hash that is text": "UPDATE audit SET chain = 'x' WHERE number = 2",
    "a hash that is a number": "UPDATE audit SET chain = 3 WHERE number = 3",
    "a source that is bytes": "UPDATE audit SET source = x'ff' WHERE number = 2",
    "a source that is no UTF-8": "UPDATE audit SET source = cast(x'ff' AS TEXT) WHERE number = 2",
    "a time between two": "UPDATE audit SET at = at + 0.5 WHERE number = 1",
    "a row before the first": COPY,
    "a row moved before the first": "UPDATE audit SET number = -1 WHERE number = 1",
    "a head that is text": "UPDATE chain SET head = 'x'",
    "a count that is text": "UPDATE chain SET rows = 'x'",
    "a start that is text": "UPDATE chain SET start = 'x'",
    "a start behind all rows": "UPDATE chain SET start = 9, rows = 0, head = zeroblob(32)",
}


@pytest.mark.parametrize("what", CHANGES)
def test_whatever_is_written_into_the_trail_it_is_found_and_told(store: SqliteStore, path: Path, what: str) -> None:
    assert store.audit_log.verify(HOME.tenant).whole
    tamper(path, CHANGES[what])
    report = store.audit_log.verify(HOME.tenant)
    assert not report.whole
    assert report.problem


# -- the doctor ---------------------------------------------------------------------------------------------------------
ORPHANS = {
    "lineage": "INSERT INTO lineage VALUES (1, 'm_x', 999, 1, 0, NULL)",
    "a review": "INSERT INTO review VALUES (998, 1, 999, 1, 'stale', 'r', '[]', 1, 'open')",
    "a coming vector": "INSERT INTO vector_next VALUES (999, 1, x'00')",
    "reads": "INSERT INTO access VALUES (999, 1, 1)",
}


@pytest.mark.parametrize("what", ORPHANS)
def test_the_doctor_finds_what_hangs_on_no_record(store: SqliteStore, path: Path, what: str) -> None:
    assert store.doctor(record_terms).healthy
    tamper(path, ORPHANS[what])
    (finding,) = store.doctor(record_terms).findings
    assert finding.problem.startswith(what)
    assert "999" in finding.problem
    assert finding.remedy


# -- clocks that ran ahead ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "limit", [Limit("all writes", 1.0, 1 / 60), Limit("all writes", 1.0, 0.0, 10.0)], ids=["bucket", "interval"]
)
def test_a_limit_that_a_clock_ahead_has_used_up_locks_nobody_out(store: SqliteStore, clock: Clock, limit: Limit) -> None:
    def written(text: str) -> str:
        return store.write(HOME, [Write(draft(text), limits=(limit,))])[0].action

    assert written("one") == "added"
    clock.forward(days=-2)
    written("two")  # refused or not: it is the first that the right clock sees
    clock.at += timedelta(hours=1)
    assert written("three") == "added"
