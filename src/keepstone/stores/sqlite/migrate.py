"""Migration of a file to the current schema, one transaction for each numbered migration.

A kill between two migrations, or in the middle of one, leaves a whole older schema; the next opening goes on from there.
"""

from __future__ import annotations

import re
import secrets
from functools import cache
from importlib.resources import files
from pathlib import Path

import apsw

from keepstone.distribution import install_command
from keepstone.errors import StoreError
from keepstone.stores.sqlite.connections import translated
from keepstone.stores.sqlite.files import APPLICATION_ID
from keepstone.stores.sqlite.transaction import sql
from keepstone.text.words import ANALYSER

_NUMBERED = re.compile(r"(\d{4})_\w+\.sql$")


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Every migration by its number, in order."""
    folder = files("keepstone.stores.sqlite").joinpath("migrations")
    found = ((_NUMBERED.match(entry.name), entry) for entry in folder.iterdir())
    return tuple(sorted((int(match[1]), entry.read_text(encoding="utf-8")) for match, entry in found if match))


def newest() -> int:
    """The schema this version of keepstone works with."""
    return migrations()[-1][0]


def migrate(connection: apsw.Connection, path: str) -> None:
    """Run the migrations a store has not had yet; a store newer than this version is refused."""
    current = int(connection.pragma("user_version"))
    if current > newest():
        raise StoreError(
            f"{path} was written by a newer keepstone (schema {current}, this version knows {newest()}): upgrade keepstone "
            f"with {install_command(upgrade=True)}. The file was left untouched."
        )
    if current == newest():
        return
    for number, script in migrations():
        if number > current:
            _apply(connection, number, script)


def _apply(connection: apsw.Connection, number: int, script: str) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        if int(connection.pragma("user_version")) < number:  # another process may have been first
            connection.execute(script).fetchall()  # exhaust it: a statement that returns rows must not stop the script
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", number)
        connection.execute("COMMIT")
    except BaseException:
        if not connection.getautocommit():
            connection.execute("ROLLBACK")
        raise


def build(path: Path) -> None:
    """Create an empty store file."""
    with translated(str(path)):
        connection = apsw.Connection(str(path))
    try:
        with translated(str(path), connection):
            connection.pragma("journal_mode", "wal")
            fill(connection)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        with translated(str(path)):
            connection.close()


def fill(connection: apsw.Connection) -> None:
    """Create the schema and the initial meta values."""
    migrate(connection, connection.filename)
    with connection:
        for name, value in (("id", secrets.token_hex(16)), ("analyser", ANALYSER)):
            connection.execute(sql.meta_set, (name, value))
