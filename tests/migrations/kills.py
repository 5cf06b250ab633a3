"""Migrations that are killed, or run by several processes at once. Run in a process of its own, because it forks.

python -m tests.migrations.kills FOLDER      what was seen, as JSON
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from recollect.ports import Write
from recollect.stores.sqlite import migrate
from recollect.stores.sqlite.store import SqliteStore
from recollect.testing.builders import HOME, draft
from recollect.words import record_terms
from tests.migrations.freeze import contents, thawed

FILL = 60_000
PRESENT = f"schema_{migrate.newest():04}"
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


def version_of(path: Path) -> int:
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        return int(db.pragma("user_version"))
    finally:
        db.close()


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


def opened(path: Path) -> None:
    SqliteStore.open(str(path)).close()


def died_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def counting(path: Path, looks: list[int], fatal: int | None) -> None:
    """Open a store; count the looks of the progress handler and die at the fatal one, in the middle of a statement."""

    def hook(connection: apsw.Connection) -> None:
        connection.set_progress_handler(look, STEPS)

    def look() -> bool:
        looks[0] += 1
        if looks[0] == fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    apsw.connection_hooks.append(hook)
    try:
        opened(path)
    finally:
        apsw.connection_hooks.remove(hook)


def whole(path: Path, expected: list[dict[str, Any]]) -> bool:
    """Whether a store that was opened again has all it had, all that the migration adds, and works."""
    store = SqliteStore.open(str(path))
    try:
        healthy = store.doctor(record_terms).healthy
        added = store.write(HOME, [Write(draft("after the migration", vector=None))])[0].action
    finally:
        store.close()
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        filled = db.execute("SELECT count(*), sum(square = number * number) FROM slow").fetchall() == [(FILL, FILL)]
        extra = db.execute("SELECT count(*) FROM record WHERE extra IS NOT 'x' || sequence").fetchall() == [(1,)]  # the new one
    finally:
        db.close()
    kept = [row for row in contents(path) if row["content"] != "after the migration"]
    return healthy and added == "added" and filled and extra and kept == expected and version_of(path) == NEXT


def killed_inside(folder: Path, times: int) -> list[list[Any]]:
    """[how it died, the schema it left, whether all was well afterwards] for kills in the middle of statements."""
    chance, looks = random.Random(7), [0]
    measured = folder / "measured.db"
    thawed(PRESENT, measured)
    counting(measured, looks, None)
    seen = []
    for number in range(times):
        path = folder / f"inside{number}.db"
        expected = thawed(PRESENT, path)
        child = in_child(lambda path=path: counting(path, [0], chance.randrange(1, looks[0])))  # type: ignore[misc]
        seen.append([died_of(child), version_of(path), whole(path, expected)])
        chance.random()
    return seen


def killed_from_outside(folder: Path, times: int) -> list[list[Any]]:
    """The same for kills at any instant, the commit included."""
    chance = random.Random(8)
    path = folder / "timed.db"
    thawed(PRESENT, path)
    start = time.perf_counter()
    died_of(in_child(lambda: opened(path)))
    usual = time.perf_counter() - start
    seen = []
    for number in range(times):
        path = folder / f"outside{number}.db"
        expected = thawed(PRESENT, path)
        child = in_child(lambda path=path: opened(path))  # type: ignore[misc]
        time.sleep(chance.random() * usual)  # the instant of the kill; nothing waits for it
        os.kill(child, signal.SIGKILL)
        seen.append([died_of(child), version_of(path), whole(path, expected)])
    return seen


def at_once(folder: Path, count: int) -> list[Any]:
    """[how each process ended], the schema, whether all was well, for processes that migrate one file together."""
    path = folder / "shared.db"
    expected = thawed(PRESENT, path)
    ready, go = os.pipe()

    def work() -> None:
        os.close(go)
        os.read(ready, 1)  # all start when the other end is closed
        opened(path)

    children = [in_child(work) for _ in range(count)]
    os.close(go)
    os.close(ready)
    return [[died_of(child) for child in children], version_of(path), whole(path, expected)]


def main(folder: Path) -> None:
    released = migrate.migrations()
    migrate.migrations = lambda: (*released, (NEXT, FURTHER))  # type: ignore[assignment]
    answer = {
        "inside": killed_inside(folder, 20),
        "outside": killed_from_outside(folder, 10),
        "at once": at_once(folder, 4),
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
