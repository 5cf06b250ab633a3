"""Files that were damaged on disk, at random places: what is wrong is named, or nothing is; a store is never made anew.

A damage is whole if every answer is as before and the doctor finds nothing (it hit unused bytes), told if an error or the
doctor speaks of it. What is neither is a wrong answer without notice. `refused` counts stores that could not be listed, `misread`
reads that gave something else than was stored, of which the doctor knows: SQLite has no sums over its pages, so only the doctor,
who has those of the contents, can tell.
Each batch is used by a process of its own, which no damage may crash.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.restarts import everything
from bench.torture.children import environment
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from keepstone.errors import NotFound, StoreDamaged, StoreError

PAGE = 4096
COUNT, LATE = 300, 40
BATCH = 40  # damages that one process looks at
PATIENCE = 300.0
Damage = Callable[[random.Random, bytearray], None]


# -- what is done to a file ---------------------------------------------------------------------------------------------
def flip(chance: random.Random, data: bytearray) -> None:
    """One bit."""
    data[chance.randrange(100, len(data))] ^= 1 << chance.randrange(8)


def scribble(chance: random.Random, data: bytearray) -> None:
    """Some bytes here and there."""
    for _ in range(chance.choice((3, 30, 300))):
        data[chance.randrange(100, len(data))] = chance.randrange(256)


def overwrite(chance: random.Random, data: bytearray) -> None:
    """A run of bytes."""
    at, long = chance.randrange(len(data)), chance.choice((16, 512, PAGE, 5 * PAGE))
    data[at : at + long] = chance.randbytes(min(long, len(data) - at))


def zero(chance: random.Random, data: bytearray) -> None:
    """A page, or some."""
    at = chance.randrange(len(data) // PAGE) * PAGE
    long = min(chance.choice((1, 1, 4)) * PAGE, len(data) - at)
    data[at : at + long] = bytes(long)


def swap(chance: random.Random, data: bytearray) -> None:
    """Two pages that were written to each other's place."""
    one, two = (page * PAGE for page in chance.sample(range(1, len(data) // PAGE), 2))
    data[one : one + PAGE], data[two : two + PAGE] = data[two : two + PAGE], data[one : one + PAGE]


def cut(chance: random.Random, data: bytearray) -> None:
    """The end is missing."""
    del data[chance.randrange(1, len(data)) :]


def cut_evenly(chance: random.Random, data: bytearray) -> None:
    """Pages at the end are missing."""
    del data[chance.randrange(1, len(data) // PAGE) * PAGE :]


def grow(chance: random.Random, data: bytearray) -> None:
    """Something was written behind the end."""
    data += chance.randbytes(chance.randrange(1, 3 * PAGE))


def rubbish(chance: random.Random, data: bytearray) -> None:
    """Nothing of it is left."""
    data[:] = chance.randbytes(chance.randrange(1, len(data)))


FILE: tuple[Damage, ...] = (flip, flip, scribble, overwrite, zero, zero, swap, cut, cut_evenly, grow)
LOG: tuple[Damage, ...] = (flip, scribble, overwrite, cut, grow, rubbish)


# -- a store to damage --------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Whole:
    """A healthy store with many pages, the same with its last writes in the log alone, and what is in them."""

    file: bytes
    logged: bytes
    log: bytes
    truth: dict[str, list[str]]  # id: the contents of its versions; those of the log come last, in order

    @classmethod
    def create(cls, folder: Path) -> Whole:
        """Make them in a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "whole.db"
        with Memory.open(path) as memory:
            for at in range(0, COUNT, 100):
                memory.remember_many([f"Shelf {n} holds crate {n * 7} from depot {n * 13}. " + "Note. " * (n % 50)
                                      for n in range(at, at + 100)])  # fmt: skip
            for record in everything(memory)[:30]:
                memory.update(record.id, record.content + " It was moved.")
        file = path.read_bytes()
        writer = ("import os, signal, sys; from keepstone import Memory; memory = Memory.open(sys.argv[1])\n"
                  f"for n in range({LATE}): memory.remember(f'Late shelf {{n}} holds barrel {{n * 7}} from farm {{n * 13}}.')\n"
                  "os.kill(os.getpid(), signal.SIGKILL)")  # fmt: skip
        subprocess.run([sys.executable, "-c", writer, str(path)], env=environment(), check=False)
        logged, log = path.read_bytes(), Path(f"{path}-wal").read_bytes()
        with Memory.open(path) as memory:
            truth = {each.id: [version.content for version in memory.history(each.id)] for each in everything(memory)[::-1]}
        return cls(file, logged, log, truth)


# -- what comes of it ---------------------------------------------------------------------------------------------------
@dataclass
class Used:
    """What everything that a user might do with a file gave, raised and found."""

    errors: list[Exception] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    misread: list[str] = field(default_factory=list)
    listed: int | None = None
    saved: int | None = None  # records that an export could write


def use_store(path: Path, truth: dict[str, list[str]] | None = None) -> Used:
    """Do it; with `truth`, whatever is read is compared with it."""
    seen = Used()
    try:
        memory = Memory.open(path, settings={"durable": False})
    except Exception as error:
        seen.errors.append(error)
        return seen
    with memory:
        for attempt in (
            lambda: _list(memory, seen, truth),
            lambda: _compare(seen, truth, memory.recall("crate from depot")),
            lambda: _histories(memory, seen, truth),
            lambda: seen.findings.extend(each.problem for each in memory.upkeep.doctor().findings),
            lambda: _save(memory, seen, path.with_suffix(".jsonl")),
            lambda: seen.findings.extend([] if (report := memory.audit.verify()).whole else [str(report.problem)]),
            lambda: memory.remember("One more crate came in at noon."),
            lambda: seen.findings.extend(each.problem for each in memory.upkeep.doctor().findings),
        ):
            try:
                attempt()
            except Exception as error:
                seen.errors.append(error)
    return seen


def _compare(seen: Used, truth: dict[str, list[str]] | None, given: Any) -> None:
    for each in given if truth is not None else ():
        if each.content not in (truth or {}).get(each.id, ())[-1:]:
            seen.misread.append(f"{each.id} reads {each.content[:40]!r}")


def _list(memory: Memory, seen: Used, truth: dict[str, list[str]] | None) -> None:
    records = everything(memory)
    _compare(seen, truth, records)
    seen.listed = len({record.id for record in records})
    if len(records) != seen.listed:
        seen.misread.append("a record is listed twice")


def _save(memory: Memory, seen: Used, target: Path) -> None:
    seen.saved = memory.export(target)
    target.unlink()


def _histories(memory: Memory, seen: Used, truth: dict[str, list[str]] | None) -> None:
    for record in memory.list(limit=100) if truth is not None else memory.list(limit=5):
        versions = [version.content for version in memory.history(record.id)]
        if truth is not None and versions != truth.get(record.id):
            seen.misread.append(f"{record.id} has another history")


def told_wrongly(path: Path, errors: list[Exception]) -> list[str]:
    """What errors do not say as they should: which file, and what to do next."""
    wrong = [f"{type(each).__name__}: {each}" for each in errors if not isinstance(each, (StoreError, NotFound))]
    damaged = [str(each) for each in errors if isinstance(each, StoreDamaged)]
    wrong += [said for said in damaged if str(path) not in said]
    remedies = (f"keepstone doctor --db {path}", "Restore it from a backup", "restore it from a backup", "left untouched")
    return wrong + [said for said in damaged if not any(remedy in said for remedy in remedies)]


def batch(folder: Path, seed: int, count: int) -> None:
    """Be the process that looks at damages: a line for each."""
    chance = random.Random(seed)
    truth = json.loads((folder / "truth.json").read_text())
    parts = {name: (folder / name).read_bytes() for name in ("file", "logged", "log")}
    for number in range(count):
        path = folder / f"victim{seed}-{number}.db"
        log = chance.random() < 0.3
        damage = chance.choice(LOG if log else FILE)
        data = bytearray(parts["log" if log else "file"])
        damage(chance, data)
        path.write_bytes(parts["logged"] if log else data)
        Path(f"{path}-wal").write_bytes(data if log else b"")
        print(json.dumps({"damage": f"{damage.__name__} {'log' if log else 'file'}"}), flush=True)
        print(json.dumps(_judge(path, truth, log)), flush=True)
        for left in folder.glob(f"{path.name}*"):
            left.unlink()


def _judge(path: Path, truth: dict[str, list[str]], log: bool) -> dict[str, Any]:
    before = path.stat()
    seen = use_store(path, truth)
    wrong = told_wrongly(path, seen.errors)
    if path.stat().st_ino != before.st_ino or path.stat().st_size < before.st_size:
        wrong.append("the file was made anew")
    told = bool(seen.errors or seen.findings)
    expected = range(COUNT, COUNT + LATE + 1) if log else range(COUNT, COUNT + 1)
    astray = bool(seen.misread) or (seen.listed is not None and seen.listed not in expected)
    if not told and (astray or seen.listed is None):
        wrong.append(f"a wrong answer without notice: {[*seen.misread, f'{seen.listed} records are listed'][0]}")
    silent = [each for each in seen.errors if not isinstance(each, StoreDamaged)]
    return {
        "wrong": wrong, "told": told, "misread": astray and told, "refused": seen.listed is None, "saved": seen.saved,
        "kinds": sorted({type(each).__name__ for each in silent}),
    }  # fmt: skip


def run(options: Options) -> Verdict:
    """Ten damages a round."""
    verdict = Verdict("damaged", "sqlite")
    begun = time.monotonic()
    whole = Whole.create(options.folder / "damaged")
    folder = options.folder / "damaged"
    (folder / "truth.json").write_text(json.dumps(whole.truth))
    for name in ("file", "logged", "log"):
        (folder / name).write_bytes(getattr(whole, name))
    counts: Counter[str] = Counter()
    damages: Counter[str] = Counter()
    left, seed = options.rounds * 10, options.seed * 1000
    while left > 0 and (options.seconds is None or time.monotonic() - begun < options.seconds):
        _run_child(folder, seed, min(left, BATCH), verdict, counts, damages)
        left, seed = left - BATCH, seed + 1
    verdict.figures = {"outcomes": dict(counts), "damages": dict(damages.most_common())}
    verdict.seconds = time.monotonic() - begun
    return verdict


def _run_child(folder: Path, seed: int, count: int, verdict: Verdict, counts: Counter[str], damages: Counter[str]) -> None:
    """One process, and what it says of its damages."""
    command = [sys.executable, "-m", "bench.torture.damaged", str(folder), str(seed), str(count)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=PATIENCE, check=False)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    for named, judged in zip(lines[::2], lines[1::2], strict=False):
        verdict.tries += 1
        damages[named["damage"]] += 1
        outcome = "told" if judged["told"] else "whole"
        counts.update([outcome] + ["refused"] * judged["refused"] + ["misread"] * judged["misread"])
        counts.update(judged["kinds"])
        counts["told, and an export saves it"] += judged["told"] and bool(judged["saved"])
        verdict.errors += len(judged["wrong"])
        verdict.problems += [f"{named['damage']} ({seed}/{verdict.tries - 1}): {each}" for each in judged["wrong"]]
    if done.returncode:
        how = signal.Signals(-done.returncode).name if done.returncode < 0 else done.stderr[-600:]
        verdict.errors += 1
        verdict.problems.append(f"{lines[-1].get('damage') if lines else 'the start'} stopped the process: {how}")


if __name__ == "__main__":
    batch(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
