"""Putting records aside, bringing them back, flagging them for review, inside a transaction."""

from __future__ import annotations

from collections.abc import Sequence

from keepstone.stores.common.rows import packed
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import State, WriteContext, audit


def flag(db: Transaction, at: WriteContext, sequence: int, version: int, what: str, reason: str,
         evidence: Sequence[str] = ()) -> None:  # fmt: skip
    """Put a record on the review list."""
    id = db.one("record_name", (sequence,))[0]
    number = audit(db, at, "review", "flagged", None, id, version, "system", (what,))
    db.run("review_add", (number, at.scope, sequence, version, what, reason, packed(list(evidence)), at.now))


def living(db: Transaction, at: WriteContext, query: str, values: tuple[object, ...]) -> State | None:
    """The active record a query finds; one that has expired is put aside, so that another can take its place."""
    row = db.one(query, values)
    state = None if row is None else State(*row)
    return None if state is None or _lapsed(db, at, state) else state


def _lapsed(db: Transaction, at: WriteContext, state: State) -> bool:
    """Whether a record has expired; it is then put aside."""
    if state.expires_at is None or state.expires_at > at.now:
        return False
    number = audit(db, at, "archive", "archived", state.sequence, state.id, state.version, "system")
    db.run("archive_record", (state.sequence, number, at.now, "expired", number))
    return True


def archive(db: Transaction, at: WriteContext, ids: Sequence[str], why: str, ticket: int = 0) -> tuple[int, int]:
    """Make active records expired: (how many, the ticket of the batch: the number of its first line in the trail)."""
    done = 0
    for id in ids:
        row = db.one("record_with_status", (at.scope, id, "active")) or db.one(
            "record_with_status", (at.scope, id, "quarantined")
        )
        if row is not None:
            number = audit(db, at, "archive", "archived", row[0], id, row[1], "system", (why,))
            ticket = ticket or number
            db.run("archive_record", (row[0], number, at.now, why, ticket))
            done += 1
    return done, ticket if done else 0


def restore(db: Transaction, at: WriteContext, ids: Sequence[str], keep_expiry: bool = False) -> list[str]:
    """Make records that were put aside active again, unless another active one has their content or key. Those that came back."""
    back = []
    for id in ids:
        row = db.one("record_with_status", (at.scope, id, "archived"))
        if row is not None and not _taken(db, at, row):
            number = audit(db, at, "archive", "restored", row[0], id, row[1], "system")
            db.run("restore_record", (row[0], number, at.now, keep_expiry))
            back.append(id)
    return back


def _taken(db: Transaction, at: WriteContext, row: tuple[object, ...]) -> bool:
    _, _, _, digest, kind, tag, key = row
    if key is not None:
        return living(db, at, "record_state_by_key", (at.scope, key)) is not None
    return living(db, at, "record_same", (at.scope, digest, kind, tag)) is not None
