"""A whole store moves from one engine to another and back, and nothing of it is lost, changed or made up."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import apsw
import psycopg
import pytest

from keepstone.errors import ConfigurationError, Conflict, KeepstoneError, NotFound, StoreDamaged, StoreUnreachable
from keepstone.maintenance.store_migration import Moved, move_store
from keepstone.stores.common.store_copy_rows import TABLES
from keepstone.stores.sqlite.connections import Driver
from keepstone.testing.builders import DIMENSION, EMBEDDER, add, vector
from keepstone.types import Scope
from tests.cli.support import process
from tests.contracts.moving_support import DANA, ERIK, OTHER, database, furnish, goes_on, healthy, opened, recalled, seen
from tests.server_processes import PostgresServer

Change = Callable[[], None]


class Broken(Exception):
    """A move that was cut off."""


def cut(after: int) -> Callable[[int, int], None]:
    """A progress that ends the move once so many rows are through."""

    def progress(done: int, total: int) -> None:
        if done >= after:
            raise Broken

    return progress


def once(change: Change, when: Callable[[int, int], bool] = lambda done, total: True) -> Callable[[int, int], None]:
    """A progress that does something, once."""
    left = [change]

    def progress(done: int, total: int) -> None:
        if left and when(done, total):
            left.pop()()

    return progress


def small(target: str | Path, scopes: tuple[Scope, ...] = (DANA,), many: int = 20) -> None:
    store = opened(target)
    rest: dict[str, None] = {}
    if store.embedder() in (None, (EMBEDDER, DIMENSION)):
        store.bind_embedder(EMBEDDER, DIMENSION)
    else:
        rest = {"vector": None}
    for scope in scopes:
        for n in range(many):
            add(store, f"fact {n}", scope, **rest)
    store.close()


def altered(path: Path, statement: str) -> None:
    """Change something in a file behind the store's back."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute(statement).fetchall()
    finally:
        connection.close()


@pytest.fixture
def empty(postgres_server: PostgresServer) -> str:
    return database(postgres_server)


# -- there and back -------------------------------------------------------------------------------------------------
def test_a_store_with_everything_in_it_goes_to_postgres_and_back(postgres_server: PostgresServer, tmp_path: Path) -> None:
    first, there, elsewhere = tmp_path / "first.db", database(postgres_server), database(postgres_server)
    back, beside = tmp_path / "back.db", tmp_path / "beside.db"
    rich = furnish(first)
    healthy(first)
    was = seen(first, tmp_path)
    reports = [move_store(*way) for way in ((first, there), (there, elsewhere), (elsewhere, back), (back, beside))]
    assert [seen(place, tmp_path) for place in (there, elsewhere, back, beside)] == [was] * 4
    assert seen(first, tmp_path) == was, "the source is left as it was"
    assert {report.digest for report in reports} == {reports[0].digest}
    assert len({json.dumps(dict(report.tables)) for report in reports}) == 1
    assert all(count for count in reports[0].tables.values()), "a table has no row that the test could miss"
    assert set(reports[0].tables) == {"scope", *(table.name for table in TABLES)}
    assert (reports[0].tenants, reports[0].rows, reports[0].resumed) == (2, sum(reports[0].tables.values()), False)
    answers = recalled(first)
    assert any(answers)
    for place in (there, back, beside):
        healthy(place)
        assert recalled(place) == answers
    for place in (first, there, back):
        goes_on(place, rich)


def test_vectors_stay_exact_between_two_files(tmp_path: Path) -> None:
    store = opened(tmp_path / "a.db")
    store.bind_embedder(EMBEDDER, DIMENSION)
    fine = vector("x") + 1e-7
    add(store, "x", vector=fine)
    store.close()
    move_store(tmp_path / "a.db", tmp_path / "b.db")
    copy = opened(tmp_path / "b.db")
    copy.bind_embedder(EMBEDDER, DIMENSION)
    assert copy.changes(DANA, 0).rows.vectors.tolist() == [fine.tolist()]
    copy.close()


