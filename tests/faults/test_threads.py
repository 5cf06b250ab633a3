"""Many threads on one Memory: one fact is stored once, nothing breaks, commits are shared."""

from __future__ import annotations

import random
import threading
from collections import Counter
from pathlib import Path

import apsw
import pytest

from bench.torture.threads import THREADS, rounds, together
from bench.torture.verdict import Verdict
from keepstone import Memory
from keepstone.errors import Conflict, KeepstoneError, NotFound, StoreClosed, StoreError
from keepstone.ports.values import StoreOptions
from keepstone.stores.sqlite.connections import Driver
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.stores.sqlite.transaction import SqliteTransaction
from tests.faults.support import everything, healthy
from tests.servers import emptied


@pytest.mark.parametrize("target", ["file", ":memory:", "server"])
def test_the_same_from_fifty_threads_is_stored_once(path: Path, target: str, request: pytest.FixtureRequest) -> None:
    """One fact, one key, one idempotency key."""
    if target == "server":
        target = emptied(request.getfixturevalue("postgres_url"))
    verdict = Verdict("threads", target)
    rounds(str(path) if target == "file" else target, verdict, times=2)
    assert verdict.problems == []
    assert verdict.whole
    assert (verdict.tries, verdict.acknowledged) == (6, 6 * THREADS)


def test_updates_with_the_same_expected_version_let_one_through(memory: Memory) -> None:
    id = memory.remember("The door code is 1.").id or ""
    outcomes: list[str] = []

    def update(number: int) -> None:
        try:
            outcomes.append(memory.update(id, f"The door code is {number + 2}.", expected_version=1).action)
        except Conflict:
            outcomes.append("conflict")

    together(20, update)
    assert Counter(outcomes) == {"updated": 1, "conflict": 19}
    assert len(memory.history(id)) == 2


@pytest.mark.parametrize("target", ["file", ":memory:"])
def test_sixteen_threads_doing_everything_at_once(path: Path, target: str) -> None:
    with Memory.open(path if target == "file" else ":memory:") as memory:
        shared = [memory.remember(f"Shared shelf {n} holds crate {n * 7}.").id or "" for n in range(20)]
        lock, counts = threading.Lock(), Counter[str]()

        def work(number: int) -> None:
            chance, mine = random.Random(number), []
            done = Counter[str]()
            for at in range(40):
                try:
                    match chance.randrange(6):
                        case 0 | 1:
                            mine.append(memory.remember(f"Thread {number} saw barrel {number * 1000 + at}.").id or "")
                            done["added"] += 1
                        case 2:
                            memory.recall(chance.choice(("crate", "barrel", "shelf of thread 3")))
                        case 3:
                            memory.update(chance.choice(shared), f"Shelf {chance.random()} was counted by {number}.")
                        case 4 if mine:
                            assert memory.forget(mine.pop()).forgotten == 1
                            done["forgotten"] += 1
                        case _:
                            memory.forget(chance.choice(shared))
                            done["forgotten"] += 1
                except (Conflict, NotFound):
                    done["turned down"] += 1
            with lock:
                counts.update(done)

        together(16, work)
        assert len(everything(memory)) == len(shared) + counts["added"] - counts["forgotten"]
        recalled = memory.recall("barrel", limit=100, min_similarity=0)
        assert recalled.considered == len(everything(memory))
    if target == "file":
        assert healthy(path)


def test_writes_that_wait_together_share_a_commit(path: Path) -> None:
    SqliteStore.open(str(path)).close()
    driver = Driver(str(path), StoreOptions())
    begun: list[str] = []
    driver._writer.exec_trace = lambda cursor, statement, bindings: begun.append(statement) or True
    results: list[int] = []
    threads = [
        threading.Thread(target=lambda n=n: results.append(driver.writing("", lambda db: _insert(db, n)))) for n in range(20)
    ]
    with driver._lock:  # the next caller has to wait
        for thread in threads:
            thread.start()
        while len(driver._queue) < len(threads):
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(30)
    assert sorted(results) == list(range(20))
    assert sum(statement.startswith("BEGIN") for statement in begun) == 1
    assert sum(statement.startswith("COMMIT") for statement in begun) == 1
    driver.close()
    db = apsw.Connection(str(path))
    assert db.execute("SELECT count(*) FROM meta WHERE name LIKE 'test%'").fetchone() == (20,)
    db.close()


def _insert(db: SqliteTransaction, number: int) -> int:
    db.run("meta_set", (f"test{number}", "x"))
    return number


def test_one_failing_write_of_a_shared_commit_leaves_the_others_whole(path: Path) -> None:
    with Memory.open(path) as memory:
        outcomes: list[str] = []
        driver = memory._engine.store._store._store._driver  # type: ignore[attr-defined]

        def write(number: int) -> None:
            try:
                if number % 3:
                    outcomes.append(memory.remember(f"Good fact {number} about pier {number * 17}.").action)
                else:
                    memory.update("m_0000000000000000", "never")
            except NotFound:
                outcomes.append("not found")

        threads = [threading.Thread(target=write, args=(number,)) for number in range(15)]
        with driver._lock:
            for thread in threads:
                thread.start()
            while len(driver._queue) < len(threads):
                threading.Event().wait(0.001)
        for thread in threads:
            thread.join(30)
        assert Counter(outcomes) == {"added": 10, "not found": 5}
        assert len(memory.list()) == 10
    assert healthy(path)


def test_an_interruption_reaches_one_caller_and_stores_nothing(path: Path) -> None:
    """Ctrl-C in the middle of a shared commit: the caller that runs it is interrupted, the others are asked to repeat."""
    SqliteStore.open(str(path)).close()
    driver = Driver(str(path), StoreOptions())
    raised: list[type[BaseException]] = []

    def write(number: int) -> None:
        def work(db: SqliteTransaction) -> None:
            _insert(db, number)
            if number == 1:
                raise KeyboardInterrupt

        try:
            driver.writing("", work)
        except BaseException as error:
            raised.append(type(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(5)]
    with driver._lock:
        for thread in threads:
            thread.start()
        while len(driver._queue) < len(threads):
            threading.Event().wait(0.001)
    for thread in threads:
        thread.join(30)
    assert Counter(raised) == {KeyboardInterrupt: 1, StoreError: 4}
    assert driver.writing("", lambda db: [name for name, _ in db.all("meta_all") if name.startswith("test")]) == []
    assert driver.writing("", lambda db: _insert(db, 7)) == 7
    driver.close()


def test_closing_while_others_work_gives_clear_errors(path: Path) -> None:
    memory = Memory.open(path)
    memory.remember("The lamp stays.")
    seen: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for at in range(200):
                if number % 2:
                    memory.remember(f"Thread {number} counted {at} lamps.")
                else:
                    memory.recall("lamp")
                if number == 0 and at == 20:
                    memory.close()
        except KeepstoneError as error:
            seen.append(error)

    together(6, work)
    assert seen
    assert {type(error) for error in seen} == {StoreClosed}, [str(error) for error in seen]
    assert healthy(path)
