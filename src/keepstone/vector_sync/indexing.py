"""A vector index with everything that keeps it in step, as the engine uses it: feeding, searching, checking, repairing.

Flows use an IndexedStore, which wraps the store below the guard. A write costs what it did: a background thread is notified and
feeds the index. Erasure waits for the index, because its receipt says that the data is gone: after a forget or a redaction the
index is fed at once, and if that fails, the receipt says what is left. No change is queued: the cursor of a scope tells how far
the index is behind, and the thread, the next recall or the next process catches up.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from keepstone.errors import EmbedderMismatch, IndexUnavailable, KeepstoneError
from keepstone.ports.caches import VectorIndex
from keepstone.ports.forwarding import ForwardingRetentionStore, ForwardingReviews, ForwardingStore
from keepstone.ports.maintenance import RetentionStore, Reviews
from keepstone.ports.stores import Progress, Store
from keepstone.ports.values import ImportRow, Pending, Selector, Vector
from keepstone.types import Finding, ForgetReceipt, Scope
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.compare import Difference, compare
from keepstone.vector_sync.cursor import Cursor
from keepstone.vector_sync.search import IndexSearch
from keepstone.vector_sync.sync import CHUNK_ENTRIES, Fed, IndexSync

log = logging.getLogger("keepstone.vector_sync")
CHECK = "index"
_REPAIR = "run 'keepstone index repair'"
_CHECK_SERVER = "check that the index runs and can be reached; until then the store itself is searched"
_MAX_FINDINGS = 20
_SETTLE_SECONDS = 10.0
P = ParamSpec("P")
T = TypeVar("T")


def _then_feed(verb: Callable[Concatenate[Any, P], T], attribute: str) -> Callable[Concatenate[Any, P], T]:
    """A method that calls a verb of a port and notifies the worker of the scope."""

    @wraps(verb)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = getattr(getattr(self, attribute), verb.__name__)(*args, **kwargs)
        self._worker.tell(args[0] if args else kwargs["scope"])
        return result

    return call


class IndexedStore(ForwardingStore):
    """A store whose changes reach a vector index."""

    def __init__(self, store: Store, sync: IndexSync, worker: FeedWorker) -> None:
        super().__init__(store)
        self._sync = sync
        self._worker = worker
        self.retention = IndexedRetention(store.retention, worker)
        self.reviews = IndexedReviews(store.reviews, worker)

    # -- the index is fed in the background -----------------------------------------------------------------------
    write = _then_feed(Store.write, "_store")
    revise = _then_feed(Store.revise, "_store")
    import_records = _then_feed(Store.import_records, "_store")

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        count = self._store.attach(vectors, next=next)
        if not next:  # vectors of the next embedder are not indexed yet
            for scope in dict.fromkeys(pending.scope for pending, _ in vectors):
                self._worker.tell(scope)
        return count

    def change_embedder(self, id: str, dimension: int) -> int:
        pending = self._store.change_embedder(id, dimension)
        self._worker.tell()
        return pending

    # -- the index is fed before the verb returns -----------------------------------------------------------------
    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        cursor = self._sync.cursors.read(scope)
        receipt = self._store.forget(scope, selector)
        problem = self._feed(scope, cursor) if receipt.forgotten else None
        if problem is None:
            return receipt
        reason = (
            f"the vectors (no text) of what was forgotten may still be in the index {self._sync.name}, which could not be "
            f"brought up to date ({problem}); they are removed as soon as the index is available"
        )
        return replace(receipt, erased=False, reasons=(*receipt.reasons, reason))

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        redacted = self._store.redact(scope, row)
        if redacted:
            self._feed(scope, self._sync.cursors.read(scope))
        return redacted

    def _feed(self, scope: Scope, cursor: Cursor) -> str | None:
        """Feed a scope now. If that is not possible, leave it to the worker and return why."""
        try:
            self._sync.cursors.restore_spaces(scope, cursor)
            if self._sync.is_far_behind(scope):
                self._worker.tell(scope)
                return "it is far behind and being fed"
            self._sync.feed(scope)
        except KeepstoneError as error:  # the store has committed: a failing index must not hide that
            log.warning("the index %s could not be brought up to date: %s", self._sync.name, error)
            self._worker.tell(scope)
            return str(error).rstrip(".")
        return None

    def close(self) -> None:
        self._worker.close()
        self._sync.close()
        self._store.close()


class IndexedRetention(ForwardingRetentionStore):
    """Retention: archived records leave the index, restored ones return to it."""

    def __init__(self, retention: RetentionStore, worker: FeedWorker) -> None:
        super().__init__(retention)
        self._worker = worker

    archive = _then_feed(RetentionStore.archive, "_retention")
    restore = _then_feed(RetentionStore.restore, "_retention")
    undo = _then_feed(RetentionStore.undo, "_retention")


class IndexedReviews(ForwardingReviews):
    """The review list: a record released from quarantine enters the index."""

    def __init__(self, reviews: Reviews, worker: FeedWorker) -> None:
        super().__init__(reviews)
        self._worker = worker

    release = _then_feed(Reviews.release, "_reviews")


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
                name = f"tenant {scope.tenant}, agent {scope.agent}" + (f", user {scope.user}" if scope.user else "")
                findings += [Finding(CHECK, f"{name}: {each}", _REPAIR) for each in self._scope_problems(scope)]
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
