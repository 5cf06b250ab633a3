"""Putting records aside and bringing them back, inside a transaction. Imports: writes."""

from __future__ import annotations

from collections.abc import Sequence

import apsw

from recollect.stores.sqlite.driver import one_row
from recollect.stores.sqlite.writes import Moment, audit, sql


def put_aside(db: apsw.Connection, at: Moment, ids: Sequence[str]) -> int:
    """Make active records expired."""
    done = 0
    for id in ids:
        row = one_row(db, sql.record_aside, (at.scope, id, "active"))
        if row is not None:
            number = audit(db, at, "consolidate", "expired", row[0], id, row[1], row[2])
            db.execute(sql.record_status, (row[0], number, "expired"))
            done += 1
    return done


def bring_back(db: apsw.Connection, at: Moment, ids: Sequence[str]) -> int:
    """Make expired records active again, unless another active one has their content or key."""
    done = 0
    for id in ids:
        row = one_row(db, sql.record_aside, (at.scope, id, "expired"))
        if row is None or _taken(db, at, row):
            continue
        number = audit(db, at, "consolidate", "restored", row[0], id, row[1], row[2])
        db.execute(sql.record_status, (row[0], number, "active"))
        done += 1
    return done


def _taken(db: apsw.Connection, at: Moment, row: tuple[object, ...]) -> bool:
    _, _, _, digest, kind, tag, key = row
    if key is not None:
        return one_row(db, sql.record_state_by_key, (at.scope, key)) is not None
    return one_row(db, sql.record_same, (at.scope, digest, kind, tag)) is not None
