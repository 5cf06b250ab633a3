"""GuardedStore: a store behind the guard. Everything that flows persist passes through it.

Every verb that stores text is overridden here; the others are forwarded. Names in a lookup are cleaned as they were when they
were stored. An id that is not found may belong to another scope: such ids are collected and audited later, so that the response
takes as long as for an id that does not exist.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from keepstone.errors import KeepstoneError, NotFound
from keepstone.guard.guard import Guard
from keepstone.ports.forwarding import (
    ForwardingAuditLog,
    ForwardingJobQueue,
    ForwardingMessageLog,
    ForwardingReviews,
    ForwardingStateStore,
    ForwardingStore,
)
from keepstone.ports.maintenance import Flag, ReviewState
from keepstone.ports.queue import Job, JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, ListQuery, Revision, Selector, Write
from keepstone.types import AuditRow, ForgetReceipt, Receipt, Record, Scope, Version

_MAX_MISSED_IDS = 100  # ids not found that are collected before they are checked against other scopes


class GuardedStore(ForwardingStore):
    """The store that flows use."""

    def __init__(self, store: Store, guard: Guard) -> None:
        super().__init__(store)
        self._guard = guard
        self._missed: list[tuple[Scope, str, str]] = []
        self._missed_lock = threading.Lock()
        self.message_log = GuardedMessageLog(store.message_log, guard)
        self.states = GuardedStates(store.states, guard)
        self.unguarded_states = store.states  # for text that keepstone generates, such as keys
        self.jobs = GuardedJobs(store.jobs, guard)
        self.reviews = GuardedReviews(store.reviews, guard)
        self.audit_log = GuardedAuditLog(store.audit_log, guard)

    # -- verbs that store text ------------------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        if job is not None:
            job = _clean_draft(job, self._guard)
        if any(write.screening is None for write in writes):
            raise TypeError("a write reached the store without being screened: use WriteFlow.remember.")
        return self._store.write(scope, writes, job)

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        if revision.screening is None:
            raise TypeError("a revision reached the store without being screened: use WriteFlow.update.")
        try:
            return self._store.revise(scope, id, revision)
        except NotFound:
            self._collect_missed(scope, "update", id)
            raise

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        return self._store.redact(scope, self._guard.screen_import(replace(row, vouched=True)))

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        screened = [self._guard.screen_import(row) for row in rows]
        accepted = [row for row in screened if row.screening is None or not row.screening.refused]
        added, skipped = self._store.import_records(scope, accepted)
        for row in screened:
            if row.screening is not None and row.screening.refused:
                self._store.audit_log.note(scope, "import", "refused", row.archive.record.source, row.screening.reasons)
        return added, skipped + len(screened) - len(accepted)

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        key, source, session = (_clean_name(name, self._guard) for name in (selector.key, selector.source, selector.session))
        receipt = self._store.forget(scope, replace(selector, key=key, source=source, session=session))
        if selector.id is not None and not receipt.forgotten:
            self._collect_missed(scope, "forget", selector.id)
        return receipt

    # -- lookups --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None:
        record = self._store.get(scope, id)
        if record is None:
            self._collect_missed(scope, "get", id)
        return record

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        versions = self._store.history(scope, id)
        if versions is None:
            self._collect_missed(scope, "history", id)
        return versions

    def by_key(self, scope: Scope, key: str) -> Record | None:
        return self._store.by_key(scope, self._guard.clean_name(key))

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        if query.session is not None or query.tag is not None or query.kind is not None:
            session, tag, kind = (_clean_name(name, self._guard) for name in (query.session, query.tag, query.kind))
            query = replace(query, session=session, tag=tag, kind=kind)
        return self._store.list(scope, query)

    def sequence_of(self, scope: Scope, id: str) -> int | None:
        sequence = self._store.sequence_of(scope, id)
        if sequence is None:
            self._collect_missed(scope, "why", id)
        return sequence

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        with contextlib.suppress(KeepstoneError):  # a full disk must not prevent reading the audit log
            self.flush()
        return self._store.audit(scope, since=since, limit=limit)

    # -- ids of other scopes --------------------------------------------------------------------------------------
    def _collect_missed(self, scope: Scope, verb: str, id: str) -> None:
        with self._missed_lock:
            self._missed.append((scope, verb, id))
            full = len(self._missed) >= _MAX_MISSED_IDS
        if full:
            with contextlib.suppress(KeepstoneError):  # the store is busy: they are written at the next flush
                self.flush()

    def flush(self) -> None:
        """Audit the ids that were requested and belong to another scope."""
        with self._missed_lock:
            missed, self._missed = self._missed, []
        try:
            for scope in dict.fromkeys(owner for owner, _, _ in missed):
                self._store.audit_log.note_foreign(scope, [(verb, id) for owner, verb, id in missed if owner == scope])
        except KeepstoneError:
            with self._missed_lock:
                self._missed = missed[:_MAX_MISSED_IDS] + self._missed
            raise

    def close(self) -> None:
        with contextlib.suppress(KeepstoneError):
            self.flush()
        self._store.close()


class _Guarded:
    """A part of the store, wrapped by the second base class of a subclass, with the guard."""

    def __init__(self, part: Any, guard: Guard) -> None:
        super().__init__(part)  # type: ignore[call-arg]
        self._guard = guard


class GuardedMessageLog(_Guarded, ForwardingMessageLog):
    """Messages, looked up by the names their sessions were stored under."""

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
        name = _clean_name(session, self._guard)
        return self._message_log.page(scope, name, after=after, before=before, limit=limit, oldest=oldest)

    def count(self, scope: Scope, session: str | None, *, after: int = 0) -> int:
        return self._message_log.count(scope, _clean_name(session, self._guard), after=after)


class GuardedStates(_Guarded, ForwardingStateStore):
    """Named texts: summaries of sessions, working memory."""

    def get(self, scope: Scope, name: str) -> str | None:
        return self._states.get(scope, self._guard.clean_name(name))

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
        session = _clean_name(session, self._guard)
        name, text = self._guard.clean_name(name), self._guard.redact_text(value, "a state")
        return self._states.put(scope, name, text, session=session, expected=expected, new=new, made_from=made_from)

    def drop(self, scope: Scope, name: str) -> bool:
        return self._states.drop(scope, self._guard.clean_name(name))


class GuardedJobs(_Guarded, ForwardingJobQueue):
    """The job queue: a job's problem is stored without sensitive values."""

    def add(self, scope: Scope, draft: JobDraft, ids: Sequence[str]) -> None:
        self._jobs.add(scope, _clean_draft(draft, self._guard), ids)

    def put_back(self, job: Job, problem: str, due: datetime) -> None:
        self._jobs.put_back(job, self._guard.redact_text(problem, "a problem"), due)

    def give_up(self, job: Job, problem: str) -> None:
        self._jobs.give_up(job, self._guard.redact_text(problem, "a problem"))


class GuardedReviews(_Guarded, ForwardingReviews):
    """The review list: the reason of a flag and the name of the reviewer are cleaned."""

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        return self._reviews.add(
            scope, [replace(flag, reason=self._guard.redact_text(flag.reason, "a reason")) for flag in flags]
        )

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        return self._reviews.settle(scope, number, state, self._guard.clean_name(by))

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        return self._reviews.release(scope, id, self._guard.clean_name(by), state)

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        return self._reviews.confirm(scope, id, self._guard.clean_name(by))


class GuardedAuditLog(_Guarded, ForwardingAuditLog):
    """The audit log: source and reasons of an entry are cleaned."""

    def note(self, scope: Scope, verb: str, action: str, source: str, reasons: Sequence[str] = (), id: str | None = None) -> int:
        cleaned = [self._guard.redact_text(reason, "a reason") for reason in reasons]
        return self._audit_log.note(scope, verb, action, self._guard.clean_name(source), cleaned, id)


def _clean_name(name: str | None, guard: Guard) -> str | None:
    return None if name is None else guard.clean_name(name)


def _clean_draft(draft: JobDraft, guard: Guard) -> JobDraft:
    return replace(draft, session=_clean_name(draft.session, guard))
