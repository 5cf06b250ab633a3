"""GuardedStore: a store behind the guard, the one place where anything is persisted.

Every verb that stores something is here; whatever only reads goes straight to the store. Names that are looked up are cleaned as
they were when they were stored. An id that is asked for and not found may be somebody else's: those are noted, and written into
the trail a little later, so that the answer takes as long as for an id that nobody has.
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
from keepstone.ports.maintenance import Flag, ReviewState
from keepstone.ports.queue import Job, JobDraft
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, ListQuery, Revision, Selector, Write
from keepstone.types import AuditRow, ForgetReceipt, Receipt, Record, Scope, Version

_MANY = 100  # ids that were not found before they are looked at


class GuardedStore:
    """What flows are given in place of the store itself."""

    def __init__(self, store: Store, guard: Guard) -> None:
        self._store = store
        self._guard = guard
        self._missed: list[tuple[Scope, str, str]] = []
        self._noting = threading.Lock()
        self.message_log = GuardedMessageLog(store.message_log, guard)
        self.states = _GuardedStates(store.states, guard)
        self.unguarded_states = store.states  # for what keepstone makes itself, such as keys: nobody's words are in it
        self.jobs = _GuardedJobs(store.jobs, guard)
        self.reviews = _GuardedReviews(store.reviews, guard)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    # -- what is stored -------------------------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        if job is not None and job.session is not None:
            job = replace(job, session=self._guard.name(job.session))
        return self._store.write(scope, [self._guard.write(each) for each in writes], job)

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        if revision.verdict is None:
            revision = self._guard.revision(revision, self._store.get(scope, id))
        try:
            return self._store.revise(scope, id, revision)
        except NotFound:
            self._note(scope, "update", id)
            raise

    def redact(self, scope: Scope, row: ImportRow) -> bool:
        return self._store.redact(scope, self._guard.row(row))

    def import_records(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        cleared = [self._guard.row(row) for row in rows]
        kept = [row for row in cleared if row.verdict is None or not row.verdict.refused]
        added, skipped = self._store.import_records(scope, kept)
        for row in cleared:
            if row.verdict is not None and row.verdict.refused:
                self._store.audit_log.note(scope, "import", "refused", row.archive.record.source, row.verdict.reasons)
        return added, skipped + len(cleared) - len(kept)

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        receipt = self._store.forget(scope, self._cleaned(selector))
        if selector.id is not None and not receipt.forgotten:
            self._note(scope, "forget", selector.id)
        return receipt

    def _cleaned(self, selector: Selector) -> Selector:
        key, source, session = (
            None if value is None else self._guard.name(value) for value in (selector.key, selector.source, selector.session)
        )
        return replace(selector, key=key, source=source, session=session)

    # -- what is looked up ----------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None:
        record = self._store.get(scope, id)
        if record is None:
            self._note(scope, "get", id)
        return record

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        versions = self._store.history(scope, id)
        if versions is None:
            self._note(scope, "history", id)
        return versions

    def by_key(self, scope: Scope, key: str) -> Record | None:
        return self._store.by_key(scope, self._guard.name(key))

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        if query.session is not None or query.tag is not None:
            session, tag = (None if name is None else self._guard.name(name) for name in (query.session, query.tag))
            query = replace(query, session=session, tag=tag)
        return self._store.list(scope, query)

    def sequence_of(self, scope: Scope, id: str) -> int | None:
        sequence = self._store.sequence_of(scope, id)
        if sequence is None:
            self._note(scope, "why", id)
        return sequence

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        with contextlib.suppress(KeepstoneError):  # a full disk keeps nobody from reading the trail
            self.flush()
        return self._store.audit(scope, since=since, limit=limit)

    # -- ids that belong to others --------------------------------------------------------------------------------
    def _note(self, scope: Scope, verb: str, id: str) -> None:
        with self._noting:
            self._missed.append((scope, verb, id))
            many = len(self._missed) >= _MANY
        if many:
            with contextlib.suppress(KeepstoneError):  # a busy store: they wait for the next time
                self.flush()

    def flush(self) -> None:
        """Write the ids that were asked for and belong to another scope into the trail."""
        with self._noting:
            missed, self._missed = self._missed, []
        try:
            for scope in dict.fromkeys(each[0] for each in missed):
                self._store.audit_log.foreign(scope, [(verb, id) for owner, verb, id in missed if owner == scope])
        except KeepstoneError:
            with self._noting:
                self._missed = missed[:_MANY] + self._missed
            raise

    def close(self) -> None:
        with contextlib.suppress(KeepstoneError):
            self.flush()
        self._store.close()


class GuardedMessageLog:
    """Turns by the names their sessions were stored under."""

    def __init__(self, turns: Any, guard: Guard) -> None:
        self._turns = turns
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._turns, name)

    def page(self, scope: Scope, session: str | None, **rest: Any) -> Any:
        return self._turns.page(scope, None if session is None else self._guard.name(session), **rest)

    def count(self, scope: Scope, session: str | None, **rest: Any) -> Any:
        return self._turns.count(scope, None if session is None else self._guard.name(session), **rest)


class _GuardedStates:
    """Texts under names: summaries of what was said, what is in hand."""

    def __init__(self, states: Any, guard: Guard) -> None:
        self._states = states
        self._guard = guard

    def get(self, scope: Scope, name: str) -> Any:
        return self._states.get(scope, self._guard.name(name))

    def put(self, scope: Scope, name: str, value: str, *, session: str | None = None, **rest: Any) -> Any:
        where = None if session is None else self._guard.name(session)
        return self._states.put(scope, self._guard.name(name), self._guard.text(value, "a state"), session=where, **rest)

    def all(self, scope: Scope) -> Any:
        return self._states.all(scope)

    def drop(self, scope: Scope, name: str) -> Any:
        return self._states.drop(scope, self._guard.name(name))


class _GuardedJobs:
    """The queue: what is wrong with a job is told without what was in it."""

    def __init__(self, jobs: Any, guard: Guard) -> None:
        self._jobs = jobs
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._jobs, name)

    def add(self, scope: Scope, draft: JobDraft, ids: Sequence[str]) -> None:
        session = None if draft.session is None else self._guard.name(draft.session)
        self._jobs.add(scope, replace(draft, session=session), ids)

    def put_back(self, job: Job, problem: str, due: datetime) -> None:
        self._jobs.put_back(job, self._guard.text(problem, "a problem"), due)

    def give_up(self, job: Job, problem: str) -> None:
        self._jobs.give_up(job, self._guard.text(problem, "a problem"))


class _GuardedReviews:
    """The review list: who decided, and why something is on it."""

    def __init__(self, reviews: Any, guard: Guard) -> None:
        self._reviews = reviews
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reviews, name)

    def add(self, scope: Scope, flags: Sequence[Flag]) -> Any:
        return self._reviews.add(scope, [replace(each, reason=self._guard.text(each.reason, "a reason")) for each in flags])

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> Any:
        return self._reviews.settle(scope, number, state, self._guard.name(by))

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> Any:
        return self._reviews.release(scope, id, self._guard.name(by), state)

    def confirm(self, scope: Scope, id: str, by: str = "user") -> Any:
        return self._reviews.confirm(scope, id, self._guard.name(by))
