"""Power cuts: what a disk may hold when writes that were not synced are lost, in part or whole, in any order.

A workload runs once while every write, truncation and sync below the store is recorded, with the moments at which verbs began and
were acknowledged. Then the power is cut at many of those moments: the disk is put together from what was synced and a random part
of the rest (writes or sectors lost, a write torn at any byte, a size without its content), opened, and compared. It must be the
state after the last acknowledged verb, or after the one under way. Names of files are taken as journalled: they change in order.
"""

from __future__ import annotations

import random
import shutil
import time
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from bench.torture.verdict import Options, Verdict
from keepstone import KeepstoneError, Memory

SECTOR_BYTES = 512
CUTS_PER_WORKLOAD = 250
VERBS = 60
EXAMINED = 10  # every so many cuts the doctor and the audit log are asked as well
State = frozenset[tuple[str, str, int, str]]  # id, content, version, status of every record


# -- the disk -----------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class DiskFile:
    """One file: what a power cut leaves for certain, and what was written since."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(default_factory=list)  # at an offset; None: cut off or filled up there

    def sync(self, first: int | None = None) -> None:
        """Make what was written durable; with a number, only so many of the writes."""
        for offset, data in self.pending[:first]:
            _apply(self.durable, offset, data)
        del self.pending[:first]

    def after_cut(self, chance: random.Random) -> bytes:
        """What may be there when the power comes back."""
        content = bytearray(self.durable)
        kept = chance.choice((0.0, 0.1, 0.5, 0.9, 1.0))  # of the writes
        for offset, data in self.pending:
            if chance.random() < kept:
                _apply(content, offset, data)
            elif data is not None:
                _apply_in_part(content, offset, data, chance)
        return bytes(content)


def _apply(content: bytearray, offset: int, data: bytes | None) -> None:
    end = offset + len(data or b"")
    if data is None:
        del content[offset:]
    if len(content) < end:
        content.extend(bytes(end - len(content)))
    if data is not None:
        content[offset:end] = data


def _apply_in_part(content: bytearray, offset: int, data: bytes, chance: random.Random) -> None:
    """A write that was under way: lost, torn at a byte, some of its sectors, or only the size of the file."""
    match chance.randrange(4):
        case 1:
            _apply(content, offset, data[: chance.randrange(len(data) + 1)])
        case 2:
            for at in range(0, len(data), SECTOR_BYTES):
                if chance.random() < 0.5:
                    _apply(content, offset + at, data[at : at + SECTOR_BYTES])
        case 3:
            missing = offset + len(data) - len(content)
            if missing > 0:  # a journal of names and sizes does not hold what was in the new blocks
                content.extend(chance.choice((bytes(missing), chance.randbytes(missing))))


# -- recording below SQLite -----------------------------------------------------------------------------------------
class Recorder(apsw.VFS):
    """Files of which everything is recorded that changes them. An event: what, which file, where, data."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, int, bytes]] = []
        self._below = apsw.vfs_names()[0]
        super().__init__("recording", base=self._below, makedefault=True)

    def xOpen(self, name: Any, flags: Any) -> Any:
        kept = flags[0] & (apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return RecordedFile(self, Path(path).name if kept else "", self._below, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        self.events.append(("delete", Path(filename).name, 0, b""))
        super().xDelete(filename, syncdir)


class RecordedFile(apsw.VFSFile):
    """One of its files; without a name it is temporary."""

    def __init__(self, recorder: Recorder, name: str, below: str, path: Any, flags: Any) -> None:
        self._events, self._name = recorder.events, name
        super().__init__(below, path, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._name:
            self._events.append(("write", self._name, offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        super().xTruncate(size)
        if self._name:
            self._events.append(("truncate", self._name, size, b""))

    def xSync(self, flags: int) -> None:
        super().xSync(flags)
        if self._name:
            self._events.append(("sync", self._name, 0, b""))


@contextmanager
def recording() -> Iterator[Recorder]:
    """Record everything below SQLite."""
    recorder = Recorder()
    try:
        yield recorder
    finally:
        recorder.unregister()


# -- the workload ---------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Run:
    """States of a store, one after each verb, and how many events there were when each began and was acknowledged."""

    states: list[State]
    begun: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)

    def allowed(self, cut: int) -> tuple[int, list[State]]:
        """How many verbs were acknowledged before a cut, and the states that may be found after it."""
        done = bisect_right(self.acknowledged, cut)
        under_way = done < len(self.begun) and self.begun[done] < cut
        return done, self.states[done : done + 1 + under_way]


def state_of(memory: Memory) -> State:
    """Every record of the scope."""
    records = [each.record for each in memory._engine.store.export_records(memory.scope)]
    return frozenset((each.id, each.content, each.version, each.status) for each in records)


def work(
    open_memory: Callable[[], Memory], chance: random.Random, verbs: int, moment: Callable[[str], int],
    between: Callable[[], object] | None = None,
) -> Run:  # fmt: skip
    """Random verbs, one after another; `moment` notes a beginning or an acknowledgement and says how many events there were."""
    memory = open_memory()
    run = Run([state_of(memory)])
    number = chance.randrange(10**9)
    for _ in range(verbs):
        number += 1
        text = f"Crate {number} went to dock {chance.randrange(10**6)}." + " Heavy." * chance.choice((0, 0, 0, 200))
        ids = sorted(state[0] for state in run.states[-1] if state[3] == "active")
        choice = chance.random()
        run.begun.append(moment("begin"))
        if choice < 0.35 or not ids:
            memory.remember(text)
        elif choice < 0.5:
            memory.remember_many([f"{text} Part {part}." for part in range(3)])
        elif choice < 0.65:
            memory.update(chance.choice(ids), text)
        elif choice < 0.75:
            memory.set("dock in use", text)
        elif choice < 0.85:
            memory.ingest([{"role": "user", "content": text}], session="dock", extract=False)
        elif choice < 0.95:
            memory.forget(id=chance.choice(ids))
        else:
            memory.close()
            memory = open_memory()
        run.acknowledged.append(moment("acknowledged"))
        run.states.append(state_of(memory))
        if between is not None and chance.random() < 0.05:
            between()
    memory.close()
    return run


# -- cutting the power ------------------------------------------------------------------------------------------------
def run(options: Options) -> Verdict:
    """Cut the power under files."""
    return cut_files(options.folder, options.faults, options.seed, options.seconds)


def cut_files(folder: Path, faults: int, seed: int, seconds: float | None = None, durable: bool = True) -> Verdict:
    """So many power cuts under stores in files; without `durable` they may lose what was acknowledged."""
    verdict = Verdict("power", "sqlite")
    begun, chance, events = time.monotonic(), random.Random(seed), 0
    path = folder / "recorded" / "memory.db"

    def open_store() -> Memory:
        return Memory.open(path, embedder="none", settings={"durable": durable, "worker": False})

    while verdict.tries < faults and (seconds is None or time.monotonic() - begun < seconds):
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir(parents=True)
        Memory.open(path, embedder="none").close()
        first = path.read_bytes()
        with recording() as recorder:
            done = work(open_store, chance, VERBS, lambda _: len(recorder.events))
        events += len(recorder.events)
        cuts = sorted(chance.randrange(len(recorder.events) + 1) for _ in range(min(CUTS_PER_WORKLOAD, faults - verdict.tries)))
        _cut_at(cuts, recorder.events, first, done, folder / "cut", chance, verdict)
    verdict.figures = {"power_cuts": verdict.tries, "recorded_events": events}
    return verdict


def _cut_at(
    cuts: list[int], events: list[tuple[str, str, int, bytes]], first: bytes, run: Run, folder: Path, chance: random.Random,
    verdict: Verdict,
) -> None:  # fmt: skip
    disk = {"memory.db": DiskFile(bytearray(first))}
    at = acknowledged = 0
    for cut in cuts:
        for what, name, offset, data in events[at:cut]:
            if what == "delete":
                disk.pop(name, None)
            elif what == "sync":
                disk.setdefault(name, DiskFile()).sync()
            else:
                disk.setdefault(name, DiskFile()).pending.append((offset, None if what == "truncate" else data))
        at = cut
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for name, file in disk.items():
            (folder / name).write_bytes(file.after_cut(chance))
        done, allowed = run.allowed(cut)
        compare(verdict, lambda: Memory.open(folder / "memory.db", embedder="none"), allowed, f"cut {cut}")
        verdict.acknowledged += done - acknowledged
        acknowledged = done


def compare(verdict: Verdict, open_memory: Callable[[], Memory], allowed: list[State], label: str) -> None:
    """Open what the cut left and add to the verdict what is wrong with it."""
    verdict.tries += 1
    try:
        with open_memory() as memory:
            found = state_of(memory)
            if found not in allowed:
                lost, added = allowed[0] - found, found - allowed[-1]
                verdict.lost += max(1, len(lost))
                verdict.problems.append(f"{label}: {len(lost)} records are lost or changed, {len(added)} are there that were not")
            if verdict.tries % EXAMINED == 0:
                findings = memory.upkeep.doctor().findings
                verdict.drift += len(findings) + (not memory.audit.verify().whole)
                verdict.problems += [f"{label}: doctor, {each.check}: {each.problem}" for each in findings]
    except KeepstoneError as error:
        verdict.errors += 1
        verdict.problems.append(f"{label}: {type(error).__name__}: {error}")
