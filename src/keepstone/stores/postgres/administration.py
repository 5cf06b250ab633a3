"""Administration of a database: set-up with logins for applications, the same as a script, and a check of what is in force.

Applications connect with a login that is a member of `keepstone_app`. It owns nothing, so it can neither change the tables nor
bypass the policies, whatever is sent over its connections.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors as pg
from psycopg.sql import Identifier

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError
from keepstone.stores.postgres import scope_indexes, setup
from keepstone.stores.postgres.connections import PostgresDriver, Session
from keepstone.stores.postgres.errors import translated
from keepstone.stores.postgres.statements import sql
from keepstone.stores.postgres.store import connected
from keepstone.stores.postgres.target import DEFAULT_SCHEMA, Target
from keepstone.stores.queries import Queries
from keepstone.text.words import ANALYSER
from keepstone.types import Finding

own = Queries(Path(__file__).parent, "administration.sql")
_LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,62}$")
_TABLE = re.compile(r"^CREATE TABLE (\w+) \(\n(.*?)^\);", re.MULTILINE | re.DOTALL)
# Of the owner's URL, what is the owner's alone does not belong into an application's.
_OWNERS = {"user", "password", "passfile", "sslkey", "sslcert", "sslpassword"}
GRANTED = ("USAGE on the schema", "SELECT, INSERT, UPDATE, DELETE on its tables", "USAGE, SELECT on its sequences")


@dataclass(frozen=True, slots=True)
class SetUp:
    """What setting a database up did and found. `done` are the migrations that were run now, `pending` those that wait for
    --finish; `role` is None where the connecting role may not make one; `url` is what the application connects with."""

    place: str
    schema: str
    version: int
    done: tuple[str, ...]
    pending: tuple[str, ...]
    extension: str
    role: str | None
    granted: tuple[str, ...]
    login: str | None = None
    url: str | None = None


def set_up(url: str, *, finish: bool = False, login: str | None = None, password: str | None = None) -> SetUp:
    """Bring a database to this version, with the role that applications act as; with `login`, a login for them. Repeating it
    changes nothing but the password, where one is given."""
    target = Target.of(url)
    with translated(target.label), connected(target) as connection:
        done = setup.prepare(connection, target, finish=finish)
        role = setup.APP if _granted(connection, target) else None
        if login is not None:
            _login(connection, target, login, password, role)
        version, finished = setup.version_of(connection, target) or (0, 0)
        extension = _one(connection, "vector_version")[0]
    made = None if login is None else url_for(url, login)
    waiting, granted = pending(finished), GRANTED if role else ()
    return SetUp(target.label, target.schema, version, tuple(done), waiting, extension, role, granted, login, made)


def _one(connection: psycopg.Connection[Any], name: str, values: Sequence[Any] = ()) -> Any:
    return connection.execute(own.texts[name].encode(), values).fetchone()


def filled(statement: str, /, **parts: str) -> str:
    """A statement that takes no values, with what stands in braces in its place."""
    text = own.texts[statement]
    for part, value in parts.items():
        text = text.replace("{" + part + "}", value)
    return text


def pending(finished: int) -> tuple[str, ...]:
    """The post halves that were not run yet."""
    return tuple(f"{each.number:04}.post" for each in setup.migrations() if each.half == "post" and each.number > finished)


def _granted(connection: psycopg.Connection[Any], target: Target) -> bool:
    """Create the role of applications if it is missing, and grant its rights; False if this role may not create it."""
    try:
        with connection.transaction():
            if not setup.ensure_role(connection):
                return False
    except pg.InsufficientPrivilege:
        pass  # the role may not be granted, but its rights on these tables may
    with connection.transaction():
        connection.execute(setup.grants(target.schema).encode())
    return True


# -- logins ---------------------------------------------------------------------------------------------------------
def login_there(url: str, login: str) -> bool:
    """Whether there is a role of that name; one that applications must not have is refused."""
    target = Target.of(url)
    with translated(target.label), connected(target) as connection:
        return _known(connection, target, login)


def _known(connection: psycopg.Connection[Any], target: Target, login: str) -> bool:
    if not _LOGIN.match(login) or login.startswith("pg_") or login == setup.APP:
        raise ConfigurationError(f"--login {login!r:.70} is no name for a login: use small letters, digits and underscores.")
    found = _one(connection, "login_there", (login, target.schema))
    if found is not None and found[0]:
        raise ConfigurationError(
            f"--login {login}: this role owns the tables, makes roles or stands above the policies, so applications must not "
            "have it: name another, it will be made."
        )
    return found is not None


def _login(connection: psycopg.Connection[Any], target: Target, login: str, password: str | None, role: str | None) -> None:
    there = _known(connection, target, login)
    if role is None:
        raise ConfigurationError(
            f"{target.label}: there is no role {setup.APP} and this role may not make any, so there can be no login for "
            f"applications. Set up with a role that has CREATEROLE, or have 'CREATE ROLE {setup.APP} NOLOGIN' run once."
        )
    if not there and not password:
        raise ConfigurationError(f"--login {login}: it needs a password: put it into KEEPSTONE_APP_PASSWORD.")
    try:
        with connection.transaction():
            if not there:
                connection.execute(filled("login_make", name=login).encode())
            if password:
                verifier = connection.pgconn.encrypt_password(password.encode(), login.encode()).decode()
                connection.execute(filled("login_password", name=login, verifier=verifier).encode())
            acts, connects, database = _one(connection, "login_may", (login, setup.APP))
            if not acts:
                connection.execute(filled("login_grant", name=login, app=setup.APP).encode())
            if not connects:
                quoted = Identifier(database).as_string(connection)
                connection.execute(filled("login_connect", name=login, database=quoted).encode())
    except pg.InsufficientPrivilege as error:
        raise ConfigurationError(
            f"{target.label}: this role may not make or change the login {login} ({' '.join(str(error).split())}). Have "
            f"the role's owner run 'GRANT {setup.APP} TO {login}', or name another login."
        ) from error


def url_for(url: str, login: str) -> str:
    """The owner's URL as an application has it: another user, no password."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in _OWNERS]
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(scheme="postgresql", netloc=f"{quote(login)}@{where}", query=urlencode(kept, safe="/")))


