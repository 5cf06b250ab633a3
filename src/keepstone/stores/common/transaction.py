"""What the rules of the ledger ask of an engine: to run its own statement of a name, and to share out transactions.

Every engine has the same names in its .sql files. Values go in by position or by name; an engine that keeps tenants apart adds
the tenant of the transaction by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from keepstone.ports.filters import Filter
from keepstone.ports.values import Matrix, Vector

T = TypeVar("T")
Values = Sequence[Any] | Mapping[str, Any]


class Transaction(Protocol):
    """An open transaction on an engine, or a moment of reading."""

    @property
    def writing(self) -> bool:
        """Whether this may yet be rolled back."""

    def one(self, name: str, values: Values = ()) -> Any:
        """The first row of a query, or None."""

    def all(self, name: str, values: Values = (), **parts: str) -> list[Any]:
        """Every row of a query; `parts` take the places that its text names in braces."""

    def walk(self, name: str, values: Values = ()) -> Iterator[Any]:
        """The rows of a query one after the other, however many; other queries may be run meanwhile."""

    def stream(self, name: str, values: Values = ()) -> Iterator[Any]:
        """The rows of a query that is read to its end before another is run."""

    def each(self, name: str, numbers: Sequence[int], values: Mapping[str, Any]) -> list[Any]:
        """The rows of a query for each of these numbers."""

    def run(self, name: str, values: Values = ()) -> None:
        """Run a statement, at the latest before the next query."""

    def count(self, name: str, values: Values = ()) -> int:
        """Run a statement: how many rows it has changed."""

    def next_audit_link(self, tenant: str) -> tuple[int, bytes | None]:
        """The number of the next row of the trail, and the hash of the tenant's last; None if there is none."""

    def record_audit_link(self, tenant: str, number: int, hash: bytes) -> None:
        """A row was added to the trail."""

    def switch_tenant(self, tenant: str) -> None:
        """Inside a transaction over the whole store: from now on statements mean this tenant."""

    def filtered(self, filter: Filter | None) -> tuple[str, dict[str, Any]]:
        """A filter as a condition, and its values."""

    def stored(self, vector: Vector) -> Any:
        """A vector as the engine keeps it."""

    def read(self, stored: Sequence[Any], dimension: int) -> Matrix:
        """Vectors as the engine has given them out, one a row; those that are missing or of another width are zero."""


class Driver(Protocol):
    """The connections of one store in one process."""

    @property
    def label(self) -> str:
        """The store's place, for people: a path, or a URL without its password."""

    def reading(self, tenant: str, *, consistent: bool = False) -> AbstractContextManager[Transaction]:
        """A hand to read a tenant with; `consistent` makes all its queries see one state of the store."""

    def consistently(self, tenant: str, work: Callable[[Any], T]) -> T:
        """Read something whose queries all see one state of the store."""

    def writing(self, tenant: str, work: Callable[[Any], T]) -> T:
        """Run `work` in a transaction and return once it is committed."""

    def everywhere(self, work: Callable[[Any, Sequence[str]], T]) -> T:
        """Run `work` in one transaction that may change every tenant; it is given their names."""

    def tenants(self, having: str = "") -> Sequence[str]:
        """What work on the whole store goes through one by one: its tenants, or those that have "jobs" or "pending" records. An
        engine that needs no tenant gives one name for all."""

    def close(self) -> None: ...
