"""What is in force in a database, seen with an application's own URL: it only reads.

`problems` let a tenant's rows be seen where they should not be, or keep the store from working; `advice` does neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors as pg

from keepstone.distribution import install_command
from keepstone.stores.postgres import scope_indexes, setup
from keepstone.stores.postgres.administration import own, pending, tables_of, version_of
from keepstone.stores.postgres.connections import PostgresDriver, Session
from keepstone.stores.postgres.errors import translated
from keepstone.stores.postgres.statements import sql
from keepstone.stores.postgres.store import connected
from keepstone.stores.postgres.target import Target
from keepstone.types import Finding

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_SETUP = "run 'keepstone postgres setup' with the role that owns the schema"
_LOGIN = "run 'keepstone postgres setup --login NAME' with the role that owns the schema, and give the application that login"


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


def check(url: str, *, known: Sequence[setup.Migration] | None = None, least: int = scope_indexes.LARGE) -> Check:
    """Look at a database as an application would."""
    target = Target.of(url)
    halves = setup.migrations() if known is None else known
    with translated(target.label), connected(target) as connection:
        acts = setup.acting_as(connection, target)
        name, above, owner = _one(connection, "who", (target.schema,))
        who = Who(name, name if acts == "none" else acts, above, owner)
        problems, advice = list(_roles(who)), list(_advice_on_roles(who))
        version, denied = _version(connection, target)
        if denied:
            problems.append(Finding("rights", f"the role {name} may not use the schema {target.schema}", _LOGIN))
        elif version is None or version[0] != setup.newest("pre", halves):
            problems.append(_schema(version, setup.newest("pre", halves)))
        forced, waiting, scopes = None, pending(version[1], halves) if version else (), 0
        if version is not None:
            found = list(_tables(connection, target, who, halves))
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
        target.label,
        server,
        who,
        extension[0] if extension else None,
        version[0] if version else None,
        setup.newest("pre", halves),
        waiting,
        forced,
        target.prepare,
        tls,
        scopes,
        tuple(problems),
        tuple(advice),
    )


def _one(connection: psycopg.Connection[Any], name: str, values: Sequence[Any] = ()) -> Any:
    return connection.execute(own.texts[name].encode(), values).fetchone()


def _version(connection: psycopg.Connection[Any], target: Target) -> tuple[tuple[int, int] | None, bool]:
    """The version of the schema, and whether this role may not even ask."""
    try:
        return version_of(connection, target), False
    except pg.InsufficientPrivilege:
        return None, True


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
        yield Finding("role", f"{who.connects} is a superuser or bypasses policies, and acts as nobody else", _LOGIN)


def _advice_on_roles(who: Who) -> Iterator[Finding]:
    if who.acts != who.connects and (who.above or who.owner):
        told = (
            f"{who.connects} {'is above the policies' if who.above else 'owns the tables'} and acts as {who.acts} only by choice"
        )
        yield Finding("role", told, _LOGIN)
    elif who.owner and not who.above:
        told = f"{who.connects} owns the tables: the policies bind it, but it could take them off"
        yield Finding("role", told, _LOGIN)


# -- what is in force -----------------------------------------------------------------------------------------------
def _tables(connection: psycopg.Connection[Any], target: Target, who: Who, known: Sequence[setup.Migration]) -> Iterator[Finding]:
    tables = tables_of(known)
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
