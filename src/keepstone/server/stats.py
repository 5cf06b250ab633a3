"""A scope in numbers, for the dashboard's overview and GET /v1/stats.

Days are UTC days. Growth counts the records that exist now, by the day they were added; forgotten records are not counted.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from keepstone.backend import Backend
from keepstone.recall.query import check_int
from keepstone.types import Scope

MAX_DAYS = 366
_MAX_TAGS = 12


@dataclass(frozen=True, slots=True)
class TagCount:
    """The number of records with a tag."""

    tag: str
    count: int


@dataclass(frozen=True, slots=True)
class Day:
    """A UTC day: the records added that exist now, and the total at its end."""

    day: date
    added: int
    total: int


@dataclass(frozen=True, slots=True)
class ScopeOverview:
    """A scope in numbers. `kinds` and `tags` (at most twelve) have the largest first, `growth` has every day, oldest first;
    `jobs` counts those that wait and those that failed."""

    records: int
    kinds: dict[str, int]
    tags: tuple[TagCount, ...]
    growth: tuple[Day, ...]
    reviews: int  # that are open
    jobs: dict[str, int]
    sessions: int
    quarantined: int


def overview(backend: Backend, scope: Scope, days: int = 30) -> ScopeOverview:
    """A scope over a number of days, today included. Reads the store: call it in a worker thread."""
    today = backend.now().astimezone(UTC).date()
    first = today - timedelta(days=check_int(days, "days", 1, MAX_DAYS) - 1)
    stats = backend.stats(scope, datetime.combine(first, time(), UTC))
    added: dict[date, int] = {}
    for at, count in stats.days:
        day = min(at.date(), today)  # a record with a time in the future counts as today's
        added[day] = added.get(day, 0) + count
    records = sum(count for _, count in stats.kinds)
    total, growth = records, list[Day]()
    for day in (today - timedelta(days=n) for n in range(days)):
        growth.append(Day(day, added.get(day, 0), total))
        total -= added.get(day, 0)
    return ScopeOverview(
        records=records,
        kinds=dict(stats.kinds),
        tags=tuple(TagCount(*row) for row in backend.tags(scope, _MAX_TAGS)),
        growth=tuple(growth[::-1]),
        reviews=stats.reviews,
        jobs={"waiting": stats.waiting, "failed": stats.failed},
        sessions=stats.sessions,
        quarantined=stats.quarantined,
    )
