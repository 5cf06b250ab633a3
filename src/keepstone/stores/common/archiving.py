"""Archiving, restoring and flagging of records inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from keepstone.stores.common.rows import packed
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import State, WriteContext, audit


def flag(db: Transaction, context: WriteContext, sequence: int, version: int, what: str, reason: str,
         evidence: Sequence[str] = ()) -> None:  # fmt: skip
    """Put a record on the review list."""
    id = db.one("record_name", (sequence,))[0]
    number = audit(db, context, "review", "flagged", None, id, version, "system", (what,))
    db.run("review_add", (number, context.scope, sequence, version, what, reason, packed(list(evidence)), context.now))


def find_living(db: Transaction, context: WriteContext, query: str, values: tuple[object, ...]) -> State | None:
    """The active record that a query finds. An expired one is archived, so that another can replace it."""
    row = db.one(query, values)
    state = None if row is None else State(*row)
    return None if state is None or _lapsed(db, context, state) else state


def _lapsed(db: Transaction, context: WriteContext, state: State) -> bool:
    """Archive a record if it has expired. Returns whether it has."""
    if state.expires_at is None or state.expires_at > context.now:
        return False
    number = audit(db, context, "archive", "archived", state.sequence, state.id, state.version, "system")
    db.run("archive_record", (state.sequence, number, context.now, "expired", number))
    return True


def archive(db: Transaction, context: WriteContext, ids: Sequence[str], why: str, ticket: int = 0) -> tuple[int, int]:
    """Archive active records. Returns (number of records, ticket of the batch: its first audit number)."""
    done = 0
    for id in ids:
        row = db.one("record_with_status", (context.scope, id, "active")) or db.one(
            "record_with_status", (context.scope, id, "quarantined")
        )
        if row is not None:
            number = audit(db, context, "archive", "archived", row[0], id, row[1], "system", (why,))
            ticket = ticket or number
            db.run("archive_record", (row[0], number, context.now, why, ticket))
            done += 1
    return done, ticket if done else 0


def restore(db: Transaction, context: WriteContext, ids: Sequence[str], keep_expiry: bool = False) -> list[str]:
    """Make archived records active again, unless another active one has their content or key. Returns the restored ids."""
    back = []
    for id in ids:
        row = db.one("record_with_status", (context.scope, id, "archived"))
        if row is not None and not _taken(db, context, row):
            number = audit(db, context, "archive", "restored", row[0], id, row[1], "system")
            db.run("restore_record", (row[0], number, context.now, keep_expiry))
            back.append(id)
    return back


def _taken(db: Transaction, context: WriteContext, row: tuple[object, ...]) -> bool:
    _, _, _, digest, kind, tag, key = row
    if key is not None:
        return find_living(db, context, "record_state_by_key", (context.scope, key)) is not None
    return find_living(db, context, "record_same", (context.scope, digest, kind, tag)) is not None
