"""Making and upgrading the schema, under a lock, and what a role may do there.

A migration is a pair. `NNNN_name.pre.sql` only adds, so processes of the previous version go on working; it is run by the
first process of the new version. `NNNN_name.post.sql`, where there is one, removes what no version needs any more; it is run by
`keepstone postgres setup --finish` once every process is of the new version.
"""

from __future__ import annotations

import re
import secrets
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psycopg
from psycopg import errors as pg

from keepstone.distribution import install_command
from keepstone.errors import ConfigurationError, StoreError
from keepstone.stores.postgres.statements import sql
from keepstone.stores.postgres.target import Target
from keepstone.text.words import ANALYSER

APP = "keepstone_app"  # the role of applications: owns nothing and bypasses nothing
_LOCK = 0x7EC011EC  # the advisory lock of all migrations
_NUMBERED = re.compile(r"(\d{4})_\w+\.(pre|post)\.sql$")


@dataclass(frozen=True, slots=True)
class Migration:
    """One half of a pair."""

    number: int
    half: str
    script: str


@cache
def migrations() -> tuple[Migration, ...]:
    """Every half in order."""
    folder = Path(__file__).with_name("migrations")
    found = ((_NUMBERED.match(entry.name), entry) for entry in folder.iterdir())
    halves = [Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")) for match, entry in found if match]
    return tuple(sorted(halves, key=lambda each: (each.number, each.half == "post")))


def newest(half: str = "pre") -> int:
    """The last migration that this version knows."""
    return max((each.number for each in migrations() if each.half == half), default=0)


def prepare(connection: psycopg.Connection[Any], target: Target, *, finish: bool = False) -> list[str]:
    """Bring the schema to this version and return the migrations that were run. A newer schema is refused."""
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise ConfigurationError(f"{target.label} is in {encoding}: use a database in UTF8, which takes every text.")
    at = version_of(connection, target)
    if at is not None and at[0] > newest():
        raise StoreError(
            f"{target.label} was set up by a newer keepstone (schema {at[0]}, this version knows {newest()}): "
            f"upgrade keepstone with {install_command(upgrade=True)}. Nothing was changed."
        )
    if at is not None and at[0] == newest() and not (finish and at[1] < newest("post")):
        return []
    try:
        return _apply(connection, target, finish)
    except (pg.InsufficientPrivilege, pg.FeatureNotSupported, pg.UndefinedFile) as error:
        raise ConfigurationError(
            f"{target.label} has no tables of this version, and this role may not make them ({' '.join(str(error).split())}). "
            "Run 'keepstone postgres setup' once with a role that may, or hand the output of 'keepstone postgres sql' to the "
            "administrator of the database."
        ) from error


def version_of(connection: psycopg.Connection[Any], target: Target) -> tuple[int, int] | None:
    """(pre, post) of the schema; None without one."""
    found = connection.execute(sql.texts["schema_there"].encode(), (target.schema,)).fetchone()
    if found is None or not found[0]:
        return None
    with connection.transaction():
        _set_path(connection, target)
        rows = dict(connection.execute(sql.texts["schema_version"].encode()).fetchall())
    return int(rows.get("schema", 0)), int(rows.get("schema done", 0))


def _set_path(connection: psycopg.Connection[Any], target: Target) -> None:
    connection.execute(sql.texts["search_path"].encode(), (path_of(connection, target),))


def path_of(connection: psycopg.Connection[Any], target: Target) -> str:
    """The schema of the tables, then that of pgvector. PostgreSQL's own always comes first."""
    found = connection.execute(sql.texts["extension_schema"].encode()).fetchone()
    return f'"{target.schema}", {found[0] if found else "public"}, pg_temp'


def _apply(connection: psycopg.Connection[Any], target: Target, finish: bool) -> list[str]:
    done = []
    with connection.transaction():
        connection.execute(sql.texts["lock_whole"].encode(), (_LOCK,))
        connection.execute(b"CREATE EXTENSION IF NOT EXISTS vector")
        if connection.execute(sql.texts["schema_missing"].encode(), (target.schema,)).fetchone():
            connection.execute(f'CREATE SCHEMA "{target.schema}"'.encode())
        at = version_of(connection, target) or (0, 0)  # another process may have been first
        _set_path(connection, target)
        for each in migrations():
            due = each.number > at[0] if each.half == "pre" else finish and each.number > at[1]
            if due:
                connection.execute(each.script.encode())
                name = "schema" if each.half == "pre" else "schema done"
                connection.execute(sql.texts["meta_set"].encode(), (name, str(each.number)))
                done.append(f"{each.number:04}.{each.half}")
        if at == (0, 0):
            for name, value in (("id", secrets.token_hex(16)), ("analyser", ANALYSER)):
                connection.execute(sql.texts["meta_set"].encode(), (name, value))
        if ensure_role(connection):
            connection.execute(grants(target.schema).encode())
    return done


def grants(schema: str) -> str:
    """What the role of applications is granted."""
    return sql.texts["grants"].replace("{schema}", schema).replace("{app}", APP)


def ensure_role(connection: psycopg.Connection[Any]) -> bool:
    """Create the role of applications if it is missing; False if this role may not create one."""
    if not connection.execute(sql.texts["role_there"].encode(), (APP,)).fetchone():
        if not connection.execute(sql.texts["role_may_make"].encode()).fetchone():
            return False
        with suppress(pg.DuplicateObject, pg.UniqueViolation), connection.transaction():  # another database was first
            connection.execute(f"CREATE ROLE {APP} NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE".encode())
    if not connection.execute(sql.texts["role_member"].encode(), (APP,)).fetchone():
        # Without the right to grant it, transactions act as the owner, whom the policies bind as well.
        with suppress(pg.InsufficientPrivilege), connection.transaction():
            connection.execute(f"GRANT {APP} TO CURRENT_USER".encode())
    return True


def acting_as(connection: psycopg.Connection[Any], target: Target) -> str:
    """The role that transactions take: that of applications, if the connecting role may take it."""
    row = connection.execute(sql.texts["role_known"].encode(), (APP, target.schema)).fetchone()
    return APP if row and row[1] else "none"
