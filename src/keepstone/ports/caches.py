"""Ports next to the store: a buffer of recent messages and a vector index.

Both can be lost at any time and are rebuilt from the store. A buffered window is valid only while the store's audit number is the
one it was read at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from keepstone.ports.values import SearchFilter, Vector
from keepstone.types import Record, Scope

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Window:
    """The newest messages of a session, or of all sessions, in the order of arrival, read when the scope's last audit number was
    `number`. `complete`: there are no older messages."""

    number: int
    messages: tuple[tuple[int, Record], ...]
    complete: bool


class Buffer(Protocol):
    """Recent messages, shared by the processes that use it.

    No method raises because the buffer cannot be reached: it then answers as if it were empty, soon, and `problem` says why.
    What is in it expires, and it holds a bounded amount."""

    @property
    def name(self) -> str:
        """A display name without a password: "redis at localhost:6379"."""

    @property
    def bound(self) -> int:
        """The maximum number of messages in a window."""

    @property
    def problem(self) -> str | None:
        """Why the buffer cannot be used; None while it can."""

    def window(self, scope: Scope, session: str | None) -> Window | None:
        """The window that was put last for a session (None: for all sessions); None if it is gone."""

    def put(self, scope: Scope, session: str | None, window: Window) -> None: ...

    def clear(self, scope: Scope) -> bool:
        """Delete all windows of a scope. Returns whether it is certain that none is left."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory in an index, or one passage of a long one: its number, which is negative for a passage, its vector, a short hash
    of the vector, and the fields that a search may filter by."""

    sequence: int
    vector: Vector
    vector_hash: str
    kind: str
    tag: str
    session: str | None


class NearestNeighbours(Protocol):
    """Search for the nearest vectors of a scope, in the index or in the store."""

    def search(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> tuple[list[int], tuple[str, ...]]:
        """(numbers of the nearest records and passages, nearest first; notes on degraded results)."""


class VectorIndex(Protocol):
    """An external index of vectors. It holds no text, and the entries of scopes are separate.

    Every method raises `IndexUnavailable`, and nothing else, when the engine is unreachable, refuses, or responds with invalid
    data. `search`, `existing` and `vector_hashes` see the effects of `put` and `drop` once those have returned."""

    @property
    def name(self) -> str:
        """A display name without keys: "chroma at /data/chroma"."""

    def open(self, space: str, dimension: int) -> None:
        """Use a space of the engine, named by letters, digits and hyphens, for vectors of this dimension, and create it if it is
        missing. Called before any other method, and again when the embedder changes."""

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        """Add or replace entries."""

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        """Remove entries; missing ones are not an error."""

    def clear(self, scope: Scope) -> None:
        """Remove every entry of a scope."""

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        """Which of these sequences the engine has."""

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        """(sequence, vector hash) of every entry of a scope."""

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        """Sequences of the nearest entries by cosine, nearest first. The engine applies the filter's kinds, tag and session;
        the caller checks its other conditions."""

    def close(self) -> None: ...


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of at most `size` items, in order.

    >>> list(batches([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    return (items[start : start + size] for start in range(0, len(items), size))


def sized_batches(items: Iterable[T], size: Callable[[T], int], most: int, most_size: int) -> Iterator[list[T]]:
    """Parts of at most `most` items whose sizes add up to `most_size` at most, in order. A larger item is a part of its own.

    >>> list(sized_batches(["a", "bb", "c"], len, 9, 3))
    [['a', 'bb'], ['c']]
    """
    batch, held = list[T](), 0
    for item in items:
        own = size(item)
        if batch and (len(batch) == most or held + own > most_size):
            yield batch
            batch, held = [], 0
        batch.append(item)
        held += own
    if batch:
        yield batch
