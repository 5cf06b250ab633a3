"""SqliteTransaction: named statements on one apsw connection."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from keepstone.ports.filters import Filter, Scalar
from keepstone.ports.values import Matrix, Vector
from keepstone.stores.common.conditions import Conditions, Operand
from keepstone.stores.common.transaction import Values
from keepstone.stores.queries import Queries

sql = Queries(Path(__file__).parent, "queries.sql", "queue.sql", "maintenance.sql", "store_copy.sql")


_REWRITE_ROWS = 32  # above this, writing the full-text index anew is much faster than overwriting each word in it


class SqliteTransaction:
    """A transaction on one connection. SQLite keeps all tenants in one file and needs no tenant."""

    __slots__ = ("_heads", "_number", "_run", "db")

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self._run = db.execute
        self._number = 0  # of this transaction's last audit entry
        self._heads: dict[str, tuple[int, int, bytes]] = {}  # of each tenant: its first new entry, how many, the last one's hash

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
        self._run(sql.texts[name], values)

    def remove_words(self, rows: Sequence[tuple[int, str, str]]) -> None:
        # FTS5 gathers changes and writes them at savepoints; with secure-delete, words that are put in and taken out of one
        # row between two of them stay behind, so there is one on either side.
        many = len(rows) > _REWRITE_ROWS
        self._run(sql.texts["savepoint"])
        if many:
            self._run(sql.texts["words_secure"], (0,))
        for row in rows:
            self._run(sql.texts["words_delete"], row)
        if many:
            self._run(sql.texts["words_optimize"])
            self._run(sql.texts["words_secure"], (1,))
        self._run(sql.texts["savepoint"])

    def count(self, name: str, values: Values = ()) -> int:
        self._run(sql.texts[name], values)
        return self.db.changes()

    def next_audit_link(self, tenant: str) -> tuple[int, bytes | None]:
        if tenant in self._heads:
            return self._number + 1, self._heads[tenant][2]
        number, head = self.one("chain_last", (tenant,))
        return number, head

    def record_audit_link(self, tenant: str, number: int, hash: bytes) -> None:
        first, count, _ = self._heads.get(tenant, (number, 0, hash))
        self._number, self._heads[tenant] = number, (first, count + 1, hash)

    def finish(self) -> None:
        """Write down where the audit chains end by now."""
        for tenant, (first, count, hash) in self._heads.items():
            self._run(sql.texts["chain_extend"], (tenant, first - 1, count, hash))

    def switch_tenant(self, tenant: str) -> None:
        """Nothing to do: one file holds all tenants."""

    def filtered(self, filter: Filter | None) -> tuple[str, dict[str, Any]]:
        conditions = SqliteConditions()
        return conditions.of(filter), dict(conditions.values)

    def stored(self, vector: Vector) -> bytes:
        return np.ascontiguousarray(vector, dtype="<f4").tobytes()

    def read(self, stored: Sequence[Any], dimension: int) -> Matrix:
        nothing = bytes(dimension * 4)
        whole = bytearray().join([each if each is not None and len(each) == len(nothing) else nothing for each in stored])
        return np.frombuffer(whole, dtype="<f4").reshape(len(stored), dimension).astype(np.float32, copy=False)


class SqliteConditions(Conditions):
    def lookup(self, path: tuple[str, ...]) -> Operand:
        where = self.bind("$" + "".join("." + json.dumps(step, ensure_ascii=False) for step in path))
        return f"json_type(r.metadata, {where})", f"json_extract(r.metadata, {where})"

    def is_bool(self, found: Operand, value: bool) -> str:
        return f"({found[0]} = '{'true' if value else 'false'}')"

    def compare(self, found: Operand, operator: str, value: str | float) -> str:
        return f"({found[0]} IN ({_types(value)}) AND {found[1]} {operator} {self.bind(value)})"

    def any_of(self, found: Operand, values: list[Any]) -> str:
        listed = self.bind(json.dumps(values))
        return f"({found[0]} IN ({_types(values[0])}) AND {found[1]} IN (SELECT value FROM json_each({listed})))"

    def has_text(self, text: str) -> str:
        return f"(instr(r.content, {self.bind(text)}) > 0)"

    def contains(self, found: Operand, value: Scalar) -> str:
        elements = found[1].replace("json_extract", "json_each")
        held = f"EXISTS (SELECT 1 FROM {elements} AS e WHERE {self.equal(('e.type', 'e.value'), value)})"
        inside = f"({found[0]} = 'text' AND instr({found[1]}, {self.bind(value)}) > 0)" if isinstance(value, str) else "FALSE"
        return f"(({found[0]} = 'array' AND {held}) OR {inside})"


def _types(value: str | float) -> str:
    return "'text'" if isinstance(value, str) else "'integer', 'real'"
