"""Records put aside, the review list, leases: what the file keeps for upkeep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from keepstone.ports.maintenance import Age, ArchivedRecord, ArchiveReason, Flag, ReviewItem, ReviewState, ScopeStats
from keepstone.stores.common.archiving import archive, flag, restore
from keepstone.stores.common.forgetting import release, retract
from keepstone.stores.common.rows import packed, record_of, review_of
from keepstone.stores.common.scope_catalog import ScopeCatalog
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import STORE_OWNER, WriteContext, audit
from keepstone.text.times import instant, micros
from keepstone.types import Record, Scope

_DAY = 86_400_000_000  # microseconds
_LONG = timedelta(days=31)  # nobody takes a lease for longer
_AHEAD = timedelta(days=1)  # a lease that ends later than this was taken by a clock that ran ahead


class StoredRetention:
    """Retention."""

    def __init__(self, catalog: ScopeCatalog) -> None:
        self._catalog = catalog

    def scopes(self, tenant: str | None = None, user: str | None = None) -> Sequence[Scope]:
        found: list[Scope] = []
        for each in self._catalog.tenants() if tenant is None else (tenant,):
            with self._catalog.reading(each) as db:
                found += [Scope(*row) for row in db.all("scope_list", (tenant, user))]
        return found

    def scopes_with_record(self, tenant: str, id: str) -> Sequence[Scope]:
        with self._catalog.reading(tenant) as db:
            return [Scope(*row) for row in db.all("scope_with_record", (tenant, id))]

    def lineage(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[tuple[str, str, bool]]:
        with self._catalog.reading(scope.tenant) as db:
            number = self._catalog.number(db, scope)
            if ids is None:
                rows = db.all("lineage_active", (number,))
            else:
                rows = db.all("lineage_active_of", (number, packed(list(ids)))) if ids else []
            return [(id, parent, bool(present)) for id, parent, present in rows]

    def stats(self, scope: Scope, since: datetime) -> ScopeStats:
        now = micros(self._catalog.clock())

        def read(db: Transaction) -> ScopeStats:
            number = self._catalog.number(db, scope)
            if number is None:
                return ScopeStats()
            kinds = tuple((kind, count) for kind, count in db.all("stats_kinds", (number, now)))
            days = tuple((instant(day * _DAY), count) for day, count in db.all("stats_days", (number, now, micros(since))))
            return ScopeStats(kinds, days, *(int(count) for count in db.one("stats_rest", (number, now))))

        return self._catalog.consistently(scope.tenant, read)

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        kinds = None if age.kinds is None else packed(list(age.kinds))
        values = {"before": micros(age.before), "kinds": kinds, "keyed": age.keyed, "limit": age.limit}
        return self._found(scope, "retention_old", values)

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        now = micros(self._catalog.clock())
        with self._catalog.reading(scope.tenant) as db:
            rows = db.all("retention_lapsed", (self._catalog.number(db, scope), now, limit))
            return [record_of(row, scope)[1] for row in rows]

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        with self._catalog.reading(scope.tenant) as db:
            number = self._catalog.number(db, scope)
            values = (number, importance, reads, micros(before), micros(self._catalog.clock()))
            return [record_of(row, scope)[1] for row in db.all("retention_faded", values)]

    def excess(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        return self._found(scope, "retention_excess", {"most": most, "kinds": packed(sorted(kinds))})

    def _found(self, scope: Scope, statement: str, values: Mapping[str, object]) -> Sequence[Record]:
        with self._catalog.reading(scope.tenant) as db:
            rows = db.all(statement, {"scope": self._catalog.number(db, scope), "now": micros(self._catalog.clock()), **values})
            return [record_of(row, scope)[1] for row in rows]

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> tuple[int, int]:
        done: tuple[int, int] = self._catalog.write(
            scope.tenant, lambda db: archive(db, self._catalog.write_context(db, scope), ids, why)
        )
        return done

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        return len(
            self._catalog.write(scope.tenant, lambda db: restore(db, self._catalog.write_context(db, scope), ids, keep_expiry))
        )

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        def work(db: Transaction) -> list[str]:
            context = self._catalog.write_context(db, scope)
            ids = [row[0] for row in db.all("archived_batch", (context.scope, ticket))]
            made = db.one("record_name", (ticket,))
            if ids and made is not None and made[0] not in ids:
                retract(db, context, made[0])  # the digest in their place; they come back with it
            return [*(id for id in ids if _active(db, context, id)), *restore(db, context, ids)]

        found: list[str] = self._catalog.write(scope.tenant, work)
        return found

    def archived(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[ArchiveReason] | None = None, limit: int = 10_000
    ) -> Sequence[ArchivedRecord]:
        with self._catalog.reading(scope.tenant) as db:
            values = {
                "scope": self._catalog.number(db, scope), "before": None if before is None else micros(before),
                "why": None if why is None else packed(sorted(why)), "limit": limit,
            }  # fmt: skip
            rows = db.all("archived_list", values)
        return [ArchivedRecord(record_of(row[:-4], scope)[1], row[-3], instant(row[-2]), row[-1] or 0) for row in rows]


def _active(db: Transaction, context: WriteContext, id: str) -> bool:
    return db.one("record_with_status", (context.scope, id, "active")) is not None


class StoredReviews:
    """What a person should look at."""

    def __init__(self, catalog: ScopeCatalog) -> None:
        self._catalog = catalog

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        def work(db: Transaction) -> int:
            context = self._catalog.write_context(db, scope)
            added = 0
            for each in flags:
                row = db.one("record_sequence", (context.scope, each.id))
                version = None if row is None else db.one("record_name", row)[1]
                if version is not None and db.one("review_known", (row[0], each.flag, version)) is None:
                    flag(db, context, row[0], version, each.flag, each.reason, each.evidence)
                    added += 1
            return added

        return int(self._catalog.write(scope.tenant, work)) if flags else 0

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        def read(db: Transaction) -> Sequence[ReviewItem]:
            number = self._catalog.number(db, scope)
            rows = db.all("review_list", (number, state, after, limit))
            return [review_of(row, self._record(db, scope, number, row[1])) for row in rows]

        return self._catalog.consistently(scope.tenant, read)

    def get(self, scope: Scope, number: int) -> ReviewItem | None:
        def read(db: Transaction) -> ReviewItem | None:
            where = self._catalog.number(db, scope)
            row = db.one("review_get", (where, number))
            return None if row is None else review_of(row, self._record(db, scope, where, row[1]))

        return self._catalog.consistently(scope.tenant, read)

    @staticmethod
    def _record(db: Transaction, scope: Scope, number: int | None, id: str) -> Record | None:
        row = db.one("record_by_id", (number, id))
        return None if row is None else record_of(row, scope)[1]

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        def work(db: Transaction) -> bool:
            context = self._catalog.write_context(db, scope)
            row = db.one("review_get", (context.scope, number))
            if row is None or not db.count("review_settle", (context.scope, number, state)):
                return False
            audit(db, context, "review", state, None, row[1], row[2], by, (row[3],))
            return True

        return bool(self._catalog.write(scope.tenant, work))

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        return bool(
            self._catalog.write(scope.tenant, lambda db: release(db, self._catalog.write_context(db, scope), id, by, state))
        )

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        def work(db: Transaction) -> bool:
            context = self._catalog.write_context(db, scope)
            row = db.one("record_with_status", (context.scope, id, "active"))
            if row is None:
                return False
            number = audit(db, context, "review", "confirmed", row[0], id, row[1], by)
            db.run("record_confirm", (row[0], number))
            return True

        return bool(self._catalog.write(scope.tenant, work))


class StoredLeases:
    """Of several processes one does a piece of work."""

    def __init__(self, catalog: ScopeCatalog) -> None:
        self._catalog = catalog

    def acquire(self, name: str, holder: str, length: timedelta) -> bool:
        now = self._catalog.clock()
        ahead = micros(now + max(length, _LONG) + _AHEAD)

        def work(db: Transaction) -> bool:
            return bool(db.count("lease_take", (name, holder, micros(now + length), micros(now), ahead)))

        return self._catalog.write(STORE_OWNER[0], work)

    def release(self, name: str, holder: str) -> None:
        self._catalog.write(STORE_OWNER[0], lambda db: db.run("lease_release", (name, holder)))
