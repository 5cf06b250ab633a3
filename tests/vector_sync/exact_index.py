"""A vector index in memory, exact and small, with switches for faults.

index = ExactIndex()
index.fail("put")                       # from now on every put raises IndexUnavailable
index.well()                            # … and no longer
index.lose(scope, [3])                  # an entry disappears
index.stubborn = 1                      # the next drop or clear has no effect
index.before = lambda call: …           # runs before each call: to pause or to crash there
other = index.beside()                  # another client of the same engine, as another process would be
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from keepstone.errors import IndexUnavailable
from keepstone.ports.caches import Entry
from keepstone.ports.values import SearchFilter, Vector
from keepstone.types import Scope


@dataclass(slots=True)
class _Engine:
    """What clients share: the dimension of each space, and the entries of each scope in it."""

    widths: dict[str, int] = field(default_factory=dict)
    entries: dict[tuple[str, Scope], dict[int, Entry]] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)


class ExactIndex:
    """Implements `VectorIndex` by comparing with every entry."""

    def __init__(self, name: str = "exact in memory") -> None:
        self._name = name
        self._engine = _Engine()
        self._space: str | None = None
        self._failing: set[str] = set()
        self.stubborn = 0
        self.before: Callable[[str], None] = _no_hook
        self.after: Callable[[str], None] = _no_hook
        self.calls: list[str] = []
        self.closed = False

    @property
    def name(self) -> str:
        return self._name

    # -- switches -------------------------------------------------------------------------------------------------
    def beside(self) -> ExactIndex:
        """Another client of the same engine."""
        other = ExactIndex(self._name)
        other._engine = self._engine
        return other

    def fail(self, *calls: str) -> None:
        """Let these calls fail from now on; without names, all calls."""
        self._failing.update(calls or ("open", "put", "drop", "clear", "existing", "vector_hashes", "search"))

    def well(self) -> None:
        """Nothing fails any more."""
        self._failing.clear()

    def lose(self, scope: Scope, sequences: Sequence[int]) -> None:
        """Let entries disappear."""
        for sequence in sequences:
            del self._entries(scope)[sequence]

    def spoil(self, scope: Scope, sequence: int) -> None:
        """Give an entry another vector and hash."""
        entry = self._entries(scope)[sequence]
        self._entries(scope)[sequence] = replace(entry, vector=-entry.vector, vector_hash="0" * 16)

    def slip_in(self, scope: Scope, entry: Entry) -> None:
        """Add an entry that was not put."""
        self._entries(scope)[entry.sequence] = entry

    def wipe(self) -> None:
        """Delete everything, as if the engine's files were deleted."""
        self._engine.widths.clear()
        self._engine.entries.clear()

    def entries(self, scope: Scope, space: str | None = None) -> dict[int, Entry]:
        """The entries of a scope, in the open space or another, without a call."""
        return dict(self._engine.entries.get((space or self._space or "", scope), {}))

    @property
    def spaces(self) -> set[str]:
        """The spaces that have entries."""
        return {space for (space, _), entries in self._engine.entries.items() if entries}

    # -- the port -------------------------------------------------------------------------------------------------
    def open(self, space: str, dimension: int) -> None:
        self._begin_call("open")
        if self._engine.widths.setdefault(space, dimension) != dimension:
            raise IndexUnavailable(f"the space {space} is for vectors of another width than {dimension}.")
        self._space = space
        self.after("open")

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        self._begin_call("put")
        width = self._width()
        with self._engine.lock:
            for entry in entries:
                if len(entry.vector) != width:
                    raise IndexUnavailable(f"a vector has {len(entry.vector)} dimensions, the space {width}.")
                self._entries(scope)[entry.sequence] = replace(entry, vector=entry.vector.copy())
        self.after("put")

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        self._begin_call("drop")
        with self._engine.lock:
            present = [sequence for sequence in sequences if sequence in self._entries(scope)]
            if present and not self._refuses():
                self.lose(scope, present)
        self.after("drop")

    def clear(self, scope: Scope) -> None:
        self._begin_call("clear")
        with self._engine.lock:
            if self._entries(scope) and not self._refuses():
                self._entries(scope).clear()
        self.after("clear")

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        self._begin_call("existing")
        return {sequence for sequence in sequences if sequence in self._entries(scope)}

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        self._begin_call("vector_hashes")
        with self._engine.lock:
            pairs = [(entry.sequence, entry.vector_hash) for entry in self._entries(scope).values()]
        yield from pairs

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        self._begin_call("search")
        with self._engine.lock:
            matches = [entry for entry in self._entries(scope).values() if _matches(entry, search_filter)]
        if not matches:
            return []
        similarities = np.array([entry.vector for entry in matches]) @ vector
        return [matches[position].sequence for position in np.argsort(-similarities, kind="stable")[:limit]]

    def close(self) -> None:
        self.closed = True

    def _begin_call(self, call: str) -> None:
        self.calls.append(call)
        self.before(call)
        if call in self._failing:
            raise IndexUnavailable("it was told to fail")
        if call != "open":
            self._width()

    def _refuses(self) -> bool:
        refused = self.stubborn > 0
        self.stubborn -= refused
        return refused

    def _width(self) -> int:
        if self._space is None or self._space not in self._engine.widths:
            raise IndexUnavailable(f"there is no space {self._space}.")
        return self._engine.widths[self._space]

    def _entries(self, scope: Scope) -> dict[int, Entry]:
        return self._engine.entries.setdefault((self._space or "", scope), {})


def _matches(entry: Entry, search_filter: SearchFilter) -> bool:
    return (
        (search_filter.kinds is None or entry.kind in search_filter.kinds)
        and (search_filter.tag is None or entry.tag == search_filter.tag)
        and (search_filter.session is None or entry.session == search_filter.session)
    )


def _no_hook(call: str) -> None:
    """The default hook."""
