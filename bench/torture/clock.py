"""Clocks that are three days behind, ten years ahead, and step back and forth: order is by sequence, the value written last is
the value, and nothing is erased before its time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from bench.torture.targets import Files, Place, databases
from bench.torture.verdict import Options, Verdict
from bench.verbs import everything
from keepstone import Memory, Scope
from keepstone.open import open_engine

START = datetime(2026, 3, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)
TEN_YEARS = 3653  # days
WRONG = (0, 0, TEN_YEARS, -3, 400, -9)  # days that the clock is off
STEPS, FACTS = 60, 30
BROUGHT_BACK = ("aged", "faded", "expired")  # what a clock that ran ahead puts aside, and a right one takes back


class SteppingClock:
    """Shows what it was last set to."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def step(self, **by: float) -> None:
        self.now += timedelta(**by)


def open_with_clock(target: object, clock: SteppingClock) -> Memory:
    """A memory that lives by this clock."""
    return Memory(open_engine(str(target), clock=clock, settings={"worker": False}), Scope())


class Walk:
    """The true time goes on by hours; what the clock of one process shows jumps by days and years in either direction, while
    that of another is right."""

    def __init__(self, target: str, seed: int, steps: int = STEPS) -> None:
        self._target = target
        self._steps = steps
        self._random = random.Random(seed)
        self._wrong, self._right = SteppingClock(), SteppingClock()
        self._hours = 0
        self._written: dict[str, str] = {}  # id -> text, in the order of writing
        self._lasting: dict[str, datetime] = {}  # id -> when it ends, by the clock it was written by
        self._themes: list[str] = []
        self.archived = 0
        self.problems: list[str] = []

    @property
    def acknowledged(self) -> int:
        return len(self._written) + len(self._themes)

    def run(self) -> list[str]:
        """Walk, and look at what is there in the end; what is wrong, in words."""
        with open_with_clock(self._target, self._wrong) as memory, open_with_clock(self._target, self._right) as other:
            self._first = [self._said(memory, f"Fact number {number} is about x{number}q.") for number in range(FACTS)]
            for number in range(self._steps):
                self._step(memory, other, number)
            if self._hours >= 30 * 24:
                self.problems.append("the walk was too long: the window of 30 days has passed")
            self._wrong.now = self._right.now
            self._end(memory)
        return self.problems

    def _said(self, memory: Memory, text: str, lasts: timedelta | None = None) -> str:
        id = memory.remember(text, ttl=lasts).id or ""
        self._written[id] = text
        if lasts is not None:
            self._lasting[id] = self._wrong.now + lasts
        return id

    def _step(self, memory: Memory, other: Memory, number: int) -> None:
        self._hours += self._random.randint(1, 10)
        self._right.now = START + timedelta(hours=self._hours)
        self._wrong.now = self._right.now + self._random.choice(WRONG) * DAY
        if number % 4 == 0:
            self.archived += len(memory.upkeep.cap(max(0, 25 - number)).ids)
        for job in (memory.upkeep.age, memory.upkeep.purge, memory.upkeep.lapse, memory.upkeep.run):
            if self._random.random() < 0.4:
                job()
        writer, reader = (memory, other) if number % 3 else (other, memory)
        text = f"At hour {self._hours} it was {number} degrees."
        id = self._said(writer, text)
        if reader.get(id) is None:
            self.problems.append(f"step {number}: another process does not see what was just written")
        self._said(memory, f"The permit y{number}q is for one week.", 7 * DAY)
        self._themes.append(f"theme {number}")
        writer.remember(self._themes[-1], key="theme")
        if reader.value("theme") != self._themes[-1]:
            self.problems.append(f"step {number}: the value written last is not the value")

    # -- the clock is right again ---------------------------------------------------------------------------------
    def _end(self, memory: Memory) -> None:
        gone = [id for id in self._written if memory.get(id) is None]
        self.problems += [f"erased before its time: {self._written[id]}" for id in gone]
        memory.upkeep.age()
        listed = [record.id for record in everything(memory) if record.id in self._written]
        order = list(self._written)
        if listed != sorted(listed, key=order.index, reverse=True):
            self.problems.append("a list is not in the order of writing")
        numbers = [row.number for row in memory.audit(limit=1000)]
        if numbers != sorted(set(numbers), reverse=True):
            self.problems.append("the audit trail is not in the order of writing")
        self._brought_back(memory, set(listed))
        theme = memory.get(key="theme")
        if theme is None or [each.content for each in memory.history(theme.id)] != self._themes:
            self.problems.append("the past of a value is not what was set, in that order")
        diagnosis = memory.upkeep.doctor()
        self.problems += [f"doctor, {each.check}: {each.problem}" for each in diagnosis.findings]
        if not memory.audit.verify().whole:
            self.problems.append("the audit trail is not whole")

    def _brought_back(self, memory: Memory, listed: Iterable[str]) -> None:
        """What a clock that ran ahead has put aside is back; only what was over, capped or has lapsed is not shown."""
        archived = {each.record.id: each.why for each in memory.upkeep.archived(limit=10_000)}
        for id, text in self._written.items():
            over = id in self._lasting and self._lasting[id] <= self._right.now
            if id not in listed and not over and archived.get(id) in (None, *BROUGHT_BACK):
                self.problems.append(f"not shown although its time is not over ({archived.get(id)}): {text}")
            if id in listed and over:
                self.problems.append(f"still shown although its time is over: {text}")


def _verdict(row: str, place: Place, options: Options, verdict: Verdict) -> Verdict:
    begun = time.monotonic()
    for number in range(max(1, options.rounds // 2)):
        if number and options.seconds is not None and time.monotonic() > begun + options.seconds:
            break
        target = place.fresh(f"clock{number}")
        walk = Walk(target, options.seed * 1000 + number)
        problems = walk.run()
        verdict.tries += STEPS
        verdict.acknowledged += walk.acknowledged
        verdict.lost += sum(each.startswith("erased") for each in problems)
        verdict.problems += [f"{place.kind}, walk {number}: {each}" for each in problems]
        verdict.figures[f"{place.kind}_put_aside"] = verdict.figures.get(f"{place.kind}_put_aside", 0) + walk.archived
        if not problems:
            place.drop(target)
    verdict.seconds += time.monotonic() - begun
    return verdict


def run(options: Options) -> Verdict:
    """Walks on files, and on a server."""
    verdict = _verdict("clock", Files(options.folder), options, Verdict("clock", "both"))
    with databases(options) as place:
        return _verdict("clock", place, options, verdict)
