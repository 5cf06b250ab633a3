"""Reads of ranking: the change feed, past views and search conditions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from keepstone.ports.values import Changes, IndexRows, SearchFilter, Snapshot
from keepstone.stores.common.rows import index_rows, packed, snapshot_record
from keepstone.stores.common.transaction import Transaction
from keepstone.text.times import FOREVER, micros
from keepstone.types import Scope

ROW_BYTES = 320  # approximate memory of a record without its vector


def changes(db: Transaction, scope: int | None, after: int, dimension: int) -> Changes:
    """Changes of a scope after a change number. The caller's transaction makes the two queries one view."""
    removed = db.all("index_removed", (scope, after)) if after else []
    latest = max(after, removed[-1][1] if removed else 0, db.one("index_latest", (scope,))[0] or 0)
    rows = index_rows(db, db.stream("index_changed", (scope, after)), dimension)
    return Changes(latest, rows, tuple(row[0] for row in removed))


def index_rows_of(db: Transaction, scope: int | None, sequences: Sequence[int], dimension: int) -> IndexRows:
    """The ranking columns of records that exist."""
    return index_rows(db, db.each("index_one", sequences, {"scope": scope}), dimension)


def neighbours(db: Transaction, scope: int | None, sequences: Sequence[int], reach: int) -> list[int]:
    """The messages up to `reach` before and after these in their sessions."""
    return sorted({row[0] for row in db.each("neighbours", sequences, {"scope": scope, "reach": reach})})


def snapshot(
    db: Transaction, scope: Scope, number: int | None, as_of: datetime | None, known_at: datetime | None, dimension: int
) -> Snapshot:
    """The records valid at one time and known at another."""
    values = {"scope": number, "as_of": _bound(as_of), "known_at": _bound(known_at)}
    rows = db.all("snapshot", values)
    return Snapshot(index_rows(db, [row[:14] for row in rows], dimension), tuple(snapshot_record(row, scope) for row in rows))


def _bound(at: datetime | None) -> int:
    return FOREVER if at is None else micros(at)


def filter_values(db: Transaction, scope: int | None, now: int, search_filter: SearchFilter) -> tuple[str, dict[str, Any]]:
    """The SQL condition of a search filter and its values."""
    filter, bound = db.filtered(search_filter.filter)
    return filter, {
        "scope": scope,
        "now": now,
        "kinds": None if search_filter.kinds is None else packed(search_filter.kinds),
        "tag": search_filter.tag,
        "session": search_filter.session,
        "min_importance": search_filter.min_importance,
        "min_trust": search_filter.min_trust,
        "steps": search_filter.steps,
        **bound,
    }


def search_recent(db: Transaction, scope: int | None, limit: int, now: int, search_filter: SearchFilter) -> list[int]:
    """The scope's newest records."""
    filter, values = filter_values(db, scope, now, search_filter)
    return [row[0] for row in db.all("recent_search", {**values, "limit": limit}, filter=filter)]
