"""Messages in order, named states and the job queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from keepstone.ports.queue import Job, JobDraft, JobState, Session
from keepstone.stores.common.rows import job_of, packed, record_of, unpacked
from keepstone.stores.common.scope_catalog import StorePart
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import WriteContext, audit
from keepstone.text.times import instant, micros
from keepstone.types import Record, Scope

_MAX_SEQUENCE = 2**62
_MAX_DELAY = timedelta(days=1)  # a due time further ahead was set by a clock that ran ahead


class StoredMessageLog(StorePart):
    """Messages in the order of arrival."""

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
        until, now = _MAX_SEQUENCE if before is None else before, micros(self._catalog.clock())
        with self._catalog.reading(scope) as (db, number):
            values = {"scope": number, "after": after, "before": until, "now": now, "limit": limit}
            order = "ASC" if oldest else "DESC"
            if session is None:
                rows = db.all("turns_of_all", values, order=order)
            else:
                rows = db.all("turns_of_session", {**values, "session": session}, order=order)
        return [record_of(row, scope) for row in (rows if oldest else reversed(rows))]

    def count(self, scope: Scope, session: str | None, *, after: int = 0) -> int:
        now = micros(self._catalog.clock())
        with self._catalog.reading(scope) as (db, number):
            if session is None:
                return int(db.one("turns_count_all", (number, after, now))[0])
            return int(db.one("turns_count_session", (number, session, after, now))[0])

    def sessions(self, scope: Scope, limit: int = 100) -> Sequence[Session]:
        with self._catalog.reading(scope) as (db, number):
            rows = db.all("sessions", (number, micros(self._catalog.clock()), limit))
        return [Session(name, count, instant(first), instant(last)) for name, count, first, last in rows]


class StoredStates(StorePart):
    """Named texts."""

    def get(self, scope: Scope, name: str) -> str | None:
        with self._catalog.reading(scope) as (db, number):
            row = db.one("state_get", (number, name))
        return None if row is None else str(row[0])

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
        def work(db: Transaction, context: WriteContext) -> bool:
            if new or expected is not None:
                standing = db.one("state_get", (context.scope, name))
                if standing != (None if new else (expected,)):
                    return False
            for id, version in made_from:
                if db.one("record_version", (context.scope, id)) != (version,):
                    return False
            db.run("state_put", (context.scope, name, value, session, context.now))
            return True

        return self._catalog.change(scope, work)

    def drop(self, scope: Scope, name: str) -> bool:
        return self._catalog.write(scope.tenant, lambda db: bool(db.count("state_drop", (self._catalog.number(db, scope), name))))

    def all(self, scope: Scope) -> Sequence[tuple[str, str]]:
        with self._catalog.reading(scope) as (db, number):
            return [(name, value) for name, value in db.all("state_all", (number,))]


class StoredJobs(StorePart):
    """The job queue; without a scope, of every tenant in turn."""

    def add(self, scope: Scope, draft: JobDraft, ids: Sequence[str]) -> None:
        self._catalog.change(scope, lambda db, context: queue(db, context, draft, ids))

    def claim(
        self,
        kinds: Collection[str],
        lease: timedelta,
        *,
        early: bool = False,
        scope: Scope | None = None,
        exclude: Collection[int] = (),
    ) -> Job | None:
        def work(db: Transaction) -> Job | None:
            now = self._catalog.clock()
            number = None if scope is None else self._catalog.number(db, scope)
            if scope is not None and number is None:
                return None
            row = db.one("job_next", {
                "scope": number, "kinds": packed(sorted(kinds)), "early": early, "now": micros(now),
                "beyond": micros(now + _MAX_DELAY), "exclude": packed(sorted(exclude)),
            })  # fmt: skip
            if row is None:
                return None
            job = job_of(row)
            db.run("job_claim", (job.number, micros(now + lease)))
            return replace(job, state="running", attempts=job.attempts + 1, claim=job.claim + 1)

        for tenant in self._tenants(scope):
            found = self._catalog.write(tenant, work)
            if found is not None:
                return found
        return None

    def _tenants(self, scope: Scope | None) -> Sequence[str]:
        return self._catalog.driver.tenants("jobs") if scope is None else (scope.tenant,)

    def finish(self, job: Job) -> None:
        self._catalog.write(job.scope.tenant, lambda db: db.run("job_finish", (job.number, job.claim)))

    def put_back(self, job: Job, problem: str, due: datetime) -> None:
        self._return(job, "waiting", problem, due)

    def give_up(self, job: Job, problem: str) -> None:
        self._return(job, "failed", problem, job.due)

    def _return(self, job: Job, state: JobState, problem: str, due: datetime) -> None:
        values = (job.number, job.claim, state, problem, micros(due))
        self._catalog.write(job.scope.tenant, lambda db: db.run("job_put_back", values))

    def list(self, scope: Scope | None = None, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        found: list[Job] = []
        for tenant in self._tenants(scope):
            with self._catalog.driver.reading(tenant) as db:
                number = None if scope is None else self._catalog.number(db, scope)
                if scope is None or number is not None:
                    found += [job_of(row) for row in db.all("job_list", (number, state, limit))]
        return sorted(found, key=lambda job: job.number)[:limit]

    def retry(self, scope: Scope | None, number: int | None = None) -> int:
        return self._change(scope, "job_retry", (number, micros(self._catalog.clock())))

    def drop(self, scope: Scope | None, number: int) -> bool:
        return bool(self._change(scope, "job_drop", (number,)))

    def _change(self, scope: Scope | None, name: str, values: tuple[object, ...]) -> int:
        def work(db: Transaction) -> int:
            where = None if scope is None else self._catalog.number(db, scope)
            return 0 if scope is not None and where is None else db.count(name, (where, *values))

        return sum(self._catalog.write(tenant, work) for tenant in self._tenants(scope))

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        dues = []
        for tenant in self._tenants(None):
            with self._catalog.driver.reading(tenant) as db:
                dues.append(db.one("job_next_due", (packed(sorted(kinds)),))[0])
        return min((instant(due) for due in dues if due is not None), default=None)


def queue(db: Transaction, context: WriteContext, draft: JobDraft, ids: Sequence[str]) -> None:
    """Add messages to a waiting job, and queue further jobs for the rest."""
    waiting = list(ids)
    row = db.one("job_open", (context.scope, draft.kind, draft.session))
    if row is not None and waiting:
        held = unpacked(row[1])
        room = draft.max_messages - len(held)
        if room > 0:
            db.run("job_extend", (row[0], packed(held + waiting[:room])))
            waiting = waiting[room:]
    most = max(1, draft.max_messages)
    for start in range(0, len(waiting), most):
        part = waiting[start : start + most]
        number = audit(db, context, "queue", "added", None, None, 0, "system")  # a unique number
        db.run("job_add", (number, context.scope, draft.kind, draft.session, packed(part), micros(draft.due), context.now))


def queue_written(db: Transaction, context: WriteContext, draft: JobDraft, after: int) -> None:
    """Queue a job for the messages that this transaction added after an audit number."""
    queue(db, context, draft, [id for (id,) in db.all("job_fresh", (context.scope, after))])
