"""The thread that works on the queue: when it begins, waits, goes on and ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator

import pytest

from keepstone.errors import StoreClosed
from keepstone.learning import jobs as module
from keepstone.learning.jobs import Worker

WAIT = 30  # seconds after which something that should have happened has failed


class Work:
    """Steps that are counted; each takes what is next in the script: whether there was work, or an error."""

    def __init__(self, *script: bool | BaseException) -> None:
        self.script = list(script)
        self.idle = threading.Semaphore(0)  # released whenever nothing was found
        self.steps = 0
        self.due: float | None = None
        self.threads: set[int] = set()

    def step(self) -> bool:
        self.steps += 1
        self.threads.add(threading.get_ident())
        outcome = self.script.pop(0) if self.script else False
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def until_due(self) -> float | None:
        self.idle.release()
        return self.due


@pytest.fixture
def started() -> Iterator[list[Worker]]:
    """Workers that are stopped when the test is over."""
    workers: list[Worker] = []
    yield workers
    for worker in workers:
        worker.stop(WAIT)


def working(work: Work, started: list[Worker]) -> Worker:
    worker = Worker(work.step, work.until_due)
    started.append(worker)
    return worker


def test_nothing_runs_before_there_is_work(started: list[Worker]) -> None:
    work = Work()
    worker = working(work, started)
    assert worker._thread is None
    worker.stop(WAIT)
    assert work.steps == 0


def test_it_works_until_nothing_is_left_in_one_thread(started: list[Worker]) -> None:
    work = Work(True, True, True)
    worker = working(work, started)
    worker.wake()
    assert work.idle.acquire(timeout=WAIT)
    assert work.steps == 4
    for _ in range(3):
        worker.wake()
        assert work.idle.acquire(timeout=WAIT)
    assert len(work.threads) == 1
    assert threading.get_ident() not in work.threads


def test_a_wake_while_it_works_is_not_lost(started: list[Worker]) -> None:
    work = Work(True)
    worker = working(work, started)
    first = threading.Event()

    def until_due() -> float | None:
        if not first.is_set():
            first.set()
            worker.wake()  # work came in after the look and before the wait
        return work.until_due()

    worker._until_due = lambda: until_due
    worker.wake()
    assert work.idle.acquire(timeout=WAIT)
    assert work.idle.acquire(timeout=WAIT)


def test_it_looks_again_when_something_is_due(started: list[Worker]) -> None:
    work = Work()
    work.due = 0.0
    working(work, started).wake()
    for _ in range(5):
        assert work.idle.acquire(timeout=WAIT)


def test_an_error_is_logged_and_it_goes_on(
    started: list[Worker], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "_ERROR_RETRY_SECONDS", 0.0)
    work = Work(RuntimeError("a fault of the store"), True)
    with caplog.at_level(logging.ERROR, "keepstone"):
        working(work, started).wake()
        assert work.idle.acquire(timeout=WAIT)
    assert work.steps == 3
    assert [record.getMessage() for record in caplog.records] == ["the job queue failed; trying again"]


def test_a_closed_store_ends_it_without_a_word(started: list[Worker], caplog: pytest.LogCaptureFixture) -> None:
    work = Work(StoreClosed("closed"))
    worker = working(work, started)
    worker.wake()
    assert worker._thread is not None
    worker._thread.join(WAIT)
    assert not worker._thread.is_alive()
    assert caplog.records == []


def test_stopping_ends_the_thread_and_no_wake_starts_another(started: list[Worker]) -> None:
    work = Work()
    worker = working(work, started)
    worker.wake()
    assert work.idle.acquire(timeout=WAIT)
    thread = worker._thread
    worker.stop(WAIT)
    assert thread is not None
    assert not thread.is_alive()
    before = work.steps
    worker.wake()
    assert worker._thread is thread
    assert work.steps == before


def test_stopping_waits_no_longer_than_it_is_told(started: list[Worker]) -> None:
    busy, go = threading.Event(), threading.Event()

    def step() -> bool:
        busy.set()
        return not go.wait(WAIT)

    worker = Worker(step, lambda: None)
    started.append(worker)
    worker.wake()
    assert busy.wait(WAIT)
    worker.stop(0.01)
    assert worker._thread is not None
    assert worker._thread.is_alive()
    assert worker._thread.daemon  # it does not keep the process
    go.set()
    worker._thread.join(WAIT)
    assert not worker._thread.is_alive()


def test_the_work_itself_may_stop_it(started: list[Worker]) -> None:
    done = threading.Event()

    def step() -> bool:
        worker.stop(WAIT)  # a thread does not wait for itself
        done.set()
        return True

    worker = Worker(step, lambda: None)
    started.append(worker)
    worker.wake()
    assert done.wait(WAIT)
    assert worker._thread is not None
    worker._thread.join(WAIT)
    assert not worker._thread.is_alive()


def test_many_wakes_at_once_start_one_thread(started: list[Worker]) -> None:
    work = Work()
    worker = working(work, started)
    ready = threading.Barrier(8)

    def wake() -> None:
        ready.wait(WAIT)
        worker.wake()

    callers = [threading.Thread(target=wake) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(WAIT)
    assert work.idle.acquire(timeout=WAIT)
    assert len(work.threads) == 1


def test_a_child_of_a_fork_begins_anew(started: list[Worker]) -> None:
    """The thread stays behind in the parent; the child starts one of its own."""
    work = Work()
    worker = working(work, started)
    worker.wake()
    assert work.idle.acquire(timeout=WAIT)
    parents = worker._thread
    worker.stop(WAIT)
    worker._reset()
    worker.wake()
    assert worker._thread is not parents
    assert work.idle.acquire(timeout=WAIT)
