"""Migration of a file to the current schema, one transaction for each numbered migration.

A kill between two migrations, or in the middle of one, leaves a whole older schema; the next opening goes on from there.
"""

from __future__ import annotations

import re
import secrets
from functools import cache
from pathlib import Path

import apsw

from keepstone.distribution import install_command
from keepstone.errors import StoreDamaged, StoreError
from keepstone.stores.sqlite.connections import translated
from keepstone.stores.sqlite.encryption import unlock
from keepstone.stores.sqlite.files import APPLICATION_ID
from keepstone.stores.sqlite.free_space import CLEARED, vfs_for
from keepstone.stores.sqlite.transaction import sql
from keepstone.text.words import ANALYSER

_NUMBERED = re.compile(r"(\d{4})_\w+\.sql$")


@cache
def migrations() -> tuple[tuple[int, str], ...]:
    """Every migration by its number, in order."""
    folder = Path(__file__).with_name("migrations")
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


@cache
def _schema(scripts: tuple[tuple[int, str], ...]) -> frozenset[tuple[str, str, str | None]]:
    """Type, name and statement of everything that migrations create."""
    connection = apsw.Connection(":memory:")
    for number, script in scripts:
        _apply(connection, number, script)
    return frozenset(connection.execute(sql.texts["schema_objects"]))


def foreign_objects(connection: apsw.Connection) -> list[str]:
    """Tables, indexes, triggers and views of a store that no migration created."""
    created = _schema(migrations())
    return [f"{row[0]} {row[1]!r:.80}" for row in connection.execute(sql.texts["schema_objects"]) if row not in created]


def check_schema(connection: apsw.Connection, path: str) -> None:
    """Refuse a file whose schema holds anything that keepstone did not create."""
    foreign = foreign_objects(connection)
    if foreign:
        raise StoreDamaged(
            f"{path} holds what keepstone did not create ({', '.join(foreign[:5])}): it was changed by another program and may "
            "be crafted. Restore a backup, or remove these objects with the sqlite3 shell if you trust the file."
        )


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


def build(path: Path, raw_key: str | None = None) -> None:
    """Create an empty store file, encrypted if there is a key."""
    with translated(str(path)):
        connection = apsw.Connection(str(path), vfs=vfs_for(raw_key))
    try:
        with translated(str(path), connection):
            if raw_key is not None:
                unlock(connection, str(path), raw_key)
            connection.pragma("journal_mode", "wal")
            fill(connection, cleared=raw_key is None)
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        with translated(str(path)):
            connection.close()


def fill(connection: apsw.Connection, cleared: bool = False) -> None:
    """Create the schema and the initial meta values; `cleared`: every page is written through the VFS of `free_space`."""
    migrate(connection, connection.filename)
    with connection:
        for name, value in (("id", secrets.token_hex(16)), ("analyser", ANALYSER), *[(CLEARED, "1")] * cleared):
            connection.execute(sql.texts["meta_set"], (name, value))
