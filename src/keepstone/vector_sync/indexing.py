"""A vector index with everything that keeps it in step, as the engine uses it: feeding, searching, checking, repairing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from keepstone.errors import EmbedderMismatch, IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.ports.stores import Progress, Store
from keepstone.types import Finding, Scope
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.compare import Difference, compare
from keepstone.vector_sync.outbox import IndexedStore
from keepstone.vector_sync.search import IndexSearch
from keepstone.vector_sync.sync import CHUNK_ENTRIES, Fed, IndexSync

CHECK = "index"
_REPAIR = "run 'keepstone index repair'"
_CHECK_SERVER = "check that the index runs and can be reached; until then the store itself is searched"
_MAX_FINDINGS = 20
_SETTLE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Repaired:
    """What a repair changed: entries put, entries dropped."""

    put: int
    dropped: int


class Indexing:
    """One index of one store. Flows use `store` in place of the store itself: its changes reach the index."""

    def __init__(self, store: Store, index: VectorIndex, sync: IndexSync | None = None) -> None:
        self._raw, self._index = store, index
        self._sync = sync or IndexSync(store, index)
        self._worker = FeedWorker(self._sync)
        self.store = IndexedStore(store, self._sync, self._worker)
        self.nearest = IndexSearch(store, self._sync, self._worker)

    @property
    def name(self) -> str:
        return self._index.name

    def examine(self, progress: Progress | None = None) -> list[Finding]:
        """Where index and store differ, once the changes made here have reached the index. An index that cannot be reached is
        one finding. Changes that the index was not fed yet are no difference."""
        self._worker.wait_until_idle(_SETTLE_SECONDS)
        if self._raw.embedder() is None:
            return []
        findings: list[Finding] = []
        scopes = self._raw.retention.scopes()
        for done, scope in enumerate(scopes):
            try:
                findings += self._examine_scope(scope)
            except IndexUnavailable as error:
                problem = f"{self.name} cannot be compared with the store: {error}"
                return [*findings[:_MAX_FINDINGS], Finding(CHECK, problem, _CHECK_SERVER)]
            except EmbedderMismatch as error:
                return [Finding(CHECK, str(error), "open the store with its embedder")]
            if progress is not None:
                progress(done + 1, len(scopes))
        if len(findings) > _MAX_FINDINGS:
            more = Finding(CHECK, f"and {len(findings) - _MAX_FINDINGS} more findings of the index", _REPAIR)
            return [*findings[:_MAX_FINDINGS], more]
        return findings

    def repair(self, progress: Progress | None = None) -> Repaired:
        """Correct what differs in every scope. IndexUnavailable if the index cannot be reached."""
        results = self._for_each_scope(self._sync.repair, progress)
        return Repaired(sum(fed.put for fed in results), sum(fed.dropped for fed in results))

    def rebuild(self, progress: Progress | None = None) -> int:
        """Clear every scope in the index and feed all of it again. How many entries were put."""
        return sum(fed.put for fed in self._for_each_scope(self._sync.rebuild, progress))

    def _for_each_scope(self, feed: Callable[[Scope], Fed], progress: Progress | None) -> list[Fed]:
        scopes, results = self._raw.retention.scopes(), list[Fed]()
        for scope in scopes:
            results.append(feed(scope))
            if progress is not None:
                progress(len(results), len(scopes))
        return results

    def _examine_scope(self, scope: Scope) -> Iterator[Finding]:
        name = f"tenant {scope.tenant}, agent {scope.agent}" + (f", user {scope.user}" if scope.user else "")
        yield from (Finding(CHECK, f"{name}: {problem}", _REPAIR) for problem in self._scope_problems(scope))

    def _scope_problems(self, scope: Scope) -> Iterator[str]:
        number = self._sync.number(scope)
        if number == 0:
            yield from self._unfed_problems(scope)
            return
        if self._sync.is_far_behind(scope):
            yield f"more than {self._sync.large_gap:,} changes are not in the index yet"
            return
        with self._sync.open_index() as (index, dimension):
            difference = compare(self._raw, index, scope, dimension, CHUNK_ENTRIES, lambda: None)
        if difference:
            changes = self._raw.changes(scope, number)
            difference = difference.without({*changes.removed, *(int(sequence) for sequence in changes.rows.sequences)})
        yield from _describe(difference)

    def _unfed_problems(self, scope: Scope) -> Iterator[str]:
        """Of a scope that was never fed, neither the index nor the store should hold anything."""
        with self._sync.open_index() as (index, _):
            has_entries = next(iter(index.vector_hashes(scope)), None) is not None
        records = self._raw.count(scope)
        if has_entries:
            yield "entries from before it was forgotten are still in the index"
        if records:
            yield f"none of its {records:,} memories has been put into the index yet"


def _describe(difference: Difference) -> Iterator[str]:
    for sequences, problem in (
        (difference.missing, "{} not in the index"),
        (difference.extra, "{} in the index and should not be"),
        (difference.different, "{} in the index with another vector than in the store"),
    ):
        if sequences:
            yield problem.format("1 memory is" if len(sequences) == 1 else f"{len(sequences):,} memories are")
