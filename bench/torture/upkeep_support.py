"""Shared by the maintenance jobs that are killed: their stores, their clock, and the checks."""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from keepstone import Memory, Scope
from keepstone.embedders.function import FunctionEmbedder
from keepstone.open import open_engine
from keepstone.text.words import stem

START = datetime(2026, 3, 1, 9, tzinfo=UTC)
LATER = START + timedelta(days=400)
PEOPLE = "Ebba Ruben Chidi Marta Yuna Pietro Salma Anders Nadia Ravi".split()
HABITS = (
    "plays the viola in the city orchestra|is allergic to hazelnuts|takes tram number 7 to work|collects old maps of Iceland|"
    "trains for the marathon of Porto|keeps a grey parrot|reads the news before breakfast|grows beans on the balcony|"
    "speaks Finnish at home|drinks no coffee after lunch|drives a blue delivery van|teaches judo on Fridays|"
    "writes a book about volcanoes|likes aisle seats on trains|pays the rent on the fifth of the month|repairs pocket watches|"
    "sings alto in a choir|swims in the lake in winter|bakes sourdough on Saturdays|is afraid of heights|"
    "works from the archive on Tuesdays|should see the optician|wants to learn weaving|uses Vim on a small laptop|"
    "has a brother who is a pilot|spends August near Lake Como|votes at the town hall|drafts leases for a housing company|"
    "sleeps without a pillow|builds wooden kites"
).split("|")
FACTS = [f"{person} {habit}." for person, habit in product(PEOPLE, HABITS)]


class CheckFailed(Exception):
    """Something is missing or incomplete."""


def must(holds: object, what: str) -> None:
    """Raise CheckFailed with this text unless the condition holds."""
    if not holds:
        raise CheckFailed(what)


@dataclass(frozen=True, slots=True)
class JobContext:
    """A store that a job works on, or has worked on."""

    memory: Memory
    target: str
    beside: str  # a path for what a job writes or reads beside the store

    @property
    def on_disk(self) -> bool:
        """Whether the store is a file that can be searched for what is left of a text."""
        return "://" not in self.target


Check = Callable[[JobContext], str]


@dataclass(frozen=True, slots=True)
class Job:
    """A job of upkeep. `fill` makes its store, and what it needs beside it; `repeats`: it may be done again when it is done."""

    name: str
    fill: Callable[[str, str], Any]
    do: Callable[[JobContext], Any]
    check: Check
    repeats: bool = True


def open_at(target: str, at: datetime = LATER, *, cards: bool = False, **options: Any) -> Memory:
    """A memory whose clock stands still: 400 days after everything was stored, if no other time is given."""
    settings: dict[str, Any] = {"worker": False, **({"sensitive": {"card": "allow"}} if cards else {})}
    return Memory(open_engine(target, clock=lambda: at, settings=settings, **options), Scope())


def store_facts(target: str, facts: list[str], **options: Any) -> None:
    """A store with these facts in it."""
    with open_at(target, START) as memory:
        for at in range(0, len(facts), 100):
            memory.remember_many([{"content": fact, **options} for fact in facts[at : at + 100]])


def contents(found: Iterable[Any]) -> list[str]:
    """The texts of hits, records or versions, in order."""
    return [each.content for each in found]


def share(part: int, whole: int) -> str:
    """How much of a job is done."""
    return "none" if not part else "all" if part == whole else "some"


def word(seed: int, number: int) -> str:
    """A word that stands nowhere else; some end in what the index strips."""
    chance = random.Random(f"{seed} {number}")
    letters = "".join(chance.choices("bcdfghjklmnpqrtvwxz", k=12))
    return (letters + chance.choice(("", "ing", "ed", "7", "s"))).capitalize()


def traces(path: Path, words: list[str]) -> list[str]:
    """The words of which something is left on disk, as written, lower-cased or as indexed. The index shares the beginnings of
    neighbouring words, so it is the ends that are searched for."""
    beside = [file for each in path.parent.glob(f"{path.name}*") for file in (each, *each.rglob("*")) if file.is_file()]
    held = b"".join(file.read_bytes() for file in beside)
    return [each for each in words if any(form.encode()[4:12] in held for form in {each, each.lower(), stem(each.lower())})]


# -- another embedder ---------------------------------------------------------------------------------------------
def _slow(texts: list[str]) -> list[list[float]]:
    """Eight numbers for a text, in their own time, so that a kill lands in the midst of it."""
    time.sleep(0.0001 * len(texts))
    return [[1.0 + byte for byte in hashlib.blake2b(text.encode(), digest_size=8).digest()] for text in texts]


def other() -> FunctionEmbedder:
    """The embedder that a store is moved to."""
    return FunctionEmbedder(_slow, id="slow-eight", dimension=8)


def embedded_by(target: str) -> str:
    """The embedder that a store is bound to."""
    with Memory.open(target, embedder="none") as memory:
        bound = memory._engine.store.embedder()
        return "" if bound is None else bound[0]
