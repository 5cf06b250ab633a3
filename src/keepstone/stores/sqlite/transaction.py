"""SqliteTransaction: named statements on one apsw connection."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apsw
import numpy as np

from keepstone.ports.filters import Filter
from keepstone.ports.values import Matrix, Vector
from keepstone.stores.common.transaction import Values
from keepstone.stores.queries import Queries
from keepstone.stores.sqlite.conditions import Conditions

sql = Queries("keepstone.stores.sqlite", "queries.sql", "queue.sql", "maintenance.sql", "store_copy.sql")


class SqliteTransaction:
    """A transaction on one connection. SQLite keeps all tenants in one file and needs no tenant."""

    __slots__ = ("_run", "db")

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self._run = db.execute

    @property
    def writing(self) -> bool:
        return not self.db.getautocommit()

    def one(self, name: str, values: Values = ()) -> Any:
        found = self._run(sql.texts[name], values).fetchall()  # exhaust it: an open statement pins an old view of the file
        return found[0] if found else None

    def all(self, name: str, values: Values = (), **parts: str) -> list[Any]:
        return list(self.walk(name, values, **parts))

    def walk(self, name: str, values: Values = (), **parts: str) -> Iterator[Any]:
        statement = sql.texts[name]
        for part, text in parts.items():
            statement = statement.replace("{" + part + "}", text)
        return self._run(statement, values)

    stream = walk

    def each(self, name: str, numbers: Sequence[int], values: Mapping[str, Any]) -> list[Any]:
        statement, found = sql.texts[name], []
        for number in numbers:
            found += self._run(statement, {**values, "sequence": number}).fetchall()
        return found

    def run(self, name: str, values: Values = ()) -> None:
        if name == "words_delete":
            # FTS5 gathers changes and writes them at savepoints; with secure-delete, words that are put in and taken out of one
            # row between two of them stay behind, so there is one on either side.
            self._run(sql.texts["savepoint"])
            self._run(sql.texts[name], values)
            self._run(sql.texts["savepoint"])
            return
        self._run(sql.texts[name], values)

    def count(self, name: str, values: Values = ()) -> int:
        self._run(sql.texts[name], values)
        return self.db.changes()

    def next_audit_link(self, tenant: str) -> tuple[int, bytes | None]:
        number, head = self.one("chain_last", (tenant,))
        return number, head

    def record_audit_link(self, tenant: str, number: int, hash: bytes) -> None:
        self._run(sql.texts["chain_extend"], (tenant, number - 1, hash))

    def switch_tenant(self, tenant: str) -> None:
        """Nothing to do: one file holds all tenants."""

    def filtered(self, filter: Filter | None) -> tuple[str, dict[str, Any]]:
        conditions = Conditions()
        return conditions.of(filter), dict(conditions.values)

    def stored(self, vector: Vector) -> bytes:
        return np.ascontiguousarray(vector, dtype="<f4").tobytes()

    def read(self, stored: Sequence[Any], dimension: int) -> Matrix:
        nothing = bytes(dimension * 4)
        whole = b"".join(each if each is not None and len(each) == len(nothing) else nothing for each in stored)
        return np.frombuffer(bytearray(whole), dtype="<f4").reshape(len(stored), dimension).astype(np.float32, copy=False)
