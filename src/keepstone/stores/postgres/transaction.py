"""PostgresTransaction: named statements in one transaction, and vectors as half-precision floats."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np
import psycopg
from psycopg.adapt import Dumper, Loader
from psycopg.pq import Format

from keepstone.ports.filters import Filter
from keepstone.ports.values import Matrix, Vector
from keepstone.stores.common.transaction import Values
from keepstone.stores.postgres.conditions import Conditions
from keepstone.stores.postgres.statements import Statement, statement
from keepstone.text.words import MARKS

BLOCK = 64  # audit numbers that a transaction reserves at once; the increment of the sequence
_FETCHED = 1000  # rows fetched at once
_HEADER = struct.Struct(">hh")
_cursors = count()


Proof = tuple[int, bytes]  # number and hash of an audit entry


class Halves(bytes):
    """A vector as pgvector sends it: its width, then 16-bit floats."""

    __slots__ = ()


class HalvesDumper(Dumper):
    """Halves go to the server as they are; the type's number is the database's own and set on each connection."""

    format = Format.BINARY

    def dump(self, obj: Halves) -> bytes:
        return bytes(obj)


class HalvesLoader(Loader):
    """Halves come from the server as they are: many are made into a matrix at once."""

    format = Format.BINARY

    def load(self, data: Any) -> Halves:
        return Halves(data)


class PostgresTransaction:
    """One transaction. Statements without a result are sent together with the next that has one."""

    def __init__(
        self, connection: psycopg.Connection[Any], pipeline: psycopg.Pipeline, tenant: str, *, writing: bool = False
    ) -> None:
        self.connection = connection
        self.pipeline = pipeline
        self.tenant = tenant
        self.writing = writing
        self.proof: Proof | None = None  # its last audit entry
        self.links = 0  # audit entries of this transaction
        self.head: bytes | None = None
        self.start: int | None = None
        self._next, self._end = 0, 0  # what is left of the block of numbers
        self._embedder: Any = ...

    def _execute(self, made: Statement, values: Values, prepare: bool | None = None) -> psycopg.Cursor[Any]:
        return self.connection.execute(made.text.encode(), made.values(values, self.tenant), prepare=prepare, binary=True)

    def _rows(self, made: Statement, values: Values, prepare: bool | None = None) -> list[Any]:
        return self._execute(made, values, prepare).fetchall()

    def one(self, name: str, values: Values = ()) -> Any:
        if name == "meta_embedder" and self._embedder is not ...:
            return self._embedder
        rows = self._rows(statement(name), values)
        return rows[0] if rows else None

    def all(self, name: str, values: Values = (), **parts: str) -> list[Any]:
        # A statement with parts is planned anew each time, for the values it has: only so is a scope's own index thought of.
        made = statement(name, tuple(parts.items())) if parts else statement(name)
        return self._rows(made, values, False if parts else None)

    def stream(self, name: str, values: Values = ()) -> Iterator[Any]:
        return iter(self.all(name, values))

    def walk(self, name: str, values: Values = (), **parts: str) -> Iterator[Any]:
        made = statement(name, tuple(parts.items()))
        cursor = f"walk{next(_cursors)}"
        self._execute(Statement(f"DECLARE {cursor} NO SCROLL CURSOR FOR {made.text}", made.names, made.tenant), values, False)
        fetch = Statement(f"FETCH {_FETCHED} FROM {cursor}", None, False)
        while rows := self._execute(fetch, (), False).fetchall():
            yield from rows
            if len(rows) < _FETCHED:
                break

    def together(self, *asked: tuple[str, Values]) -> list[list[Any]]:
        """The rows of several queries that travel together, in the order they are asked."""
        cursors = [self._execute(statement(name), values) for name, values in asked]
        return [cursor.fetchall() for cursor in cursors]

    def each(self, name: str, numbers: Sequence[int], values: Mapping[str, Any]) -> list[Any]:
        if not numbers:
            return []
        return self._rows(statement(name), {**values, "sequences": list(numbers)})

    def run(self, name: str, values: Values = ()) -> None:
        if name == "meta_set":
            self._embedder = ...
        elif name == "words_add":  # ranking's marks are no words
            sequence, token, text = values
            values = (sequence, token, " ".join(term for term in text.split(" ") if term not in MARKS))
        self._execute(statement(name), values)

    def count(self, name: str, values: Values = ()) -> int:
        cursor = self._execute(statement(name), values)
        self.pipeline.sync()
        return cursor.rowcount

    # -- the audit log --------------------------------------------------------------------------------------------
    def hold(self) -> None:
        """Take the tenant for this transaction, and what it will need from there. The queries travel together."""
        held = self._execute(statement("tenant_hold"), ())
        embedder = self._execute(statement("meta_embedder"), ())
        row = held.fetchone()
        if row is None:  # the tenant's first write
            self._execute(statement("tenant_add"), ())
            row = self._execute(statement("tenant_hold"), ()).fetchone()
            assert row is not None
        self.head, self.start = row
        self._embedder = embedder.fetchone()

    def next_audit_link(self, tenant: str) -> tuple[int, bytes | None]:
        if self._next == self._end:
            first = self._execute(statement("numbers_take"), ()).fetchone()
            assert first is not None
            self._next, self._end = first[0], first[0] + BLOCK
        return self._next, self.head

    def record_audit_link(self, tenant: str, number: int, hash: bytes) -> None:
        if self.start is None:
            self.start = number - 1
        self.head, self._next, self.links = hash, number + 1, self.links + 1
        self.proof = (number, hash)

    def proved(self, proof: Proof) -> bool:
        """Whether the audit entry of an earlier attempt is committed."""
        return bool(self._rows(statement("link_there"), proof))

    def settle(self) -> None:
        """Write down where the tenant's chain ends by now."""
        if self.writing and self.tenant is not None:
            self._execute(statement("tenant_done"), (self.links, self.head, self.start))
            self.links = 0

    def switch_tenant(self, tenant: str) -> None:
        """Go on with another tenant, in a transaction that holds the whole store."""
        if tenant != self.tenant:
            self.settle()
            self.tenant = tenant
            self._execute(statement("visit_tenant"), (tenant,))
            self.hold()

    def kept(self) -> tuple[Any, ...]:
        """Where the chain is, to come back to if a part of the transaction is undone."""
        return self.links, self.head, self.start, self.proof

    def back(self, kept: tuple[Any, ...]) -> None:
        """The chain as it was; numbers that were taken are not given again."""
        self.links, self.head, self.start, self.proof = kept
        self._embedder = ...

    # -- vectors and filters --------------------------------------------------------------------------------------
    def filtered(self, filter: Filter | None) -> tuple[str, dict[str, Any]]:
        conditions = Conditions()
        return conditions.of(filter), conditions.values

    def stored(self, vector: Vector) -> Halves:
        return Halves(_HEADER.pack(len(vector), 0) + vector.astype(">f2").tobytes())

    def read(self, stored: Sequence[Any], dimension: int) -> Matrix:
        size = _HEADER.size + dimension * 2
        nothing = bytes(dimension * 2)
        whole = b"".join(each[_HEADER.size :] if each is not None and len(each) == size else nothing for each in stored)
        return np.frombuffer(whole, dtype=">f2").reshape(len(stored), dimension).astype(np.float32)
