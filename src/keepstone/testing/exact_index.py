"""ExactIndex: an index of vectors in memory, exact and small, that can be told to misbehave.

index = ExactIndex()
index.fail("put")                       # from now on every put raises IndexUnavailable
index.well()                            # … and no longer
index.lose(scope, [3])                  # an entry goes, and nobody is told
index.stubborn = 1                      # the next drop or clear that would take something out does not
index.before = lambda call: …           # runs before each call: to pause there, or to crash
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
    """What clients share: spaces with their width, and in each the entries of every scope."""

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
        self.before: Callable[[str], None] = _nothing
        self.after: Callable[[str], None] = _nothing
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
        """Let these calls fail from now on; none named: all of them."""
        self._failing.update(calls or ("open", "put", "drop", "clear", "existing", "vector_hashes", "search"))

    def well(self) -> None:
        """Nothing fails any more."""
        self._failing.clear()

    def lose(self, scope: Scope, sequences: Sequence[int]) -> None:
        """Entries go without anybody being told."""
        for sequence in sequences:
            del self._held(scope)[sequence]

    def spoil(self, scope: Scope, sequence: int) -> None:
        """An entry gets another vector and print than it was given."""
        entry = self._held(scope)[sequence]
        self._held(scope)[sequence] = replace(entry, vector=-entry.vector, vector_hash="0" * 16)

    def slip_in(self, scope: Scope, entry: Entry) -> None:
        """An entry comes from somewhere else."""
        self._held(scope)[entry.sequence] = entry

    def wipe(self) -> None:
        """Everything is gone, as when somebody deletes the engine's files."""
        self._engine.widths.clear()
        self._engine.entries.clear()

    def entries(self, scope: Scope, space: str | None = None) -> dict[int, Entry]:
        """What is held of a scope, in the open space or another, without any call being made."""
        return dict(self._engine.entries.get((space or self._space or "", scope), {}))

    @property
    def spaces(self) -> set[str]:
        """The spaces in which there are any entries."""
        return {space for (space, _), held in self._engine.entries.items() if held}

    # -- the port -------------------------------------------------------------------------------------------------
    def open(self, space: str, dimension: int) -> None:
        self._called("open")
        if self._engine.widths.setdefault(space, dimension) != dimension:
            raise IndexUnavailable(f"the space {space} is for vectors of another width than {dimension}.")
        self._space = space
        self.after("open")

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        self._called("put")
        width = self._width()
        with self._engine.lock:
            for entry in entries:
                if len(entry.vector) != width:
                    raise IndexUnavailable(f"a vector has {len(entry.vector)} dimensions, the space {width}.")
                self._held(scope)[entry.sequence] = replace(entry, vector=entry.vector.copy())
        self.after("put")

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        self._called("drop")
        with self._engine.lock:
            there = [sequence for sequence in sequences if sequence in self._held(scope)]
            if there and not self._refuses():
                self.lose(scope, there)
        self.after("drop")

    def clear(self, scope: Scope) -> None:
        self._called("clear")
        with self._engine.lock:
            if self._held(scope) and not self._refuses():
                self._held(scope).clear()
        self.after("clear")

    def existing(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        self._called("existing")
        return {sequence for sequence in sequences if sequence in self._held(scope)}

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        self._called("vector_hashes")
        with self._engine.lock:
            given = [(entry.sequence, entry.vector_hash) for entry in self._held(scope).values()]
        yield from given

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        self._called("search")
        with self._engine.lock:
            found = [entry for entry in self._held(scope).values() if _wanted(entry, search_filter)]
        if not found:
            return []
        near = np.array([entry.vector for entry in found]) @ vector
        return [found[place].sequence for place in np.argsort(-near, kind="stable")[:limit]]

    def close(self) -> None:
        self.closed = True

    # -- how it is done -------------------------------------------------------------------------------------------
    def _called(self, call: str) -> None:
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

    def _held(self, scope: Scope) -> dict[int, Entry]:
        return self._engine.entries.setdefault((self._space or "", scope), {})


def _wanted(entry: Entry, search_filter: SearchFilter) -> bool:
    return (
        (search_filter.kinds is None or entry.kind in search_filter.kinds)
        and (search_filter.tag is None or entry.tag == search_filter.tag)
        and (search_filter.session is None or entry.session == search_filter.session)
    )


def _nothing(call: str) -> None:
    """Nothing is to happen at a call."""
