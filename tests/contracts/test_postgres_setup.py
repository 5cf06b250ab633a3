"""Setting a database up: by a role that may, by two processes at once, from version to version, and interrupted."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from keepstone import Memory
from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, StoreError
from keepstone.stores.postgres import administration, setup
from keepstone.stores.postgres.setup import Migration
from keepstone.stores.postgres.store import connected
from keepstone.stores.postgres.target import Target
from tests.contracts.postgres_roles import APP, Ground
from tests.faults.support import run, start
from tests.server_processes import PostgresServer, postgres_programs

FACT = "Dana prefers dark mode."
KNOWN, NEXT = setup.newest(), setup.newest() + 1
EVERY = [f"{each.number:04}.{each.half}" for each in setup.migrations() if each.half == "pre"]
PRE, POST = f"{NEXT:04}.pre", f"{NEXT:04}.post"
COMING = (
    *setup.migrations(),
    Migration(NEXT, "pre", "ALTER TABLE record ADD COLUMN mood text; CREATE TABLE mood (tenant text NOT NULL)"),
    Migration(NEXT, "post", "ALTER TABLE record DROP COLUMN mood; DROP TABLE mood"),
)
SLOW = (*setup.migrations(), Migration(NEXT, "pre", "CREATE TABLE half (number integer); SELECT pg_sleep(600)"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with PostgresServer(tmp_path_factory.mktemp("roles")) as server:
        yield server


@pytest.fixture
def ground(server: PostgresServer) -> Iterator[Ground]:
    server.start()
    yield Ground(server)
    assert server.pid is not None, f"Postgres ended while a test ran; its log ends:\n{server.log()}"
    Ground(server).cleared()


@contextmanager
def next_version(known: Sequence[Migration] = COMING) -> Iterator[None]:
    """As if this were the version that knows these migrations."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "migrations", lambda: known)
        yield


def prepared(url: str) -> list[str]:
    target = Target.of(url)
    with connected(target) as connection:
        return setup.prepare(connection, target)


def prepared_next(url: str) -> list[str]:
    with next_version():
        return prepared(url)


def works(url: str) -> bool:
    """Whether a memory there can be written, found and forgotten."""
    with Memory.open(url, tenant="acme", user="dana") as memory:
        receipt = memory.remember(FACT)
        found = [hit.content for hit in memory.recall("Which theme does Dana like?")]
        forgotten = memory.forget(str(receipt.id)).forgotten
        return found == [FACT] and forgotten == 1 and not memory.with_scope(user="erik").list()


def version(ground: Ground, database: str) -> dict[str, str]:
    found = dict(ground.rows("SELECT name, value FROM keepstone.meta", database))
    return {name: value for name, value in found.items() if name.startswith("schema")}


def reached(condition: Callable[[], bool], seconds: float = 60) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


# -- by whom --------------------------------------------------------------------------------------------------------
def test_a_superuser_makes_everything_and_acts_as_the_app(ground: Ground) -> None:
    url = ground.server.database("whole")
    made = administration.set_up(url)
    assert (made.version, made.done, made.role) == (KNOWN, tuple(EVERY), APP)
    assert made.extension == ground.rows("SELECT extversion FROM pg_extension WHERE extname = 'vector'", "whole")[0][0]
    assert works(url)
    assert administration.check(url).who == administration.Who("postgres", APP, True, True)
    assert administration.set_up(url).done == ()
    attributes = "rolsuper OR rolbypassrls OR rolcanlogin OR rolcreaterole OR rolcreatedb"
    assert ground.rows(f"SELECT {attributes} FROM pg_roles WHERE rolname = '{APP}'", "whole") == [(False,)]


