"""How fast memories are stored, beside what the disk itself takes."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw

from bench.measure import Times, progress, ratio
from bench.texts import messages, texts
from keepstone import Memory

BLOCK = b"x" * 4096
WARM = 300  # memories in the store before anything is timed


def measure(folder: Path, rounds: int) -> dict[str, Any]:
    """Every figure about writing."""
    return {
        "durable_add": durable_add(folder, rounds),
        "add_not_durable": _add(folder / "relaxed.db", rounds, durable=False),
        "threads": concurrent_adds(folder, rounds),
        "remember_many_100": many(folder),
        "ingest": bulk(folder),
    }


def durable_add(folder: Path, rounds: int) -> dict[str, Any]:
    """remember() by turns with the disk's own fsync and with a bare SQLite commit, all in one folder."""
    progress(f"durable add, {rounds} rounds")
    facts = [text.content for text in texts(WARM + rounds)]
    add, append, overwrite, commit = Times(), Times(), Times(), Times()
    with Memory.open(folder / "durable.db") as memory, _bare(folder / "bare.db") as bare:
        appended = os.open(folder / "appended", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        placed = os.open(folder / "placed", os.O_WRONLY | os.O_CREAT)
        os.write(placed, BLOCK * 256)
        os.fsync(placed)
        for fact in facts[:WARM]:
            memory.remember(fact)
        actions = []
        for number, fact in enumerate(facts[WARM:]):
            append.take(lambda: (os.write(appended, BLOCK), os.fsync(appended)))
            overwrite.take(lambda n=number: (os.pwrite(placed, BLOCK, n % 256 * 4096), os.fdatasync(placed)))
            commit.take(lambda f=fact: bare.execute("INSERT INTO fact (content) VALUES (?)", (f,)))
            actions.append(add.take(lambda f=fact: memory.remember(f)).action)
        os.close(appended)
        os.close(placed)
    found = add.summary()
    return {
        "remember": found,
        "raw_fsync": append.summary(),
        "raw_fsync_is": "append 4 KB to a growing file + os.fsync, same folder, by turns with remember()",
        "overwrite_fdatasync": overwrite.summary(),
        "bare_sqlite_commit": commit.summary(),
        "ratio_to_fsync": ratio(found["wall_p50_ms"], append.summary()["wall_p50_ms"]),
        "ratio_to_bare_commit": ratio(found["wall_p50_ms"], commit.summary()["wall_p50_ms"]),
        "false_collapses": sum(action != "added" for action in actions),
    }


@contextlib.contextmanager
def _bare(path: Path) -> Iterator[apsw.Connection]:
    """A SQLite file with one table, written as durably as a store."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "FULL")
    db.execute("CREATE TABLE fact (content TEXT)")
    try:
        yield db
    finally:
        db.close()


def _add(path: Path, rounds: int, *, durable: bool) -> dict[str, Any]:
    facts = [text.content for text in texts(WARM + rounds)]
    add = Times()
    with Memory.open(path, settings={"durable": durable}) as memory:
        for fact in facts[:WARM]:
            memory.remember(fact)
        for fact in facts[WARM:]:
            add.take(lambda f=fact: memory.remember(f))
    return add.summary()


def concurrent_adds(folder: Path, rounds: int) -> dict[str, Any]:
    """Adds a second from one thread and from eight, which share commits."""
    speeds = {}
    for count in (1, 8):
        progress(f"adds from {count} thread(s)")
        facts = [text.content for text in texts(WARM + rounds * 2, seed=count + 10)]
        with Memory.open(folder / f"threads{count}.db") as memory:
            for fact in facts[:WARM]:
                memory.remember(fact)
            shares = [facts[WARM + at :: count] for at in range(count)]
            threads = [threading.Thread(target=lambda s=share: [memory.remember(f) for f in s]) for share in shares]
            begun = time.perf_counter()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            speeds[count] = rounds * 2 / (time.perf_counter() - begun)
    return {
        "one_thread_per_s": round(speeds[1]),
        "eight_threads_per_s": round(speeds[8]),
        "gain": ratio(speeds[8], speeds[1]),
    }


def many(folder: Path) -> dict[str, Any]:
    """Batches of 100 facts, near-duplicate check included."""
    progress("remember_many")
    facts = [text.content for text in texts(1500, seed=5)]
    times, actions = Times(), []
    with Memory.open(folder / "many.db") as memory:
        for at in range(0, len(facts), 100):
            actions += [each.action for each in times.take(lambda a=at: memory.remember_many(facts[a : a + 100]))]
    return {**times.summary(), "false_collapses": sum(action != "added" for action in actions)}


def bulk(folder: Path) -> dict[str, Any]:
    """Messages a second through ingest."""
    progress("ingest")
    said = messages(5000)
    with Memory.open(folder / "ingest.db") as memory:
        begun = time.perf_counter()
        for at in range(0, len(said), 1000):
            memory.ingest(said[at : at + 1000], session=f"s{at}")
        return {"messages": len(said), "messages_per_s": round(len(said) / (time.perf_counter() - begun))}
