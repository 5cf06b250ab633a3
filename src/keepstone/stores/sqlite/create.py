"""Creation of an empty store."""

from __future__ import annotations

import secrets
from pathlib import Path

import apsw

from keepstone.stores.sqlite import migrate
from keepstone.stores.sqlite.connections import translated
from keepstone.stores.sqlite.transaction import sql
from keepstone.text.words import ANALYSER


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
    migrate.migrate(connection, connection.filename)
    with connection:
        for name, value in (("id", secrets.token_hex(16)), ("analyser", ANALYSER)):
            connection.execute(sql.meta_set, (name, value))
