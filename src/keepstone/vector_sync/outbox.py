"""IndexedStore: a store that tells the index of what it writes.

It stands right above the store and below the guard. A write costs what it cost: the thread in the background is told and feeds.
Only what is erased waits for the index, because its receipt says that it is gone: after a forget or a redaction the index is
fed at once, and if that cannot be, the receipt says what is left where. Nothing is queued for later; being behind is what is
remembered, and the worker, the next recall or the next process sees it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from keepstone.errors import KeepstoneError
from keepstone.ports.maintenance import ArchiveReason, ReviewState
from keepstone.ports.queue import JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Pending, Revision, Selector, Vector, Write
from keepstone.types import ForgetReceipt, Receipt, Scope
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.cursor import Cursor
from keepstone.vector_sync.sync import IndexSync

log = logging.getLogger("keepstone.vector_sync")


class IndexedStore:
    """What everything above is given in place of the store itself, where there is an index."""

    def __init__(self, store: Store, feeder: IndexSync, worker: FeedWorker) -> None:
        self._store = store
        self._feeder = feeder
        self._worker = worker
        self.retention = _FedKeeping(store.retention, worker)
        self.reviews = _FedReviews(store.reviews, worker)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    # -- what the index hears of soon -----------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        receipts = self._store.write(scope, writes, job)
        self._worker.tell(scope)
        return receipts

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        receipt = self._store.revise(scope, id, revision)
        self._worker.tell(scope)
        return receipt

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        done = self._store.import_records(scope, rows)
        self._worker.tell(scope)
        return done

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        done = self._store.attach(vectors, next=next)
        if not next:  # those are for an embedder that is not in use yet
            for scope in dict.fromkeys(pending.scope for pending, _ in vectors):
                self._worker.tell(scope)
        return done

    def change_embedder(self, id: str, dimension: int) -> int:
        left = self._store.change_embedder(id, dimension)
        self._worker.tell()
        return left

    # -- what the index hears of before it is said to be done -----------------------------------------------------
    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        before = self._feeder.cursors.read(scope)
        receipt = self._store.forget(scope, selector)
        problem = self._fed(scope, before) if receipt.forgotten else None
        if problem is None:
            return receipt
        reason = (
            f"the vectors (no text) of what was forgotten may still be in the index {self._feeder.name}, which could not be "
            f"brought up to date ({problem}); they are taken out as soon as it can be"
        )
        return replace(receipt, erased=False, reasons=(*receipt.reasons, reason))

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        done = self._store.redact(scope, row)
        if done:
            self._fed(scope, self._feeder.cursors.read(scope))
        return done

    def _fed(self, scope: Scope, before: Cursor) -> str | None:
        """Feed a scope now, or let it be done later and say why."""
        try:
            self._feeder.cursors.keep_place(scope, before)
            if self._feeder.far(scope):
                self._worker.tell(scope)
                return "it lacks very much and is being fed"
            self._feeder.feed(scope)
        except KeepstoneError as error:  # the store's part is done and committed: whatever happened here must not hide it
            log.warning("the index %s could not be brought up to date: %s", self._feeder.name, error)
            self._worker.tell(scope)
            return str(error).rstrip(".")
        return None

    def close(self) -> None:
        self._worker.close()
        self._feeder.close()
        self._store.close()


class _FedKeeping:
    """Retention: what is put aside leaves the index, what comes back returns to it."""

    def __init__(self, retention: Any, worker: FeedWorker) -> None:
        self._keeping = retention
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._keeping, name)

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> Any:
        done = self._keeping.archive(scope, ids, why)
        self._worker.tell(scope)
        return done

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> Any:
        done = self._keeping.restore(scope, ids, keep_expiry=keep_expiry)
        self._worker.tell(scope)
        return done

    def undo(self, scope: Scope, ticket: int) -> Any:
        done = self._keeping.undo(scope, ticket)
        self._worker.tell(scope)
        return done


class _FedReviews:
    """The review list: what is let out of quarantine comes into the index."""

    def __init__(self, reviews: Any, worker: FeedWorker) -> None:
        self._reviews = reviews
        self._worker = worker

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reviews, name)

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> Any:
        done = self._reviews.release(scope, id, by, state)
        self._worker.tell(scope)
        return done
