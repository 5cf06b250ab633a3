"""Turns in order, states, jobs: what the file keeps beside memories. Imports: desk, types, writes, rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import apsw

from recollect.desk import Job, JobDraft, JobState, Session
from recollect.ports import Clock
from recollect.stores.sqlite.driver import Driver, all_rows, one_row
from recollect.stores.sqlite.moment import Moment, audit, sql
from recollect.stores.sqlite.rows import job_of, packed, record_of, unpacked
from recollect.times import instant, micros
from recollect.types import Record, Scope

_LAST = 2**62
_BEYOND = timedelta(days=1)  # later than any job is put off: a due time past this was set by a clock that ran ahead


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store's scopes are looked up: their number, or what a transaction needs to write there."""

    driver: Driver
    clock: Clock
    number: Callable[[apsw.Connection, Scope], int | None]
    moment: Callable[[apsw.Connection, Scope], Moment]
    write: Callable[[Callable[[apsw.Connection], Any]], Any]  # commits some work, and what it gives is given back


class SqliteTurns:
    """Messages in the order they came."""

    def __init__(self, place: Place) -> None:
        self._place = place

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
        until, now = _LAST if before is None else before, micros(self._place.clock())
        with self._place.driver.reading() as db:
            number = self._place.number(db, scope)
            statement = sql.turns_of_all if session is None else sql.turns_of_session
            statement = statement.replace("{order}", "ASC" if oldest else "DESC")
            values = {"scope": number, "session": session, "after": after, "before": until, "now": now, "limit": limit}
            rows = all_rows(db, statement, values)
        return [record_of(row, scope) for row in (rows if oldest else reversed(rows))]

    def count(self, scope: Scope, session: str | None, *, after: int = 0) -> int:
        now = micros(self._place.clock())
        with self._place.driver.reading() as db:
            number = self._place.number(db, scope)
            if session is None:
                return int(one_row(db, sql.turns_count_all, (number, after, now))[0])
            return int(one_row(db, sql.turns_count_session, (number, session, after, now))[0])

    def sessions(self, scope: Scope, limit: int = 100) -> Sequence[Session]:
        with self._place.driver.reading() as db:
            rows = all_rows(db, sql.sessions, (self._place.number(db, scope), micros(self._place.clock()), limit))
        return [Session(name, count, instant(first), instant(last)) for name, count, first, last in rows]