# -- cut off and taken up again -------------------------------------------------------------------------------------
@pytest.mark.parametrize("direction", ["to a server", "to a file"])
def test_a_move_that_was_cut_off_goes_on(direction: str, empty: str, tmp_path: Path) -> None:
    source: str | Path = tmp_path / "a.db"
    furnish(source)
    small(source, (DANA, ERIK, OTHER), 300)
    was = seen(source, tmp_path)
    target: str | Path = empty
    if direction == "to a file":
        move_store(source, empty)
        source, target = empty, tmp_path / "b.db"
    for rows in (1, 700, 1500, 2000, 4000):
        with pytest.raises(Broken):
            move_store(source, target, progress=cut(rows))
    with pytest.raises(ConfigurationError, match="is itself the target of an unfinished move"):
        move_store(target, tmp_path / "c.db")
    assert not (tmp_path / "c.db").exists()
    assert move_store(source, target).resumed
    assert seen(target, tmp_path) == was
    healthy(target)
    with pytest.raises(ConfigurationError, match="holds this very store already, or a copy of it"):
        move_store(source, target)


def test_a_source_that_moved_on_since_is_moved_anew(empty: str, tmp_path: Path) -> None:
    small(tmp_path / "a.db", (DANA, OTHER), 400)
    with pytest.raises(Broken):
        move_store(tmp_path / "a.db", empty, progress=cut(1500))
    small(tmp_path / "a.db", (ERIK,), 1)
    report = move_store(tmp_path / "a.db", empty)
    assert (report.resumed, report.records) == (False, 801)
    assert seen(empty, tmp_path) == seen(tmp_path / "a.db", tmp_path)
    healthy(empty)


def test_another_tenant_or_another_source_is_not_gone_on_with(empty: str, tmp_path: Path) -> None:
    small(tmp_path / "a.db", (DANA, OTHER))
    small(tmp_path / "other.db")
    with pytest.raises(Broken):
        move_store(tmp_path / "a.db", empty, progress=cut(1))
    with pytest.raises(ConfigurationError, match="an unfinished move of another store"):
        move_store(tmp_path / "other.db", empty)
    report = move_store(tmp_path / "a.db", empty, tenant=OTHER.tenant)
    assert (report.resumed, report.tenants, report.records) == (False, 1, 20)


def test_who_writes_to_a_target_that_is_not_finished_is_noticed(tmp_path: Path) -> None:
    small(tmp_path / "a.db")
    with pytest.raises(Broken):
        move_store(tmp_path / "a.db", tmp_path / "b.db", progress=cut(1))
    small(tmp_path / "b.db", (ERIK,), 1)
    with pytest.raises(ConfigurationError, match=r"b\.db was written to \(tenant 'local'\) before the move into it was finished"):
        move_store(tmp_path / "a.db", tmp_path / "b.db")


def test_of_two_processes_that_move_into_one_store_one_goes_on(tmp_path: Path) -> None:
    small(tmp_path / "a.db", many=600)
    reports: list[Moved] = []
    with pytest.raises(Conflict, match="another process is moving a store into"):
        move_store(
            tmp_path / "a.db", tmp_path / "b.db",
            progress=once(lambda: reports.append(move_store(tmp_path / "a.db", tmp_path / "b.db"))),
        )  # fmt: skip
    assert reports[0].resumed
    assert seen(tmp_path / "b.db", tmp_path) == seen(tmp_path / "a.db", tmp_path)


def test_a_commit_whose_answer_was_lost_is_not_made_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    furnish(tmp_path / "a.db")
    plain = Driver.for_every_tenant
    monkeypatch.setattr(Driver, "for_every_tenant", lambda self, work: (plain(self, work), plain(self, work))[1])
    move_store(tmp_path / "a.db", tmp_path / "b.db")
    assert seen(tmp_path / "b.db", tmp_path) == seen(tmp_path / "a.db", tmp_path)


