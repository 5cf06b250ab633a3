"""The tables of a store as they are copied: read by pages, checked, and hashed in the same way on every engine.

A row is the same in every engine but for three things: the number of its scope, which is the engine's own and stands here for the
owner's names; its vector, which is compared as 16-bit floats; and its words, which are made anew from the record. The hashes of a
table's rows are added up, so that each engine may read them in the order of its own keys.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np

from keepstone.errors import StoreDamaged
from keepstone.ports.values import Vector
from keepstone.stores.common.rows import content_hash
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER

Owner = tuple[str, str, str]  # tenant, agent, user
Key = Sequence[Any]
_BEFORE = -(2**62)  # before every number
_ALL = 2**62
_PAGE = 500
_WHOLE = 2**256


@dataclass(frozen=True, slots=True)
class Table:
    """How one table is moved: its statements, and where in a row stand its key, its scope, its vector, a content and its hash.
    `apart`: the scope is that of the record, comes last and is not written; None in its place: the row begins with its tenant."""

    name: str
    reads: str
    writes: str
    first: tuple[Any, ...]  # a key before every other
    key: tuple[int, ...] = (0,)
    scope: int | None = 1
    apart: bool = False
    vector: int | None = None
    content: tuple[int, int] | None = None
    words: tuple[int, int] | None = None  # what words are made of: content and key


_NUMBER, _NAME = (_BEFORE,), (_BEFORE, "")
TABLES = (
    Table("audit", "moving_audit", "audit_add", _NUMBER),
    Table("record", "moving_record", "moved_record", _NUMBER, content=(7, 8), words=(7, 6)),
    Table("history", "moving_history", "moved_history", (_BEFORE, _BEFORE), (0, 1), 21, True, 20, (2, 3)),
    Table("vector", "moving_vector", "vector_add", (_BEFORE, _BEFORE), (7, 0), 7, True, 4),
    Table("access", "moving_access", "access_restore", _NUMBER, scope=3, apart=True),
    Table("idempotency", "moving_idempotency", "idempotency_add", _NAME, (0, 1), 0),
    Table("state", "moving_state", "state_put", _NAME, (0, 1), 0),
    Table("job", "moving_job", "moved_job", _NUMBER),
    Table("lineage", "moving_lineage", "lineage_add", (_BEFORE, "", 0, 0, 0), (0, 1, 2, 3, 4), 0),
    Table("review", "moving_review", "moved_review", _NUMBER),
    Table("bucket", "moving_bucket", "bucket_put", _NAME, (0, 1), 0),
    Table("vector_next", "moving_next", "moved_next", _NUMBER, scope=3, apart=True, vector=2),
    Table("chain", "moving_chain", "moved_chain", (None,), scope=None),
)


class Item(NamedTuple):
    """A row on its way: whose it is, as it was read, and its vector."""

    owner: Owner
    row: Sequence[Any]
    vector: Vector | None

    def written(self, db: Transaction, table: Table, scope: int) -> list[Any]:
        """The values for the other side's statement."""
        row = list(self.row)
        if table.vector is not None:
            row[table.vector] = None if self.vector is None else db.stored(self.vector)
        if table.apart:
            row.pop()
        elif table.scope is not None:
            row[table.scope] = scope
        return row

    def hashed(self, table: Table) -> int:
        """The row as a number that is the same in every engine."""
        row = list(self.row)
        if table.vector is not None:
            row[table.vector] = None if self.vector is None else self.vector.astype("<f2").tobytes()
        if table.scope is not None:
            row[table.scope] = self.owner
        return int.from_bytes(hashlib.sha256(repr(row).encode("utf-8", "surrogatepass")).digest(), "big")


