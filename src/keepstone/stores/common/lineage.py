"""Lineage: what each version of a record was derived from.

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

DIRECT = ""  # the parent of what was stated directly
_MAX_SUPPORTS = 32  # of one version; further repetitions are not recorded


def add_first_support(
    db: Transaction, context: WriteContext, sequence: int, version: int, parents: Sequence[str], session: str | None
) -> None:
    """Record the first support of a version; nothing if it was stated directly."""
    for parent in parents:
        db.run("lineage_add", (context.scope, parent, sequence, version, 0, session))


def import_support(db: Transaction, context: WriteContext, sequence: int, held: Support) -> None:
    """Record a support of an imported version."""
    for parent in held.parents or (DIRECT,):
        db.run("lineage_add", (context.scope, parent, sequence, held.version, held.number, held.session))


def copy_supports(db: Transaction, sequence: int, before: int, after: int) -> None:
    """Copy the supports of a version to the next."""
    db.run("lineage_copy", (sequence, before, after))


def add_support(
    db: Transaction, context: WriteContext, sequence: int, version: int, was: tuple[Sequence[str], str | None],
    new: tuple[Sequence[str], str | None],
) -> None:  # fmt: skip
    """Add a support for a repetition."""
    parents, session = new
    if tuple(parents) == tuple(was[0]) and session == was[1]:
        return
    known = supports(db, sequence, version)
    if not known:
        if not was[0] and was[1] is None:
            return  # stated directly, outside of any session: it needs no other support
        for parent in was[0] or (DIRECT,):
            db.run("lineage_add", (context.scope, parent, sequence, version, 0, was[1]))
        known = [(0, tuple(was[0]), was[1])]
    if len(known) >= _MAX_SUPPORTS or any(tuple(parents) == held and session == where for _, held, where in known):
        return
    number = known[-1][0] + 1
    for parent in parents or (DIRECT,):
        db.run("lineage_add", (context.scope, parent, sequence, version, number, session))


def supports(db: Transaction, sequence: int, version: int) -> list[tuple[int, tuple[str, ...], str | None]]:
    """(number, parents, session) of each support of a version."""
    rows = db.all("lineage_supports", (sequence, version))
    found = []
    for number, group in groupby(rows, key=lambda row: row[0]):
        members = list(group)
        found.append((number, tuple(row[1] for row in members if row[1] != DIRECT), members[0][2]))
    return found


def drop_support(db: Transaction, sequence: int, version: int, support: int) -> bool:
    """Remove a support. Returns whether the version has another."""
    db.run("lineage_drop_support", (sequence, version, support))
    return bool(supports(db, sequence, version))


def promote_support(db: Transaction, context: WriteContext, sequence: int, version: int) -> None:
    """Set parents, session and trust of a record to its first remaining support."""
    _, parents, session = supports(db, sequence, version)[0]
    held = packed(list(parents))
    least = db.one("record_least_trust", (context.scope, held))[0] if parents else None
    db.run("record_support", (sequence, session, held, least))