# -- what changes meanwhile -----------------------------------------------------------------------------------------
def test_a_source_that_is_written_to_meanwhile_is_found_out(empty: str, tmp_path: Path) -> None:
    source = tmp_path / "a.db"
    small(source, (DANA,), 700)

    def write() -> None:
        small(source, (ERIK,), 1)  # a new scope, too

    with pytest.raises(Conflict, match=r"a\.db was written to while it was moved.* Stop all writers"):
        move_store(source, empty, progress=once(write))
    report = move_store(source, empty)
    assert (report.resumed, report.records) == (False, 701)
    assert seen(empty, tmp_path) == seen(source, tmp_path)


def test_a_change_that_leaves_no_row_in_the_trail_is_found_out_too(tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    small(source)

    def put() -> None:
        store = opened(source)
        store.states.put(DANA, "name", "value")
        store.close()

    with pytest.raises(Conflict, match=r"does not hold what .*a\.db holds \(state of tenant 'local': 1 rows here, 0 there\)"):
        move_store(source, target, progress=once(put, lambda done, total: done > total / 3))
    assert not move_store(source, target).resumed
    assert seen(target, tmp_path) == seen(source, tmp_path)


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("UPDATE record SET importance = 0.75 WHERE sequence = 3", "record"),
        ("DELETE FROM vector WHERE sequence = 4", "vector"),
        ("UPDATE vector SET vector = (SELECT vector FROM vector WHERE sequence = 2) WHERE sequence = 3", "vector"),
        ("INSERT INTO access (sequence, count, last) VALUES (5, 1, 1)", "access"),
        ("UPDATE audit SET at = at + 1 WHERE number = 2", "audit"),
    ],
)
def test_a_copy_that_is_not_the_same_is_found_out(statement: str, table: str, tmp_path: Path) -> None:
    source, target = tmp_path / "a.db", tmp_path / "b.db"
    small(source)
    with pytest.raises(Conflict, match=rf"does not hold what .*{table} of tenant 'local': "):
        move_store(source, target, progress=once(lambda: altered(target, statement), lambda done, total: done > total / 3))
    move_store(source, target)
    assert seen(target, tmp_path) == seen(source, tmp_path)


# -- what is refused ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("statement", "said"),
    [
        (
            "UPDATE record SET content = 'something else' WHERE sequence = 3",
            "row 3 of table record does not hold what was stored",
        ),
        ("UPDATE audit SET source = 'nobody' WHERE number = 4", "the audit log of tenant 'local' is not whole"),
        ("DELETE FROM audit WHERE number = 20", "the audit log of tenant 'local' is not whole"),
        ("UPDATE vector SET vector = x'0000' WHERE sequence = 5", "row 1, 5 of table vector has a vector that cannot be used"),
        ("DELETE FROM record WHERE sequence = 6", "row None, 6 of table vector belongs to no record"),
        ("INSERT INTO state VALUES (77, 'x', 'y', NULL, 1)", "row 77, x of table state belongs to no record"),
    ],
)
def test_a_row_that_was_damaged_is_not_moved(statement: str, said: str, empty: str, tmp_path: Path) -> None:
    small(tmp_path / "a.db")
    altered(tmp_path / "a.db", statement)
    for target in (empty, tmp_path / "b.db"):
        with pytest.raises(StoreDamaged, match=said):
            move_store(tmp_path / "a.db", target)


def test_a_target_must_be_empty(empty: str, tmp_path: Path) -> None:
    small(tmp_path / "a.db")
    for target in (tmp_path / "full.db", empty):
        small(target, many=2)
        before = seen(target, tmp_path)
        with pytest.raises(ConfigurationError, match=r"is not empty \(2 records\): .* Choose another target"):
            move_store(tmp_path / "a.db", target)
        assert seen(target, tmp_path) == before


