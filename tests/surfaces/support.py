"""What the tests of the library share: a clock that is set by hand, and a scope read to its last page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from recollect import Memory, Record, Scope
from recollect.open import open_engine

START = datetime(2026, 3, 1, 9, 0, tzinfo=UTC)
PEOPLE = "Dana Omar Mei Lukas Priya Tomas Aisha Henrik Zoe Mateo".split()
HABITS = [
    "plays the cello in a string quartet", "is allergic to walnuts", "commutes by tram number 12", "collects Japanese stamps",
    "is training for the Lisbon marathon", "keeps two greyhounds", "reviews pull requests before lunch",
    "grows tomatoes on the roof",
    "speaks Portuguese at home", "never drinks coffee after noon", "drives a red electric van", "teaches chess on Saturdays",
    "is writing a thesis about glaciers", "prefers window seats on planes", "pays rent on the third of each month",
    "repairs old typewriters", "sings bass in the parish choir", "swims before sunrise in summer", "bakes rye bread every Sunday",
    "is afraid of spiders", "works from the library on Mondays", "owes the dentist a visit", "wants to learn pottery",
    "uses Emacs with vi bindings", "has a sister who is a surgeon", "vacations near lake Garda", "votes by mail",
    "drafts contracts for a shipping company", "sleeps with the window open", "restores wooden canoes",
]  # fmt: skip
FACTS = [f"{person} {habit}." for person, habit in product(PEOPLE, HABITS)]


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
