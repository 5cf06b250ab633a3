"""Kill -9 in the middle of every job of upkeep: record by record it is done, or not begun, and running it again completes it.
Run as a module it is the fork server: a warm process that forks a child for each job."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.torture.children import Lines, environment
from bench.torture.targets import Files, Place, databases
from bench.torture.upkeep_jobs import JOBS
from bench.torture.upkeep_support import CheckFailed, Job, JobContext, must, open_at
from bench.torture.verdict import Options, Verdict
from keepstone import KeepstoneError, Memory

TRIES = 6  # runs at most for one kill: a job may be over before it is killed


@dataclass(slots=True)
class ForkServer:
    """A warm process that forks the children to be killed in a job."""

    process: subprocess.Popen[bytes]
    lines: Lines

    def start(self, job: str, target: str, beside: str) -> int:
        """The process id of a child that has opened the store and begins with the job."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([job, target, beside]).encode() + b"\n")
        self.process.stdin.flush()
        begun = self.lines.next()
        if begun is None or begun["event"] != "begun":
            raise RuntimeError(f"the upkeep worker said {begun} where a beginning was expected.")
        return int(begun["pid"])


@contextlib.contextmanager
def fork_server() -> Iterator[ForkServer]:
    """A fork server, as a context."""
    command = [sys.executable, "-m", "bench.torture.upkeep"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        lines = Lines(process.stdout.fileno())
        if lines.next() != {"event": "ready"}:
            raise RuntimeError("the upkeep worker did not start: run 'python -m bench.torture.upkeep' to see why.")
        yield ForkServer(process, lines)
        process.stdin.close()


@dataclass(slots=True)
class JobKills:
    """A job, the store it is killed on, and how often it was."""

    job: Job
    place: Place
    folder: Path
    seed: int
    lasted: float = 0.0
    runs: int = 0
    killed: int = 0
    left: Counter[str] = field(default_factory=Counter)  # how much was done when it was killed
    problems: list[str] = field(default_factory=list)

    def kills(self, fork_server: ForkServer, times: int, until: float | None = None) -> None:
        """Let the job run once to see how long it takes, then kill it at random instants of that time."""
        chance = random.Random(f"{self.seed} {self.job.name}")
        template, beside = self.place.fresh(self.job.name), self.folder / f"{self.job.name}.beside"
        self.job.fill(template, str(beside))
        while self.killed < times and self.runs <= TRIES * times and (until is None or time.monotonic() < until):
            target = self.place.copy(template, f"{self.job.name}{self.runs}")
            mine = beside.with_name(f"{self.job.name}{self.runs}.beside")
            if beside.exists():
                shutil.copyfile(beside, mine)
            left = self._run(fork_server, self.place.victim_target(target), str(mine), chance)
            self.place.settled()
            try:
                self._check(target, str(mine), left)
            except (CheckFailed, KeepstoneError, AssertionError) as error:
                self.problems.append(f"{self.job.name}, run {self.runs} ({left}): {error}")
            else:
                self.place.drop(target)
                mine.unlink(missing_ok=True)
            self.runs += 1
        self.place.drop(template)

    def _run(self, fork_server: ForkServer, target: str, beside: str, chance: random.Random) -> str:
        """Start the job and kill it; the first time let it come to its end. How it went."""
        pid = fork_server.start(self.job.name, target, beside)
        start, first = time.monotonic(), self.runs == 0
        line = fork_server.lines.next(None if first else start + chance.uniform(0, self.lasted))
        how = "done"
        if line is None and not first:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            how = "killed"
        elif first:
            self.lasted = time.monotonic() - start
        else:
            self.lasted = 0.8 * min(self.lasted, time.monotonic() - start)  # it was done before: earlier next time
        if line is not None and line["event"] == "error":
            self.problems.append(f"{self.job.name} met an error: {line['error']}")
        while line != {"event": "gone"}:
            line = fork_server.lines.next()
            if line is None:
                raise RuntimeError("the upkeep worker is gone.")
        self.killed += how == "killed"
        return how

    def _check(self, target: str, beside: str, how: str) -> None:
        """The store is whole, whatever the job came to; run again, the job is completed."""
        with Memory.open(target, embedder="none") as memory:
            diagnosis = memory.upkeep.doctor()
            must(diagnosis.healthy, f"the doctor found {diagnosis.findings}")
            must(memory.audit.verify().whole, "the audit trail is not whole")
        with open_at(target, embedder="none") as memory:
            done = self.job.check(JobContext(memory, target, beside))
        if how == "killed":
            self.left[done] += 1
        must(how == "killed" or done == "all", f"undisturbed it did {done} of it")
        if self.job.repeats or done != "all":
            with open_at(target) as memory:
                self.job.do(JobContext(memory, target, beside))
                must(memory.audit.verify().whole, "the audit trail is not whole after a second run")
        with open_at(target, embedder="none") as memory:
            again = self.job.check(JobContext(memory, target, beside))
            must(again == "all", f"run again, the job has done {again} of it")
            must(memory.upkeep.doctor().healthy, "the doctor is not content after a second run")


def _verdict(row: str, place: Place, options: Options) -> Verdict:
    begun = time.monotonic()
    verdict = Verdict(row, place.kind)
    times, more = divmod(options.kills, len(JOBS))
    figures: dict[str, dict[str, object]] = {}
    with fork_server() as children:
        for number, job in enumerate(JOBS.values()):
            wanted = times + (number < more)
            if not wanted or (options.seconds is not None and time.monotonic() > begun + options.seconds):
                continue
            trial = JobKills(job, place, options.folder, options.seed)
            trial.kills(children, wanted, None if options.seconds is None else begun + options.seconds)
            figures[job.name] = {"kills": trial.killed, "ms": round(trial.lasted * 1e3, 1), **dict(trial.left)}
            verdict.tries += trial.runs
            verdict.acknowledged += trial.runs * 2  # each run is followed by another
            verdict.lost += len(trial.problems)
            verdict.problems += trial.problems
    killed = {f"upkeep.{name}": each["kills"] for name, each in figures.items()}
    verdict.figures = {"kills": sum(each["kills"] for each in figures.values()), "killed_in": killed, "jobs": figures}  # type: ignore[misc]
    verdict.seconds = time.monotonic() - begun
    return verdict


def run(options: Options) -> Verdict:
    """Kill jobs on files."""
    return _verdict("upkeep", Files(options.folder), options)


def postgres(options: Options) -> Verdict:
    """Kill jobs on a server."""
    with databases(options) as place:
        return _verdict("upkeep-postgres", place, options)


# -- the child ----------------------------------------------------------------------------------------------------
def _tell(**what: object) -> None:
    os.write(1, json.dumps(what).encode() + b"\n")  # one write: whole, or not at all


def _job(name: str, target: str, beside: str) -> None:
    with open_at(target) as memory:
        _tell(event="begun", pid=os.getpid())
        try:
            JOBS[name].do(JobContext(memory, target, beside))
        except KeepstoneError as error:
            _tell(event="error", error=f"{type(error).__name__}: {error}")
        else:
            _tell(event="done")


def main() -> int:
    """One job a line of standard input, each in a forked child."""
    _tell(event="ready")
    for line in sys.stdin:
        child = os.fork()
        if not child:
            _job(*json.loads(line))
            os._exit(0)
        os.waitpid(child, 0)
        _tell(event="gone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
