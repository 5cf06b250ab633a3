"""The scopes of a store: their numbers, and the transactions that read and write in them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from keepstone.errors import StoreError
from keepstone.ports.stores import Clock
from keepstone.stores.common.transaction import Driver, Lookups, Transaction
from keepstone.stores.common.write_context import WriteContext
from keepstone.text.times import micros
from keepstone.types import Scope

T = TypeVar("T")


class ScopeCatalog:
    """The driver of a store, the numbers of its scopes, and the embedder of this process."""

    def __init__(self, driver: Driver, clock: Clock, after_write: Callable[[], None] = lambda: None) -> None:
        self.driver = driver
        self.clock = clock
        self.bound: tuple[str, int] | None = None
        self._after_write = after_write
        self._scopes: dict[Scope, int] = {}
        self._written: set[Scope] = set()  # by a transaction that may yet be rolled back

    @contextlib.contextmanager
    def reading(self, scope: Scope, *, consistent: bool = False) -> Iterator[tuple[Transaction, int | None]]:
        """A read transaction on a scope, and the number of the scope."""
        with self.driver.reading(scope.tenant, consistent=consistent) as db:
            yield db, self.number(db, scope)

    def consistently(self, scope: Scope, work: Callable[[Transaction, int | None], T]) -> T:
        """Read something of a scope whose queries all see one state of the store."""
        return self.driver.consistently(scope.tenant, lambda db: work(db, self.number(db, scope)))

    def change(self, scope: Scope, work: Callable[[Transaction, WriteContext], T], lookups: Lookups | None = None) -> T:
        """Commit work in a scope, which is created if it is new."""
        return self.write(scope.tenant, lambda db: work(db, self.write_context(db, scope)), lookups)

    def write(self, tenant: str, work: Callable[[Transaction], T], lookups: Lookups | None = None) -> T:
        """Commit work and return its result."""
        result = self.driver.writing(tenant, work, lookups)
        with contextlib.suppress(StoreError):  # it is committed already; this is tried again after the next write
            self._learn_written()
            self._after_write()
        return result

    def _learn_written(self) -> None:
        """Cache the numbers of new scopes after the commit: a number that is rolled back is given to another scope."""
        while self._written:
            try:
                scope = self._written.pop()
            except KeyError:
                return  # another thread was first
            with self.driver.reading(scope.tenant) as db:
                self.number(db, scope)

    def number(self, db: Transaction, scope: Scope) -> int | None:
        """The number of a scope; None if it was never written to."""
        number = self._scopes.get(scope)
        if number is None:
            row = db.one("scope_find", (scope.tenant, scope.agent, scope.user))
            if row is None:
                return None
            number = int(row[0])
            if not db.writing:
                self._scopes[scope] = number
        return number

    def known(self, scope: Scope) -> int | None:
        """The number of a scope, if this process has seen it."""
        return self._scopes.get(scope)

    def learned(self, scope: Scope, number: int) -> None:
        """Cache the number of a scope."""
        self._scopes[scope] = number

    def write_context(self, db: Transaction, scope: Scope) -> WriteContext:
        """The context of a write in a scope, which is created if it is new."""
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
        """The dimension of usable vectors; 0 unless the store still has the embedder of this process."""
        bound = embedder_of(db)[1]
        return bound[1] if bound is not None and bound == self.bound else 0


class StorePart:
    """A part of a store: its verbs run in transactions of the catalog."""

    def __init__(self, catalog: ScopeCatalog) -> None:
        self._catalog = catalog


def embedder_of(db: Transaction) -> tuple[int, tuple[str, int] | None]:
    """(number of embedders so far, the current one)."""
    return parse_embedder(db.one("meta_embedder"))


def parse_embedder(row: Sequence[str] | None) -> tuple[int, tuple[str, int] | None]:
    """`embedder_of`, from its row of meta."""
    if row is None:
        return 0, None
    model, dimension, name = str(row[0]).split(" ", 2)
    return int(model), (name, int(dimension))


def next_embedder(db: Transaction) -> tuple[str, int] | None:
    """The embedder that the store is being moved to."""
    row = db.one("meta_next")
    if row is None:
        return None
    dimension, name = str(row[0]).split(" ", 1)
    return name, int(dimension)
