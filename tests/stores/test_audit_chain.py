"""The audit chain of a SQLite store: a change in the file is detected; that of an old store stays readable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from keepstone.errors import EmbedderError
from keepstone.ports.values import Selector
from keepstone.stores.common.write_context import GENESIS, chain_hash
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, add, add_id, vector
from keepstone.types import Scope
from tests.migrations.freeze import DANA, ERIK, extract_store

OTHER = Scope("another", "default", "erik")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """Three rows of the tenant "local", one of another in between."""
    store = SqliteStore.open(str(path))
    store.bind_embedder(EMBEDDER, DIMENSION)
    add(store, "one")
    add(store, "else", OTHER)
    id = add_id(store, "two")
    store.forget(HOME, Selector(id=id))
    assert [row.number for row in store.audit(HOME)] == [4, 3, 1]
    yield store
    store.close()


def tamper(path: Path, *statements: str) -> None:
    db = apsw.Connection(str(path))
    try:
        for statement in statements:
            db.execute(statement)
            assert db.changes(), f"nothing was changed by {statement}"
    finally:
        db.close()


COPY = (
    "INSERT INTO audit SELECT 9, scope, at, verb, action, sequence, id, version, source, reasons, {} FROM audit WHERE number = 4"
)
CHANGES = {
    "what was done": "UPDATE audit SET verb = 'recall' WHERE number = 3",
    "what came of it": "UPDATE audit SET action = 'added' WHERE number = 4",
    "to which record": "UPDATE audit SET id = 'm_another' WHERE number = 3",
    "no record": "UPDATE audit SET id = NULL WHERE number = 1",
    "at which place": "UPDATE audit SET sequence = 1 WHERE number = 4",
    "at which version": "UPDATE audit SET version = 7 WHERE number = 3",
    "by whom": "UPDATE audit SET source = 'nobody' WHERE number = 1",
    "why": "UPDATE audit SET reasons = '[\"because\"]' WHERE number = 1",
    "a moment later": "UPDATE audit SET at = at + 1 WHERE number = 3",
    "a time that is no number": "UPDATE audit SET at = 'noon' WHERE number = 3",
    "another scope of the tenant": "UPDATE audit SET scope = 99 WHERE number = 4",
    "another tenant": "UPDATE audit SET scope = 2 WHERE number = 4",
    "another number": "UPDATE audit SET number = 9 WHERE number = 3",
    "its hash": "UPDATE audit SET chain = randomblob(32) WHERE number = 3",
    "the last hash": "UPDATE audit SET chain = randomblob(32) WHERE number = 4",
    "no hash": "UPDATE audit SET chain = NULL WHERE number = 3",
    "no last hash": "UPDATE audit SET chain = NULL WHERE number = 4",
    "a hash cut short": "UPDATE audit SET chain = substr(chain, 1, 31) WHERE number = 4",
    "no hashes at all": "UPDATE audit SET chain = NULL",
    "a row taken out": "DELETE FROM audit WHERE number = 3",
    "the first row taken out": "DELETE FROM audit WHERE number = 1",
    "the tail cut off": "DELETE FROM audit WHERE number = 4",
    "all rows taken out": "DELETE FROM audit",
    "a row put in": COPY.format("chain"),
    "a row put in without a hash": COPY.format("NULL"),
    "the head": "UPDATE chain SET head = randomblob(32) WHERE tenant = 'local'",
    "the count": "UPDATE chain SET rows = rows - 1 WHERE tenant = 'local'",
    "the start": "UPDATE chain SET start = 3 WHERE tenant = 'local'",
    "the head taken out": "DELETE FROM chain WHERE tenant = 'local'",
    "the tenant's name": "UPDATE scope SET tenant = 'locals', agent = agent || '!' WHERE scope = 1",
    "the user's name": "UPDATE scope SET user = 'danae' WHERE scope = 1",
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_trail_is_found(store: SqliteStore, path: Path, what: str) -> None:
    assert store.audit_log.verify("local").whole
    tamper(path, CHANGES[what])
    report = store.audit_log.verify("local")
    assert not report.whole
    assert report.problem


def test_two_rows_that_changed_places(store: SqliteStore, path: Path) -> None:
    columns = ("at", "verb", "action", "sequence", "id", "version", "source", "reasons", "chain")
    swapped = ", ".join(f"{name} = (SELECT {name} FROM audit AS a WHERE a.number = 7 - audit.number)" for name in columns)
    tamper(path, f"UPDATE audit SET {swapped} WHERE number IN (3, 4)")
    assert not store.audit_log.verify("local").whole


def test_it_says_where(store: SqliteStore, path: Path) -> None:
    tamper(path, "UPDATE audit SET source = 'nobody' WHERE number = 3")
    assert "entry 3 " in (store.audit_log.verify("local").problem or "")
    tamper(path, "UPDATE audit SET source = 'nobody' WHERE number = 1")
    assert "entry 1 " in (store.audit_log.verify("local").problem or ""), "the first of several"


def test_another_tenants_trail_is_not_touched_by_it(store: SqliteStore, path: Path) -> None:
    tamper(path, "UPDATE audit SET source = 'nobody' WHERE number = 3")
    assert store.audit_log.verify("another").whole


def test_writing_on_does_not_heal_it(store: SqliteStore, path: Path) -> None:
    tamper(path, "DELETE FROM audit WHERE number = 4")
    add(store, "three")
    add(store, "four")
    assert not store.audit_log.verify("local").whole


def test_a_cut_tail_with_its_head_mended_is_found_by_a_kept_head(store: SqliteStore, path: Path) -> None:
    head = store.audit_log.verify("local").head
    tamper(
        path,
        "DELETE FROM audit WHERE number = 4",
        "UPDATE chain SET rows = 2, head = (SELECT chain FROM audit WHERE number = 3) WHERE tenant = 'local'",
    )
    assert store.audit_log.verify("local").whole, "by itself it cannot be told from a shorter trail"
    report = store.audit_log.verify("local", head)
    assert not report.whole
    assert head[:16] in (report.problem or "")


def test_a_trail_written_anew_is_found_by_a_kept_head(store: SqliteStore, path: Path) -> None:
    head = store.audit_log.verify("local").head
    db = apsw.Connection(str(path))
    db.execute("UPDATE audit SET source = 'nobody' WHERE number = 1")
    link = GENESIS
    columns = "at, verb, action, sequence, id, version, source, reasons"
    for number, *row in db.execute(f"SELECT number, {columns} FROM audit WHERE scope = 1 ORDER BY number").fetchall():
        link = chain_hash(link, (number, HOME.tenant, HOME.agent, HOME.user, *row))
        db.execute("UPDATE audit SET chain = ? WHERE number = ?", (link, number))
    db.execute("UPDATE chain SET head = ? WHERE tenant = 'local'", (link,))
    db.close()
    assert store.audit_log.verify("local").whole
    assert not store.audit_log.verify("local", head).whole


def test_a_head_of_another_store_is_not_taken(store: SqliteStore, tmp_path: Path) -> None:
    other = SqliteStore.open(str(tmp_path / "other.db"))
    add(other, "one", vector=None)
    head = other.audit_log.verify("local").head
    other.close()
    assert not store.audit_log.verify("local", head).whole


def test_what_was_done_to_the_whole_store_has_its_own_chain(store: SqliteStore, path: Path) -> None:
    store.change_embedder("wide-16", 16)
    assert (store.audit_log.verify("").whole, store.audit_log.verify("").rows) == (True, 1)
    tamper(path, "UPDATE audit SET source = 'nobody' WHERE scope = 0")
    assert not store.audit_log.verify("").whole
    assert store.audit_log.verify("local").whole


def test_a_rolled_back_write_leaves_no_gap(store: SqliteStore) -> None:
    before = store.audit_log.verify("local")
    with pytest.raises(EmbedderError):
        add(store, "three", vector=vector("three", DIMENSION + 1))
    assert store.audit_log.verify("local") == before
    add(store, "three")
    assert store.audit_log.verify("local", before.head).whole


def test_two_processes_write_one_chain(store: SqliteStore, path: Path) -> None:
    other = SqliteStore.open(str(path))
    for number in range(4):
        add(store if number % 2 else other, f"fact {number}", vector=None)
    assert (other.audit_log.verify("local").whole, other.audit_log.verify("local").rows) == (True, 7)
    other.close()


# -- a store from before there was a chain ------------------------------------------------------------------------------
@pytest.fixture(params=["schema_0001", "schema_0002"])
def migrated(request: pytest.FixtureRequest, path: Path) -> Iterator[SqliteStore]:
    extract_store(request.param, path)
    store = SqliteStore.open(str(path))
    yield store
    store.close()


def test_old_rows_are_unchained_and_new_ones_are_not(migrated: SqliteStore, path: Path) -> None:
    old = len(migrated.audit(DANA, limit=10_000))
    assert old > 3
    for _ in range(2):
        add(migrated, "tea", DANA, vector=None, kind="message")
    report = migrated.audit_log.verify("local")
    assert report.whole, report.problem
    assert (report.unchained, report.rows) == (old, 2)
    tamper(path, f"DELETE FROM audit WHERE number = {migrated.audit(DANA)[1].number}")
    assert not migrated.audit_log.verify("local").whole


def test_a_new_row_cannot_pass_for_an_old_one(migrated: SqliteStore, path: Path) -> None:
    add(migrated, "tea", DANA, vector=None, kind="message")
    tamper(path, f"UPDATE audit SET chain = NULL WHERE number = {migrated.audit(DANA)[0].number}")
    assert not migrated.audit_log.verify("local").whole


def test_each_tenant_begins_its_own(migrated: SqliteStore) -> None:
    assert DANA.tenant != ERIK.tenant
    add(migrated, "tea", DANA, vector=None, kind="message")
    add(migrated, "tea", ERIK, vector=None, kind="message")
    reports = [migrated.audit_log.verify(scope.tenant) for scope in (DANA, ERIK)]
    assert [(report.whole, report.rows) for report in reports] == [(True, 1), (True, 1)]
    assert all(report.unchained for report in reports)
