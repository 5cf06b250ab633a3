"""Writes src/keepstone/stores/sqlite/schema.sql: what all migrations together give, to read in one place.

    python tools/make_schema.py           # write the file
    python tools/make_schema.py --print   # show it

A test compares the file with what this prints.
"""

from __future__ import annotations

import sys
from pathlib import Path

import apsw

TARGET = Path(__file__).parent.parent / "src" / "keepstone" / "stores" / "sqlite" / "schema.sql"
HEAD = "-- The schema that the migrations give, made by tools/make_schema.py; do not edit. The reasons stand in migrations/.\n"


def render() -> str:
    from keepstone.stores.sqlite.migrate import migrate

    connection = apsw.Connection(":memory:")
    migrate(connection, ":memory:")
    # The tables behind the full-text index are SQLite's own.
    rows = connection.execute(
        "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'words\\_%' ESCAPE '\\' ORDER BY rowid"
    )
    return HEAD + "".join(f"\n{row[0]};\n" for row in rows)


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(render(), end="")
    else:
        TARGET.write_text(render(), encoding="utf-8")
