"""Protocols of stores, embedders and clocks.

An adapter implements a protocol and passes its contract in `keepstone.testing`. The values that cross it are in `values.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.filters import Filter
from keepstone.ports.maintenance import AuditLog, Leases, RetentionStore, Reviews
from keepstone.ports.queue import JobDraft, JobQueue, MessageLog, StateStore
from keepstone.ports.values import (
    Changes,
    ImportRow,
    IndexRows,
    ListQuery,
    Matrix,
    Pending,
    RecordExport,
    Revision,
    SearchFilter,
    Selector,
    Snapshot,
    Vector,
    Write,
)
from keepstone.types import AuditRow, Diagnosis, ForgetReceipt, Receipt, Record, Scope, Version

__all__ = ["Clock", "Embedder", "PagedStore", "Progress", "Reader", "Reranker", "Store"]

Clock = Callable[[], datetime]
Progress = Callable[[int, int], None]  # (done, total)
Reader = Callable[[str, Sequence[str]], Sequence[float]]  # (question, texts) -> the logit that each text answers
Reranker = Callable[[str, Sequence[str]], Sequence[float]]  # (query, texts) -> a relevance from 0 to 1 for each text


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. `id` is stable and versioned: a store records it and refuses vectors of another.

    An embedder may have an attribute `deviation`: the standard deviation of the cosines between a question and unrelated texts.
    Ranking scales cosines by it. Without it, ranking measures it on the scope. `world_weights`, a weight for each
    dimension and a constant, give the log odds that a question asks about the world and not about the user; such questions need
    more similar memories."""

    @property
    def id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def local(self) -> bool:
        """Whether vectors are computed in this process. They are then made before the commit, otherwise after it."""

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> Matrix: ...


