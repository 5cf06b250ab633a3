"""Typed base classes of wrappers: each hands every verb of a port to another implementation.

A wrapper overrides the verbs that it changes. Nothing is forwarded by `__getattr__`, so a verb that is new in a port has to be
added here, and `tests/ports/test_forwarding.py` fails until each wrapper says what it does with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from keepstone.ports.maintenance import AuditLog, Leases, RetentionStore, Reviews
from keepstone.ports.queue import JobQueue, MessageLog, StateStore
from keepstone.ports.stores import Store

P = ParamSpec("P")
T = TypeVar("T")


def _forward(verb: Callable[Concatenate[Any, P], T], attribute: str) -> Callable[Concatenate[Any, P], T]:
    """A method that calls a verb of a port on the implementation in an attribute."""
    name = verb.__name__

    @wraps(verb)
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = getattr(getattr(self, attribute), name)(*args, **kwargs)
        return result

    return call


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
    embedder = _forward(Store.embedder, "_store")
    bind_embedder = _forward(Store.bind_embedder, "_store")
    next_embedder = _forward(Store.next_embedder, "_store")
    prepare_embedder = _forward(Store.prepare_embedder, "_store")
    change_embedder = _forward(Store.change_embedder, "_store")
    pending = _forward(Store.pending, "_store")
    pending_count = _forward(Store.pending_count, "_store")
    attach = _forward(Store.attach, "_store")

    # -- writing --------------------------------------------------------------------------------------------------
    write = _forward(Store.write, "_store")
    revise = _forward(Store.revise, "_store")
    touch = _forward(Store.touch, "_store")
    forget = _forward(Store.forget, "_store")
    redact = _forward(Store.redact, "_store")

    # -- reading --------------------------------------------------------------------------------------------------
    get = _forward(Store.get, "_store")
    by_key = _forward(Store.by_key, "_store")
    fetch = _forward(Store.fetch, "_store")
    list = _forward(Store.list, "_store")
    count = _forward(Store.count, "_store")
    tags = _forward(Store.tags, "_store")
    history = _forward(Store.history, "_store")
    audit = _forward(Store.audit, "_store")

    # -- ranking --------------------------------------------------------------------------------------------------
    stamp = _forward(Store.stamp, "_store")
    changes = _forward(Store.changes, "_store")
    all_rows = _forward(Store.all_rows, "_store")
    fetch_stamped = _forward(Store.fetch_stamped, "_store")
    matching = _forward(Store.matching, "_store")
    sequence_of = _forward(Store.sequence_of, "_store")
    snapshot = _forward(Store.snapshot, "_store")
    search_words = _forward(Store.search_words, "_store")
    search_recent = _forward(Store.search_recent, "_store")
    document_frequencies = _forward(Store.document_frequencies, "_store")
    search_vectors = _forward(Store.search_vectors, "_store")
    index_rows = _forward(Store.index_rows, "_store")
    neighbours = _forward(Store.neighbours, "_store")
    index_size = _forward(Store.index_size, "_store")

    # -- export and maintenance -----------------------------------------------------------------------------------
    export_records = _forward(Store.export_records, "_store")
    import_records = _forward(Store.import_records, "_store")
    backup = _forward(Store.backup, "_store")
    doctor = _forward(Store.doctor, "_store")
    tune = _forward(Store.tune, "_store")
    close = _forward(Store.close, "_store")


class ForwardingMessageLog:
    """A message log that hands every verb to another."""

    def __init__(self, message_log: MessageLog) -> None:
        self._message_log = message_log

    page = _forward(MessageLog.page, "_message_log")
    count = _forward(MessageLog.count, "_message_log")
    sessions = _forward(MessageLog.sessions, "_message_log")


class ForwardingStateStore:
    """A state store that hands every verb to another."""

    def __init__(self, states: StateStore) -> None:
        self._states = states

    get = _forward(StateStore.get, "_states")
    put = _forward(StateStore.put, "_states")
    drop = _forward(StateStore.drop, "_states")
    all = _forward(StateStore.all, "_states")


class ForwardingJobQueue:
    """A job queue that hands every verb to another."""

    def __init__(self, jobs: JobQueue) -> None:
        self._jobs = jobs

    add = _forward(JobQueue.add, "_jobs")
    claim = _forward(JobQueue.claim, "_jobs")
    finish = _forward(JobQueue.finish, "_jobs")
    put_back = _forward(JobQueue.put_back, "_jobs")
    give_up = _forward(JobQueue.give_up, "_jobs")
    list = _forward(JobQueue.list, "_jobs")
    retry = _forward(JobQueue.retry, "_jobs")
    drop = _forward(JobQueue.drop, "_jobs")
    next_due = _forward(JobQueue.next_due, "_jobs")


class ForwardingRetentionStore:
    """A retention store that hands every verb to another."""

    def __init__(self, retention: RetentionStore) -> None:
        self._retention = retention

    scopes = _forward(RetentionStore.scopes, "_retention")
    scopes_with_record = _forward(RetentionStore.scopes_with_record, "_retention")
    summaries = _forward(RetentionStore.summaries, "_retention")
    lineage = _forward(RetentionStore.lineage, "_retention")
    stats = _forward(RetentionStore.stats, "_retention")
    old = _forward(RetentionStore.old, "_retention")
    lapsed = _forward(RetentionStore.lapsed, "_retention")
    faded = _forward(RetentionStore.faded, "_retention")
    excess = _forward(RetentionStore.excess, "_retention")
    archive = _forward(RetentionStore.archive, "_retention")
    restore = _forward(RetentionStore.restore, "_retention")
    undo = _forward(RetentionStore.undo, "_retention")
    archived = _forward(RetentionStore.archived, "_retention")


class ForwardingReviews:
    """A review list that hands every verb to another."""

    def __init__(self, reviews: Reviews) -> None:
        self._reviews = reviews

    add = _forward(Reviews.add, "_reviews")
    list = _forward(Reviews.list, "_reviews")
    get = _forward(Reviews.get, "_reviews")
    settle = _forward(Reviews.settle, "_reviews")
    release = _forward(Reviews.release, "_reviews")
    confirm = _forward(Reviews.confirm, "_reviews")


class ForwardingAuditLog:
    """An audit log that hands every verb to another."""

    def __init__(self, audit_log: AuditLog) -> None:
        self._audit_log = audit_log

    note = _forward(AuditLog.note, "_audit_log")
    note_foreign = _forward(AuditLog.note_foreign, "_audit_log")
    count = _forward(AuditLog.count, "_audit_log")
    places = _forward(AuditLog.places, "_audit_log")
    number_at = _forward(AuditLog.number_at, "_audit_log")
    feed = _forward(AuditLog.feed, "_audit_log")
    stamps = _forward(AuditLog.stamps, "_audit_log")
    forgotten = _forward(AuditLog.forgotten, "_audit_log")
    last = _forward(AuditLog.last, "_audit_log")
    days = _forward(AuditLog.days, "_audit_log")
    verify = _forward(AuditLog.verify, "_audit_log")
