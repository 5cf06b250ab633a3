"""Indexing: an index of vectors with all that keeps it in step, as the engine holds it."""

from __future__ import annotations

from keepstone.ports.caches import VectorIndex
from keepstone.ports.stores import Progress, Store
from keepstone.types import Finding
from keepstone.vector_sync import drift
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.drift import Repaired
from keepstone.vector_sync.outbox import IndexedStore
from keepstone.vector_sync.search import Nearest
from keepstone.vector_sync.sync import IndexSync

_PATIENCE = 10.0  # seconds


class Indexing:
    """One index beside one store. `store` is what flows use in place of the store itself: its changes reach the index."""

    def __init__(self, store: Store, index: VectorIndex) -> None:
        self._raw, self._index = store, index
        self._feeder = IndexSync(store, index)
        self._worker = worker = FeedWorker(self._feeder)
        self.store = IndexedStore(store, self._feeder, worker)
        self.nearest = Nearest(store, self._feeder, worker)

    @property
    def name(self) -> str:
        return self._index.name

    def examine(self, progress: Progress | None = None) -> list[Finding]:
        """Where index and store differ, once what was written here has reached the index: a moment's delay is no fault."""
        self._worker.settled(_PATIENCE)
        return drift.examine(self._raw, self._index, self._feeder, progress)

    def repair(self, progress: Progress | None = None) -> Repaired:
        """Mend where they differ."""
        return drift.repair(self._raw, self._index, self._feeder, progress)

    def rebuild(self, progress: Progress | None = None) -> int:
        """Empty the index and put everything in again. How many entries."""
        return drift.rebuild(self._raw, self._index, self._feeder, None, progress)