def test_an_owner_with_createrole_needs_no_superuser(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE CREATEDB")
    made = administration.set_up(url, login="app", password="not shown")
    assert (made.role, made.login) == (APP, "app")
    assert works(url)
    assert works(ground.server.url_as("app", "boss"))
    assert administration.check(url).who == administration.Who("boss", APP, False, True)
    assert administration.check(ground.server.url_as("app", "boss")).who == administration.Who("app", APP, False, False)


def test_an_owner_without_createrole_is_bound_by_the_forced_policies(ground: Ground) -> None:
    url = ground.owned("plain")
    made = administration.set_up(url)
    assert (made.version, made.role, made.granted) == (KNOWN, None, ())
    assert works(url)
    with Memory.open(url, tenant="acme") as memory:
        memory.remember(FACT)
    assert ground.rows("SELECT count(*) FROM keepstone.record", "plain", "plain") == [(0,)], "without a tenant nothing is seen"
    assert ground.rows("SELECT count(*) FROM keepstone.record", "plain") == [(1,)]
    found = administration.check(url)
    assert (found.who, found.fine, found.forced) == (administration.Who("plain", "plain", False, True), True, True)
    assert [each.problem for each in found.advice] == ["plain owns the tables: the policies bind it, but it could take them off"]
    with pytest.raises(ConfigurationError, match="this role may not make any, so there can be no login"):
        administration.set_up(url, login="app", password="not shown")


def test_a_role_that_comes_later_is_granted_what_it_needs(ground: Ground) -> None:
    url = ground.owned("plain")
    assert administration.set_up(url).role is None
    ground.run(f"CREATE ROLE {APP} NOLOGIN", f"GRANT {APP} TO plain WITH ADMIN OPTION", "CREATE ROLE app LOGIN")
    made = administration.set_up(url, login="app")
    assert (made.role, made.done) == (APP, ())
    assert works(ground.server.url_as("app", "plain"))


@pytest.mark.parametrize("rights", ["", "CREATEROLE"])
def test_where_the_extension_is_missing_it_is_said(ground: Ground, rights: str) -> None:
    """pgvector is not marked as trusted, so the provider's console or a superuser makes it."""
    url = ground.owned("boss", rights, extension=False)
    with pytest.raises(ConfigurationError, match=r'permission denied to create extension "vector".*keepstone postgres sql'):
        prepared(url)
    assert ground.rows("SELECT to_regnamespace('keepstone') IS NULL", "boss") == [(True,)]
    ground.run("CREATE EXTENSION vector", database="boss")
    assert prepared(url) == EVERY


def test_the_apps_login_can_change_rows_and_nothing_else(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE")
    administration.set_up(url, login="app", password="not shown")
    for statement in (
        "CREATE TABLE keepstone.mine (number integer)",
        "ALTER TABLE keepstone.record ADD COLUMN mine integer",
        "ALTER TABLE keepstone.record DISABLE ROW LEVEL SECURITY",
        "ALTER TABLE keepstone.record NO FORCE ROW LEVEL SECURITY",
        "CREATE POLICY mine ON keepstone.record USING (true)",
        "DROP POLICY own_tenant ON keepstone.record",
        "TRUNCATE keepstone.record",
        "DROP TABLE keepstone.audit",
        "CREATE SCHEMA mine",
        "CREATE ROLE mine",
        "SET row_security = off; SELECT * FROM keepstone.record",
        "SET ROLE boss",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            ground.rows(statement, "boss", "app")
    assert works(ground.server.url_as("app", "boss"))


def test_a_dump_by_the_owner_is_refused_rather_than_half(ground: Ground, tmp_path: Path) -> None:
    url = ground.owned("boss", "CREATEROLE")
    with Memory.open(url, tenant="acme", embedder="none") as memory:
        memory.remember(FACT)
    for role, refused in (("boss", True), ("postgres", False)):
        command = [postgres_programs() / "pg_dump", "--schema=keepstone", ground.server.url_as(role, "boss")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ("row-level security policy" in done.stderr, done.returncode != 0) == (refused, refused), done.stderr
        assert (FACT in done.stdout) is not refused


def test_an_app_on_an_empty_database_is_told_what_to_do(ground: Ground) -> None:
    administration.set_up(ground.owned("boss", "CREATEROLE"), login="app", password="not shown")
    ground.run("CREATE DATABASE empty OWNER boss")
    ground.run("CREATE EXTENSION vector", database="empty")
    with pytest.raises(ConfigurationError, match="has no tables of this version, and this role may not make them"):
        Memory.open(ground.server.url_as("app", "empty"))


# -- at once --------------------------------------------------------------------------------------------------------
OPENER = """
import json, sys
from keepstone import Memory
print("ready", flush=True)
sys.stdin.readline()
with Memory.open(sys.argv[1], user=sys.argv[2], embedder="none") as memory:
    print(json.dumps(memory.remember(f"{sys.argv[2]} was here.").action))
"""


def test_processes_that_open_an_empty_database_at_once_all_work(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE")
    openers = [start("-c", OPENER, url, f"user{number}", stderr=subprocess.PIPE) for number in range(4)]
    for each in openers:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in openers:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    said = [each.communicate(timeout=120) for each in openers]
    assert [out for out, _ in said] == ['"added"\n'] * 4, said
    assert ground.rows("SELECT count(*) FROM keepstone.record", "boss") == [(4,)]
    assert ground.rows("SELECT count(*) FROM keepstone.meta WHERE name = 'id'", "boss") == [(1,)]


# -- from version to version ----------------------------------------------------------------------------------------
def test_the_first_half_runs_beside_a_store_of_the_version_before(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE")
    ended, failed, written = threading.Event(), [], []
    with Memory.open(url, tenant="acme", embedder="none") as memory:

        def go_on() -> None:
            try:
                while not ended.is_set():
                    written.append(memory.remember(f"Fact number {len(written)}.").action)
                    assert memory.recall(f"fact number {len(written) - 1}")
            except BaseException as error:
                failed.append(error)

        worker = threading.Thread(target=go_on)
        worker.start()
        assert reached(lambda: len(written) > 3 or bool(failed))
        assert prepared_next(url) == [PRE]
        before = len(written)
        assert reached(lambda: len(written) > before + 3 or bool(failed))
        ended.set()
        worker.join()
    assert failed == []
    assert set(written) == {"added"}
    assert version(ground, "boss") == {"schema": str(NEXT)}
    assert ground.rows("SELECT has_table_privilege('keepstone_app', 'keepstone.mood', 'INSERT')", "boss") == [(True,)]


def test_the_second_half_waits_until_it_is_asked_for(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE")
    with next_version():
        assert administration.set_up(url).pending == (POST,)
        advice = [each for each in administration.check(url).advice if each.check == "schema"]
    assert [(each.problem, "setup --finish" in each.remedy) for each in advice] == [(f"{POST} waits to be run", True)]
    assert prepared_next(url) == []
    column = "SELECT count(*) FROM information_schema.columns WHERE table_schema = 'keepstone' AND column_name = 'mood'"
    assert ground.rows(column, "boss") == [(1,)]
    with next_version():
        made = administration.set_up(url, finish=True)
    assert (made.done, made.pending) == ((POST,), ())
    assert ground.rows(column, "boss") == [(0,)]
    assert version(ground, "boss") == {"schema": str(NEXT), "schema done": str(NEXT)}
    with next_version():
        assert administration.set_up(url, finish=True).done == ()


def test_a_newer_schema_is_refused_untouched(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE")
    prepared_next(url)
    seen = "SELECT relname, relfilenode, relnatts FROM pg_class WHERE relnamespace = 'keepstone'::regnamespace ORDER BY relname"
    before = ground.rows(seen, "boss")
    with pytest.raises(StoreError, match=rf"newer keepstone \(schema {NEXT}, this version knows {KNOWN}\).*Nothing was changed"):
        Memory.open(url)
    assert ground.rows(seen, "boss") == before
    found = administration.check(url)
    assert [each.remedy for each in found.problems] == [f"upgrade keepstone with {install_command(upgrade=True)}"]


def test_an_app_waits_for_the_owner_to_migrate(ground: Ground) -> None:
    url = ground.owned("boss", "CREATEROLE")
    administration.set_up(url, login="app", password="not shown")
    app = ground.server.url_as("app", "boss")
    with pytest.raises(ConfigurationError, match="this role may not make them"):
        prepared_next(app)
    assert version(ground, "boss") == {"schema": str(KNOWN)}
    assert works(app)
    assert prepared_next(url) == [PRE]
    assert prepared_next(app) == []


MIGRATING = """
import sys
from keepstone.stores.postgres.setup import prepare
from keepstone.stores.postgres.store import connected
from keepstone.stores.postgres.target import Target
from tests.contracts.test_postgres_setup import SLOW, next_version
target = Target.of(sys.argv[1])
with connected(target) as connection, next_version(SLOW):
    print(connection.info.backend_pid, flush=True)
    prepare(connection, target)
"""


def test_a_kill_in_the_middle_leaves_the_old_schema_whole(ground: Ground, tmp_path: Path) -> None:
    url = ground.owned("boss", "CREATEROLE")
    assert works(url)
    before = ground.rows("SELECT relname FROM pg_class WHERE relnamespace = 'keepstone'::regnamespace ORDER BY 1", "boss")
    migrating = start("-c", MIGRATING, url)
    assert migrating.stdout is not None
    backend = int(migrating.stdout.readline())
    asleep = f"SELECT wait_event = 'PgSleep' FROM pg_stat_activity WHERE pid = {backend}"
    assert reached(lambda: ground.rows(asleep, "boss") == [(True,)])
    migrating.kill()
    migrating.communicate()
    ground.run(f"SELECT pg_terminate_backend({backend})")  # the server would notice when the sleep ends
    assert reached(lambda: ground.rows(f"SELECT 1 FROM pg_stat_activity WHERE pid = {backend}", "boss") == [])
    after = ground.rows("SELECT relname FROM pg_class WHERE relnamespace = 'keepstone'::regnamespace ORDER BY 1", "boss")
    assert after == before
    assert version(ground, "boss") == {"schema": str(KNOWN)}
    assert works(url)
    assert run(
        "import sys, json; from keepstone import Memory; print(json.dumps(Memory.open(sys.argv[1]).upkeep.doctor().healthy))", url
    )
    assert prepared_next(url) == [PRE]
