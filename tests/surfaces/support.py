"""What the tests of the library share: a clock that is set by hand, and a scope read to its last page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from recollect import Memory, Record, Scope
from recollect.open import open_engine

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self, at: datetime = START) -> None:
        self.at = at

    def __call__(self) -> datetime:
        return self.at

    def forward(self, **span: float) -> datetime:
        """Move on; the time it is then."""
        self.at += timedelta(**span)
        return self.at


def timed(path: Path, clock: Clock, scope: Scope = Scope(), **options: Any) -> Memory:
    """A memory that lives by this clock."""
    return Memory(open_engine(path, clock=clock, **options), scope)


def everything(memory: Memory) -> list[Record]:
    """Every record that list shows, newest first."""
    records: list[Record] = []
    cursor = None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        records += page
        if page.cursor is None:
            return records
        cursor = page.cursor


def contents(found: Any) -> list[str]:
    """The texts of hits, records or versions, in order."""
    return [each.content for each in found]
