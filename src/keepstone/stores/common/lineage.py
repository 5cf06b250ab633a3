"""What each version of a record was derived from, inside a transaction.

A version that was said more than once has several supports. Forgetting what one of them rests on takes that support away; with
the last one the version goes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from keepstone.ports.values import Support
from keepstone.stores.common.rows import packed
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import WriteContext

DIRECT = ""  # the parent of what was said as it is, derived from nothing
_MOST = 32  # supports of one version that are kept: beyond, it is well supported


def derived(db: Transaction, at: WriteContext, sequence: int, version: int, parents: Sequence[str], session: str | None) -> None:
    """A version with its first support; none where it is derived from nothing."""
    for parent in parents:
        db.run("lineage_add", (at.scope, parent, sequence, version, 0, session))


def restored(db: Transaction, at: WriteContext, sequence: int, held: Support) -> None:
    """A support as an export has it."""
    for parent in held.parents or (DIRECT,):
        db.run("lineage_add", (at.scope, parent, sequence, held.version, held.number, held.session))


def carried(db: Transaction, sequence: int, before: int, after: int) -> None:
    """The next version rests on the same as the one before."""
    db.run("lineage_copy", (sequence, before, after))


def supported(
    db: Transaction, at: WriteContext, sequence: int, version: int, was: tuple[Sequence[str], str | None],
    new: tuple[Sequence[str], str | None],
) -> None:  # fmt: skip
    """What was said again elsewhere is one more support of it."""
    parents, session = new
    if tuple(parents) == tuple(was[0]) and session == was[1]:
        return
    known = supports(db, sequence, version)
    if not known:
        if not was[0] and was[1] is None:
            return  # it was said directly, outside of any session: nothing but itself can take it back
        for parent in was[0] or (DIRECT,):
            db.run("lineage_add", (at.scope, parent, sequence, version, 0, was[1]))
        known = [(0, tuple(was[0]), was[1])]
    if len(known) >= _MOST or any(tuple(parents) == held and session == where for _, held, where in known):
        return
    number = known[-1][0] + 1
    for parent in parents or (DIRECT,):
        db.run("lineage_add", (at.scope, parent, sequence, version, number, session))


def supports(db: Transaction, sequence: int, version: int) -> list[tuple[int, tuple[str, ...], str | None]]:
    """(number, parents, session) of each support of a version."""
    rows = db.all("lineage_supports", (sequence, version))
    found = []
    for number, group in groupby(rows, key=lambda row: row[0]):
        members = list(group)
        found.append((number, tuple(row[1] for row in members if row[1] != DIRECT), members[0][2]))
    return found


def withdrawn(db: Transaction, sequence: int, version: int, support: int) -> bool:
    """Take one support away. Whether the version still has another."""
    db.run("lineage_drop_support", (sequence, version, support))
    return bool(supports(db, sequence, version))


def promoted(db: Transaction, at: WriteContext, sequence: int, version: int) -> None:
    """Let a record show the first support that it still has, and be trusted no more than what that rests on."""
    _, parents, session = supports(db, sequence, version)[0]
    held = packed(list(parents))
    least = db.one("record_least_trust", (at.scope, held))[0] if parents else None
    db.run("record_support", (sequence, session, held, least))
