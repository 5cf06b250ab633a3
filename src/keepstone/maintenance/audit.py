"""Audit: `memory.audit`, the audit log of one scope, and the difference between what was known at two times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from keepstone.errors import ValidationError
from keepstone.ports.maintenance import ChainReport
from keepstone.ports.stores import Clock, Store
from keepstone.recall.lookups import Lookups
from keepstone.text.times import parse_time
from keepstone.types import AuditRow, Record, Scope

Time = datetime | str
_ALL = 10_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """One record before and after."""

    before: Record
    after: Record


@dataclass(frozen=True, slots=True)
class Diff:
    """The records added, changed and removed between two times. Forgotten records cannot be shown: `forgotten` counts them."""

    since: datetime
    until: datetime
    added: tuple[Record, ...] = ()
    changed: tuple[Change, ...] = ()
    removed: tuple[Record, ...] = ()
    forgotten: int = 0


class Audit:
    """The audit log of one scope. Calling it lists the entries."""

    def __init__(self, store: Store, lookups: Lookups, scope: Scope, clock: Clock) -> None:
        self._store = store
        self._lookups = lookups
        self._scope = scope
        self._clock = clock

    def __call__(self, *, since: Time | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """List what was done in this scope, newest first. The log holds no content.

        >>> [(entry.verb, entry.action) for entry in memory.audit(limit=5)]
        [('remember', 'added')]"""
        return self._lookups.audit(self._scope, since, limit)

    def verify(self, *, head: str | None = None) -> ChainReport:
        """Check that the tenant's audit log was not changed: every entry has a hash of the one before. Store `head` of the
        report in another place and pass it to a later check, to notice if the whole log was rewritten.

        >>> memory.audit.verify().whole
        True"""
        return self._store.audit_log.verify(self._scope.tenant, head)

    def diff(self, since: Time, until: Time | None = None, *, kinds: Sequence[str] | None = None) -> Diff:
        """Compare what was known at two times: what was added, changed and removed. `until` None means now.

        >>> [record.content for record in memory.audit.diff("2026-01-01").added]
        ['Dana prefers dark mode.']"""
        start = parse_time(since, "since")
        end = self._clock() if until is None else parse_time(until, "until")
        if end < start:
            raise ValidationError(
                f"until ({end.isoformat()}) lies before since ({start.isoformat()}): give the earlier time first."
            )
        if isinstance(kinds, str) or not isinstance(kinds, Iterable | None):
            raise ValidationError(f"kinds is {kinds!r:.40}: use a list of kinds.")
        before, after = self._read_known(start, kinds), self._read_known(end, kinds)
        erased = {
            row.id for row in self._store.audit(self._scope, since=start, limit=_ALL) if row.verb == "forget" and row.at <= end
        }
        return Diff(
            start,
            end,
            tuple(record for id, record in after.items() if id not in before),
            tuple(Change(before[id], record) for id, record in after.items() if id in before and _differs(before[id], record)),
            tuple(record for id, record in before.items() if id not in after),
            len(erased),
        )

    def _read_known(self, at: datetime, kinds: Sequence[str] | None) -> dict[str, Record]:
        """What was known at a time, by id: active, and not expired by then."""
        found = self._store.snapshot(self._scope, None, at).records
        shown = (
            record for record in found if record.status == "active" and (record.expires_at is None or record.expires_at > at)
        )
        return {record.id: record for record in shown if kinds is None or record.kind in kinds}


def _differs(before: Record, after: Record) -> bool:
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("content", "metadata", "importance", "tag", "kind", "source", "trust", "expires_at")
    )
