"""A scope in numbers, for the dashboard's overview and GET /v1/stats.

Days are UTC days. Growth counts the records that exist now, by the day they were added; forgotten records are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from keepstone.recall.query import check_int
from keepstone.server.service import Caller

MAX_DAYS = 366
_MAX_TAGS = 12


@dataclass(frozen=True, slots=True)
class ScopeOverview:
    """`by_kind` and `by_tag` have the largest first. `per_day` has (day, records added) of every day, oldest first. `waiting`
    and `failed` count jobs."""

    records: int
    by_kind: dict[str, int]
    by_tag: tuple[tuple[str, int], ...]
    per_day: tuple[tuple[date, int], ...]
    reviews: int
    waiting: int
    failed: int
    sessions: int
    quarantined: int

    def growth(self) -> list[tuple[date, int, int]]:
        """(day, records added, total at the end of the day), oldest first."""
        total, growth = self.records, []
        for day, added in reversed(self.per_day):
            growth.append((day, added, total))
            total -= added
        return growth[::-1]


def overview(caller: Caller, days: int = 30) -> ScopeOverview:
    """The caller's scope over a number of days, today included. Reads the store: call it in a worker thread."""
    backend = caller.backend
    today = backend.now().astimezone(UTC).date()
    first = today - timedelta(days=check_int(days, "days", 1, MAX_DAYS) - 1)
    stats = backend.stats(caller.scope, datetime.combine(first, time(), UTC))
    added: dict[date, int] = {}
    for at, count in stats.days:
        day = min(at.date(), today)  # a record with a time in the future counts as today's
        added[day] = added.get(day, 0) + count
    span = (first + timedelta(days=n) for n in range(days))
    return ScopeOverview(
        records=sum(count for _, count in stats.kinds),
        by_kind=dict(stats.kinds),
        by_tag=tuple(backend.tag_counts(caller.scope, _MAX_TAGS)),
        per_day=tuple((day, added.get(day, 0)) for day in span),
        reviews=stats.reviews,
        waiting=stats.waiting,
        failed=stats.failed,
        sessions=stats.sessions,
        quarantined=stats.quarantined,
    )
