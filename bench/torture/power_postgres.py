"""Power cuts under a PostgreSQL: a library between it and the C library records what it changes on disk (power_shim.c)."""

from __future__ import annotations

import os
import random
import shutil
import struct
import subprocess
import time
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from bench.torture.power import DiskFile, Run, compare, work
from bench.torture.support import Unavailable
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from tests.server_processes import PostgresServer

SOURCE = Path(__file__).with_name("power_shim.c")
VERBS = 120
CUTS_PER_WORKLOAD = 100
_HEAD = struct.Struct("=IIQq")  # kind, length, inode, offset
WRITE, TRUNCATE, SYNC, CREATE, RENAME, UNLINK, MOMENT = 1, 2, 3, 4, 5, 6, 7


class RecordedServer(PostgresServer):
    """A server whose changes to its files are recorded while `log` is set."""

    log: Path | None = None

    def __init__(self, folder: Path, shim: Path, *, durable: bool) -> None:
        super().__init__(folder, durable=durable)
        self._shim = shim

    @property
    def data(self) -> Path:
        return self._data

    def own(self, path: Path) -> None:
        """Give a file to the user that the server runs as."""
        self._chown(path)

    def _popen_options(self, log: Any) -> dict[str, Any]:
        options = super()._popen_options(log)
        if self.log is not None:
            options["env"] = {**os.environ, "LD_PRELOAD": str(self._shim), "POWER_LOG": str(self.log)}
        return options


def compile_library(folder: Path) -> Path:
    """The recording library; Missing where there is no C compiler."""
    target = folder / "power_shim.so"
    if shutil.which("cc") is None:
        raise Unavailable("there is no C compiler (cc)")
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", str(target), str(SOURCE), "-ldl"], check=True)
    return target


@dataclass(slots=True)
class Recorded:
    """A workload: the data folder before it, its inodes by path, every event since, and what was acknowledged when."""

    base: Path
    inodes: dict[str, int]
    events: list[tuple[int, int, int, bytes, int]]  # kind, inode, offset, data, position in the log
    run: Run


def run(options: Options) -> Verdict:
    """Cut the power under a server."""
    return cut_servers(options.folder, options.faults, options.seed, options.seconds)


def cut_servers(folder: Path, faults: int, seed: int, seconds: float | None = None, durable: bool = True) -> Verdict:
    """So many power cuts under a PostgreSQL; without `durable` it syncs nothing and may lose what was acknowledged."""
    verdict = Verdict("power-postgres", "postgres")
    begun, chance, events = time.monotonic(), random.Random(seed), 0
    try:
        shim = compile_library(folder)
    except Unavailable as missing:
        verdict.skipped = str(missing)
        return verdict
    while verdict.tries < faults and (seconds is None or time.monotonic() - begun < seconds):
        recorded = record(folder, shim, chance, durable)
        events += len(recorded.events)
        first = recorded.run.begun[0]  # not while it starts: what it finds there was put there by an orderly stop
        many = min(CUTS_PER_WORKLOAD, faults - verdict.tries)
        cuts = sorted(chance.randrange(first, len(recorded.events) + 1) for _ in range(many))
        _cut_at(cuts, recorded, PostgresServer(folder / "cut", durable=True), chance, verdict)
    verdict.figures = {"power_cuts": verdict.tries, "recorded_events": events}
    return verdict


def record(folder: Path, shim: Path, chance: random.Random, durable: bool) -> Recorded:
    """Run a workload and record it."""
    for name in ("recorded", "base"):
        shutil.rmtree(folder / name, ignore_errors=True)
    log = folder / "power.log"
    server = RecordedServer(folder / "recorded", shim, durable=durable)
    with server:
        url = server.database("power")
        Memory.open(url, embedder="none").close()
    subprocess.run(["cp", "-a", str(server.data), str(folder / "base")], check=True)
    files = [path for path in server.data.rglob("*") if path.is_file()]
    inodes = {str(path.relative_to(server.data)): path.stat().st_ino for path in files}
    log.write_bytes(b"")
    log.chmod(0o666)
    server.log = log
    handle = os.open(log, os.O_WRONLY | os.O_APPEND)

    def moment(what: str) -> int:
        os.write(handle, _HEAD.pack(MOMENT, 0, what == "begin", 0))
        return 0

    def checkpoint() -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("CHECKPOINT")

    server.start()
    try:
        done = work(lambda: Memory.open(url, embedder="none", settings={"worker": False}), chance, VERBS, moment, checkpoint)
    finally:
        server.kill()
        os.close(handle)
    events = _read(log.read_bytes())
    moments = [(number, event[1]) for number, event in enumerate(events) if event[0] == MOMENT]
    done.begun = [number for number, begins in moments if begins]
    done.acknowledged = [number + 1 for number, begins in moments if not begins]
    return Recorded(folder / "base", inodes, events, done)


