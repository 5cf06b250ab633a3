"""PostgresTransaction: named statements in one transaction, and vectors as half-precision floats."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg

from keepstone.ports.filters import Filter, Scalar
from keepstone.ports.values import Matrix, Vector
from keepstone.stores.common.conditions import Conditions, Operand
from keepstone.stores.common.transaction import Lookup, Values
from keepstone.stores.postgres.statements import Statement, statement
from keepstone.stores.postgres.wire import Halves, PipelinedConnection, Reply
from keepstone.text.words import MARKS

BLOCK = 64  # audit numbers that a transaction reserves at once; the increment of the sequence
_FETCHED = 1000  # rows fetched at once
_HEADER = struct.Struct(">hh")
_READ_COUNT = statement("access_add")
_cursors = count()

if TYPE_CHECKING:
    from keepstone.stores.postgres.connections import PostgresDriver


Proof = tuple[int, bytes]  # number and hash of an audit entry


class PostgresTransaction:
    """One transaction. Statements without a result are sent together with the next that has one."""

    def __init__(self, connection: PipelinedConnection, tenant: str, *, writing: bool = False) -> None:
        self.connection = connection
        self.tenant = tenant
        self.writing = writing
        self.proof: Proof | None = None  # its last audit entry
        self.links = 0  # audit entries of this transaction
        self.head: bytes | None = None
        self.start: int | None = None
        self._next, self._end = 0, 0  # what is left of the block of numbers
        self._changed = False  # by more than counts of reads
        self._embedder: Any = ...
        self._found: dict[Lookup, list[Any]] = {}  # what was asked in advance

    def _queue(self, made: Statement, values: Values, prepare: bool = True) -> Reply:
        self._changed = self._changed or made != _READ_COUNT
        return self.connection.queue(made.text, made.values(values, self.tenant), prepare)

    def _rows(self, made: Statement, values: Values, prepare: bool = True) -> list[Any]:
        return self.connection.rows(self._queue(made, values, prepare))

    def one(self, name: str, values: Values = ()) -> Any:
        if name == "meta_embedder" and self._embedder is not ...:
            return self._embedder
        rows = self.all(name, values)
        return rows[0] if rows else None

    def all(self, name: str, values: Values = (), **parts: str) -> list[Any]:
        if self._found and (found := self._found.pop(_without_time(name, values), None)) is not None:
            return found
        # A statement with parts is planned anew each time, for the values it has: only so is a scope's own index thought of.
        made = statement(name, tuple(parts.items())) if parts else statement(name)
        return self._rows(made, values, not parts)

    def stream(self, name: str, values: Values = ()) -> Iterator[Any]:
        return iter(self.all(name, values))

    def walk(self, name: str, values: Values = (), **parts: str) -> Iterator[Any]:
        made = statement(name, tuple(parts.items()))
        cursor = f"walk{next(_cursors)}"
        self._queue(Statement(f"DECLARE {cursor} NO SCROLL CURSOR FOR {made.text}", made.names, made.tenant), values, False)
        fetch = Statement(f"FETCH {_FETCHED} FROM {cursor}", None, False)
        while rows := self._rows(fetch, (), False):
            yield from rows
            if len(rows) < _FETCHED:
                break

    def together(self, *asked: tuple[str, Values]) -> list[list[Any]]:
        """The rows of several queries that travel together, in the order they are asked."""
        replies = [self._queue(statement(name), values) for name, values in asked]
        return [self.connection.rows(reply) for reply in replies]

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
        self._queue(statement(name), values)

    def remove_words(self, rows: Sequence[tuple[int, str, str]]) -> None:
        self._queue(statement("words_delete"), ([number for number, _, _ in rows], rows[0][1]))

    def count(self, name: str, values: Values = ()) -> int:
        return self.connection.changed(self._queue(statement(name), values))

    # -- the audit log --------------------------------------------------------------------------------------------
    def hold(self, lookups: Sequence[Lookup] = ()) -> None:
        """Take the tenant for this transaction, and what it will need from there. The queries travel together."""
        changed = self._changed
        ahead: list[Lookup] = [("numbers_take", ()), *lookups] if lookups else []
        held, embedder, *found = self.together(("tenant_hold", ()), ("meta_embedder", ()), *ahead)
        if not held:  # the tenant's first write; until now others might have written too
            self.run("tenant_add")
            held = self.all("tenant_hold")
        elif found:
            self._take(found[0][0][0])
            self._found = {_without_time(*asked): rows for asked, rows in zip(lookups, found[1:], strict=True)}
        self.head, self.start = held[0]
        self._changed = changed
        self._embedder = embedder[0] if embedder else None

    def written(self, lookups: Sequence[Lookup]) -> None:
        """Drop what was found in advance in the scope that one of several writes has changed; without lookups it is unknown."""
        scopes = {values[0] for _, values in lookups}
        self._found = {asked: rows for asked, rows in self._found.items() if scopes and asked[1][0] not in scopes}

    def next_audit_link(self, tenant: str) -> tuple[int, bytes | None]:
        if self._next == self._end:
            self._take(self.one("numbers_take")[0])
        return self._next, self.head

    def _take(self, first: int) -> None:
        """Take a block of numbers for audit entries."""
        self._next, self._end = first, first + BLOCK

    def record_audit_link(self, tenant: str, number: int, hash: bytes) -> None:
        if self.start is None:
            self.start = number - 1
        self.head, self._next, self.links = hash, number + 1, self.links + 1
        self.proof = (number, hash)

    def proved(self, proof: Proof) -> bool:
        """Whether the audit entry of an earlier attempt is committed."""
        return bool(self.all("link_there", proof))

    def settle(self) -> None:
        """Write down where the tenant's chain ends by now. Counts of reads are not waited for until they are on disk."""
        if self._changed:
            self._queue(statement("tenant_done"), (self.links, self.head, self.start))
            self.links = 0
        else:
            self._queue(statement("commit_later"), ())

    def switch_tenant(self, tenant: str) -> None:
        """Go on with another tenant, in a transaction that holds the whole store."""
        if tenant != self.tenant:
            self.settle()
            self.tenant = tenant
            self._queue(statement("visit_tenant"), (tenant,))
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
        conditions = PostgresConditions()
        return conditions.of(filter), conditions.values

    def stored(self, vector: Vector) -> Halves:
        return Halves(_HEADER.pack(len(vector), 0) + vector.astype(">f2").tobytes())

    def read(self, stored: Sequence[Any], dimension: int) -> Matrix:
        size = _HEADER.size + dimension * 2
        nothing = bytes(dimension * 2)
        whole = b"".join(each[_HEADER.size :] if each is not None and len(each) == size else nothing for each in stored)
        return np.frombuffer(whole, dtype=">f2").reshape(len(stored), dimension).astype(np.float32)


