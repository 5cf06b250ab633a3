"""A full disk: StorageFull, nothing stored by half, reads go on, writes resume once there is room.

Three ways: a limit on the size of files, a small disk of its own, and for PostgreSQL a small disk under its tables and one under
all of its data, where it goes down when its log has no room.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.restarts import everything
from bench.torture.children import environment
from bench.torture.support import Unavailable, check_store, fill, small_disk
from bench.torture.verdict import Options, Verdict
from keepstone import Memory
from keepstone.errors import StorageFull, StoreError, StoreUnreachable
from tests.server_processes import SYSTEM_USER, PostgresServer

MOST = 2000  # writes until a disk that is full must have said so
LIMITS = (150_000, 4_000_000)


def run(options: Options) -> Verdict:
    """A tenth of the rounds under each part, at limits and fillings that are chosen by chance."""
    verdict = Verdict("disk-full", "both")
    begun = time.monotonic()
    chance = random.Random(options.seed)
    each = max(1, options.rounds // 10)
    left_out: dict[str, str] = {}

    def part(name: str, work: Callable[[int], None], times: int = each) -> None:
        try:
            for number in range(times):
                if options.seconds is None or time.monotonic() - begun < options.seconds:
                    work(number)
        except Unavailable as reason:
            left_out[name] = str(reason)

    def on_a_small_disk(number: int) -> None:
        with small_disk(options.folder / f"disk{number}", "12m") as disk:
            fill_disk(verdict, disk, chance.randrange(20, 400), MOST)

    def with_small_files(number: int) -> None:
        limit_file_size(verdict, options.folder / f"limited{number}.db", chance.randrange(*LIMITS))

    part("file sizes", with_small_files, 3 * each)
    part("small disk", on_a_small_disk, 2 * each)
    with PostgresServer(options.folder / "postgres", durable=True) as server:
        part("small tables", lambda number: tablespace(verdict, server))
    part("small data folder", lambda number: data_folder(verdict, options.folder / f"tiny{number}"), max(1, each // 2))
    verdict.figures["left_out"] = left_out
    verdict.seconds = time.monotonic() - begun
    return verdict


def _wrong(verdict: Verdict, what: str) -> None:
    verdict.errors += 1
    verdict.problems.append(what)


def _check_kept(verdict: Verdict, memory: Memory, kept: list[str], where: str) -> None:
    """What was acknowledged is there, and nothing else is."""
    there = sorted(record.id for record in everything(memory))
    verdict.acknowledged += len(kept)
    verdict.lost += len(set(kept) - set(there))
    if there != sorted(kept):
        gone, more = set(kept) - set(there), set(there) - set(kept)
        verdict.problems.append(f"{where}: {len(gone)} acknowledged are gone, {len(more)} unacknowledged are there")


# -- a limit on the size of files ---------------------------------------------------------------------------------------
def limit_file_size(verdict: Verdict, path: Path, limit: int) -> None:
    """A process whose files may not grow past a limit, until they may again."""
    verdict.tries += 1
    command = [sys.executable, "-m", "bench.torture.disk_full", str(path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=300, check=False)
    if done.returncode:
        _wrong(verdict, f"a limit of {limit}: the process ended with {done.returncode}: {done.stderr[-600:]}")
        return
    found = json.loads(done.stdout.splitlines()[-1])
    message = found["message"] or ""
    if str(path) not in message or "Free some space" not in message:
        _wrong(verdict, f"a limit of {limit}: the error says {message!r}, not which file and what to do")
    if not found["found"] or not found["listed"]:
        _wrong(verdict, f"a limit of {limit}: reads did not go on")
    if found["resumed"] != ["added"] * 5:
        _wrong(verdict, f"a limit of {limit}: with room again, writes were {found['resumed']}")
    with Memory.open(path) as memory:
        _check_kept(verdict, memory, found["kept"], f"a limit of {limit}")
    check_store(verdict, path, f"a limit of {limit}")


def be_limited(path: str, limit: int) -> dict[str, Any]:
    """Be that process."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    memory = Memory.open(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    kept, message = [], None
    for number in range(MOST):
        try:
            if number % 3:
                text = f"Pallet {number} went to dock {number * 3}. " + "More of it. " * (number % 90)
                kept.append(memory.remember(text).id)
            else:
                texts = [f"Box {number}-{part} is sealed with tape {number * part}." for part in range(1, 6)]
                kept += [receipt.id for receipt in memory.remember_many(texts)]
        except StorageFull as error:
            message = str(error)
            break
    found = len(memory.recall("pallet dock", limit=100))
    listed = memory.list(limit=1)[0].id
    for number in range(3):
        with contextlib.suppress(StorageFull):
            memory.remember(
                f"Still no room for crate {number}. " + "Padding. " * 3000
            )  # if it were taken, it would be one too many
    with contextlib.suppress(StorageFull):
        memory.forget(str(kept[0]))
        kept.pop(0)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    resumed = [memory.remember(f"Space is back for crate {number}.") for number in range(5)]
    kept += [receipt.id for receipt in resumed]
    memory.close()
    return {
        "kept": kept, "message": message, "found": found, "listed": listed,
        "resumed": [receipt.action for receipt in resumed],
    }  # fmt: skip


