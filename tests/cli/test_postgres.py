"""`keepstone postgres`: set-up with a login, the same as a script, and what a check finds."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from keepstone import Memory
from keepstone.errors import ConfigurationError
from keepstone.stores.postgres import administration, setup
from tests.cli.support import Cli, surroundings
from tests.contracts.postgres_roles import APP, Ground
from tests.server_processes import PostgresServer

KNOWN, NEXT = setup.newest(), setup.newest() + 1
SECRET = "correct horse: battery'staple"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A server that asks everybody but its superuser for a password."""
    folder = tmp_path_factory.mktemp("asking")
    with PostgresServer(folder) as server:
        rules = folder / "data" / "pg_hba.conf"
        kept = rules.read_text()
        rules.write_text(f"host all postgres 127.0.0.1/32 trust\nhost all app 127.0.0.1/32 scram-sha-256\n{kept}")
        Ground(server).run("SELECT pg_reload_conf()")
        yield server


@pytest.fixture
def ground(server: PostgresServer) -> Iterator[Ground]:
    yield Ground(server)
    Ground(server).cleared()


@pytest.fixture
def owner(ground: Ground) -> str:
    """The URL of a database's owner, who has CREATEROLE and is no superuser."""
    return ground.owned("boss", "CREATEROLE")


# -- setup ------------------------------------------------------------------------------------------------------------
def test_setup_says_what_it_did_and_repeats_itself_quietly(cli: Cli, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_APP_PASSWORD", SECRET)
    first = cli("postgres", "setup", "--db", owner, "--login", "app")
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith(f"set up  {owner}\n")
    ran = ", ".join(f"{each.number:04}.pre" for each in setup.migrations() if each.half == "pre")
    for told in (
        f"keepstone, version {KNOWN} (now: {ran})",
        "vector 0.",
        f"{APP}: USAGE on the schema",
        f"app, a member of {APP}",
    ):
        assert told in first.out
    assert owner.replace("boss@", "app@") in first.out
    again = cli("postgres", "setup", "--db", owner, "--login", "app")
    assert again.out.startswith(f"up to date  {owner}\n")
    assert cli("postgres", "setup", "--db", owner, "--json").json["done"] == []
    assert SECRET not in first.out + again.out


def test_the_password_is_the_one_that_was_given(cli: Cli, ground: Ground, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEEPSTONE_APP_PASSWORD", SECRET)
    assert cli("postgres", "setup", "--db", owner, "--login", "app").code == 0
    with Memory.open(ground.server.url_as("app", "boss", SECRET), embedder="none") as memory:
        assert memory.remember("Dana drinks tea.").action == "added"
    with pytest.raises(ConfigurationError, match="refuses the connection") as refused:
        Memory.open(ground.server.url_as("app", "boss", "another"))
    assert "another" not in str(refused.value)
    monkeypatch.delenv("KEEPSTONE_APP_PASSWORD")
    assert cli("postgres", "setup", "--db", owner, "--login", "app").code == 0, "a login that is there keeps its password"
    Memory.open(ground.server.url_as("app", "boss", SECRET)).close()
    monkeypatch.setenv("KEEPSTONE_APP_PASSWORD", "a new one")
    assert cli("postgres", "setup", "--db", owner, "--login", "app").code == 0
    Memory.open(ground.server.url_as("app", "boss", "a new one")).close()
    assert SECRET not in ground.server.log() + (ground.server.folder / "server.log").read_text()


def test_the_url_for_the_app_has_nothing_of_the_owners() -> None:
    url = "postgres://boss:s3cret@db.example:6543/memories?sslmode=verify-full&sslrootcert=/etc/ca.pem&sslkey=/k&schema=mine&password=x"
    assert administration.url_for(url, "app") == (
        "postgresql://app@db.example:6543/memories?sslmode=verify-full&sslrootcert=/etc/ca.pem&schema=mine"
    )


def test_a_new_login_without_a_password_is_refused_before_anything_is_done(cli: Cli, ground: Ground, owner: str) -> None:
    refused = cli("postgres", "setup", "--db", owner, "--login", "app", "--json")
    assert (refused.code, refused.error["type"]) == (5, "ConfigurationError")
    assert "put it into KEEPSTONE_APP_PASSWORD" in refused.error["message"]
    assert ground.rows("SELECT to_regnamespace('keepstone') IS NULL", "boss") == [(True,)]


@pytest.mark.parametrize("name", ["boss", "postgres", "pg_monitor", APP, 'a"b', "App", "", "x" * 64])
def test_names_that_are_no_logins_for_applications(cli: Cli, owner: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("KEEPSTONE_APP_PASSWORD", SECRET)
    assert cli("postgres", "setup", "--db", owner).code == 0
    refused = cli("postgres", "setup", "--db", owner, "--login", name)
    assert (refused.code, refused.out) == (5, "")
    assert "--login" in refused.err


def test_a_password_is_asked_for_at_a_terminal(ground: Ground, owner: str, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-W", "ignore", "-m", "keepstone", "postgres", "setup", "--db", owner, "--login", "app"]
    running = subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path, start_new_session=True, bufsize=0,
        env=surroundings(TERM="dumb"),
    )  # fmt: skip
    assert running.stderr is not None
    try:
        said = b""
        for _ in range(2):  # what is typed before a question is asked is thrown away
            while not said.endswith(b": ") and (more := running.stderr.read(1)):
                said += more
            os.write(ours, f"{SECRET}\n".encode())
            said += running.stderr.read(1)
        out, rest = running.communicate(timeout=60)
    finally:
        running.kill()
        running.wait()
        os.close(ours)
        os.close(theirs)
    assert running.returncode == 0, rest
    assert said.startswith(b"Password of app: ")
    assert SECRET.encode() not in out + said + rest
    Memory.open(ground.server.url_as("app", "boss", SECRET)).close()


@pytest.mark.parametrize("command", ["setup", "check"])
@pytest.mark.parametrize("db", ["memory.db", "mysql://root:hush@host/x"])
def test_other_stores_are_refused(cli: Cli, command: str, db: str) -> None:
    refused = cli("postgres", command, "--db", db)
    assert (refused.code, refused.out) == (5, "")
    assert "name one as postgresql://owner@host:5432/name" in refused.err
    assert "hush" not in refused.err


# -- sql --------------------------------------------------------------------------------------------------------------
SHAPE = (
    "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns WHERE table_schema = '{}'"
    " ORDER BY 1, 2",
    "SELECT replace(indexdef, '{}.', '') FROM pg_indexes WHERE schemaname = '{}' ORDER BY 1",
    "SELECT tablename, policyname, cmd, qual, with_check FROM pg_policies WHERE schemaname = '{}' ORDER BY 1, 2",
    "SELECT relname, relforcerowsecurity, replace(relacl::text, '{}', '') FROM pg_class JOIN pg_namespace AS n"
    " ON n.oid = relnamespace WHERE nspname = '{}' AND relkind IN ('r', 'S') ORDER BY 1",
)


def shape(ground: Ground, database: str, schema: str = "keepstone") -> list[list[tuple[Any, ...]]]:
    return [ground.rows(query.format(*[schema] * 2), database) for query in SHAPE]


def test_the_script_makes_what_setup_makes(cli: Cli, ground: Ground) -> None:
    printed = cli("postgres", "sql")
    assert (printed.code, printed.err) == (0, "")
    ground.server.database("by_script")
    ground.run(printed.out, "CREATE ROLE app LOGIN IN ROLE keepstone_app", database="by_script")
    ground.run("ALTER ROLE app PASSWORD 'x'")
    administration.set_up(ground.server.database("by_setup"))
    assert shape(ground, "by_script") == shape(ground, "by_setup")
    app = ground.server.url_as("app", "by_script", "x")
    with Memory.open(app, user="dana") as memory:
        memory.remember("Dana prefers dark mode.")
        assert memory.recall("Which theme does Dana like?")[0].content == "Dana prefers dark mode."
        assert memory.upkeep.doctor().healthy
    checked = cli("postgres", "check", "--db", app, "--json")
    assert (checked.code, checked.json["problems"], checked.json["advice"]) == (0, [], [])
    with pytest.raises(psycopg.errors.DuplicateTable):
        ground.run(printed.out, database="by_script")
    assert ground.rows("SELECT count(*) FROM keepstone.record", "by_script") == [(1,)]


def test_the_script_runs_in_psql_as_an_owner_and_in_another_schema(cli: Cli, ground: Ground, owner: str, tmp_path: Path) -> None:
    from tests.server_processes import postgres_programs

    (tmp_path / "setup.sql").write_text(cli("postgres", "sql", "--schema", "user").out)
    command = [postgres_programs() / "psql", "--set", "ON_ERROR_STOP=1", "--quiet", f"--file={tmp_path / 'setup.sql'}", owner]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ground.run(f"CREATE ROLE other LOGIN IN ROLE {APP}")
    with Memory.open(ground.server.url_as("other", "boss") + "?schema=user", embedder="none") as memory:
        assert memory.remember("Dana drinks tea.").action == "added"


def test_an_upgrade_is_a_script_too(ground: Ground, owner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = (*setup.migrations(), setup.Migration(NEXT, "pre", "CREATE TABLE mood (tenant text NOT NULL);"))
    administration.set_up(owner)
    monkeypatch.setattr(setup, "migrations", lambda: known)
    script = administration.script(since=KNOWN)
    assert "CREATE TABLE record" not in script
    ground.run(script, database="boss")
    assert ground.rows("SELECT value FROM keepstone.meta WHERE name = 'schema'", "boss") == [(str(NEXT),)]
    assert ground.rows(f"SELECT has_table_privilege('{APP}', 'keepstone.mood', 'SELECT')", "boss") == [(True,)]
    with pytest.raises(psycopg.errors.RaiseException, match="the schema is at another: nothing was changed"):
        ground.run(script, database="boss")


@pytest.mark.parametrize(("arguments", "code"), [(("--schema", "A b"), 5), (("--schema", "pg_x"), 5), (("--since", "-1"), 2)])
def test_what_a_script_cannot_be_made_of(cli: Cli, arguments: tuple[str, ...], code: int) -> None:
    refused = cli("postgres", "sql", *arguments)
    assert (refused.code, refused.out) == (code, "")


CLUSTER = """
CREATE TABLE asked (name regclass, by text, beside text);
CREATE FUNCTION create_distributed_table(name regclass, by text, colocate_with text DEFAULT 'default') RETURNS void LANGUAGE sql
    AS 'INSERT INTO public.asked VALUES (name, by, colocate_with)';
CREATE FUNCTION create_reference_table(name regclass) RETURNS void LANGUAGE sql AS 'INSERT INTO public.asked VALUES (name)';
"""


def test_every_table_is_laid_out_by_tenant(cli: Cli, ground: Ground) -> None:
    """No cluster runs here: two functions stand in for Citus and note what they are asked for."""
    ground.server.database("sharded")
    ground.run(CLUSTER, cli("postgres", "sql", "--shard").out, database="sharded")
    asked = {name: (by, beside) for name, by, beside in ground.rows("SELECT name::text, by, beside FROM asked", "sharded")}
    tables = {
        name
        for (name,) in ground.rows(
            "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'keepstone'::regnamespace", "sharded"
        )
    }
    assert {name.removeprefix("keepstone.") for name in asked} == tables
    assert {name for name, (by, _) in asked.items() if by is None} == {"keepstone.meta", "keepstone.lease"}
    assert asked.pop("keepstone.tenant") == ("tenant", "default")
    assert {told for told in asked.values() if told[0]} == {("tenant", '"keepstone".tenant')}
    unique = (
        "SELECT DISTINCT (SELECT attname FROM pg_attribute WHERE attrelid = indrelid AND attnum = indkey[0]) FROM pg_index"
        " JOIN pg_class AS c ON c.oid = indrelid WHERE indisunique AND relnamespace = 'keepstone'::regnamespace"
        " AND relname NOT IN ('meta', 'lease')"
    )
    assert ground.rows(unique, "sharded") == [("tenant",)], "a cluster refuses what is unique across its nodes"


# -- check ------------------------------------------------------------------------------------------------------------
def test_a_database_without_tables_is_a_problem(cli: Cli, ground: Ground, owner: str) -> None:
    found = cli("postgres", "check", "--db", owner)
    assert found.code == 8
    assert "problem  schema: there are no tables yet\n    run 'keepstone postgres setup'" in found.out
    assert ground.rows("SELECT to_regnamespace('keepstone') IS NULL", "boss") == [(True,)], "a check makes nothing"


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        ("ALTER TABLE keepstone.record NO FORCE ROW LEVEL SECURITY", "row-level security is not in force on table record"),
        ("ALTER TABLE keepstone.words DISABLE ROW LEVEL SECURITY", "row-level security is not in force on table words"),
        ("CREATE POLICY open ON keepstone.state USING (true)", "table state has other policies than it was made with"),
        ("DROP POLICY own_tenant ON keepstone.job", "table job has other policies than it was made with"),
        (f"REVOKE DELETE ON keepstone.review FROM {APP}", "keepstone_app may not read and write table review"),
        ("DROP TABLE keepstone.bucket", "table bucket is not there"),
        (
            f"UPDATE keepstone.meta SET value = '{NEXT}' WHERE name = 'schema'",
            f"the schema is at version {NEXT}, this keepstone knows {KNOWN}",
        ),
        (f"REVOKE {APP} FROM app GRANTED BY boss", "the role app may not use the schema keepstone"),
    ],
)
def test_what_was_loosened_is_found(cli: Cli, ground: Ground, owner: str, statement: str, told: str) -> None:
    administration.set_up(owner, login="app", password="x")
    app = ground.server.url_as("app", "boss", "x")
    assert cli("postgres", "check", "--db", app).code == 0
    ground.run(statement, database="boss")
    found = cli("postgres", "check", "--db", app, "--json")
    assert found.code == 8
    assert [each["problem"] for each in found.json["problems"]] == [told]
    assert not found.json["fine"]


def test_a_superuser_that_acts_as_nobody_else_is_a_problem(cli: Cli, ground: Ground, owner: str) -> None:
    administration.set_up(ground.owned("plain"))
    ground.run("CREATE ROLE above LOGIN BYPASSRLS")
    ground.run(
        "GRANT USAGE ON SCHEMA keepstone TO above", "GRANT ALL ON ALL TABLES IN SCHEMA keepstone TO above", database="plain"
    )
    found = administration.check(ground.server.url_as("above", "plain"))
    assert found.who == administration.Who("above", "above", True, False)
    assert [each.problem for each in found.problems] == ["above is a superuser or bypasses policies, and acts as no other role"]


def test_poolers_and_large_scopes_are_told(ground: Ground, owner: str) -> None:
    administration.set_up(owner, login="app", password="x")
    app = ground.server.url_as("app", "boss", "x")
    with Memory.open(app, user="dana") as memory:
        for number in range(3):
            memory.remember(f"Fact number {number} of many.")
    assert administration.check(app).large == 0
    found = administration.check(f"{app}?pgbouncer=true", least=3)
    assert (found.large, found.prepared, found.fine) == (1, False, True)
    assert "1 scope has 3 memories or more" in found.advice[0].problem
    assert administration.check(app).prepared