def _read(log: bytes) -> list[tuple[int, int, int, bytes, int]]:
    events, at = [], 0
    while at + _HEAD.size <= len(log):
        kind, length, inode, offset = _HEAD.unpack_from(log, at)
        events.append((kind, inode, offset, log[at + _HEAD.size : at + _HEAD.size + length], at))
        at += _HEAD.size + length
    return events


@dataclass(slots=True)
class Disk:
    """The data folder: files by inode, those that were touched with what is durable of them."""

    base: Path
    names: dict[str, int]
    files: dict[int, DiskFile] = field(default_factory=dict)
    positions: dict[int, list[int]] = field(default_factory=dict)  # in the log, of what is pending

    def apply(self, event: tuple[int, int, int, bytes, int]) -> None:
        kind, inode, offset, data, position = event
        if kind in (WRITE, TRUNCATE):
            self._file(inode).pending.append((offset, data if kind == WRITE else None))
            self.positions.setdefault(inode, []).append(position)
        elif kind == SYNC:
            positions = self.positions.setdefault(inode, [])
            covered = bisect_left(positions, offset)
            self._file(inode).sync(covered)
            del positions[:covered]
        elif kind in (CREATE, RENAME, UNLINK):
            self._name(kind, inode, *data.decode().split("\0")[:2])

    def _name(self, kind: int, inode: int, one: str, other: str) -> None:
        if kind == CREATE and self.names.get(one) != inode:
            self.names[one] = inode
            self.files[inode], self.positions[inode] = DiskFile(), []
        elif kind == UNLINK:
            self.names.pop(one, None)
        elif kind == RENAME:
            moved = self.names.pop(one, None)
            self.names.pop(other, None)
            if moved is not None:
                self.names[other] = moved

    def _file(self, inode: int) -> DiskFile:
        if inode not in self.files:
            name = next((name for name, each in self.names.items() if each == inode), "")
            path = self.base / name
            self.files[inode] = DiskFile(bytearray(path.read_bytes() if name and path.is_file() else b""))
        return self.files[inode]

    def lay_out(self, target: Path, chance: random.Random, server: RecordedServer | PostgresServer) -> None:
        """Write what a power cut would leave now to a folder."""
        shutil.rmtree(target, ignore_errors=True)
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-a", str(self.base), str(target)], check=True)
        there = {str(path.relative_to(target)) for path in target.rglob("*") if path.is_file()}
        for name in there - set(self.names) | {"postmaster.pid"}:
            (target / name).unlink(missing_ok=True)
        for name, inode in self.names.items():
            path = target / name
            if inode in self.files and not name.startswith("/") and name != "postmaster.pid":
                path.write_bytes(self.files[inode].after_cut(chance))
                if name not in there:
                    path.chmod(0o600)
                    server._chown(path)


def _cut_at(cuts: list[int], recorded: Recorded, server: PostgresServer, chance: random.Random, verdict: Verdict) -> None:
    disk = Disk(recorded.base, dict(recorded.inodes))
    at = acknowledged = 0
    for cut in cuts:
        for event in recorded.events[at:cut]:
            disk.apply(event)
        at = cut
        disk.lay_out(server.folder / "data", chance, server)
        done, allowed = recorded.run.allowed(cut)
        try:
            server.start()
        except Exception as error:
            verdict.tries += 1
            verdict.errors += 1
            verdict.problems.append(f"cut {cut}: PostgreSQL does not start: {error}"[:600])
            continue
        url = server.url_as("postgres", "power")
        compare(verdict, lambda: Memory.open(url, embedder="none"), allowed, f"cut {cut}")  # noqa: B023
        server.kill()
        verdict.acknowledged += done - acknowledged
        acknowledged = done
