"""IndexedStore: a store that reports its changes to the vector index.

It wraps the store below the guard. A write costs what it did: a background thread is notified and feeds the index. Erasure waits
for the index, because its receipt says that the data is gone: after a forget or a redaction the index is fed at once, and if that
fails, the receipt says what is left. No change is queued: the cursor of a scope tells how far the index is behind, and the
thread, the next recall or the next process catches up.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace

from keepstone.errors import KeepstoneError
from keepstone.ports.forwarding import ForwardingRetentionStore, ForwardingReviews, ForwardingStore
from keepstone.ports.maintenance import ArchiveReason, RetentionStore, Reviews, ReviewState
from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Pending, Revision, Selector, Vector, Write
from keepstone.types import ForgetReceipt, Receipt, Scope
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.cursor import Cursor
from keepstone.vector_sync.sync import IndexSync

log = logging.getLogger("keepstone.vector_sync")


class IndexedStore(ForwardingStore):
    """A store whose changes reach a vector index."""

    def __init__(self, store: Store, sync: IndexSync, worker: FeedWorker) -> None:
        super().__init__(store)
        self._sync = sync
        self._worker = worker
        self.retention = IndexedRetention(store.retention, worker)
        self.reviews = IndexedReviews(store.reviews, worker)

    # -- the index is fed in the background -----------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        receipts = self._store.write(scope, writes, job)
        self._worker.tell(scope)
        return receipts

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        receipt = self._store.revise(scope, id, revision)
        self._worker.tell(scope)
        return receipt

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        counts = self._store.import_records(scope, rows)
        self._worker.tell(scope)
        return counts

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

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> tuple[int, int]:
        count_and_ticket = self._retention.archive(scope, ids, why)
        self._worker.tell(scope)
        return count_and_ticket

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        count = self._retention.restore(scope, ids, keep_expiry=keep_expiry)
        self._worker.tell(scope)
        return count

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        ids = self._retention.undo(scope, ticket)
        self._worker.tell(scope)
        return ids


class IndexedReviews(ForwardingReviews):
    """The review list: a record released from quarantine enters the index."""

    def __init__(self, reviews: Reviews, worker: FeedWorker) -> None:
        super().__init__(reviews)
        self._worker = worker

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        released = self._reviews.release(scope, id, by, state)
        self._worker.tell(scope)
        return released