@pytest.mark.parametrize(
    ("source", "target", "kind", "said"),
    [
        ("nothing.db", "b.db", ConfigurationError, "there is no store at .*nothing.db"),
        ("a.db", "a.db", ConfigurationError, "cannot be moved into itself"),
        ("a.db", "./a.db", ConfigurationError, "cannot be moved into itself"),
        (":memory:", "b.db", ConfigurationError, "':memory:' ends with its process"),
        ("a.db", ":memory:", ConfigurationError, "':memory:' ends with its process"),
        ("a.db", "mysql://u@h/x", ConfigurationError, "there is no store for mysql://"),
        ("a.db", "missing/b.db", ConfigurationError, "the folder .* does not exist"),
        ("a.db", "postgresql://dana:hunter2@127.0.0.1:1/x", StoreUnreachable, "cannot be reached"),
        ("postgresql://dana:hunter2@127.0.0.1:1/x", "b.db", StoreUnreachable, "cannot be reached"),
        ("empty.db", "b.db", ConfigurationError, "there is nothing in .*empty.db to move"),
    ],
)
def test_what_cannot_be_moved(
    source: str, target: str, kind: type[KeepstoneError], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    small("a.db", many=1)
    opened("empty.db").close()
    with pytest.raises(kind, match=said) as raised:
        move_store(source, target)
    assert "hunter2" not in str(raised.value)


# -- one tenant -----------------------------------------------------------------------------------------------------
def test_one_tenant_goes_alone(empty: str, tmp_path: Path) -> None:
    furnish(tmp_path / "a.db")
    was = seen(tmp_path / "a.db", tmp_path)
    with pytest.raises(NotFound, match="there is no tenant 'nobody' in"):
        move_store(tmp_path / "a.db", empty, tenant="nobody")
    move_store(tmp_path / "a.db", empty, tenant=OTHER.tenant)
    move_store(empty, tmp_path / "b.db", tenant=OTHER.tenant)
    for place in (empty, tmp_path / "b.db"):
        now = seen(place, tmp_path)
        assert now["scopes"] == [OTHER]
        assert {name: now[name] for name in ("id", "embedder", str(OTHER), f"export {OTHER}")} == {
            name: was[name] for name in ("id", "embedder", str(OTHER), f"export {OTHER}")
        }
        assert now["heads"] == {tenant: was["heads"][tenant] for tenant in ("", OTHER.tenant)}
        healthy(place)
        store = opened(place)
        store.bind_embedder(*was["embedder"])
        before = store.changes(OTHER, 0).latest
        assert add(store, "new", OTHER, vector=None).action == "added"
        assert store.changes(OTHER, before).latest > before, "a new number is larger than all that were moved"
        store.close()


def test_tenants_with_the_same_numbers_do_not_fit_into_one_file(empty: str, tmp_path: Path) -> None:
    small(empty, (DANA,), 3)
    with psycopg.connect(empty, autocommit=True) as connection:
        connection.execute("ALTER SEQUENCE keepstone.number RESTART")
    small(empty, (OTHER,), 3)
    with pytest.raises(ConfigurationError, match=r"tenants 'açmé 日本' and 'local' .* both have a row 64 .* with --tenant"):
        move_store(empty, tmp_path / "b.db")
    for name, tenant in (("b.db", DANA.tenant), ("c.db", OTHER.tenant)):
        assert move_store(empty, tmp_path / name, tenant=tenant).records == 3
        healthy(tmp_path / name)


# -- the command line -----------------------------------------------------------------------------------------------
def test_the_command_says_what_it_has_done(empty: str, tmp_path: Path) -> None:
    small(tmp_path / "a.db", (DANA, OTHER))
    there = process("migrate", "--from", "a.db", "--to", empty, cwd=tmp_path, KEEPSTONE_TENANT="nobody")
    assert (there.returncode, there.stderr) == (0, "")
    assert there.stdout.startswith("moved  40 records of 2 tenants to postgresql://")
    assert "rows compared, audit log verified" in there.stdout
    back = process("migrate", "--from", empty, "--to", "b.db", "--tenant", "local", "--json", cwd=tmp_path)
    report = json.loads(back.stdout)
    assert (report["records"], report["tenants"], report["tables"]["audit"]) == (20, 1, 20)
    again = process("--json", "migrate", "--from", empty, "--to", "b.db", cwd=tmp_path)
    assert (again.returncode, json.loads(again.stderr)["error"]["type"]) == (5, "ConfigurationError")
    assert process("migrate", "--from", "b.db", cwd=tmp_path).returncode == 2