class SqliteStates:
    """Texts under names."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def get(self, scope: Scope, name: str) -> str | None:
        with self._place.driver.reading() as db:
            row = one_row(db, sql.state_get, (self._place.number(db, scope), name))
        return None if row is None else str(row[0])

    def put(
        self,
        scope: Scope,
        name: str,
        value: str,
        *,
        session: str | None = None,
        expected: str | None = None,
        made_from: Sequence[tuple[str, int]] = (),
    ) -> bool:
        def work(db: apsw.Connection) -> bool:
            at = self._place.moment(db, scope)
            if expected is not None and one_row(db, sql.state_get, (at.scope, name)) != (expected,):
                return False
            for id, version in made_from:
                if one_row(db, sql.record_version, (at.scope, id)) != (version,):
                    return False
            db.execute(sql.state_put, (at.scope, name, value, session, at.now))
            return True

        return bool(self._place.write(work))

    def drop(self, scope: Scope, name: str) -> bool:
        def work(db: apsw.Connection) -> bool:
            db.execute(sql.state_drop, (self._place.number(db, scope), name))
            return bool(db.changes())

        return bool(self._place.write(work))

    def all(self, scope: Scope) -> Sequence[tuple[str, str]]:
        with self._place.driver.reading() as db:
            return [(name, value) for name, value in all_rows(db, sql.state_all, (self._place.number(db, scope),))]


class SqliteJobs:
    """The queue of work."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def add(self, scope: Scope, draft: JobDraft, ids: Sequence[str]) -> None:
        self._place.write(lambda db: queue(db, self._place.moment(db, scope), draft, ids))

    def claim(
        self,
        kinds: Collection[str],
        lease: timedelta,
        *,
        early: bool = False,
        scope: Scope | None = None,
        leave: Collection[int] = (),
    ) -> Job | None:
        def work(db: apsw.Connection) -> Job | None:
            now = self._place.clock()
            number = None if scope is None else self._place.number(db, scope)
            if scope is not None and number is None:
                return None
            row = one_row(db, sql.job_next, {
                "scope": number, "kinds": packed(sorted(kinds)), "early": early, "now": micros(now),
                "beyond": micros(now + _BEYOND), "leave": packed(sorted(leave)),
            })  # fmt: skip
            if row is None:
                return None
            job = job_of(row)
            db.execute(sql.job_claim, (job.number, micros(now + lease)))
            return replace(job, state="running", attempts=job.attempts + 1, claim=job.claim + 1)

        found: Job | None = self._place.write(work)
        return found

    def finish(self, job: Job) -> None:
        self._place.write(lambda db: _done(db, sql.job_finish, (job.number, job.claim)))

    def put_back(self, job: Job, problem: str, due: datetime) -> None:
        values = (job.number, job.claim, "waiting", problem, micros(due))
        self._place.write(lambda db: _done(db, sql.job_put_back, values))

    def give_up(self, job: Job, problem: str) -> None:
        values = (job.number, job.claim, "failed", problem, micros(job.due))
        self._place.write(lambda db: _done(db, sql.job_put_back, values))

    def list(self, scope: Scope | None = None, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        with self._place.driver.reading() as db:
            number = None if scope is None else self._place.number(db, scope)
            if scope is not None and number is None:
                return []
            return [job_of(row) for row in all_rows(db, sql.job_list, (number, state, limit))]

    def retry(self, scope: Scope | None, number: int | None = None) -> int:
        def work(db: apsw.Connection) -> int:
            where = None if scope is None else self._place.number(db, scope)
            if scope is not None and where is None:
                return 0
            db.execute(sql.job_retry, (where, number, micros(self._place.clock())))
            return db.changes()

        return int(self._place.write(work))

    def drop(self, scope: Scope | None, number: int) -> bool:
        def work(db: apsw.Connection) -> bool:
            where = None if scope is None else self._place.number(db, scope)
            if scope is not None and where is None:
                return False
            db.execute(sql.job_drop, (where, number))
            return bool(db.changes())

        return bool(self._place.write(work))

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        with self._place.driver.reading() as db:
            row = one_row(db, sql.job_next_due, (packed(sorted(kinds)),))
        return None if row[0] is None else instant(row[0])


def _done(db: apsw.Connection, statement: str, values: tuple[object, ...]) -> None:
    db.execute(statement, values)


def queue(db: apsw.Connection, at: Moment, draft: JobDraft, ids: Sequence[str]) -> None:
    """Let a job that still waits take these messages, and make as many more as they need."""
    waiting = list(ids)
    row = one_row(db, sql.job_open, (at.scope, draft.kind, draft.session))
    if row is not None and waiting:
        held = unpacked(row[1])
        room = draft.most - len(held)
        if room > 0:
            db.execute(sql.job_extend, (row[0], packed(held + waiting[:room])))
            waiting = waiting[room:]
    most = max(1, draft.most)
    for start in range(0, len(waiting), most):
        part = waiting[start : start + most]
        number = audit(db, at, "queue", "added", None, None, 0, "system")  # its number never comes twice
        db.execute(sql.job_add, (number, at.scope, draft.kind, draft.session, packed(part), micros(draft.due), at.now))


def queue_written(db: apsw.Connection, at: Moment, draft: JobDraft, after: int) -> None:
    """Queue work on what this transaction has added after an audit number: a repeated write adds nothing."""
    queue(db, at, draft, [id for (id,) in all_rows(db, sql.job_fresh, (at.scope, after))])
