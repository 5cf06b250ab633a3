"""Kill -9 at random instants of every verb that writes, reopen, and check every acknowledged write.

`lost` counts acknowledged effects that are not there afterwards, and verbs that were done by half. `drift` counts what
the doctor finds: text, words and vectors that disagree.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.ledger import Ledger
from bench.torture.children import ForkServer, Lines
from bench.torture.targets import Files, Place, databases
from bench.torture.verdict import Options, Verdict
from bench.verbs import VERBS
from keepstone import KeepstoneError, Memory

ROUNDS = 50  # kills of one store before the next is begun
DOCTOR = 10  # kills between two visits of the doctor
MANY = 400  # verbs that a child does if it is not killed
BEFORE = 6  # verbs at most before the one that it is killed in
FRESH = 40  # every so many kills the child is a new interpreter, not a fork
INSTANTS = ("working",) * 8 + ("opening", "creating")


@dataclass(slots=True)
class Result:
    """What the kills came to."""

    kills: int = 0
    acknowledged: int = 0
    lost: int = 0
    drift: int = 0
    seconds: float = 0.0
    verbs: Counter[str] = field(default_factory=Counter)
    instants: Counter[str] = field(default_factory=Counter)
    reopen: list[float] = field(default_factory=list)
    beside: int = 0  # writes of the process that was not killed
    problems: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        ordered = sorted(self.reopen) or [0.0]
        return {
            "kills": self.kills,
            "reopen_ms": {"p50": round(ordered[len(ordered) // 2] * 1e3, 2), "max": round(ordered[-1] * 1e3, 2)},
            "killed_in": dict(self.verbs.most_common()), "instants": dict(self.instants), "bystander": self.beside,
        }  # fmt: skip


class ConcurrentWriter:
    """A caller of another process on the same store, which goes on whatever happens to the others."""

    def __init__(self, target: str) -> None:
        self._memory = Memory.open(target, user="bystander")
        self.ids: list[str] = []
        self.problems: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        talk = self._memory.conversation("aside")
        while not self._stop.wait(0.02):
            number = len(self.ids)
            try:
                self.ids.append(str(talk.add("user", f"Bystander's parcel zqby{number}q is in hall {number * 37}.").id))
            except KeepstoneError as error:
                self.problems.append(f"the bystander was told {type(error).__name__}: {error}")

    def progressed(self, since: int) -> bool:
        """Whether it has written something since, or does within our patience."""
        deadline = time.monotonic() + 60
        while len(self.ids) <= since and not self.problems and time.monotonic() < deadline:
            time.sleep(0.002)
        return len(self.ids) > since

    def close(self) -> None:
        """Stop, and look for all that was acknowledged."""
        self._stop.set()
        self._thread.join()
        said = {message.id for message in self._memory.conversation("aside").last(100_000)}
        self.problems += [f"the bystander lost {id}" for id in self.ids if id not in said]
        self._memory.close()


class Torture:
    """Kills children in one place and keeps the ledger of what they were promised."""

    def __init__(self, place: Path | Place, seed: int, bystander: bool = False) -> None:
        self._place: Place = Files(place) if isinstance(place, Path) else place
        self._random = random.Random(seed)
        self._beside = bystander
        self._bystander: ConcurrentWriter | None = None
        self.result = Result()
        self._target = ""
        self._ledger = Ledger()
        self._lasted: dict[str, deque[float]] = defaultdict(lambda: deque([0.01], maxlen=5))  # seconds that a verb takes
        self._next: list[str] = []
        self._gone = False

    def run(self, kills: int, seconds: float | None = None, instants: tuple[str, ...] = INSTANTS) -> Result:
        """So many kills, or as many as fit in the time."""
        begun = time.monotonic()
        with contextlib.closing(ForkServer()) as fork_server:
            try:
                while self.result.kills < kills and (seconds is None or time.monotonic() - begun < seconds):
                    self._kill(fork_server, self._random.choice(instants))
            finally:
                self._leave()
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _kill(self, fork_server: ForkServer, instant: str) -> None:
        number = self.result.kills
        if number % ROUNDS == 0:
            self._leave()
            self._target, self._ledger = self._place.fresh(f"kill{number}"), Ledger()
            if self._beside:
                self._bystander = ConcurrentWriter(self._target)
        kept = self._target, self._ledger
        if instant == "creating" and number % ROUNDS:  # a new store is killed once beside the one that goes on
            self._target, self._ledger = self._place.fresh(f"kill{number}"), Ledger()
        seed = self._random.getrandbits(32)
        written = len(self._bystander.ids) if self._bystander is not None else 0
        if number % FRESH == FRESH - 1:
            instant = f"{instant} (new interpreter)"
            self._fresh(fork_server, seed, instant)
        else:
            before = self._random.randint(0, BEFORE)
            chosen = self._victim()
            pid = fork_server.start(self._place.victim_target(self._target), seed, MANY, chosen, before)
            self._until_killed(fork_server.lines, pid, instant, chosen=chosen)
            while not self._gone and (line := fork_server.lines.next()) is not None:
                self._hear(line)
        self.result.kills += 1
        self.result.instants[instant] += 1
        self.result.verbs[self._ledger.in_doubt or instant] += 1
        self._place.settled()
        if self._bystander is not None and not self._bystander.progressed(written):
            self.result.problems.append("the bystander could not write after a kill")
        self._check(doctor=number % DOCTOR == DOCTOR - 1 or instant == "creating")
        if self._target != kept[0] and self._beside:  # databases are large; files are left to be looked at
            self._place.drop(self._target)
        self._target, self._ledger = kept

    def _hear(self, line: dict[str, Any]) -> None:
        """Take in a line of a child, or of the fork server that the child has ended: it may have ended before it was killed."""
        self._gone |= line["event"] == "gone"
        self._ledger.note(line)

    def _victim(self) -> str:
        """The verb to be killed in: each in its turn, in no order."""
        if not self._next:
            self._next = list(VERBS)
            self._random.shuffle(self._next)
        return self._next.pop()

    def _fresh(self, fork_server: ForkServer, seed: int, instant: str) -> None:
        command = [sys.executable, "-m", "bench.worker", self._place.victim_target(self._target), str(seed), str(MANY)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=fork_server.environment) as child:
            assert child.stdout is not None
            lines = Lines(child.stdout.fileno())
            self._until_killed(lines, child.pid, instant, before=self._random.randint(0, BEFORE), late=0.15)
            while (line := lines.next()) is not None:
                self._ledger.note(line)

    def _until_killed(
        self, lines: Lines, pid: int, instant: str, *, chosen: str | None = None, before: int = 0, late: float = 0.0
    ) -> None:
        """Listen to a child and kill it at a random instant of opening, creating or working."""
        self._gone = False
        if instant.startswith("working"):
            deadline = self._reached(lines, before, chosen)
        else:
            deadline = time.monotonic() + late + self._random.uniform(0.0, 0.012)
        while not self._gone and (line := lines.next(deadline)) is not None:
            self._hear(line)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _reached(self, lines: Lines, before: int, chosen: str | None) -> float:
        """Wait for the verb to be killed in (None: any); an instant in the time that it takes."""
        began, ready = 0.0, chosen is None
        while (line := lines.next()) is not None:
            self._hear(line)
            match line["event"]:
                case "chosen":
                    ready = True
                case "begin":
                    verb, began = line["verb"], time.monotonic()
                    if ready and before <= 0 and chosen in (None, verb):
                        usual = sorted(self._lasted[verb])[len(self._lasted[verb]) // 2]
                        return began + self._random.uniform(0.0, 1.2 * usual)
                case "done":
                    self._lasted[verb].append(time.monotonic() - began)
                    before -= 1
                case "error" | "end" | "gone":
                    break
        return time.monotonic()

    def _check(self, doctor: bool) -> None:
        """Reopen the store and compare it with the ledger."""
        if not self._place.there(self._target) and not self._ledger.promised:
            return  # killed before there was a store
        problem = self._place.problem(self._target)
        if problem is not None:
            self.result.problems.append(problem)
            self.result.lost += 1
            return
        begun = time.perf_counter()
        with Memory.open(self._target) as memory:
            memory.list(limit=1)
            self.result.reopen.append(time.perf_counter() - begun)
            with Memory.open(self._target, embedder="none") as wordly:
                problems = self._ledger.settle(memory, wordly)
            findings = memory.upkeep.doctor().findings if doctor else ()
            if doctor and not memory.audit.verify().whole:
                problems.append("the audit trail is not whole")
        self.result.lost += len(problems)
        self.result.drift += len(findings)
        self.result.problems += problems + [f"doctor, {each.check}: {each.problem}" for each in findings]
        self.result.acknowledged += self._ledger.take_acknowledged()

    def _leave(self) -> None:
        """A store has been killed often enough: it is looked at for the last time, and written to."""
        if not self._target:
            return
        if self._bystander is not None:
            self._bystander.close()
            self.result.beside += len(self._bystander.ids)
            self.result.problems += self._bystander.problems
        self._bystander = None
        self._check(doctor=True)
        self.result.problems += [f"a lock is held after everybody has gone: {each}" for each in self._place.locks(self._target)]
        with Memory.open(self._target) as memory:
            if memory.remember("After all the kills, the depot is quiet.").action != "added":
                self.result.problems.append("a fact that was said after the last kill was not stored")
        if self._beside:
            self._place.drop(self._target)
        self._target = ""


def _verdict(row: str, torture: Torture, options: Options) -> Verdict:
    result = torture.run(options.kills, options.seconds)
    return Verdict(
        row, torture._place.kind, tries=result.kills, acknowledged=result.acknowledged, lost=result.lost, drift=result.drift,
        problems=result.problems, figures=result.figures(), seconds=result.seconds,
    )  # fmt: skip


def run(options: Options) -> Verdict:
    """Kill children that write to a file."""
    return _verdict("kill", Torture(options.folder, options.seed), options)


def postgres(options: Options) -> Verdict:
    """Kill children that write to a server, and one that is not killed."""
    with databases(options) as place:
        return _verdict("kill-postgres", Torture(place, options.seed, bystander=True), options)
