"""Reads, writes and syncs that fail at random, under a process that writes: nothing that was acknowledged may be lost.

A verb that failed may have been done whole or not at all; said again under its key it is there once. The faults come from
`fiu-run` (Debian's fiu-utils) in every call of the C library, and from a layer of our own under SQLite, which needs nothing.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench.restarts import everything
from bench.torture.children import Lines, environment
from bench.torture.support import check_store
from bench.torture.verdict import Options, Verdict
from keepstone import Memory

SHARES = (0.002, 0.01, 0.05, 0.2)  # of the calls that fail
VERBS = 60
ROUNDS = 10  # processes on one file before the next is begun
PATIENCE = 120.0
EXPECTED = {"StoreError", "StorageFull", "StoreBusy", "StoreDamaged"}  # what a caller may be told by a disk that fails


class UnacknowledgedWrites:
    """What the store may hold: by id the contents that are possible (None: gone), and new ones that may be there or not."""

    def __init__(self) -> None:
        self.possible: dict[str, set[str | None]] = {}
        self._new: list[list[str]] = []  # each whole or not at all
        self._begun: dict[str, Any] | None = None
        self._value: set[str | None] = {None}  # of the one value that is set again and again
        self.acknowledged = 0
        self.told: Counter[str] = Counter()
        self.problems: list[str] = []
        self.wrong = 0

    def note(self, line: dict[str, Any]) -> None:
        """Take in a line of the process."""
        match line["event"]:
            case "begin":
                self.cut()
                self._begun = line
            case "done":
                self._done(line["ids"])
            case "failed":
                self._heard(line)
                self.cut()
            case "read":
                self._read(line["id"], line["content"])
            case "raised":
                self.problems.append(f"an error that is not keepstone's came out: {line['said']}")
            case "still failing":
                self.problems.append(f"the disk is well again and the open store still fails: {line.get('said', '')}")
            case "examined":
                self.problems += [f"the disk is well again and the doctor says: {each}" for each in line["findings"]]
            case "not opened" | "not closed":
                self._heard(line)

    def _heard(self, line: dict[str, Any]) -> None:
        self.told[line["error"]] += 1
        if line["error"] not in EXPECTED and not (line["error"] == "NotFound" and self._begun and self._begun.get("id")):
            self.problems.append(
                f"{(self._begun or line).get('verb', line['event'])} failed with {line['error']}: {line['said']}"
            )

    def _done(self, ids: list[str]) -> None:
        begun, self._begun = self._begun, None
        assert begun is not None
        self.acknowledged += max(1, len(begun["contents"]))
        if begun["verb"] == "forget":
            self.possible[begun["id"]] = {None}
        elif begun["verb"] == "update":
            self.possible[begun["id"]] = {begun["contents"][0]}
        elif begun["verb"] == "set":
            self._value = {begun["contents"][0]}
        else:
            for id, content in zip(ids, begun["contents"], strict=True):
                self.possible[id] = {content}

    def cut(self) -> None:
        """The verb that was begun was not acknowledged: it is in doubt."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        if begun["verb"] == "set":
            self._value.add(begun["contents"][0])
        elif "id" in begun:
            self.possible.setdefault(begun["id"], set()).add(begun["contents"][0] if begun["contents"] else None)
        else:
            self._new.append(begun["contents"])

    def _read(self, id: str, content: str | None) -> None:
        expected = self.possible.get(id)
        if expected is not None and content not in expected:
            self.wrong += 1
            self.problems.append(f"a read of {id} gave {str(content)[:60]!r}, which it never was or no longer is")

    def settle(self, memory: Memory) -> tuple[int, int]:
        """Compare a store that is opened without faults; how much was lost, and how much is there twice."""
        records = {record.id: record for record in everything(memory)}
        value = [id for id, record in records.items() if record.key == "dock in use"]
        current = records[value[0]].content if value else None
        if current not in self._value:
            self.problems.append(f"the value is {str(current)[:60]!r}, and that was never acknowledged last")
            self.wrong += 1
        self._value = {current}
        there = Counter(record.content for record in records.values())
        lost = 0
        for id, expected in self.possible.items():
            content = records[id].content if id in records else None
            if content not in expected:
                lost += 1
                self.problems.append(f"{id} is {str(content)[:60]!r} and must be one of {[str(e)[:60] for e in expected]}")
            self.possible[id] = {content}  # from here on there is no doubt about it
        for group in self._new:
            if 0 < sum(text in there for text in group) < len(group):
                lost += 1
                self.problems.append(f"done by half: {sum(text in there for text in group)} of {len(group)}")
        offered = {text for group in self._new for text in group}
        for id, record in records.items():
            if id not in self.possible and id not in value:
                if record.content not in offered:
                    self.problems.append(f"{id} was never written: {record.content[:60]}")
                self.possible[id] = {record.content}
        self._new.clear()
        twice = sum(count - 1 for count in there.values())
        self.problems += [f"{count} times: {content[:60]}" for content, count in there.items() if count > 1]
        return lost, twice


