"""Vectors that come after their records, and the move to another embedder, inside a transaction. Imports: ports, moment, rows.

The next embedder's vectors are gathered beside those in use, which go on to serve. The switch is one transaction: whoever reads
sees the old vectors or the new ones, never both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import apsw

from recollect.ports import Pending, Vector
from recollect.stores.sqlite.building import embedder_of, next_embedder
from recollect.stores.sqlite.driver import one_row
from recollect.stores.sqlite.moment import Moment, audit, sql
from recollect.stores.sqlite.rows import vector_blob
from recollect.types import Scope

Moments = Callable[[apsw.Connection, Scope], Moment]


def attach(db: apsw.Connection, moment: Moments, vectors: Sequence[tuple[Pending, Vector]]) -> int:
    """Give records that wait for their vector the present embedder's."""
    done = 0
    for pending, vector in vectors:
        at = moment(db, pending.scope)
        if at.model is None:
            continue  # the store has moved to another embedder since
        blob = vector_blob(vector, at.dimension)
        db.execute(sql.vector_attach, (pending.sequence, pending.version, at.model, blob, at.scope))
        if db.changes():
            number = audit(db, at, "embed", "updated", pending.sequence, None, pending.version, "system")
            db.execute(sql.record_changed, (pending.sequence, number))
            done += 1
    return done


def prepare(db: apsw.Connection, wanted: tuple[str, int]) -> None:
    """Begin to gather vectors of another embedder, or go on."""
    if next_embedder(db) != wanted:
        db.execute(sql.next_clear)
        db.execute(sql.meta_set, ("next embedder", f"{wanted[1]} {wanted[0]}"))


def gather(db: apsw.Connection, moment: Moments, vectors: Sequence[tuple[Pending, Vector]]) -> int:
    """Keep the next embedder's vectors beside those in use."""
    coming = next_embedder(db)
    if coming is None:
        return 0  # another process has made the switch
    done = 0
    for pending, vector in vectors:
        at = moment(db, pending.scope)
        db.execute(sql.next_attach, (pending.sequence, pending.version, vector_blob(vector, coming[1]), at.scope))
        done += db.changes()
    return done


def switch(db: apsw.Connection, wanted: tuple[str, int], now: int) -> int:
    """From now on the store's vectors are of this embedder: those that were gathered. How many records wait for theirs."""
    model, present = embedder_of(db)
    if present != wanted:
        if next_embedder(db) != wanted:
            db.execute(sql.next_clear)
        db.execute(sql.meta_set, ("embedder", f"{model + 1} {wanted[1]} {wanted[0]}"))
        db.execute(sql.next_switch, (model + 1,))
        db.execute(sql.vector_drop_history)
        number = audit(db, Moment(0, now, None, None), "reembed", "updated", None, None, 0, "system")
        db.execute(sql.vector_rechange, (number,))
    db.execute(sql.next_clear)
    db.execute(sql.meta_drop, ("next embedder",))
    return int(one_row(db, sql.pending_count)[0])
