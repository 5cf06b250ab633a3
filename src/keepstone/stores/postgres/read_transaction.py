"""Read transaction in which each query is a transaction and a round trip of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import psycopg

from keepstone.stores.common.transaction import Values
from keepstone.stores.postgres.statements import Statement, statement
from keepstone.stores.postgres.transaction import PostgresTransaction

if TYPE_CHECKING:
    from keepstone.stores.postgres.connections import PostgresDriver


class ReadTransaction(PostgresTransaction):
    """Runs each query in one round trip and repeats it after a lost connection."""

    def __init__(self, driver: PostgresDriver, tenant: str) -> None:
        self._driver = driver
        self.tenant = tenant
        self.writing = False
        self._embedder = ...

    def _rows(self, made: Statement, values: Values, prepare: bool | None = None) -> list[Any]:
        return self._asked([(made, values)], prepare)[0]

    def together(self, *asked: tuple[str, Values]) -> list[list[Any]]:
        return self._asked([(statement(name), values) for name, values in asked], None)

    def _asked(self, asked: Sequence[tuple[Statement, Values]], prepare: bool | None) -> list[list[Any]]:
        driver, deadline, tries = self._driver, time.monotonic() + self._driver.session.patience, 0
        while True:
            try:
                with driver.connection() as self.connection:
                    with self.connection.pipeline():  # its end is the transaction's
                        driver.begin(self.connection, self.tenant)
                        cursors = [self._execute(made, values, prepare) for made, values in asked]
                    return [cursor.fetchall() for cursor in cursors]
            except psycopg.Error as error:
                driver.again(error, deadline, tries)
                tries += 1

    def walk(self, name: str, values: Values = (), **parts: str) -> Iterator[Any]:
        return iter(self.all(name, values, **parts))