# -- as a script ----------------------------------------------------------------------------------------------------
def script(schema: str = DEFAULT_SCHEMA, *, since: int = 0, shard: bool = False) -> str:
    """The statements that set a database up, in one transaction, for an administrator. `since`: the version that is there."""
    schema = Target.of(f"postgresql:///?schema={quote(schema)}").schema
    halves = [each for each in setup.migrations() if each.number > since]
    parts = [_head(since), filled("script_begin", schema=schema)]
    if since:
        parts.append(filled("script_refuse", since=str(since)))
    for each in halves:
        if each.half == "post" and since:
            continue  # processes of the version before may still be running
        name = "schema" if each.half == "pre" else "schema done"
        parts += [f"-- {each.number:04}.{each.half}\n{each.script.strip()}"]
        parts += [filled("script_version", name=name, number=str(each.number))]
    if not since:
        parts.append(filled("script_new", analyser=ANALYSER))
    parts += [_ROLE, filled("script_role", app=setup.APP), setup.grants(schema) + ";", own.texts["script_end"], _LOGINS]
    if shard:
        parts += _shards(schema, halves)
    return "\n\n".join(parts) + "\n"


def _head(since: int) -> str:
    what = f"from schema version {since} on" if since else "of a new database"
    return (
        f'-- The set-up of keepstone {what}, to be run once: psql --set ON_ERROR_STOP=1 --file=THIS "$OWNER_URL"\n'
        "-- It is one transaction: it is done whole or not at all. The extension may need a superuser or your provider's console."
    )


_ROLE = "-- Applications act as this role. It owns nothing and bypasses nothing."
_LOGINS = f"-- Each application has a login of its own:\n--   CREATE ROLE app LOGIN IN ROLE {setup.APP};\n--   \\password app"
_SHARDS = (
    '-- The tables over the nodes of a Citus cluster, by tenant, while they are empty. The sequence "number" stays on the\n'
    "-- coordinator, which applications connect to. Each transaction names its tenant, which the nodes have to be told."
)


