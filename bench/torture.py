"""Kill -9 at random instants, reopen, and check every acknowledged write. Run with `python -m bench torture`.

`lost` counts acknowledged effects that are not there afterwards, and verbs that were done by half. `drift` counts what
the doctor finds: text, words and vectors that disagree. Imports: recollect's public API, bench.ledger.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.ledger import Ledger
from recollect import Memory

ROUNDS = 50  # kills of one file before the next is begun
DOCTOR = 10  # kills between two visits of the doctor
VERBS = 400  # what a child does if nobody kills it
FRESH = 40  # every so many kills the child is a new interpreter, not a fork


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
    problems: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        ordered = sorted(self.reopen) or [0.0]
        return {
            "bench": "torture", "kills": self.kills, "acknowledged": self.acknowledged, "lost": self.lost,
            "drift": self.drift, "seconds": round(self.seconds, 1),
            "reopen_ms": {"p50": round(ordered[len(ordered) // 2] * 1e3, 2), "max": round(ordered[-1] * 1e3, 2)},
            "killed_in": dict(self.verbs.most_common()), "instants": dict(self.instants), "problems": self.problems[:20],
        }  # fmt: skip


class Lines:
    """JSON lines from a pipe, with a deadline."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._rest = b""

    def next(self, deadline: float | None = None) -> dict[str, Any] | None:
        """The next line; None when the deadline comes first or the pipe is closed."""
        while b"\n" not in self._rest:
            wait = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self._descriptor], [], [], wait)[0]:
                return None
            block = os.read(self._descriptor, 65536)
            if not block:
                return None
            self._rest += block
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


class Nursery:
    """A warm process that forks the children to be killed."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()
        )
        assert self._process.stdout is not None
        self.lines = Lines(self._process.stdout.fileno())
        if (self.lines.next() or {}).get("event") != "ready":
            raise RuntimeError("the torture worker did not start: run 'python -m bench.worker' to see why.")

    def start(self, path: Path, seed: int, verbs: int) -> int:
        """Fork a child; its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"path": str(path), "seed": seed, "verbs": verbs}).encode() + b"\n")
        self._process.stdin.flush()
        line = self.lines.next()
        if line is None or line["event"] != "start":
            raise RuntimeError(f"the torture worker said {line} where a start was expected.")
        return int(line["pid"])

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


def environment() -> dict[str, str]:
    """A child's environment: the same import path, one thread for matrix products (it is forked)."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OPENBLAS_NUM_THREADS": "1"}


class Torture:
    """Kills children in one folder and keeps the ledger of what they were promised."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = random.Random(seed)
        self.result = Result()
        self._path = folder
        self._ledger = Ledger()

    def run(self, kills: int, seconds: float | None = None, instants: tuple[str, ...] = ()) -> Result:
        """So many kills, or as many as fit in the time."""
        begun = time.monotonic()
        with contextlib.closing(Nursery()) as nursery:
            while self.result.kills < kills and (seconds is None or time.monotonic() - begun < seconds):
                self._kill(nursery, instants or ("working",) * 8 + ("opening", "creating"))
        self._check(doctor=True)
        self.result.seconds = time.monotonic() - begun
        return self.result

    def _kill(self, nursery: Nursery, instants: tuple[str, ...]) -> None:
        number = self.result.kills
        instant = self._random.choice(instants)
        kept = self._path, self._ledger
        if number % ROUNDS == 0 or instant == "creating":  # a new file is killed once beside the one that goes on
            self._path, self._ledger = self._folder / f"torture{number}.db", Ledger()
            kept = (self._path, self._ledger) if number % ROUNDS == 0 else kept
        seed = self._random.getrandbits(32)
        if number % FRESH == FRESH - 1:
            instant = f"{instant} (new interpreter)"
            self._fresh(seed, instant)
        else:
            pid = nursery.start(self._path, seed, VERBS)
            self._until_killed(nursery.lines, pid, instant)
            while (line := nursery.lines.next()) is not None and line["event"] != "gone":
                self._ledger.note(line)
        self.result.kills += 1
        self.result.instants[instant] += 1
        self.result.verbs[self._ledger.in_doubt or instant] += 1
        self._check(doctor=number % DOCTOR == DOCTOR - 1 or instant == "creating")
        self._path, self._ledger = kept

    def _fresh(self, seed: int, instant: str) -> None:
        command = [sys.executable, "-m", "bench.worker", str(self._path), str(seed), str(VERBS)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as child:
            assert child.stdout is not None
            lines = Lines(child.stdout.fileno())
            self._until_killed(lines, child.pid, instant, late=0.15)
            while (line := lines.next()) is not None:
                self._ledger.note(line)

    def _until_killed(self, lines: Lines, pid: int, instant: str, late: float = 0.0) -> None:
        """Listen to a child and kill it at a random instant of opening, creating or working."""
        if instant.startswith("working"):
            while (line := lines.next()) is not None:
                self._ledger.note(line)
                if line["event"] in ("open", "error", "end"):
                    break
            deadline = time.monotonic() + self._random.uniform(0.0005, 0.06)
        else:
            deadline = time.monotonic() + late + self._random.uniform(0.0, 0.012)
        while (line := lines.next(deadline)) is not None:
            self._ledger.note(line)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _check(self, doctor: bool) -> None:
        """Reopen the file and compare it with the ledger."""
        if not self._path.exists() and not self._ledger.promised:
            return  # killed before there was a store
        if not self._path.stat().st_size:
            self.result.problems.append(f"{self._path.name} is a file of 0 bytes")
            self.result.lost += 1
            return
        begun = time.perf_counter()
        with Memory.open(self._path) as memory:
            memory.list(limit=1)
            self.result.reopen.append(time.perf_counter() - begun)
            with Memory.open(self._path, embedder="none") as wordly:
                problems = self._ledger.settle(memory, wordly)
            findings = memory.doctor().findings if doctor else ()
        self.result.lost += len(problems)
        self.result.drift += len(findings)
        self.result.problems += problems + [f"doctor, {each.check}: {each.problem}" for each in findings]
        self.result.acknowledged += self._ledger.take_acknowledged()


@contextlib.contextmanager
def _folder(given: str | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="recollect-torture-") as folder:
        yield Path(folder)


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); exit status 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="bench torture", description=__doc__)
    parser.add_argument("--kills", type=int, default=200, help="how many kills (default 200)")
    parser.add_argument("--seconds", type=float, help="stop after this time at the latest")
    parser.add_argument("--seed", type=int, default=1, help="another seed kills at other instants")
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    with _folder(options.folder) as folder:
        found = Torture(folder, options.seed).run(options.kills, options.seconds).as_json()
    if not options.json:
        print(f"{found['kills']} kills in {found['seconds']} s, {found['acknowledged']} acknowledged effects")
        reopen = found["reopen_ms"]
        print(f"lost {found['lost']}, drift {found['drift']}; reopening took {reopen['p50']} ms (p50), {reopen['max']} ms (max)")
        print("killed in: " + ", ".join(f"{verb} {count}" for verb, count in found["killed_in"].items()))
        for problem in found["problems"]:
            print(f"  {problem}")
    print(json.dumps(found))
    return 1 if found["lost"] or found["drift"] else 0
