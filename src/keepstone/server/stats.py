"""What a scope holds, in numbers: what the dashboard's overview shows and GET /v1/stats answers.

Days are those of UTC. What is counted by day are the records that are there now, by when they came: what was forgotten since is
in no number.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta

from keepstone.recall.query import check_int
from keepstone.server.service import Caller

MOST_DAYS = 366
_TAGS = 12


@dataclass(frozen=True, slots=True)
class Overview:
    """A scope in numbers. `records` are those that can be recalled or listed; `by_kind` and `by_tag` have the largest first;
    `per_day` says for every one of the last days, oldest first, how many of the records came; `waiting` and `failed` are jobs."""

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
        """(day, how many came, how many there were at its end), oldest first."""
        total, found = self.records, []
        for day, added in reversed(self.per_day):
            found.append((day, added, total))
            total -= added
        return found[::-1]


def overview(caller: Caller, days: int = 30) -> Overview:
    """The caller's scope in numbers over so many days, today included. Reads the store: call it in a worker thread."""
    engine = caller.service.engine
    today = engine.clock().astimezone(UTC).date()
    first = today - timedelta(days=check_int(days, "days", 1, MOST_DAYS) - 1)
    census = engine.store.retention.stats(caller.scope, datetime.combine(first, time(), UTC))
    came: dict[date, int] = {}
    for at, count in census.days:
        day = min(at.date(), today)  # a clock that ran ahead: by this one it was today
        came[day] = came.get(day, 0) + count
    every = (first + timedelta(days=n) for n in range(days))
    return Overview(
        records=sum(count for _, count in census.kinds),
        by_kind=dict(census.kinds),
        by_tag=tuple(engine.store.tags(caller.scope, _TAGS)),
        per_day=tuple((day, came.get(day, 0)) for day in every),
        reviews=census.reviews,
        waiting=census.waiting,
        failed=census.failed,
        sessions=census.sessions,
        quarantined=census.quarantined,
    )