def _shards(schema: str, halves: Sequence[setup.Migration]) -> list[str]:
    tables = tables_of(halves)
    first = [filled("shard_first", schema=schema, table="tenant")] if "tenant" in tables else []
    theirs = [filled("shard_next", schema=schema, table=name) for name, by in tables.items() if by and name != "tenant"]
    shared = [filled("shard_everywhere", schema=schema, table=name) for name, by in tables.items() if not by]
    return [_SHARDS, own.texts["shard_settings"], "\n".join([*shared, *first, *theirs])]


def tables_of(halves: Sequence[setup.Migration]) -> dict[str, bool]:
    """The tables that migrations make, and whether their rows are a tenant's."""
    return {name: "tenant text" in columns for each in halves for name, columns in _TABLE.findall(each.script)}


_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SETUP = "run 'keepstone postgres setup' with the role that owns the schema"
_USE_LOGIN = "run 'keepstone postgres setup --login NAME' with the role that owns the schema, and give the application that login"


@dataclass(frozen=True, slots=True)
class Who:
    """The role that connected, the one that transactions take, and what the first could do without the second."""

    connects: str
    acts: str
    above: bool
    owner: bool


@dataclass(frozen=True, slots=True)
class Check:
    """What was found. `version` is None where there are no tables; `forced` says whether every table's policies bind everybody,
    None where that cannot be seen."""

    place: str
    server: str
    who: Who
    extension: str | None
    version: int | None
    newest: int
    pending: tuple[str, ...]
    forced: bool | None
    prepared: bool
    tls: str
    large: int
    problems: tuple[Finding, ...]
    advice: tuple[Finding, ...]

    @property
    def fine(self) -> bool:
        """Whether nothing has to be done."""
        return not self.problems


def check(url: str, *, least: int = scope_indexes.LARGE) -> Check:
    """Look at a database as an application would."""
    target = Target.of(url)
    newest = setup.newest()
    with translated(target.label), connected(target) as connection:
        acts = setup.acting_as(connection, target)
        name, above, owner = _one(connection, "who", (target.schema,))
        who = Who(name, name if acts == "none" else acts, above, owner)
        problems, advice = list(_roles(who)), list(_advice_on_roles(who))
        version = None
        try:
            version = setup.version_of(connection, target)
            if version is None or version[0] != newest:
                problems.append(_schema(version, newest))
        except pg.InsufficientPrivilege:
            problems.append(Finding("rights", f"the role {name} may not use the schema {target.schema}", _USE_LOGIN))
        forced, waiting, scopes = None, pending(version[1]) if version else (), 0
        if version is not None:
            found = list(_tables(connection, target, who))
            forced = not any(each.check == "policies" for each in found)
            problems += found
            scopes = _large(connection, target, acts, least) if not found else 0
        extension = _one(connection, "vector_version")
        server, tls = _server(connection)
        problems += _wire(connection)
        advice += _advice_on_wire(connection)
    if waiting:
        done = "once every process is of this version, run 'keepstone postgres setup --finish'"
        advice.append(Finding("schema", f"{', '.join(waiting)} waits to be run", done))
    if scopes:
        many = "1 scope has" if scopes == 1 else f"{scopes} scopes have"
        remedy = "run 'keepstone upkeep run' with the role that owns the tables"
        advice.append(Finding("size", f"{many} {least:,} memories or more and no index of its own", remedy))
    return Check(
        target.label, server, who, extension[0] if extension else None, version[0] if version else None,
        newest, waiting, forced, target.prepare, tls, scopes, tuple(problems), tuple(advice),
    )  # fmt: skip


def _schema(version: tuple[int, int] | None, newest: int) -> Finding:
    if version is None:
        return Finding("schema", "there are no tables yet", _SETUP)
    if version[0] < newest:
        return Finding("schema", f"the schema is at version {version[0]}, this keepstone needs {newest}", _SETUP)
    newer = f"the schema is at version {version[0]}, this keepstone knows {newest}"
    return Finding("schema", newer, f"upgrade keepstone with {install_command(upgrade=True)}")