def _without_time(name: str, values: Values) -> Lookup:
    """What a lookup is found by: one that was run in advance had the time of then."""
    return name, tuple(values[:4]) if isinstance(values, Sequence) else ()


class PostgresConditions(Conditions):
    def lookup(self, path: tuple[str, ...]) -> Operand:
        # By name step for step: a number among the steps is never an index of an array.
        found = "(r.metadata::jsonb" + "".join(f" -> {self.bind(step)}::text" for step in path) + ")"
        return f"jsonb_typeof({found})", found

    def is_bool(self, found: Operand, value: bool) -> str:
        return f"({found[1]} = '{'true' if value else 'false'}'::jsonb)"

    def compare(self, found: Operand, operator: str, value: str | float) -> str:
        if isinstance(value, str):
            return f'({_text(found)} {operator} {self.bind(value)}::text COLLATE "C")'
        return f"({_number(found)} {operator} {self.bind(repr(value))}::numeric)"

    def any_of(self, found: Operand, values: list[Any]) -> str:
        if isinstance(values[0], str):
            return f"{_text(found)} = ANY ({self.bind(values)}::text[])"
        return f"{_number(found)} = ANY ({self.bind([repr(value) for value in values])}::numeric[])"

    def has_text(self, text: str) -> str:
        return f"(strpos(r.content, {self.bind(text)}::text) > 0)"

    def contains(self, found: Operand, value: Scalar) -> str:
        elements = f"jsonb_array_elements(CASE WHEN {found[0]} = 'array' THEN {found[1]} ELSE '[]'::jsonb END)"
        equal = self.equal(("jsonb_typeof(e.value)", "e.value"), value)
        inside = f" OR strpos({_text(found)}, {self.bind(value)}::text) > 0" if isinstance(value, str) else ""
        return f"(EXISTS (SELECT 1 FROM {elements} AS e (value) WHERE {equal}){inside})"


def _text(found: Operand) -> str:
    """A value as a text; NULL if it is none. A CASE, because conditions are not evaluated in the order they are written."""
    return f"(CASE WHEN {found[0]} = 'string' THEN {found[1]} #>> '{{}}' END)"


def _number(found: Operand) -> str:
    return f"(CASE WHEN {found[0]} = 'number' THEN ({found[1]})::numeric END)"


class ReadTransaction(PostgresTransaction):
    """Runs each query in one round trip and repeats it after a lost connection."""

    def __init__(self, driver: PostgresDriver, tenant: str) -> None:
        self._driver = driver
        self.tenant = tenant
        self.writing = self._changed = False
        self._embedder = ...
        self._found = {}

    def _rows(self, made: Statement, values: Values, prepare: bool = True) -> list[Any]:
        return self._asked([(made, values)], prepare)[0]

    def together(self, *asked: tuple[str, Values]) -> list[list[Any]]:
        return self._asked([(statement(name), values) for name, values in asked])

    def _asked(self, asked: Sequence[tuple[Statement, Values]], prepare: bool = True) -> list[list[Any]]:
        driver, deadline, tries = self._driver, time.monotonic() + self._driver.session.patience, 0
        while True:
            try:
                with driver.connection() as self.connection:
                    driver.begin(self.connection, self.tenant)
                    replies = [self._queue(made, values, prepare) for made, values in asked]
                    return [self.connection.rows(reply) for reply in replies]
            except psycopg.Error as error:
                driver.again(error, deadline, tries)
                tries += 1

    def walk(self, name: str, values: Values = (), **parts: str) -> Iterator[Any]:
        return iter(self.all(name, values, **parts))
