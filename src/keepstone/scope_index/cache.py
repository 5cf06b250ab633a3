"""A cache of scope indexes in memory, bounded in bytes; the least recently used is evicted first.

Every `view` is checked against the store's stamp, so a change made by any process is seen by the next recall.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from keepstone.ports.stores import Store
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.scope_index.mapped_index import MappedIndex, MappedView
from keepstone.scope_index.segment_builder import BuildStopped
from keepstone.scope_index.segments import AT_ONCE, Segments
from keepstone.types import Scope

_ENTRY_BYTES = 16_384  # size of an index without records


class _Entry:
    __slots__ = ("index", "lock", "nbytes", "stamp")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.index: ScopeIndex | MappedIndex | None = None
        self.stamp: tuple[Hashable, Hashable] | None = None
        self.nbytes = 0


class IndexCache:
    """Scope indexes of one store, shared by every Memory on it."""

    def __init__(self, store: Store, limit: int, segments: Segments | None = None) -> None:
        self._store = store
        self._segments = segments  # of scopes so large that they are not held whole
        self._limit = limit
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._total = 0

    def view(self, scope: Scope, stamp: tuple[Hashable, Hashable] | None = None) -> View | MappedView | None:
        """The scope as it is now; None when it is too large to be held, and there is no segment of it yet. `stamp`: the store's,
        where it has just been read."""
        with self._lock:
            entry = self._entries.get(scope) or self._entries.setdefault(scope, _Entry())
            self._entries.move_to_end(scope)
        with entry.lock:
            stamp = stamp or self._store.stamp(scope)  # read before the changes: what comes in between is asked for again
            if entry.index is not None and entry.stamp is not None and stamp[0] != entry.stamp[0]:
                entry.index = None  # the vectors are another embedder's now
            if entry.index is not None and stamp == entry.stamp and not (self._segments and self._segments.renewed(scope, False)):
                return entry.index.view()
            index = self._loaded(scope, entry.index)
            if index is None:
                return None
            entry.index, entry.stamp = index, stamp
            size = entry.index.nbytes() + _ENTRY_BYTES
            if size > self._limit:
                entry.index, size = None, 0
            view = None if entry.index is None else entry.index.view()
            empty = entry.index is None or (isinstance(entry.index, ScopeIndex) and entry.index.empty)
        self._account(scope, entry, size)
        if empty:  # there may be any number of them: those who came once and were forgotten
            self._let_go(scope, entry)
        return view

    def _loaded(self, scope: Scope, held: ScopeIndex | MappedIndex | None) -> ScopeIndex | MappedIndex | None:
        """The index of a scope with all that has changed; None if there is none that can be held."""
        segments = self._segments
        if segments is not None and segments.renewed(scope):
            held = None
        first, found = held is None, None
        if held is None and segments is not None:
            found = segments.open(scope)
            if found is None and (count := segments.wanted(scope)):
                if count > AT_ONCE or segments.under_way(scope):
                    segments.make_later(scope)
                    return None
                try:
                    found = segments.make(scope)
                except BuildStopped:  # another thread closes
                    return None
            held = None if found is None else MappedIndex(found)
        changes = self._store.all_rows(scope, self._limit) if held is None else self._store.changes(scope, held.latest)
        if changes is None:
            return None
        held = held or ScopeIndex(changes.rows.vectors.shape[1])
        held.apply(changes)
        if segments is not None and (first or changes.removed):
            segments.erase(scope, found)  # a process may have been stopped between forgetting and overwriting
        if segments is not None and isinstance(held, MappedIndex):
            if held.worn():
                segments.make_later(scope)
        elif segments is not None and isinstance(held, ScopeIndex) and segments.large(held.size):
            segments.make_later(scope)
        return held

    def cached(self, scope: Scope) -> tuple[View | MappedView, tuple[Hashable, Hashable]] | None:
        """The scope as it was last loaded, and the store's stamp of then; None if it is not in memory. The caller must compare
        the stamp with the store's."""
        with self._lock:
            entry = self._entries.get(scope)
            if entry is None:
                return None
            self._entries.move_to_end(scope)
        with entry.lock:
            return None if entry.index is None or entry.stamp is None else (entry.index.view(), entry.stamp)

    def _account(self, scope: Scope, entry: _Entry, size: int) -> None:
        """Note an entry's size and let the least recently used scopes go until all fit."""
        with self._lock:
            if self._entries.get(scope) is not entry:
                return  # it was let go meanwhile
            self._total += size - entry.nbytes
            entry.nbytes = size
            while self._total > self._limit and len(self._entries) > 1:
                _, oldest = self._entries.popitem(last=False)
                self._total -= oldest.nbytes

    def _let_go(self, scope: Scope, entry: _Entry) -> None:
        with self._lock:
            if self._entries.get(scope) is entry:
                del self._entries[scope]
                self._total -= entry.nbytes

    def making(self, scope: Scope) -> bool:
        """Whether a large scope's segment is being made in the background: until then its questions are answered more slowly."""
        return self._segments is not None and self._segments.under_way(scope)

    def erase(self, scope: Scope) -> bool:
        """Erase forgotten records from index files; False where something may be left."""
        return self._segments is None or self._segments.erase(scope)

    def close(self) -> None:
        """Stop building in the background."""
        if self._segments is not None:
            self._segments.close()

    def nbytes(self) -> int:
        """Bytes held at present."""
        return self._total

    def scopes(self) -> list[Scope]:
        """The scopes held, the next to go first."""
        return [scope for scope, entry in self._entries.items() if entry.index is not None]
