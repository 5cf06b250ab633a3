"""Retention, the review list and leases."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from keepstone.ports.maintenance import Age, ArchivedRecord, ArchiveReason, Flag, ReviewItem, ReviewState, ScopeStats
from keepstone.stores.common.archiving import archive, flag, restore
from keepstone.stores.common.forgetting import release, retract
from keepstone.stores.common.rows import packed, record_of, review_of
from keepstone.stores.common.scope_catalog import StorePart
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER, WriteContext, audit
from keepstone.text.times import LATEST, instant, micros
from keepstone.types import Record, Scope, ScopeSummary

_DAY = 86_400_000_000  # microseconds
_MAX_LEASE = timedelta(days=31)
_CLOCK_AHEAD = timedelta(days=1)  # a lease that ends later than this was taken by a clock that ran ahead


class StoredRetention(StorePart):
    """Retention."""

    def scopes(self, tenant: str | None = None, user: str | None = None) -> Sequence[Scope]:
        found: list[Scope] = []
        for each in self._catalog.driver.tenants() if tenant is None else (tenant,):
            with self._catalog.driver.reading(each) as db:
                found += [Scope(*row) for row in db.all("scope_list", (tenant, user))]
        return found

    def scopes_with_record(self, tenant: str, id: str) -> Sequence[Scope]:
        with self._catalog.driver.reading(tenant) as db:
            return [Scope(*row) for row in db.all("scope_with_record", (tenant, id))]

    def summaries(self, tenant: str) -> Sequence[ScopeSummary]:
        with self._catalog.driver.reading(tenant) as db:
            rows = db.all("scope_summaries", (tenant, micros(self._catalog.clock())))
        return [
            ScopeSummary(
                Scope(tenant, agent, user), memories, messages, sessions, int(size), None if last is None else instant(last)
            )
            for _, agent, user, memories, messages, sessions, size, last in rows
        ]

    def lineage(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[tuple[str, str, bool]]:
        with self._catalog.reading(scope) as (db, number):
            if ids is None:
                rows = db.all("lineage_active", (number,))
            else:
                rows = db.all("lineage_active_of", (number, packed(list(ids)))) if ids else []
            return [(id, parent, bool(present)) for id, parent, present in rows]

    def stats(self, scope: Scope, since: datetime) -> ScopeStats:
        now = micros(self._catalog.clock())

        def read(db: Transaction, number: int | None) -> ScopeStats:
            if number is None:
                return ScopeStats()
            kinds = tuple((kind, count) for kind, count in db.all("stats_kinds", (number, now)))
            if since >= LATEST:  # only the kinds are wanted: the rest would read every record again
                return ScopeStats(kinds)
            days = tuple((instant(day * _DAY), count) for day, count in db.all("stats_days", (number, now, micros(since))))
            return ScopeStats(kinds, days, *(int(count) for count in db.one("stats_rest", (number, now))))

        return self._catalog.consistently(scope, read)

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        kinds = None if age.kinds is None else packed(list(age.kinds))
        values = {"before": micros(age.before), "kinds": kinds, "keyed": age.keyed, "limit": age.limit, "created": age.created}
        return self._select(scope, "retention_old", values)

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        with self._catalog.reading(scope) as (db, number):
            rows = db.all("retention_lapsed", (number, micros(self._catalog.clock()), limit))
            return [record_of(row, scope)[1] for row in rows]

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        with self._catalog.reading(scope) as (db, number):
            values = (number, importance, reads, micros(before), micros(self._catalog.clock()))
            return [record_of(row, scope)[1] for row in db.all("retention_faded", values)]

    def excess(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        return self._select(scope, "retention_excess", {"most": most, "kinds": packed(sorted(kinds))})

    def _select(self, scope: Scope, statement: str, values: Mapping[str, object]) -> Sequence[Record]:
        with self._catalog.reading(scope) as (db, number):
            rows = db.all(statement, {"scope": number, "now": micros(self._catalog.clock()), **values})
            return [record_of(row, scope)[1] for row in rows]

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> tuple[int, int]:
        return self._catalog.change(scope, lambda db, context: archive(db, context, ids, why))

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        return len(self._catalog.change(scope, lambda db, context: restore(db, context, ids, keep_expiry)))

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        def work(db: Transaction, context: WriteContext) -> list[str]:
            ids = [row[0] for row in db.all("archived_batch", (context.scope, ticket))]
            made = db.one("record_name", (ticket,))
            if ids and made is not None and made[0] not in ids:
                retract(db, context, made[0])  # the digest in their place; they come back with it
            back = [id for id in ids if db.one("record_with_status", (context.scope, id, "active")) is not None]
            return [*back, *restore(db, context, ids)]

        return self._catalog.change(scope, work)

    def archived(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[ArchiveReason] | None = None, limit: int = 10_000
    ) -> Sequence[ArchivedRecord]:
        with self._catalog.reading(scope) as (db, number):
            values = {
                "scope": number, "before": None if before is None else micros(before),
                "why": None if why is None else packed(sorted(why)), "limit": limit,
            }  # fmt: skip
            rows = db.all("archived_list", values)
        return [ArchivedRecord(record_of(row[:-4], scope)[1], row[-3], instant(row[-2]), row[-1] or 0) for row in rows]


class StoredReviews(StorePart):
    """The review list."""

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        def work(db: Transaction, context: WriteContext) -> int:
            added = 0
            for each in flags:
                row = db.one("record_sequence", (context.scope, each.id))
                version = None if row is None else db.one("record_name", row)[1]
                if version is not None and db.one("review_known", (row[0], each.flag, version)) is None:
                    flag(db, context, row[0], version, each.flag, each.reason, each.evidence)
                    added += 1
            return added

        return self._catalog.change(scope, work) if flags else 0

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        return self._read(scope, "review_list", (state, after, limit))

    def get(self, scope: Scope, number: int) -> ReviewItem | None:
        return next(iter(self._read(scope, "review_get", (number,))), None)

    def _read(self, scope: Scope, statement: str, values: tuple[object, ...]) -> Sequence[ReviewItem]:
        def read(db: Transaction, number: int | None) -> Sequence[ReviewItem]:
            items = []
            for row in db.all(statement, (number, *values)):
                record = db.one("record_by_id", (number, row[1]))
                items.append(review_of(row, None if record is None else record_of(record, scope)[1]))
            return items

        return self._catalog.consistently(scope, read)

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        def work(db: Transaction, context: WriteContext) -> bool:
            row = db.one("review_get", (context.scope, number))
            if row is None or not db.count("review_settle", (context.scope, number, state)):
                return False
            audit(db, context, "review", state, None, row[1], row[2], by, (row[3],))
            return True

        return self._catalog.change(scope, work)

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        return self._catalog.change(scope, lambda db, context: release(db, context, id, by, state))

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        def work(db: Transaction, context: WriteContext) -> bool:
            row = db.one("record_with_status", (context.scope, id, "active"))
            if row is None:
                return False
            number = audit(db, context, "review", "confirmed", row[0], id, row[1], by)
            db.run("record_confirm", (row[0], number))
            return True

        return self._catalog.change(scope, work)


class StoredLeases(StorePart):
    """Cross-process locks with expiry."""

    def acquire(self, name: str, holder: str, length: timedelta) -> bool:
        now = self._catalog.clock()
        ahead = micros(now + max(length, _MAX_LEASE) + _CLOCK_AHEAD)

        def work(db: Transaction) -> bool:
            return bool(db.count("lease_take", (name, holder, micros(now + length), micros(now), ahead)))

        return self._catalog.write(STORE_OWNER[0], work)

    def release(self, name: str, holder: str) -> None:
        self._catalog.write(STORE_OWNER[0], lambda db: db.run("lease_release", (name, holder)))