# -- who ------------------------------------------------------------------------------------------------------------
def _roles(who: Who) -> Iterator[Finding]:
    if who.above and who.acts == who.connects:
        yield Finding("role", f"{who.connects} is a superuser or bypasses policies, and acts as no other role", _USE_LOGIN)


def _advice_on_roles(who: Who) -> Iterator[Finding]:
    if who.acts != who.connects and (who.above or who.owner):
        right = "is above the policies" if who.above else "owns the tables"
        yield Finding("role", f"{who.connects} {right} and acts as {who.acts} only by choice", _USE_LOGIN)
    elif who.owner and not who.above:
        problem = f"{who.connects} owns the tables: the policies bind it, but it could take them off"
        yield Finding("role", problem, _USE_LOGIN)


# -- what is in force -----------------------------------------------------------------------------------------------
def _tables(connection: psycopg.Connection[Any], target: Target, who: Who) -> Iterator[Finding]:
    tables = tables_of(setup.migrations())
    rows = connection.execute(own.texts["tables"].encode(), (target.schema, list(tables), who.acts)).fetchall()
    for name, forced, asking, policies, allowed in rows:
        if policies == 0 and forced is None:
            yield Finding("schema", f"table {name} is not there", _SETUP)
            continue
        if tables[name] and not forced:
            yield Finding("policies", f"row-level security is not in force on table {name}", _FORCE.format(target.schema, name))
        if tables[name] and (asking == 0 or (name != "tenant" and asking != policies)):
            yield Finding("policies", f"table {name} has other policies than it was made with", _DROP)
        if not allowed:
            yield Finding("rights", f"{who.acts} may not read and write table {name}", _SETUP)
    for (index,) in connection.execute(sql.texts["doctor_indexes"].encode(), (target.schema,)).fetchall():
        yield Finding("schema", f"index {index} was not finished", "drop it, then run 'keepstone upkeep run'")


_DROP = "as its owner, drop every policy that 'keepstone postgres sql' does not make"
_FORCE = 'run ALTER TABLE "{0}".{1} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY as its owner'


def _large(connection: psycopg.Connection[Any], target: Target, acts: str, least: int) -> int:
    """How many scopes would be searched faster with an index of their own."""
    valid = {name for name, whole in connection.execute(sql.texts["indexes_near"].encode(), (target.schema,)).fetchall() if whole}
    driver = PostgresDriver(target, Session(setup.path_of(connection, target), acts))
    try:
        return sum(each.name not in valid for each in scope_indexes.large(driver, least))
    finally:
        driver.close()


# -- the way there --------------------------------------------------------------------------------------------------
def _server(connection: psycopg.Connection[Any]) -> tuple[str, str]:
    """The server's version, and how what is said to it is protected on the way."""
    version, theirs, protocol = _one(connection, "server")
    if not connection.pgconn.ssl_in_use:
        return version, "none, on this machine" if _near(connection) else "none"
    return version, f"{protocol if theirs else 'TLS'}, sslmode {_mode(connection)}"


def _near(connection: psycopg.Connection[Any]) -> bool:
    return connection.info.host.startswith("/") or connection.info.host in _LOOPBACK


def _mode(connection: psycopg.Connection[Any]) -> str:
    return connection.info.get_parameters().get("sslmode", "prefer")


def _wire(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    if not connection.pgconn.ssl_in_use and not _near(connection) and _mode(connection) != "disable":
        what = f"what is sent to {connection.info.host} is not encrypted"
        yield Finding("tls", what, "add sslmode=verify-full to the URL; sslmode=disable says that the network is your own")


def _advice_on_wire(connection: psycopg.Connection[Any]) -> Iterator[Finding]:
    mode = _mode(connection)
    if connection.pgconn.ssl_in_use and mode != "verify-full":
        yield Finding("tls", f"sslmode={mode} does not make sure who answers", "use sslmode=verify-full, with sslrootcert")
    elif not connection.pgconn.ssl_in_use and not _near(connection) and mode == "disable":
        yield Finding("tls", "nothing is encrypted on the way (sslmode=disable)", "keep the server in a network of its own")