class Tally:
    """How many rows each tenant has in each table, and the sum of their hashes."""

    def __init__(self) -> None:
        self.rows: dict[tuple[str, str], tuple[int, int]] = {}
        self.last = 0  # the largest audit number

    def add(self, tenant: str, table: str, hash: int) -> None:
        """One more row."""
        count, total = self.rows.get((tenant, table), (0, 0))
        self.rows[tenant, table] = count + 1, (total + hash) % _WHOLE

    def tables(self) -> dict[str, int]:
        """How many rows of each table there are in all."""
        found = dict.fromkeys(("scope", *(table.name for table in TABLES)), 0)
        for (_, table), (count, _) in self.rows.items():
            found[table] += count
        return found

    def digest(self) -> str:
        """All of it as one hash."""
        return hashlib.sha256(repr(sorted(self.rows.items())).encode("utf-8", "surrogatepass")).hexdigest()

    def differences(self, other: Tally) -> list[str]:
        """Where two are not the same, in words."""
        found = []
        for tenant, table in sorted(self.rows.keys() | other.rows.keys()):
            here, there = (each.rows.get((tenant, table), (0, 0)) for each in (self, other))
            if here != there:
                how = f"{here[0]} rows here, {there[0]} there" if here[0] != there[0] else f"{here[0]} rows, not the same ones"
                found.append(f"{table} of {f'tenant {tenant!r}' if tenant else 'the whole store'}: {how}")
        return found


class View:
    """A part of a store in one read transaction: a tenant's rows, or all rows of an engine that keeps them in one
    place. `only` is the tenant that is wanted of those; `widths` are those of the present and of the next vectors."""

    def __init__(self, db: Transaction, label: str, only: str | None, widths: tuple[int | None, int | None]) -> None:
        self.db = db
        self._label = label
        self._only = only
        self._widths = widths
        self.owners: dict[int, Owner] = {0: STORE_OWNER}
        for number, *owner in self._walk("moving_scope", _NUMBER):
            self.owners[number] = (owner[0], owner[1], owner[2])

    def _walk(self, reads: str, after: Key) -> Iterator[Sequence[Any]]:
        place = dict(zip("abcde", after, strict=False))
        return self.db.walk(reads, {**place, "tenant": self._only, "limit": _ALL})

    def pages(self, table: Table, after: Key | None = None) -> Iterator[list[Item]]:
        """A table's rows, in the order of its keys, from after a key on."""
        rows = self._walk(table.reads, table.first if after is None else after)
        while page := list(islice(rows, _PAGE)):
            yield self._items(table, page)

    def tally(self, tally: Tally) -> Iterator[int]:
        """Count and hash all rows; how many more were read, now and then."""
        for owner in self.owners.values():
            if owner != STORE_OWNER:
                tally.add(owner[0], "scope", Item(owner, owner, None).hashed(TABLES[-1]))
        for table in TABLES:
            for page in self.pages(table):
                for item in page:
                    tally.add(item.owner[0], table.name, item.hashed(table))
                if table.name == "audit":
                    tally.last = max(tally.last, page[-1].row[0])
                yield len(page)

    def _items(self, table: Table, page: Sequence[Sequence[Any]]) -> list[Item]:
        vectors = self._vectors(table, page)
        items = []
        for at, row in enumerate(page):
            owner = (str(row[0]), "", "") if table.scope is None else self.owners.get(row[table.scope])
            if owner is None:
                raise self._damaged(table, row, "belongs to no record and no scope")
            if table.content is not None and content_hash(row[table.content[0]]) != row[table.content[1]]:
                raise self._damaged(table, row, "does not hold what was stored")
            items.append(Item(owner, row, vectors[at]))
        return items

    def _vectors(self, table: Table, page: Sequence[Sequence[Any]]) -> Sequence[Vector | None]:
        if table.vector is None:
            return [None] * len(page)
        stored = [row[table.vector] for row in page]
        width = self._widths[table.name == "vector_next"]
        matrix = self.db.read(stored, width or 1)
        halves = matrix.astype(np.float16)
        usable = np.asarray(np.isfinite(halves).all(axis=1) & halves.any(axis=1))
        for at, (row, each) in enumerate(zip(page, stored, strict=True)):
            if each is not None and not (width and usable[at]):
                raise self._damaged(table, row, "has a vector that cannot be used")
        return [None if each is None else matrix[at] for at, each in enumerate(stored)]

    def _damaged(self, table: Table, row: Sequence[Any], what: str) -> StoreDamaged:
        key = ", ".join(str(row[at])[:40] for at in table.key)
        return StoreDamaged(
            f"{self._label}: row {key} of table {table.name} {what}, so it is not moved. 'keepstone doctor --db {self._label}' "
            "shows what is wrong; restore a backup, or save what can be read with 'keepstone export'."
        )
