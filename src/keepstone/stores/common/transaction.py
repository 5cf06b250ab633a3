"""Ports of an engine to the common rules: named statements in a transaction, and the driver that opens transactions.

Every engine has the same names in its .sql files. Values go in by position or by name; an engine that keeps tenants apart adds
the tenant of the transaction by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Generic, Protocol, TypeVar

from keepstone.ports.filters import Filter
from keepstone.ports.values import Matrix, Vector

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]
Lookup = tuple[str, tuple[Any, ...]]  # a query and its values
Lookups = Callable[[], list[Lookup]]


class Transaction(Protocol):
    """An open transaction, for writing or for reading."""

    @property
    def writing(self) -> bool:
        """Whether this is a write transaction, which may be rolled back."""

    def one(self, name: str, values: Values = ()) -> Any:
        """The first row of a query, or None."""

    def all(self, name: str, values: Values = (), **parts: str) -> list[Any]:
        """Every row of a query; `parts` replace the names in braces in its text."""

    def walk(self, name: str, values: Values = (), **parts: str) -> Iterator[Any]:
        """Iterate over the rows of a query of any size; other queries may run meanwhile."""

    def stream(self, name: str, values: Values = ()) -> Iterator[Any]:
        """Iterate over the rows of a query; it must be exhausted before another query runs."""

    def each(self, name: str, numbers: Sequence[int], values: Mapping[str, Any]) -> list[Any]:
        """The rows of a query for each of these numbers."""

    def run(self, name: str, values: Values = ()) -> None:
        """Run a statement, at the latest before the next query."""

    def count(self, name: str, values: Values = ()) -> int:
        """Run a statement and return the number of changed rows."""

    def remove_words(self, rows: Sequence[tuple[int, str, str]]) -> None:
        """Remove (number, scope token, words) of a record and its passages from the word index."""

    def next_audit_link(self, tenant: str) -> tuple[int, bytes | None]:
        """The next audit number, and the hash of the tenant's last entry or None."""

    def record_audit_link(self, tenant: str, number: int, hash: bytes) -> None:
        """Store the hash of the tenant's new last entry."""

    def switch_tenant(self, tenant: str) -> None:
        """In a transaction over the whole store, make the following statements act on a tenant."""

    def filtered(self, filter: Filter | None) -> tuple[str, dict[str, Any]]:
        """A metadata filter as an SQL condition and its values."""

    def stored(self, vector: Vector) -> Any:
        """A vector in the storage format of the engine."""

    def read(self, stored: Sequence[Any], dimension: int) -> Matrix:
        """Stored vectors as rows of a matrix; missing ones and those of another dimension are zero."""


class Driver(Protocol):
    """The connections of one store in one process."""

    @property
    def label(self) -> str:
        """A display name: the path, or the URL without its password."""

    def reading(self, tenant: str, *, consistent: bool = False) -> AbstractContextManager[Transaction]:
        """A read transaction on a tenant; `consistent` makes all its queries see one state of the store."""

    def consistently(self, tenant: str, work: Callable[[Any], T]) -> T:
        """Read something whose queries all see one state of the store."""

    def writing(self, tenant: str, work: Callable[[Any], T], lookups: Lookups | None = None) -> T:
        """Run `work` in a transaction and return once it is committed. `lookups`: queries of one scope that it may begin with,
        before it writes anything, for an engine that can run them with the beginning of the transaction."""

    def for_every_tenant(self, work: Callable[[Any, Sequence[str]], T]) -> T:
        """Run `work` with the names of all tenants in one transaction that may change each of them."""

    def tenants(self, having: str = "") -> Sequence[str]:
        """The tenants of the store, or those with "jobs" or "pending" records. An engine without tenants returns one name for
        all."""

    def close(self) -> None: ...


class PendingWrite(Generic[T]):
    """A caller's work inside a transaction, and its outcome."""

    __slots__ = ("done", "error", "lookups", "result", "work")

    def __init__(self, work: Callable[[Any], T], lookups: Sequence[Lookup] = ()) -> None:
        self.work = work
        self.lookups = lookups
        self.done = False
        self.result: T | None = None
        self.error: BaseException | None = None

    def given(self) -> T:
        """The result of the work; raises its error."""
        if self.error is not None:
            raise self.error
        return self.result  # type: ignore[return-value]