# -- a disk of its own --------------------------------------------------------------------------------------------------
def fill_disk(verdict: Verdict, disk: Path, facts: int = 50, most: int = 200) -> None:
    """A store on a small disk that something else fills up."""
    verdict.tries += 1
    path, ballast = disk / "memory.db", disk / "ballast"
    with Memory.open(path) as memory:
        kept = [str(memory.remember(f"Pallet {number} went to dock {number * 3}.").id) for number in range(facts)]
        fill(ballast)
        message = _until_full(memory, kept, most)
        if "Free some space" not in message:
            _wrong(verdict, f"a full disk: {most} writes were taken, or the error says {message!r}")
        try:
            memory.remember_many([f"Crate {number} " + "is heavy " * 100 for number in range(50)])
            _wrong(verdict, "a full disk: a batch of fifty was taken")
        except StorageFull:
            pass
        if memory.recall("pallet 7 dock")[0].content != "Pallet 7 went to dock 21.":
            _wrong(verdict, "a full disk: recall does not find what it found before")
        _check_kept(verdict, memory, kept, "a full disk")
        ballast.unlink()
        kept.append(str(memory.remember("There is room again.").id))
    with Memory.open(path) as memory:
        _check_kept(verdict, memory, kept, "room again")
    check_store(verdict, path, "a full disk")


def _until_full(memory: Memory, kept: list[str], most: int) -> str:
    """Write until there is no room; what the error says."""
    for number in range(most):
        try:
            kept.append(str(memory.remember(f"Late pallet {number} stays outside gate {number * 7}. " + "Cold. " * 40).id))
        except StorageFull as error:
            return str(error)
    return ""


# -- PostgreSQL -----------------------------------------------------------------------------------------------------------
@contextlib.contextmanager
def tiny_tables(server: PostgresServer) -> Iterator[tuple[str, Path]]:
    """A database on a disk of its own with a few megabytes left, and that disk."""
    import psycopg

    server.start()
    with small_disk(server.folder / "tiny", "32m") as disk:
        space = disk / "space"
        space.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(space, SYSTEM_USER)
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute(f"CREATE TABLESPACE tiny LOCATION '{space}'")
            admin.execute("CREATE DATABASE tiny TABLESPACE tiny")
            yield server.url_as("postgres", "tiny"), disk
            admin.execute("DROP DATABASE tiny WITH (FORCE)")
            admin.execute("DROP TABLESPACE tiny")
    (server.folder / "tiny").rmdir()


def tablespace(verdict: Verdict, server: PostgresServer) -> None:
    """No room for tables: each write is refused as a whole."""
    verdict.tries += 1
    with tiny_tables(server) as (url, disk), Memory.open(url, embedder="none") as memory:
        kept = [str(memory.remember("Item zqfull0q is in box 811.").id)]
        fill(disk / "filler")
        message = ""
        for number in range(1, MOST):
            try:
                kept.append(str(memory.remember(f"Item zqfull{number}q. " + f"More of it, {number}. " * 300).id))
            except StorageFull as error:
                message = str(error)
                break
        if "nothing of this write was stored" not in message:
            _wrong(verdict, f"no room for tables: {len(kept)} writes were taken, or the error says {message!r}")
        if memory.recall("zqfull0q")[0].content != "Item zqfull0q is in box 811.":
            _wrong(verdict, "no room for tables: recall does not find what it found before")
        _check_kept(verdict, memory, kept, "no room for tables")
        (disk / "filler").unlink()
        kept.append(str(memory.remember("There is room again for item zqlastq.").id))
        _check_kept(verdict, memory, kept, "room again for tables")
        check_store(verdict, url, "no room for tables")


def data_folder(verdict: Verdict, folder: Path) -> None:
    """No room for anything: the server itself goes down. Callers are told so; what they were promised is there afterwards."""
    verdict.tries += 1
    with small_disk(folder, "400m") as disk, PostgresServer(disk / "postgres", durable=True) as server:
        url = server.database("tiny")
        with Memory.open(url, embedder="none", settings={"busy_timeout": 5}) as memory:
            kept = [str(memory.remember("Item zqdata0q is in box 811.").id)]
            fill(disk / "filler")
            refusal: StoreError | None = None
            for number in range(1, MOST):
                texts = [f"Item zqdata{number}x{part}q. " + f"More of {number}, {part}. " * 300 for part in range(40)]
                try:
                    kept += [str(receipt.id) for receipt in memory.remember_many(texts)]
                except (StorageFull, StoreUnreachable) as error:
                    refusal = error
                    break
            if refusal is None:
                _wrong(verdict, f"no room for data: {len(kept)} writes were taken")
            verdict.figures["with no room for its log"] = type(refusal).__name__
            (disk / "filler").unlink()
            server.start()
            again = memory.remember("There is room again for item zqlastq.")
            kept.append(str(again.id))
            _check_kept_on_server(verdict, memory, kept)
        check_store(verdict, url, "no room for data")


def _check_kept_on_server(verdict: Verdict, memory: Memory, kept: list[str]) -> None:
    """As `_kept`, but a batch in hand when the server went down may be there as a whole."""
    there = {record.id for record in everything(memory)}
    verdict.acknowledged += len(kept)
    verdict.lost += len(set(kept) - there)
    if not set(kept) <= there:
        verdict.problems.append(f"no room for data: {len(set(kept) - there)} acknowledged are gone")
    if len(there - set(kept)) not in (0, 40):
        _wrong(verdict, f"no room for data: {len(there - set(kept))} records of a batch of 40 are there")


if __name__ == "__main__":
    print(json.dumps(be_limited(sys.argv[1], int(sys.argv[2]))))
