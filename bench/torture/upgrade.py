"""A frozen store of every released schema is opened, and its migration is killed: rows and hashes stay equal, and the next
opening completes it. It works in a process of its own, because it forks:
`python -m bench.torture.upgrade FOLDER SEED INSIDE OUTSIDE` says what was seen, as JSON.

Each migration is a transaction, so a kill leaves the schema of a whole one. Released migrations are quick; one that is slow is
added to them, so that a kill lands in the middle of it. On PostgreSQL there has been one schema so far.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from bench.torture.children import environment
from bench.torture.released_stores import contents, extract_store, names, version_of
from bench.torture.verdict import Options, Verdict
from keepstone.ports.values import Write
from keepstone.stores.sqlite import migrate
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import HOME, draft
from keepstone.text.words import record_terms

FILL = 60_000
NEXT = migrate.newest() + 1
FURTHER = f"""
ALTER TABLE record ADD COLUMN extra TEXT;
CREATE TABLE slow (number INTEGER PRIMARY KEY, square INTEGER NOT NULL);
INSERT INTO slow WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {FILL}) SELECT i, i * i FROM n;
UPDATE record SET extra = 'x' || sequence;
CREATE INDEX record_extra ON record (scope, extra);
CREATE INDEX slow_square ON slow (square);
"""
STEPS = 500  # between two looks of the progress handler
AT_ONCE = 4  # processes that migrate one file together


def run(options: Options) -> Verdict:
    """Kill migrations of every frozen store, in the middle of statements and from outside."""
    begun = time.monotonic()
    verdict = Verdict("upgrade", "sqlite")
    if not names():
        verdict.skipped = "the frozen stores are part of the source tree, and this is not one"
        return verdict
    outside = options.kills // 3
    counts = [options.folder, options.seed, options.kills - outside, outside]
    command = [sys.executable, "-m", "bench.torture.upgrade", *map(str, counts)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), check=False)
    if done.returncode:
        raise RuntimeError(f"the process that migrates ended with {done.returncode}: {done.stderr[-500:]}")
    seen = json.loads(done.stdout)
    for way in ("inside", "outside", "at once"):
        _judge(verdict, way, seen[way])
    verdict.figures |= {"kills": sum(verdict.figures["killed_in"].values()), "schemas": names()}
    verdict.seconds = time.monotonic() - begun
    return verdict


def _judge(verdict: Verdict, way: str, seen: list[list[Any]]) -> None:
    """[the frozen store, how the process died, the schema it left, whether all was well afterwards], for each try."""
    killed: Counter[str] = verdict.figures.setdefault("killed_in", Counter())
    left: Counter[str] = verdict.figures.setdefault("left", Counter())
    for name, end, version, whole in seen:
        verdict.tries += 1
        verdict.acknowledged += whole is True
        allowed = {"inside": range(int(name[-4:]), NEXT), "outside": range(int(name[-4:]), NEXT + 1), "at once": (NEXT,)}[way]
        expected = {"inside": (-signal.SIGKILL,), "outside": (0, -signal.SIGKILL), "at once": (0,)}[way]
        killed[f"upgrade of {name}"] += end == -signal.SIGKILL
        left[f"{name}, {way}: schema {version}"] += 1
        if whole is not True:
            verdict.lost += 1
            verdict.problems.append(f"{name}, killed {way}: {whole}")
        if version not in allowed:
            verdict.problems.append(f"{name}, killed {way}: it was left at schema {version}, half of the way")
        if end not in expected:
            verdict.problems.append(f"{name}, {way}: the process ended with {end}")


# -- in a process of its own --------------------------------------------------------------------------------------
def in_child(work: Callable[[], None]) -> int:
    """Start some work in a forked process; its id."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
            os._exit(1)
    return child


def open_store(path: Path) -> None:
    SqliteStore.open(str(path)).close()


def died_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def counting(path: Path, looks: list[int], fatal: int | None) -> None:
    """Open a store; count the looks of the progress handler and die at the fatal one, in the middle of a statement."""

    def hook(connection: apsw.Connection) -> None:
        if connection.filename:  # not the schema in memory that the file is compared with
            connection.set_progress_handler(look, STEPS)

    def look() -> bool:
        looks[0] += 1
        if looks[0] == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    apsw.connection_hooks.append(hook)
    try:
        open_store(path)
    finally:
        apsw.connection_hooks.remove(hook)


