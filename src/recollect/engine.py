"""Engine: everything that the Memories on one store share, wired by open.py. Imports: flows, ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from recollect.errors import ConfigurationError
from recollect.ports import Clock, Embedder, Progress, Reranker, Store
from recollect.recall.access import AccessLog
from recollect.recall.flow import Recalling
from recollect.recall.reading import Reading
from recollect.scopeindex.cache import IndexCache
from recollect.settings import Settings
from recollect.upkeep.forgetting import Forgetting
from recollect.upkeep.jobs import Upkeep
from recollect.upkeep.moving import Moving
from recollect.upkeep.reembedding import ReembedReport, reembed
from recollect.write.flow import Writing
from recollect.write.values import Values


class Engine:
    """One store with its embedder, caches and flows; closed once for all."""

    def __init__(
        self,
        target: str,
        store: Store,
        embedder: Embedder | None,
        settings: Settings,
        clock: Clock,
        make_embedder: Callable[[Any], Embedder | None],
        reranker: Reranker | None = None,
    ) -> None:
        self.target = target
        self.store = store
        self.cache = IndexCache(store, settings.cache_mb * 1024 * 1024)
        self._make_embedder = make_embedder
        self._accesses = AccessLog(store)
        self.writing = Writing(store, embedder, clock)
        self.recalling = Recalling(store, self.cache, embedder, self._accesses, clock, settings.min_similarity, reranker)
        self.reading = Reading(store, self._accesses)
        self.values = Values(store, self.writing)
        self.forgetting = Forgetting(store)
        self.moving = Moving(target, store, embedder, self._accesses)
        self.upkeep = Upkeep(self._reembed)
        self._closed = False

    def _reembed(self, spec: Any, progress: Progress | None) -> ReembedReport:
        embedder = self.writing.embedder if spec is None else self._make_embedder(spec)
        if embedder is None:
            raise ConfigurationError("this memory was opened without an embedder: name one, reembed(embedder='static').")
        if spec is not None:
            self.store.change_embedder(embedder.id, embedder.dimension)
            self.writing.embedder = self.recalling.embedder = self.moving.embedder = embedder
        elif self.store.embedder() is None:
            self.store.bind_embedder(embedder.id, embedder.dimension)
        return reembed(self.store, embedder, progress)

    def flush(self) -> None:
        """Write what is buffered."""
        if not self._closed:
            self._accesses.flush()

    def close(self) -> None:
        """Write what is buffered and close the store."""
        if not self._closed:
            self._closed = True
            try:
                self._accesses.flush()
            finally:
                self.store.close()
