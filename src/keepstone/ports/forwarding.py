"""Typed base classes of wrappers: each hands every verb of a port to another implementation.

A wrapper overrides the verbs that it changes. Nothing is forwarded by `__getattr__`, so a verb that is new in a port has to be
added here, and `tests/ports/test_forwarding.py` fails until each wrapper says what it does with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.filters import Filter
from keepstone.ports.maintenance import (
    Age,
    ArchivedRecord,
    ArchiveReason,
    AuditLog,
    ChainReport,
    Flag,
    Leases,
    RetentionStore,
    ReviewItem,
    Reviews,
    ReviewState,
    ScopeStats,
)
from keepstone.ports.queue import Job, JobDraft, JobQueue, JobState, MessageLog, Session, StateStore
from keepstone.ports.stores import Progress, Store
from keepstone.ports.values import (
    Changes,
    ImportRow,
    IndexRows,
    ListQuery,
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


class ForwardingStore:
    """A store that hands every verb to another store. The parts are attributes, which a wrapper may replace."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_embedded = store.is_embedded
        self.message_log: MessageLog = store.message_log
        self.states: StateStore = store.states
        self.jobs: JobQueue = store.jobs
        self.retention: RetentionStore = store.retention
        self.reviews: Reviews = store.reviews
        self.leases: Leases = store.leases
        self.audit_log: AuditLog = store.audit_log

    @property
    def id(self) -> str:
        return self._store.id

    # -- the embedder ---------------------------------------------------------------------------------------------
    def embedder(self) -> tuple[str, int] | None:
        return self._store.embedder()

    def bind_embedder(self, id: str, dimension: int) -> None:
        self._store.bind_embedder(id, dimension)

    def next_embedder(self) -> tuple[str, int] | None:
        return self._store.next_embedder()

    def prepare_embedder(self, id: str, dimension: int) -> None:
        self._store.prepare_embedder(id, dimension)

    def change_embedder(self, id: str, dimension: int) -> int:
        return self._store.change_embedder(id, dimension)

    def pending(self, limit: int, after: int = 0, *, next: bool = False) -> Sequence[Pending]:
        return self._store.pending(limit, after, next=next)

    def pending_count(self, *, next: bool = False) -> int:
        return self._store.pending_count(next=next)

    def attach(self, vectors: Sequence[tuple[Pending, Vector]], *, next: bool = False) -> int:
        return self._store.attach(vectors, next=next)

    # -- writing --------------------------------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        return self._store.write(scope, writes, job)

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        return self._store.revise(scope, id, revision)

    def touch(self, scope: Scope, sequences: Mapping[int, int], at: datetime) -> None:
        self._store.touch(scope, sequences, at)

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        return self._store.forget(scope, selector)

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        return self._store.redact(scope, row)

    # -- reading --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None:
        return self._store.get(scope, id)

    def by_key(self, scope: Scope, key: str) -> Record | None:
        return self._store.by_key(scope, key)

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        return self._store.fetch(scope, sequences)

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        return self._store.list(scope, query)

    def count(self, scope: Scope) -> int:
        return self._store.count(scope)

    def tags(self, scope: Scope, limit: int = 100) -> Sequence[tuple[str, int]]:
        return self._store.tags(scope, limit)

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        return self._store.history(scope, id)

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        return self._store.audit(scope, since=since, limit=limit)

    # -- ranking --------------------------------------------------------------------------------------------------
    def stamp(self, scope: Scope) -> tuple[Hashable, Hashable]:
        return self._store.stamp(scope)

    def changes(self, scope: Scope, after: int) -> Changes:
        return self._store.changes(scope, after)

    def all_rows(self, scope: Scope, max_bytes: int) -> Changes | None:
        return self._store.all_rows(scope, max_bytes)

    def fetch_stamped(self, scope: Scope, sequences: Sequence[int]) -> tuple[Sequence[Record | None], tuple[Hashable, Hashable]]:
        return self._store.fetch_stamped(scope, sequences)

    def matching(self, scope: Scope, filter: Filter) -> NDArray[np.int64]:
        return self._store.matching(scope, filter)

    def sequence_of(self, scope: Scope, id: str) -> int | None:
        return self._store.sequence_of(scope, id)

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        return self._store.snapshot(scope, as_of, known_at)

    def search_words(
        self, scope: Scope, terms: Sequence[str], limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        return self._store.search_words(scope, terms, limit, search_filter)

    def search_recent(self, scope: Scope, limit: int, search_filter: SearchFilter = SearchFilter()) -> Sequence[int]:
        return self._store.search_recent(scope, limit, search_filter)

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        return self._store.document_frequencies(scope, terms)

    def search_vectors(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> Sequence[int]:
        return self._store.search_vectors(scope, vector, limit, search_filter)

    def index_rows(self, scope: Scope, sequences: Sequence[int]) -> IndexRows:
        return self._store.index_rows(scope, sequences)

    def neighbours(self, scope: Scope, sequences: Sequence[int], reach: int) -> Sequence[int]:
        return self._store.neighbours(scope, sequences, reach)

    def index_size(self, scope: Scope) -> int:
        return self._store.index_size(scope)

    # -- export and maintenance -----------------------------------------------------------------------------------
    def export_records(self, scope: Scope, ids: Sequence[str] | None = None) -> Iterator[RecordExport]:
        return self._store.export_records(scope, ids)

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        return self._store.import_records(scope, rows)

    def backup(self, path: str, progress: Progress | None = None) -> None:
        self._store.backup(path, progress)

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        return self._store.doctor(analyse, progress)

    def tune(self, progress: Progress | None = None) -> Sequence[str]:
        return self._store.tune(progress)

    def close(self) -> None:
        self._store.close()


class ForwardingMessageLog:
    """A message log that hands every verb to another."""

    def __init__(self, message_log: MessageLog) -> None:
        self._message_log = message_log

    def page(
        self,
        scope: Scope,
        session: str | None,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        oldest: bool = False,
    ) -> Sequence[tuple[int, Record]]:
        return self._message_log.page(scope, session, after=after, before=before, limit=limit, oldest=oldest)

    def count(self, scope: Scope, session: str | None, *, after: int = 0) -> int:
        return self._message_log.count(scope, session, after=after)

    def sessions(self, scope: Scope, limit: int = 100) -> Sequence[Session]:
        return self._message_log.sessions(scope, limit)


class ForwardingStateStore:
    """A state store that hands every verb to another."""

    def __init__(self, states: StateStore) -> None:
        self._states = states

    def get(self, scope: Scope, name: str) -> str | None:
        return self._states.get(scope, name)

    def put(
        self,
        scope: Scope,
        name: str,
        value: str,
        *,
        session: str | None = None,
        expected: str | None = None,
        new: bool = False,
        made_from: Sequence[tuple[str, int]] = (),
    ) -> bool:
        return self._states.put(scope, name, value, session=session, expected=expected, new=new, made_from=made_from)

    def drop(self, scope: Scope, name: str) -> bool:
        return self._states.drop(scope, name)

    def all(self, scope: Scope) -> Sequence[tuple[str, str]]:
        return self._states.all(scope)


class ForwardingJobQueue:
    """A job queue that hands every verb to another."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs

    def add(self, scope: Scope, draft: JobDraft, ids: Sequence[str]) -> None:
        self._jobs.add(scope, draft, ids)

    def claim(
        self,
        kinds: Collection[str],
        lease: timedelta,
        *,
        early: bool = False,
        scope: Scope | None = None,
        exclude: Collection[int] = (),
    ) -> Job | None:
        return self._jobs.claim(kinds, lease, early=early, scope=scope, exclude=exclude)

    def finish(self, job: Job) -> None:
        self._jobs.finish(job)

    def put_back(self, job: Job, problem: str, due: datetime) -> None:
        self._jobs.put_back(job, problem, due)

    def give_up(self, job: Job, problem: str) -> None:
        self._jobs.give_up(job, problem)

    def list(self, scope: Scope | None = None, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        return self._jobs.list(scope, state=state, limit=limit)

    def retry(self, scope: Scope | None, number: int | None = None) -> int:
        return self._jobs.retry(scope, number)

    def drop(self, scope: Scope | None, number: int) -> bool:
        return self._jobs.drop(scope, number)

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        return self._jobs.next_due(kinds)


class ForwardingRetentionStore:
    """A retention store that hands every verb to another."""

    def __init__(self, retention: RetentionStore) -> None:
        self._retention = retention

    def scopes(self, tenant: str | None = None, user: str | None = None) -> Sequence[Scope]:
        return self._retention.scopes(tenant, user)

    def scopes_with_record(self, tenant: str, id: str) -> Sequence[Scope]:
        return self._retention.scopes_with_record(tenant, id)

    def lineage(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[tuple[str, str, bool]]:
        return self._retention.lineage(scope, ids)

    def stats(self, scope: Scope, since: datetime) -> ScopeStats:
        return self._retention.stats(scope, since)

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        return self._retention.old(scope, age)

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        return self._retention.lapsed(scope, limit)

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        return self._retention.faded(scope, importance, reads, before)

    def excess(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        return self._retention.excess(scope, most, kinds)

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> tuple[int, int]:
        return self._retention.archive(scope, ids, why)

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        return self._retention.restore(scope, ids, keep_expiry=keep_expiry)

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        return self._retention.undo(scope, ticket)

    def archived(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[ArchiveReason] | None = None, limit: int = 10_000
    ) -> Sequence[ArchivedRecord]:
        return self._retention.archived(scope, before=before, why=why, limit=limit)


class ForwardingReviews:
    """A review list that hands every verb to another."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        return self._reviews.add(scope, flags)

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        return self._reviews.list(scope, state=state, limit=limit, after=after)

    def get(self, scope: Scope, number: int) -> ReviewItem | None:
        return self._reviews.get(scope, number)

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        return self._reviews.settle(scope, number, state, by)

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        return self._reviews.release(scope, id, by, state)

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        return self._reviews.confirm(scope, id, by)


class ForwardingAuditLog:
    """An audit log that hands every verb to another."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log

    def note(self, scope: Scope, verb: str, action: str, source: str, reasons: Sequence[str] = (), id: str | None = None) -> int:
        return self._audit_log.note(scope, verb, action, source, reasons, id)

    def note_foreign(self, scope: Scope, asked: Sequence[tuple[str, str]]) -> int:
        return self._audit_log.note_foreign(scope, asked)

    def last(self, scope: Scope) -> int:
        return self._audit_log.last(scope)

    def days(self, scope: Scope, since: datetime) -> Sequence[datetime]:
        return self._audit_log.days(scope, since)

    def verify(self, tenant: str, head: str | None = None) -> ChainReport:
        return self._audit_log.verify(tenant, head)
