"""The scopes held in memory: least recently used goes first, within a bound of bytes. Imports: ports, columns.

Every `view` is checked against the store's stamp, so a change made by any process is seen by the next recall.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable

from recollect.ports import Store
from recollect.scopeindex.columns import ScopeIndex, View
from recollect.types import Scope

_ENTRY = 4096  # bytes that an index takes without any record


class _Entry:
    __slots__ = ("index", "lock", "nbytes", "stamp")

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.index: ScopeIndex | None = None
        self.stamp: tuple[Hashable, Hashable] | None = None
        self.nbytes = 0


class IndexCache:
    """Scope indexes of one store, shared by every Memory on it."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._entries: OrderedDict[Scope, _Entry] = OrderedDict()
        self._lock = threading.Lock()
        self._total = 0

    def view(self, scope: Scope) -> View | None:
        """The scope as it is now; None when it is too large to be held."""
        with self._lock:
            entry = self._entries.setdefault(scope, _Entry())
            self._entries.move_to_end(scope)
        with entry.lock:
            stamp = self._store.stamp()  # read before the changes: what comes in between is asked for again
            if entry.index is not None and entry.stamp is not None and stamp[0] != entry.stamp[0]:
                entry.index = None  # the vectors are another embedder's now
            if entry.index is None:
                if self._store.index_size(scope) > self._limit:
                    return None
                entry.index = ScopeIndex(0)
            elif stamp == entry.stamp:
                return entry.index.view()
            entry.index.apply(self._store.changes(scope, entry.index.latest))
            entry.stamp = stamp
            size = entry.index.nbytes() + _ENTRY
            if size > self._limit:
                entry.index, size = None, 0
            view = None if entry.index is None else entry.index.view()
        self._account(scope, entry, size)
        return view

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

    def nbytes(self) -> int:
        """Bytes held at present."""
        return self._total

    def scopes(self) -> list[Scope]:
        """The scopes held, the next to go first."""
        return [scope for scope, entry in self._entries.items() if entry.index is not None]
