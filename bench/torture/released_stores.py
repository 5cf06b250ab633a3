"""Stores of every released schema, saved in the source tree, and what they must hold."""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any

import apsw

FOLDER = Path(__file__).parents[2] / "tests" / "migrations" / "stores"


def names() -> list[str]:
    """The frozen stores, the oldest schema first."""
    return sorted(path.name.removesuffix(".db.xz") for path in FOLDER.glob("schema_*.db.xz"))


def extract_store(name: str, path: Path) -> list[dict[str, Any]]:
    """Write a saved store to a path. Returns what it must hold."""
    path.write_bytes(lzma.decompress((FOLDER / f"{name}.db.xz").read_bytes()))
    expected: list[dict[str, Any]] = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    return expected


def contents(path: Path) -> list[dict[str, Any]]:
    """Every version of every record by the tables' own columns, whichever schema they are of."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        present = (
            "SELECT s.user, r.id, r.version, r.content, hex(r.hash), r.key, r.metadata "
            "FROM record AS r JOIN scope AS s USING (scope)"
        )
        past = (
            "SELECT s.user, r.id, h.version, h.content, hex(h.hash), r.key, h.metadata "
            "FROM history AS h JOIN record AS r USING (sequence) JOIN scope AS s USING (scope)"
        )
        rows = db.execute(f"{present} UNION ALL {past} ORDER BY 1, 2, 3").fetchall()
    finally:
        db.close()
    columns = ("user", "id", "version", "content", "hash", "key", "metadata")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def version_of(path: Path) -> int:
    """The schema that a file is of."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return int(db.pragma("user_version"))
    finally:
        db.close()