def whole(path: Path, expected: list[dict[str, Any]]) -> bool | str:
    """Whether a store that was opened again has all it had, all that the migration adds, and works; what is wrong, if not."""
    store = SqliteStore.open(str(path))
    try:
        if not store.doctor(record_terms).healthy:
            return "the doctor is not content"
        if store.write(HOME, [Write(draft("after the migration", vector=None))])[0].action != "added":
            return "it cannot be written to"
    finally:
        store.close()
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        if db.execute("SELECT count(*), sum(square = number * number) FROM slow").fetchall() != [(FILL, FILL)]:
            return "rows of the migration are missing"
        if db.execute("SELECT count(*) FROM record WHERE extra IS NOT 'x' || sequence").fetchall() != [(1,)]:  # the new one
            return "a column of the migration is not filled"
    finally:
        db.close()
    if [row for row in contents(path) if row["content"] != "after the migration"] != expected:
        return "rows or hashes are not what they were"
    return version_of(path) == NEXT or "the migration was not completed"


def killed_inside(folder: Path, name: str, times: int, seed: int) -> list[list[Any]]:
    """Kills in the middle of statements."""
    chance, looks, measured = random.Random(seed), [0], folder / f"{name}measured.db"
    extract_store(name, measured)
    counting(measured, looks, None)
    seen = []
    for number in range(times):
        path = folder / f"{name}inside{number}.db"
        expected = extract_store(name, path)
        fatal = chance.randrange(1, looks[0])
        child = in_child(lambda path=path, fatal=fatal: counting(path, [0], fatal))  # type: ignore[misc]
        seen.append([name, died_of(child), version_of(path), whole(path, expected)])
        path.unlink()
    return seen


def killed_from_outside(folder: Path, name: str, times: int, seed: int) -> list[list[Any]]:
    """Kills at any instant, the commit included."""
    chance, path = random.Random(seed + 1), folder / f"{name}timed.db"
    extract_store(name, path)
    start = time.perf_counter()
    died_of(in_child(lambda: open_store(path)))
    usual = time.perf_counter() - start
    seen = []
    for number in range(times):
        path = folder / f"{name}outside{number}.db"
        expected = extract_store(name, path)
        child = in_child(lambda path=path: open_store(path))  # type: ignore[misc]
        time.sleep(chance.random() * usual)  # the instant of the kill; nothing waits for it
        os.kill(child, signal.SIGKILL)
        seen.append([name, died_of(child), version_of(path), whole(path, expected)])
        path.unlink()
    return seen


def at_once(folder: Path, name: str, count: int) -> list[list[Any]]:
    """Processes that migrate one file together."""
    path = folder / f"{name}shared.db"
    expected = extract_store(name, path)
    ready, go = os.pipe()

    def work() -> None:
        os.close(go)
        os.read(ready, 1)  # all start when the other end is closed
        open_store(path)

    children = [in_child(work) for _ in range(count)]
    os.close(go)
    os.close(ready)
    ends = [died_of(child) for child in children]
    return [[name, end, version_of(path), whole(path, expected) if end == ends[0] and number == 0 else True]
            for number, end in enumerate(ends)]  # fmt: skip


def main(folder: Path, seed: int, inside: int, outside: int) -> None:
    """The kills, shared out over the frozen stores."""
    released = migrate.migrations()
    migrate.migrations = lambda: (*released, (NEXT, FURTHER))  # type: ignore[assignment]
    seen: dict[str, list[Any]] = {"inside": [], "outside": [], "at once": []}
    frozen = names()
    for at, name in enumerate(frozen):
        mine = [count // len(frozen) + (at < count % len(frozen)) for count in (inside, outside)]
        seen["inside"] += killed_inside(folder, name, mine[0], seed + at)
        seen["outside"] += killed_from_outside(folder, name, mine[1], seed + at)
        seen["at once"] += at_once(folder, name, AT_ONCE)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