class Store(Protocol):
    """The system of record. Every verb takes a scope and touches nothing outside it, except `pending`, `attach`, `backup` and
    `doctor`, which work on the whole store. One call is one transaction.

    A store raises only errors of `keepstone.errors`."""

    @property
    def id(self) -> str:
        """Created with the store and never changed."""

    @property
    def message_log(self) -> MessageLog: ...

    @property
    def states(self) -> StateStore: ...

    @property
    def jobs(self) -> JobQueue: ...

    @property
    def retention(self) -> RetentionStore: ...

    @property
    def reviews(self) -> Reviews: ...

    @property
    def leases(self) -> Leases: ...

    @property
    def audit_log(self) -> AuditLog: ...

    # -- the embedder ---------------------------------------------------------------------------------------------
    def embedder(self) -> tuple[str, int] | None:
        """(id, dimension) of the vectors in the store; None before the first vector."""

    def bind_embedder(self, id: str, dimension: int) -> None:
        """Record the embedder of a new store. Raises EmbedderMismatch if the store has vectors of another."""

    def next_embedder(self) -> tuple[str, int] | None:
        """The embedder that the store is being moved to, if any."""

    def prepare_embedder(self, id: str, dimension: int) -> None:
        """Start or resume collecting vectors of the next embedder. Vectors for a different next embedder are dropped."""

    def change_embedder(self, id: str, dimension: int) -> int:
        """Switch to the collected vectors of this embedder in one transaction. Records without one become pending; returns
        their number."""

    def pending(self, limit: int, after: int = 0, *, next: bool = False) -> Sequence[Pending]:
        """Records and passages without a vector of the embedder (or of the next one): first records by sequence, then passages.
        `after` is the sequence of the last one read."""

    def pending_count(self, *, next: bool = False) -> int:
        """The number of records without a vector."""

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        """Store vectors of pending records. Records that changed or were deleted meanwhile are skipped. Returns the number
        stored."""

    # -- writing --------------------------------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        """Commit drafts in order, all or none, together with the job that is to process them. For each draft, in this order:

        1. A known idempotency key returns its receipt; with another fingerprint it raises Conflict.
        2. A write is refused if one of the records it was made from was deleted or changed, if its key holds a newer value (for
           a derived fact), or if a rate limit is exhausted (the receipt then says when to retry).
        3. A quarantined draft is added; steps 4 to 6 do not apply.
        4. A draft with a key supersedes the record with that key, or is a duplicate if content, metadata, importance, tag and
           kind are equal.
        5. Content equal to that of an active record of the same kind and tag is a duplicate, which may extend the record's time
           to live. Messages and records with a key are exempt.
        6. Of the active records without a key that have the same kind, tag and `dedup_key`, newest first, the draft is merged
           into the first that `merge_check` accepts. Both wordings stay in the history.
        7. Otherwise the draft is added.

        Expired records are ignored. No record is trusted more than the least trusted of its parents. A repetition adds a support
        to the existing record, so that forgetting one of the two keeps it. The audit entry carries the write's reasons. A
        draft's terms must be those of `text.words.record_terms`: removing a record from the word index relies on it."""

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        """Change one record and keep its previous state in the history. A revision that changes nothing is a duplicate. Raises
        NotFound, and Conflict if the expected version is stale or another active record has the new content."""

    def touch(self, scope: Scope, sequences: Mapping[int, int], at: datetime) -> None:
        """Add to the access counts of records (sequence -> count) and set their last access."""

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        """Erase records with their words, vectors, history and every byte of their text. What was derived from them and has no
        other support is erased too: facts, summaries, and digests, whose other originals are restored. The receipt counts the
        erased rows by table. It says 0 if nothing matches."""

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        """Overwrite a record and its history with a redacted form. No byte of the removed text stays in the store. Returns False
        if the record was deleted or changed meanwhile."""

    # -- reading --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None: ...

    def by_key(self, scope: Scope, key: str) -> Record | None: ...

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        """Records in the order of `sequences`; None for those that do not exist."""

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        """(sequence, record) of active records that have not expired, newest first."""

    def count(self, scope: Scope) -> int: ...

    def tags(self, scope: Scope, limit: int = 100) -> Sequence[tuple[str, int]]:
        """The tags in use with their number of memories, largest first. Messages, episodes and summaries are not counted."""

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        """Every version, oldest first, the current one last; None for an unknown id."""

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """Audit entries, newest first."""

    # -- ranking --------------------------------------------------------------------------------------------------
    is_embedded: bool  # whether the store runs in this process, so that a query costs no network round trip

    def stamp(self, scope: Scope) -> tuple[Hashable, Hashable]:
        """(embedder in use, commit marker). Cheap to read; the second differs whenever the scope may have changed."""

    def changes(self, scope: Scope, after: int) -> Changes:
        """The rows of the scope that changed after a change number (0: all rows)."""

    def all_rows(self, scope: Scope, max_bytes: int) -> Changes | None:
        """All rows of the scope; None if they would take more than `max_bytes` in memory."""

    def fetch_stamped(self, scope: Scope, sequences: Sequence[int]) -> tuple[Sequence[Record | None], tuple[Hashable, Hashable]]:
        """`fetch` together with a stamp that is not older than the records, in one round trip."""

    def matching(self, scope: Scope, filter: Filter) -> NDArray[np.int64]:
        """Sequences of the scope's records whose metadata match, ascending."""

    def sequence_of(self, scope: Scope, id: str) -> int | None: ...

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        """The records as of a past time: for each record the last version that was valid at `as_of` and known to the store at
        `known_at` (None: no bound)."""

    def search_words(
        self, scope: Scope, terms: Sequence[str], limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        """Numbers of the best matches for any of the terms, records and passages, best first. For scopes too large to hold in
        memory."""

    def search_recent(self, scope: Scope, limit: int, search_filter: SearchFilter = SearchFilter()) -> Sequence[int]:
        """Sequences of the newest records."""

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        """The number of the scope's records and further passages that contain each term."""

    def search_vectors(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        """Numbers of the nearest records and passages, nearest first. For scopes too large to hold in memory."""

    def index_rows(self, scope: Scope, numbers: Sequence[int], *, whole: bool = False) -> IndexRows:
        """The ranking columns of these records and passages, and of the records that the passages belong to; `whole`: with all
        passages of the records."""

    def neighbours(self, scope: Scope, sequences: Sequence[int], reach: int) -> Sequence[int]:
        """Sequences of the messages up to `reach` before and after these messages in their sessions, ascending. Records of
        other kinds have no neighbours."""

    def index_size(self, scope: Scope) -> int:
        """The approximate size of the scope's ranking columns in memory, in bytes."""

    # -- export and maintenance -----------------------------------------------------------------------------------
    def export_records(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[RecordExport]:
        """Every record of the scope, or those with these ids, with their history, by sequence, as one consistent view."""

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        """Store exported records with their ids, versions and times. Records that exist (by id, key or content) are skipped.
        Returns (added, skipped)."""

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """Write a consistent copy of the whole store while it is in use."""

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        """Check the integrity of the database, every content hash, and that text, words and vectors agree. `analyse` returns the
        terms of a content and its key."""

    def tune(self, progress: Progress | None = None) -> Sequence[str]:
        """Run the periodic maintenance of the database. Returns messages: what was done, and what an administrator has to do."""

    def close(self) -> None: ...


class PagedStore(Store, Protocol):
    """A store in one file, whose large scopes are read by pages. It calls `erased` with a scope in which something was forgotten
    or redacted; the function erases its copies and returns whether all are gone."""

    erased: Callable[[Scope], bool]

    def index_page(self, scope: Scope, after: int, limit: int) -> Changes:
        """The ranking columns of the scope's next records by sequence, and the last change number."""

    def index_mark(self, scope: Scope, number: int) -> str | None:
        """The audit entry with a number, as text, to tell one store from another; None if there is none."""

    def index_erased(self, scope: Scope, after: int) -> Sequence[int]:
        """The sequences of records that were forgotten, undone or redacted after a change number."""

    def index_count(self, scope: Scope) -> int:
        """The number of records in the scope, of any status."""
