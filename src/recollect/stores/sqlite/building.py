"""Making a new, empty store. Imports: apsw, the rooms beside it."""

from __future__ import annotations

import secrets
from pathlib import Path

import apsw

from recollect.stores.sqlite import migrate
from recollect.stores.sqlite.driver import one_row, translated
from recollect.stores.sqlite.moment import sql
from recollect.words import ANALYSER


def build(path: Path) -> None:
    """A new, empty store file."""
    with translated(str(path)):
        connection = apsw.Connection(str(path))
    try:
        with translated(str(path), connection):
            connection.pragma("journal_mode", "wal")
            fill(connection)
            one_row(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def fill(connection: apsw.Connection) -> None:
    """Give an empty database the schema and the facts about itself that a store has from the start."""
    migrate.migrate(connection, connection.filename)
    with connection:
        for name, value in (("id", secrets.token_hex(16)), ("analyser", ANALYSER)):
            connection.execute(sql.meta_set, (name, value))


def embedder_of(db: apsw.Connection) -> tuple[int, tuple[str, int] | None]:
    """(how many embedders the store has had, the present one)."""
    row = one_row(db, sql.meta_embedder)
    if row is None:
        return 0, None
    model, dimension, name = str(row[0]).split(" ", 2)
    return int(model), (name, int(dimension))


def next_embedder(db: apsw.Connection) -> tuple[str, int] | None:
    """The embedder that vectors are gathered for beside those in use."""
    row = one_row(db, sql.meta_next)
    if row is None:
        return None
    dimension, name = str(row[0]).split(" ", 1)
    return name, int(dimension)
