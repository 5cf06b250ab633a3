"""Where a store's scopes are looked up, and what a transaction needs to know before it writes there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from keepstone.errors import StoreError
from keepstone.ports.stores import Clock
from keepstone.stores.common.transaction import Driver, Transaction
from keepstone.stores.common.write_context import WriteContext
from keepstone.text.times import micros
from keepstone.types import Scope

T = TypeVar("T")


class ScopeCatalog:
    """The driver of a store with what it has learned so far: the numbers of scopes, and the embedder this process has."""

    def __init__(self, driver: Driver, clock: Clock, after_write: Callable[[], None] = lambda: None) -> None:
        self.driver = driver
        self.clock = clock
        self.bound: tuple[str, int] | None = None
        self._after_write = after_write
        self._scopes: dict[Scope, int] = {}
        self._written: set[Scope] = set()  # by a transaction that may yet be rolled back

    def reading(self, tenant: str, *, consistent: bool = False) -> AbstractContextManager[Transaction]:
        """A hand to read a tenant with."""
        return self.driver.reading(tenant, consistent=consistent)

    def consistently(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Read something whose queries all see one state of the store."""
        return self.driver.consistently(tenant, work)

    def write(self, tenant: str, work: Callable[[Transaction], T]) -> T:
        """Commit some work; what it gives is given back."""
        result = self.driver.writing(tenant, work)
        with contextlib.suppress(StoreError):  # it is committed, whatever becomes of the server now
            self.committed()
        with contextlib.suppress(StoreError):  # what is left to do is tried again after the next write
            self._after_write()
        return result

    def committed(self) -> None:
        """Remember the numbers of scopes only once they are certain: a number that is rolled back goes to another."""
        while self._written:
            try:
                scope = self._written.pop()
            except KeyError:
                return  # another thread had it
            with self.reading(scope.tenant) as db:
                self.number(db, scope)

    def number(self, db: Transaction, scope: Scope) -> int | None:
        """The number of a scope, None if it has never been written to."""
        number = self._scopes.get(scope)
        if number is None:
            row = db.one("scope_find", (scope.tenant, scope.agent, scope.user))
            if row is None:
                return None
            number = int(row[0])
            if not db.writing:
                self._scopes[scope] = number
        return number

    def learned(self, scope: Scope, number: int) -> None:
        """The number of a scope that was read with something else."""
        self._scopes[scope] = number

    def write_context(self, db: Transaction, scope: Scope) -> WriteContext:
        """What a transaction needs to write in a scope, which is made if it is new."""
        if scope not in self._scopes:
            self._written.add(scope)
        number = self.number(db, scope)
        if number is None:
            number = int(db.one("scope_add", (scope.tenant, scope.agent, scope.user))[0])
        model, bound = embedder_of(db)
        usable = bound is not None and bound == self.bound
        moved = bound is not None and self.bound is not None and bound != self.bound
        dimension = bound[1] if usable and bound else None
        owner = (scope.tenant, scope.agent, scope.user)
        return WriteContext(number, micros(self.clock()), model if usable else None, dimension, moved, owner)

    def dimension(self, db: Transaction) -> int:
        """The width of vectors that may be used: 0 unless the store still has the embedder that this process has."""
        bound = embedder_of(db)[1]
        return bound[1] if bound is not None and bound == self.bound else 0

    def tenants(self, having: str = "") -> Sequence[str]:
        """The tenants that work on the whole store goes through."""
        return self.driver.tenants(having)


def embedder_of(db: Transaction) -> tuple[int, tuple[str, int] | None]:
    """(how many embedders the store has had, the present one)."""
    return embedder_in(db.one("meta_embedder"))


def embedder_in(row: Sequence[str] | None) -> tuple[int, tuple[str, int] | None]:
    """The same from the row of meta that says so."""
    if row is None:
        return 0, None
    model, dimension, name = str(row[0]).split(" ", 2)
    return int(model), (name, int(dimension))


def next_embedder(db: Transaction) -> tuple[str, int] | None:
    """The embedder that vectors are gathered for beside those in use."""
    row = db.one("meta_next")
    if row is None:
        return None
    dimension, name = str(row[0]).split(" ", 1)
    return name, int(dimension)
