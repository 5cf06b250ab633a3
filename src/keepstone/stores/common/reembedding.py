"""Vectors that come after their records, and the move to another embedder, inside a transaction.

The next embedder's vectors are gathered beside those in use, which go on to serve. The switch is one transaction: a reader
sees the old vectors or the new ones, never both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from keepstone.ports.values import Pending, Vector
from keepstone.stores.common.rows import checked
from keepstone.stores.common.scope_catalog import embedder_of, next_embedder
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER, WriteContext, audit
from keepstone.text.passages import record_number
from keepstone.types import Scope

ContextOf = Callable[[Transaction, Scope], WriteContext]


def attach(db: Transaction, context_of: ContextOf, vectors: Sequence[tuple[Pending, Vector]]) -> int:
    """Store vectors of the current embedder for pending records and passages."""
    done = 0
    told: set[int] = set()  # records whose readers were told to load them again
    for pending, vector in vectors:
        context = context_of(db, pending.scope)
        if context.model is None:
            continue  # the store has moved to another embedder since
        kept = db.stored(checked(vector, context.dimension))
        if db.count("vector_attach", (pending.sequence, pending.version, context.model, kept, context.scope)):
            sequence = record_number(pending.sequence)
            if sequence not in told:
                number = audit(db, context, "embed", "updated", sequence, None, pending.version, "system")
                db.run("record_changed", (sequence, number))
                told.add(sequence)
            done += 1
    return done


def prepare(db: Transaction, tenants: Sequence[str], wanted: tuple[str, int]) -> None:
    """Start or continue collecting vectors of another embedder."""
    if next_embedder(db) != wanted:
        for tenant in tenants:
            db.switch_tenant(tenant)
            db.run("next_clear")
        db.run("meta_set", ("next embedder", f"{wanted[1]} {wanted[0]}"))


def gather(db: Transaction, context_of: ContextOf, vectors: Sequence[tuple[Pending, Vector]]) -> int:
    """Store vectors of the next embedder until the switch."""
    coming = next_embedder(db)
    if coming is None:
        return 0  # another process has made the switch
    done = 0
    for pending, vector in vectors:
        context = context_of(db, pending.scope)
        kept = db.stored(checked(vector, coming[1]))
        done += db.count("next_attach", (pending.sequence, pending.version, kept, context.scope))
    return done


def switch(db: Transaction, tenants: Sequence[str], wanted: tuple[str, int], now: int) -> int:
    """Switch the store to the collected vectors of this embedder. Returns the number of records without one."""
    model, present = embedder_of(db)
    gathered, left = next_embedder(db) == wanted, 0
    if present != wanted:
        db.run("meta_set", ("embedder", f"{model + 1} {wanted[1]} {wanted[0]}"))
        db.switch_tenant(STORE_OWNER[0])
        number = audit(db, WriteContext(0, now, None, None), "reembed", "updated", None, None, 0, "system")
    for tenant in tenants:
        db.switch_tenant(tenant)
        if present != wanted:
            if not gathered:
                db.run("next_clear")
            db.run("next_switch", (model + 1,))
            db.run("vector_drop_history")
            db.run("vector_rechange", (number,))
        db.run("next_clear")
        left += int(db.one("pending_count")[0])
    db.run("meta_drop", ("next embedder",))
    return left