def ways() -> dict[str, str | None]:
    """How faults can be made here; a reason where they cannot."""
    return {"shim": None, "fiu": None if shutil.which("fiu-run") else "there is no fiu-run here: apt-get install fiu-utils"}


def run(options: Options) -> Verdict:
    """Half of the rounds each way, where both are there."""
    verdict = Verdict("io-errors", "sqlite")
    begun = time.monotonic()
    here = [way for way, reason in ways().items() if reason is None]
    told: Counter[str] = Counter()
    for way in here:
        folder = options.folder / way
        folder.mkdir(parents=True, exist_ok=True)
        rounds = Rounds(folder, way, random.Random(options.seed), verdict)
        for number in range(max(1, options.rounds // len(here))):
            if options.seconds is not None and time.monotonic() - begun > options.seconds:
                break
            rounds.round(number)
        told.update(rounds.told)
    verdict.figures = {"ways": here, "left_out": {way: why for way, why in ways().items() if why}, "told": dict(told)}
    if not told:
        verdict.problems.append("no call failed: nothing was shown")
    verdict.seconds = time.monotonic() - begun
    return verdict


class Rounds:
    """Processes that write to files in one folder under faults, one after the other."""

    def __init__(self, folder: Path, way: str, chance: random.Random, verdict: Verdict) -> None:
        self._folder, self._way, self._random, self._verdict = folder, way, chance, verdict
        self._path, self._doubts = folder, UnacknowledgedWrites()
        self.told: Counter[str] = Counter()

    def round(self, number: int) -> None:
        """One process, and what it left behind."""
        if number % ROUNDS == 0:
            self._path, self._doubts = self._folder / f"memory{number}.db", UnacknowledgedWrites()
        arguments = [str(self._path), str(self._random.getrandbits(31)), str(VERBS), self._way, str(self._random.choice(SHARES))]
        python = [sys.executable, "-m", "bench.torture.failing", *arguments]
        command = ["fiu-run", "-x", "-f", "", *python] if self._way == "fiu" else python
        log = self._folder / f"stderr{number}"
        with (
            log.open("wb") as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment()) as child,
        ):
            assert child.stdout is not None
            lines = Lines(child.stdout.fileno())
            deadline = time.monotonic() + PATIENCE
            while (line := lines.next(deadline)) is not None:
                self._doubts.note(line)
            if time.monotonic() > deadline:
                self._verdict.problems.append(f"{self._way} {number}: the process hangs")
                child.kill()
        if child.returncode not in (0, -9, 137):
            self._verdict.errors += 1
            self._verdict.problems.append(
                f"{self._way} {number}: the process ended with {child.returncode}: {log.read_text()[-300:]}"
            )
        self._doubts.cut()
        self._check(number)

    def _check(self, number: int) -> None:
        verdict, doubts = self._verdict, self._doubts
        verdict.tries += 1
        if self._path.exists() or doubts.acknowledged:
            with Memory.open(self._path) as memory:
                lost, twice = doubts.settle(memory)
            verdict.lost += lost
            verdict.duplicates += twice
            check_store(verdict, self._path, f"{self._way} {number}")
        verdict.acknowledged += doubts.acknowledged
        verdict.errors += doubts.wrong
        verdict.problems += [f"{self._way} {number}: {each}" for each in doubts.problems]
        self.told.update(doubts.told)
        doubts.acknowledged, doubts.wrong, doubts.problems = 0, 0, []
        doubts.told.clear()
