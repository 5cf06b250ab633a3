"""Records put aside, the review list, leases: what the file keeps for upkeep. Imports: care, moment, aside, rows."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

import apsw

from recollect.care import Age, Aside, Flag, ReviewItem, ReviewState, Why
from recollect.stores.sqlite.aside import bring_back, flag, put_aside
from recollect.stores.sqlite.desk import Place
from recollect.stores.sqlite.driver import all_rows, one_row
from recollect.stores.sqlite.forgetting import release, retract
from recollect.stores.sqlite.moment import Moment, audit, sql
from recollect.stores.sqlite.rows import packed, record_of, review_of
from recollect.times import instant, micros
from recollect.types import Record, Scope

_LONG = timedelta(days=31)  # nobody takes a lease for longer
_AHEAD = timedelta(days=1)  # a lease that ends later than this was taken by a clock that ran ahead


class SqliteKeeping:
    """Retention."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def scopes(self, tenant: str | None = None) -> Sequence[Scope]:
        with self._place.driver.reading() as db:
            return [Scope(*row) for row in all_rows(db, sql.keeping_scopes, (tenant,))]

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        kinds = None if age.kinds is None else packed(list(age.kinds))
        values = {"before": micros(age.before), "kinds": kinds, "keyed": age.keyed, "limit": age.limit}
        return self._found(scope, sql.keeping_old, values)

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        now = micros(self._place.clock())
        with self._place.driver.reading() as db:
            rows = all_rows(db, sql.keeping_lapsed, (self._place.number(db, scope), now, limit))
            return [record_of(row, scope)[1] for row in rows]

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        with self._place.driver.reading() as db:
            number = self._place.number(db, scope)
            values = (number, importance, reads, micros(before), micros(self._place.clock()))
            return [record_of(row, scope)[1] for row in all_rows(db, sql.keeping_faded, values)]

    def beyond(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        return self._found(scope, sql.keeping_beyond, {"most": most, "kinds": packed(sorted(kinds))})

    def _found(self, scope: Scope, statement: str, values: Mapping[str, object]) -> Sequence[Record]:
        with self._place.driver.reading() as db:
            rows = all_rows(db, statement, {"scope": self._place.number(db, scope), "now": micros(self._place.clock()), **values})
            return [record_of(row, scope)[1] for row in rows]

    def put_aside(self, scope: Scope, ids: Sequence[str], why: Why = "faded") -> tuple[int, int]:
        done: tuple[int, int] = self._place.write(lambda db: put_aside(db, self._place.moment(db, scope), ids, why))
        return done

    def bring_back(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        return len(self._place.write(lambda db: bring_back(db, self._place.moment(db, scope), ids, keep_expiry)))

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        def work(db: apsw.Connection) -> list[str]:
            at = self._place.moment(db, scope)
            ids = [row[0] for row in all_rows(db, sql.aside_ticket, (at.scope, ticket))]
            made = one_row(db, sql.record_name, (ticket,))
            if ids and made is not None and made[0] not in ids:
                retract(db, at, made[0])  # the digest in their place; they come back with it
            return [*(id for id in ids if _active(db, at, id)), *bring_back(db, at, ids)]

        found: list[str] = self._place.write(work)
        return found

    def aside(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[Why] | None = None, limit: int = 10_000
    ) -> Sequence[Aside]:
        with self._place.driver.reading() as db:
            values = {
                "scope": self._place.number(db, scope), "before": None if before is None else micros(before),
                "why": None if why is None else packed(sorted(why)), "limit": limit,
            }  # fmt: skip
            rows = all_rows(db, sql.aside_list, values)
        return [Aside(record_of(row[:-4], scope)[1], row[-3], instant(row[-2]), row[-1] or 0) for row in rows]


def _active(db: apsw.Connection, at: Moment, id: str) -> bool:
    return one_row(db, sql.aside_row, (at.scope, id, "active")) is not None


class SqliteReviews:
    """What a person should look at."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        def work(db: apsw.Connection) -> int:
            at = self._place.moment(db, scope)
            added = 0
            for each in flags:
                row = one_row(db, sql.record_sequence, (at.scope, each.id))
                version = None if row is None else one_row(db, sql.record_name, row)[1]
                if version is not None and one_row(db, sql.review_known, (row[0], each.flag, version)) is None:
                    flag(db, at, row[0], version, each.flag, each.reason, each.evidence)
                    added += 1
            return added

        return int(self._place.write(work)) if flags else 0

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        with self._place.driver.reading(consistent=True) as db:
            number = self._place.number(db, scope)
            rows = all_rows(db, sql.review_list, (number, state, after, limit))
            return [review_of(row, self._record(db, scope, number, row[1])) for row in rows]

    def get(self, scope: Scope, number: int) -> ReviewItem | None:
        with self._place.driver.reading(consistent=True) as db:
            where = self._place.number(db, scope)
            row = one_row(db, sql.review_get, (where, number))
            return None if row is None else review_of(row, self._record(db, scope, where, row[1]))

    @staticmethod
    def _record(db: apsw.Connection, scope: Scope, number: int | None, id: str) -> Record | None:
        row = one_row(db, sql.record_by_id, (number, id))
        return None if row is None else record_of(row, scope)[1]

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        def work(db: apsw.Connection) -> bool:
            at = self._place.moment(db, scope)
            row = one_row(db, sql.review_get, (at.scope, number))
            db.execute(sql.review_settle, (at.scope, number, state))
            if row is None or not db.changes():
                return False
            audit(db, at, "review", state, None, row[1], row[2], by, (row[3],))
            return True

        return bool(self._place.write(work))

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        return bool(self._place.write(lambda db: release(db, self._place.moment(db, scope), id, by, state)))

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        def work(db: apsw.Connection) -> bool:
            at = self._place.moment(db, scope)
            row = one_row(db, sql.aside_row, (at.scope, id, "active"))
            if row is None:
                return False
            number = audit(db, at, "review", "confirmed", row[0], id, row[1], by)
            db.execute(sql.record_confirm, (row[0], number))
            return True

        return bool(self._place.write(work))


class SqliteLeases:
    """Of several processes one does a piece of work."""

    def __init__(self, place: Place) -> None:
        self._place = place

    def take(self, name: str, holder: str, length: timedelta) -> bool:
        now = self._place.clock()
        ahead = micros(now + max(length, _LONG) + _AHEAD)

        def work(db: apsw.Connection) -> bool:
            db.execute(sql.lease_take, (name, holder, micros(now + length), micros(now), ahead))
            return bool(db.changes())

        return bool(self._place.write(work))

    def give(self, name: str, holder: str) -> None:
        self._place.write(lambda db: _done(db, (name, holder)))


def _done(db: apsw.Connection, values: tuple[str, str]) -> None:
    db.execute(sql.lease_give, values)
