"""The sockets of the house: what flows ask of stores, embedders and clocks.

An adapter implements a Protocol and passes the matching contract in `keepstone.testing`. What crosses a port is in `parcels`.
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

__all__ = ["Clock", "Embedder", "PagedStore", "Progress", "Reranker", "Store"]

Clock = Callable[[], datetime]
Progress = Callable[[int, int], None]  # (done, total)
Reranker = Callable[[str, Sequence[str]], Sequence[float]]  # a query and texts -> how well each answers it, 0 to 1


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. `id` is stable and versioned: the store records it and refuses another.

    It may have a number `deviation`: how far the cosines of a question with unrelated texts spread. Ranking brings them to
    the default embedder's scale by it, and measures it on the scope where there is none."""

    @property
    def id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def local(self) -> bool:
        """True when computed in this process: then it runs before the commit, else after it."""

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> Matrix: ...


class Store(Protocol):
    """Where records live: the truth. Every verb takes the scope; no verb reaches past it, `pending`, `attach`,
    `backup` and `doctor` apart, which are jobs over the whole store. One call is one transaction.

    Errors: only those of `keepstone.errors`."""

    @property
    def id(self) -> str:
        """Made with the store, never changed."""

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

    # -- the embedder whose vectors are in here -------------------------------------------------------------------
    def embedder(self) -> tuple[str, int] | None:
        """(id, dimension) of the vectors in the store; None before the first."""

    def bind_embedder(self, id: str, dimension: int) -> None:
        """Record the embedder of a new store; EmbedderMismatch if vectors of another are in it."""

    def next_embedder(self) -> tuple[str, int] | None:
        """The embedder that the store is on its way to, if it is."""

    def prepare_embedder(self, id: str, dimension: int) -> None:
        """Begin, or go on, to gather vectors of another embedder beside those in use; another one's are dropped."""

    def change_embedder(self, id: str, dimension: int) -> int:
        """From now on vectors are of this embedder, at once and for everybody: those that were gathered, and the rest are
        pending. How many are."""

    def pending(self, limit: int, after: int = 0, *, next: bool = False) -> Sequence[Pending]:
        """Records without a vector of the store's embedder (or of the next one), oldest first, those with a sequence above
        `after`."""

    def pending_count(self, *, next: bool = False) -> int:
        """How many records wait for a vector."""

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        """Give pending records their vectors; those that changed or went meanwhile are left out. The number done."""

    # -- writing --------------------------------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        """Commit drafts, all or none, in order, and with them the job that is to work on them. In turn for each: a known
        idempotency key returns its receipt (or Conflict for another fingerprint); a quarantined draft is added beside
        everything else; a key supersedes the record that has it (duplicate, if content, metadata, importance, tag and kind
        are equal); content equal to an active record's of the same kind and tag is a duplicate, which may prolong its life
        (messages and keyed records exempt); of the active records without a key that have its kind, tag and dedup_key, newest
        first, the first that its judge agrees to takes it in, both wordings staying in history; else the draft is added.
        Expired records stand in nobody's way. A write is refused when what it was made from has gone or changed; a fact that was
        made from something, when its key holds what was said later; and one that finds a limit's bucket empty, with the time to
        come back in the receipt. Nothing is trusted more than the least trusted of its parents. A repetition is one more support
        of what is there, so forgetting one of the two leaves it. The audit row carries the write's reasons. A draft's terms
        must be those of `words.record_terms`: taking a record out of the word index relies on it."""

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        """Change one record, its old state going to history; nothing new is a duplicate. NotFound; Conflict on a stale
        expected version, or when another active record has the new content already."""

    def touch(self, scope: Scope, sequences: Mapping[int, int], at: datetime) -> None:
        """Add to access counts (sequence -> times) and set the last access."""

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        """Erase records with words, vectors, history and every byte of their text, and by lineage whatever was derived from them
        and has no other support: facts, summaries, digests (their other originals come back). The receipt counts what went by
        place. Nothing matching: 0 forgotten."""

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        """Write a record and its past anew, in place, without what was taken out of them; no byte of that stays in the file.
        False if the record has gone or changed."""

    # -- reading --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None: ...

    def by_key(self, scope: Scope, key: str) -> Record | None: ...

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        """Records by sequence, in the order asked; None for those that are gone."""

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        """(sequence, record), newest first; expired records are left out."""

    def count(self, scope: Scope) -> int: ...

    def tags(self, scope: Scope, limit: int = 100) -> Sequence[tuple[str, int]]:
        """The categories in use with how many memories each has, the largest first; messages, episodes and summaries do not
        count."""

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        """Every version, oldest first, the present one last; None for an unknown id."""

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """The trail, newest first."""

    # -- what ranking reads ---------------------------------------------------------------------------------------
    is_embedded: bool  # whether a question costs microseconds, as in a file, and not a journey to a server

    def stamp(self, scope: Scope) -> tuple[Hashable, Hashable]:
        """(which embedder's vectors are given out, what has been committed): cheap, and the second differs whenever
        anything may have changed since it was last read."""

    def changes(self, scope: Scope, after: int) -> Changes:
        """All that changed in the scope after a change number (0: everything there is)."""

    def whole(self, scope: Scope, most: int) -> Changes | None:
        """Everything there is in the scope; None where that would take more than `most` bytes in memory."""

    def fetch_stamped(self, scope: Scope, sequences: Sequence[int]) -> tuple[Sequence[Record | None], tuple[Hashable, Hashable]]:
        """`fetch`, and the stamp as it is no earlier than the records are read: together they cost one question."""

    def matching(self, scope: Scope, filter: Filter) -> NDArray[np.int64]:
        """Sequences of the scope's records whose metadata match, ascending."""

    def sequence_of(self, scope: Scope, id: str) -> int | None: ...

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        """The records as they were: valid at `as_of`, known to the store at `known_at` (None: no bound).
        Of each record's versions known by then and valid by then, the last."""

    def search_words(
        self, scope: Scope, terms: Sequence[str], limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        """Sequences of the best matches for any of the terms, best first: for scopes too large to hold in memory."""

    def search_recent(self, scope: Scope, limit: int, search_filter: SearchFilter = SearchFilter()) -> Sequence[int]:
        """Sequences of the newest records."""

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        """In how many of the scope's records each term stands."""

    def search_vectors(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        """Sequences of the nearest records, nearest first: for scopes too large to hold in memory."""

    def index_rows(self, scope: Scope, sequences: Sequence[int]) -> IndexRows:
        """The ranking columns of these records."""

    def neighbours(self, scope: Scope, sequences: Sequence[int], reach: int) -> Sequence[int]:
        """Sequences of the messages up to `reach` before and after these messages in their sessions, ascending; records of
        other kinds have none."""

    def index_size(self, scope: Scope) -> int:
        """About how many bytes the scope's ranking columns take in memory."""

    # -- moving and keeping ---------------------------------------------------------------------------------------
    def export_records(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[RecordExport]:
        """Every record of the scope with its past (or these), in order of sequence, one consistent view."""

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        """Store archives as they are (ids, versions, times); what is there already (by id, key or content) is skipped.
        (added, skipped)."""

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """A consistent copy of the whole store while it is in use."""

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        """Check the engine's integrity, every content hash, and that text, words and vectors agree; `analyse` gives
        the terms of a content and its key."""

    def tune(self, progress: Progress | None = None) -> Sequence[str]:
        """What the engine needs now and then: in words what was done, or what somebody else has to do."""

    def close(self) -> None: ...


class PagedStore(Store, Protocol):
    """A store that large scopes can be read from a page at a time: those of one file. `erased` is called with a scope where
    something was forgotten or redacted, and tells whether every copy of it has gone."""

    erased: Callable[[Scope], bool]

    def index_page(self, scope: Scope, after: int, limit: int) -> Changes:
        """The ranking columns of the scope's next records by sequence, and the number of the last change."""

    def index_mark(self, scope: Scope, number: int) -> str | None:
        """What the trail says at a number, to tell whether a store is still the same; None where it says nothing."""

    def index_erased(self, scope: Scope, after: int) -> Sequence[int]:
        """The sequences of what was forgotten, taken back or redacted after a change number."""

    def index_count(self, scope: Scope) -> int:
        """How many records the scope has, of any state."""
