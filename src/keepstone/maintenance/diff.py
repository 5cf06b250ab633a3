"""What an agent knew at one time and at another: the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from keepstone.errors import ValidationError
from keepstone.ports.stores import Clock, Store
from keepstone.text.times import parse_time
from keepstone.types import Record, Scope

_ALL = 10_000_000


@dataclass(frozen=True, slots=True)
class Change:
    """One record before and after."""

    before: Record
    after: Record


@dataclass(frozen=True, slots=True)
class Diff:
    """What came, what changed and what went between two times. What was forgotten cannot be shown: `forgotten` counts it."""

    since: datetime
    until: datetime
    added: tuple[Record, ...] = ()
    changed: tuple[Change, ...] = ()
    removed: tuple[Record, ...] = ()
    forgotten: int = 0


def compared(
    store: Store, scope: Scope, since: datetime | str, until: datetime | str | None, kinds: Sequence[str] | None, clock: Clock
) -> Diff:
    """The difference between what was known at two times."""
    start = parse_time(since, "since")
    end = clock() if until is None else parse_time(until, "until")
    if end < start:
        raise ValidationError(f"until ({end.isoformat()}) lies before since ({start.isoformat()}): give the earlier time first.")
    if isinstance(kinds, str):
        raise ValidationError(f"kinds is {kinds!r:.40}: use a list of kinds.")
    before, after = (_known(store, scope, at, kinds) for at in (start, end))
    changed = [Change(before[id], record) for id, record in after.items() if id in before and _differs(before[id], record)]
    gone = [row for row in store.audit(scope, since=start, limit=_ALL) if row.verb == "forget" and row.at <= end]
    return Diff(
        start,
        end,
        tuple(record for id, record in after.items() if id not in before),
        tuple(changed),
        tuple(record for id, record in before.items() if id not in after),
        len({row.id for row in gone}),
    )


def _known(store: Store, scope: Scope, at: datetime, kinds: Sequence[str] | None) -> dict[str, Record]:
    """What was known at a time, by id: active, and not run out by then."""
    found = store.snapshot(scope, None, at).records
    shown = (record for record in found if record.status == "active" and (record.expires_at is None or record.expires_at > at))
    return {record.id: record for record in shown if kinds is None or record.kind in kinds}


def _differs(before: Record, after: Record) -> bool:
    return any(
        getattr(before, name) != getattr(after, name)
        for name in ("content", "metadata", "importance", "tag", "kind", "source", "trust", "expires_at")
    )
