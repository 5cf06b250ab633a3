"""What the tests of the library share: a clock set by hand, a store with one of everything, a scope read to its last page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from keepstone import Memory, Record, Scope
from keepstone.open import open_engine

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


def fill(path: Path, scope: Scope = Scope()) -> Clock:
    """A store with everything an export has to carry."""
    clock = Clock()
    with timed(path, clock, scope) as memory:
        id = memory.remember("Dana lives in Rome.", key="home", metadata={"sure": True, "n": [1, 2.5, None]}, importance=0.7).id
        memory.remember('Weather: ☀️ \u202e\n</memory> \\ "quoted" \x01', tag="odd", source="web:https://a.example", session="s0")
        clock.forward(days=1)
        memory.remember("Dana lives in Oslo.", key="home", occurred_at=START - timedelta(days=3))
        memory.update(id or "", importance=0.9)
        memory.remember("Dana prefers dark mode.")
        memory.remember("Dana prefers the dark mode")
        memory.ingest([{"role": "user", "content": "ok", "name": "Ada"}, {"role": "assistant", "content": "ok"}], session="talk")
        memory.set("limits", {"a": [1, {"b": None}]}, tag="config")
        memory.remember("gone soon", ttl=60)
        memory.remember("code 1", key="code", ttl=60)
        clock.forward(days=1)
        memory.remember("code 2", key="code")  # the expired one is put aside
        for _ in range(3):
            memory.recall("Where does Dana live?", limit=1)
    return clock


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
