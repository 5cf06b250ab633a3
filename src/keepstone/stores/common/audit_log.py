"""The audit log: entries of other verbs, requests for foreign ids, verification of the hash chain."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from itertools import accumulate
from typing import Any

from keepstone.ports.maintenance import ChainReport
from keepstone.ports.values import FeedPage, Stamp
from keepstone.stores.common.merging import read_stamps
from keepstone.stores.common.rows import packed
from keepstone.stores.common.scope_catalog import StorePart
from keepstone.stores.common.transaction import Transaction
from keepstone.stores.common.write_context import GENESIS, audit, chain_hash
from keepstone.text.times import instant, micros
from keepstone.types import FOREIGN_REQUESTS, Scope

_MAX_NAMED_IDS = 5  # in the entry of a foreign request
_NEVER = 2**62  # no entry has this number: the chain start of a tenant without chained entries, and a place beyond the last


class StoredAuditLog(StorePart):
    """The audit log of a store."""

    def note(self, scope: Scope, verb: str, action: str, source: str, reasons: Sequence[str] = (), id: str | None = None) -> int:
        return self._catalog.change(scope, lambda db, context: audit(db, context, verb, action, None, id, 0, source, reasons))

    def note_foreign(self, scope: Scope, asked: Sequence[tuple[str, str]]) -> int:
        if not asked:
            return 0
        with self._catalog.reading(scope) as (db, number):
            theirs = [each for each in asked if db.one("record_in_other_scope", (number or 0, each[1])) is not None]
        for verb in dict.fromkeys(verb for verb, _ in theirs):
            ids = [id for asked_verb, id in theirs if asked_verb == verb]
            named = ", ".join(dict.fromkeys(ids[:_MAX_NAMED_IDS]))
            reason = f"{scope.tenant}/{scope.agent}/{scope.user} asked for ids of other scopes, {len(ids)} times: {named}"
            self.note(FOREIGN_REQUESTS, verb, "denied", "system", (reason,), ids[0])
        return len(theirs)

    def count(self, scope: Scope) -> int:
        with self._catalog.reading(scope) as (db, number):
            return int(db.one("audit_count", (number,))[0])

    def places(self, scope: Scope, numbers: Collection[int]) -> Mapping[int, int]:
        if not numbers:
            return {}
        with self._catalog.reading(scope) as (db, number):
            rows = db.all("audit_places", (number, packed(sorted(set(numbers)))))
        return dict(zip((row[0] for row in rows), accumulate(int(row[1]) for row in rows), strict=True))

    def number_at(self, scope: Scope, place: int) -> int:
        if place < 1:
            return 0
        with self._catalog.reading(scope) as (db, number):
            row = db.one("audit_at", (number, place - 1))
        return _NEVER if row is None else int(row[0])

    def feed(self, scope: Scope, after: int, limit: int) -> FeedPage:
        def read(db: Transaction, number: int | None) -> FeedPage:
            rows = db.all("merge_feed", (number, after, limit + 1))
            more = len(rows) > limit
            latest = rows[limit - 1][1] if more else int(db.one("audit_newest", (number,))[0] or 0)
            gone = db.all("merge_feed_forgotten", (number, after, latest))
            return FeedPage(latest, tuple(row[0] for row in rows[:limit]), tuple(dict.fromkeys(row[0] for row in gone)), more)

        return self._catalog.consistently(scope, read)

    def stamps(self, scope: Scope, ids: Collection[str]) -> Mapping[str, Stamp]:
        with self._catalog.reading(scope) as (db, number):
            return read_stamps(db, number, ids)

    def forgotten(self, scope: Scope, ids: Collection[str]) -> Collection[str]:
        with self._catalog.reading(scope) as (db, number):
            return {row[0] for row in db.all("merge_forgotten", (number, packed(sorted(ids))))}

    def last(self, scope: Scope) -> int:
        with self._catalog.reading(scope) as (db, number):
            return int(db.one("audit_newest", (number,))[0] or 0)

    def days(self, scope: Scope, since: datetime) -> Sequence[datetime]:
        with self._catalog.reading(scope) as (db, number):
            return [instant(row[0]) for row in db.all("audit_days", (number, micros(since)))]

    def verify(self, tenant: str, head: str | None = None) -> ChainReport:
        def read(db: Transaction) -> ChainReport:
            try:
                return _verify_chain(db, tenant, head)
            except UnicodeDecodeError as error:
                return ChainReport(False, 0, 0, "", f"a row cannot be read ({error})")

        return self._catalog.driver.consistently(tenant, read)


def _verify_chain(db: Transaction, tenant: str, wanted: str | None) -> ChainReport:
    """Hash every audit entry of a tenant again and compare."""
    start, counted, kept = db.one("chain_of", (tenant,)) or (_NEVER, 0, GENESIS)
    head, rows, unchained = GENESIS, 0, 0
    problem = None if isinstance(start, int) else "where the chain begins is not what was written"
    start = start if isinstance(start, int) else 0
    seen = wanted is None or wanted == GENESIS.hex()
    for *row, link in db.walk("chain_walk", (tenant,)):
        if link is None and not rows and 0 < row[0] <= start:
            unchained += 1
            continue
        rows += 1
        expected = _expected_hash(head, row)
        if problem is None and (link != expected or row[0] <= start):
            problem = f"entry {row[0]} is not what was written, or an entry before it is missing"
        head = link if isinstance(link, bytes) else expected
        seen = seen or head.hex() == wanted
    if problem is None and rows != counted:
        problem = f"the audit log has {rows} entries and should have {counted}"
    if problem is None and head != kept:
        problem = "the last entry is not the one that was written last"
    if problem is None and not seen:
        problem = f"the hash {wanted:.16}… is not in this audit log: the log was rewritten, or the hash belongs to another store"
    return ChainReport(problem is None, rows, unchained, head.hex(), problem)


def _expected_hash(head: bytes, row: list[Any]) -> bytes:
    """The hash that an entry should have; empty if it cannot be hashed."""
    try:
        return chain_hash(head, row)
    except (TypeError, ValueError):
        return GENESIS
