"""For those who run the database: set-up with logins for applications, the same as a script, and a check of what is in force.

Applications connect with a login that is a member of `keepstone_app`. It owns nothing, so it can neither change the tables nor
look past the policies, whatever is sent over its connections.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import psycopg
from psycopg import errors as pg
from psycopg.sql import Identifier

from keepstone.errors import ConfigurationError
from keepstone.stores.postgres import setup
from keepstone.stores.postgres.errors import translated
from keepstone.stores.postgres.statements import sql
from keepstone.stores.postgres.store import connected
from keepstone.stores.postgres.target import DEFAULT_SCHEMA, Target
from keepstone.stores.queries import Queries
from keepstone.text.words import ANALYSER

own = Queries("keepstone.stores.postgres", "administration.sql")
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


def set_up(
    url: str,
    *,
    finish: bool = False,
    login: str | None = None,
    password: str | None = None,
    known: Sequence[setup.Migration] | None = None,
) -> SetUp:
    """Bring a database to this version, with the role that applications act as; with `login`, a login for them. Repeating it
    changes nothing but the password, where one is given."""
    target = Target.of(url)
    with translated(target.label), connected(target) as connection:
        done = setup.prepare(connection, target, known, finish=finish)
        role = setup.APP if _granted(connection, target) else None
        if login is not None:
            _login(connection, target, login, password, role)
        version, finished = version_of(connection, target) or (0, 0)
        extension = _one(connection, "vector_version")[0]
    made = None if login is None else url_for(url, login)
    waiting = pending(finished, known)
    return SetUp(
        target.label, target.schema, version, tuple(done), waiting, extension, role, GRANTED if role else (), login, made
    )


def _one(connection: psycopg.Connection[Any], name: str, values: Sequence[Any] = ()) -> Any:
    return connection.execute(own.texts[name].encode(), values).fetchone()


def filled(statement: str, /, **parts: str) -> str:
    """A statement that takes no values, with what stands in braces in its place."""
    text = own.texts[statement]
    for part, value in parts.items():
        text = text.replace("{" + part + "}", value)
    return text


def version_of(connection: psycopg.Connection[Any], target: Target) -> tuple[int, int] | None:
    """(pre, post) of the schema that is there; None where there is none."""
    found = connection.execute(sql.texts["schema_there"].encode(), (target.schema,)).fetchone()
    if found is None or not found[0]:
        return None
    with connection.transaction():
        connection.execute(sql.texts["search_path"].encode(), (setup.path_of(connection, target),))
        rows = dict(connection.execute(sql.texts["schema_version"].encode()).fetchall())
    return int(rows.get("schema", 0)), int(rows.get("schema done", 0))


def pending(finished: int, known: Sequence[setup.Migration] | None = None) -> tuple[str, ...]:
    """The post halves that nobody has run yet."""
    halves = setup.migrations() if known is None else known
    return tuple(f"{each.number:04}.post" for each in halves if each.half == "post" and each.number > finished)


def grants(schema: str) -> str:
    """What the app's role is granted."""
    text = sql.texts["grants"].replace('"{schema}"', "{schema}")
    return text.replace("{schema}", f'"{schema}"').replace("{app}", setup.APP)


def _granted(connection: psycopg.Connection[Any], target: Target) -> bool:
    """Make sure of the app's role and its rights; False where there is none and this role may not make it. The role may have come
    after the tables, so this is done every time."""
    try:
        with connection.transaction():
            if not setup._role(connection):
                return False
    except pg.InsufficientPrivilege:
        pass  # the role is another's to give, but its rights on these tables are ours
    with connection.transaction():
        connection.execute(grants(target.schema).encode())
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
            f"whoever made the role run 'GRANT {setup.APP} TO {login}', or name another login."
        ) from error


def url_for(url: str, login: str) -> str:
    """The owner's URL as an application has it: another user, no password."""
    parts = urlsplit(url)
    kept = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in _OWNERS]
    where = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(scheme="postgresql", netloc=f"{quote(login)}@{where}", query=urlencode(kept, safe="/")))


# -- as a script ----------------------------------------------------------------------------------------------------
def script(
    schema: str = DEFAULT_SCHEMA, *, since: int = 0, shard: bool = False, known: Sequence[setup.Migration] | None = None
) -> str:
    """The statements that set a database up, in one transaction, for whoever runs it. `since`: the version that is there."""
    schema = Target.of(f"postgresql:///?schema={quote(schema)}").schema
    halves = [each for each in (setup.migrations() if known is None else known) if each.number > since]
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
    parts += [_ROLE, filled("script_role", app=setup.APP), grants(schema) + ";", own.texts["script_end"], _LOGINS]
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
