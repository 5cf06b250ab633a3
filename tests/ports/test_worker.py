"""A background thread: when it begins, waits, goes on and ends."""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Iterator

import pytest

from keepstone.errors import StoreClosed
from keepstone.ports import worker as module
from keepstone.ports.worker import Worker

WAIT = 30  # seconds after which something that should have happened has failed


class Work:
    """Steps that are counted; each takes what is next in the script: whether there was work, or an error."""

    def __init__(self, *script: bool | BaseException) -> None:
        self.script = list(script)
        self.idle = threading.Semaphore(0)  # released whenever nothing was found
        self.steps = 0
        self.due = 60.0
        self.threads: set[int] = set()

    def step(self) -> float:
        self.steps += 1
        self.threads.add(threading.get_ident())
        outcome = self.script.pop(0) if self.script else False
        if isinstance(outcome, BaseException):
            raise outcome
        return 0.0 if outcome else self.until_due()

    def until_due(self) -> float:
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
    worker = Worker("worker", work.step)
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

    def step() -> float:
        wait = work.step()
        if wait and not first.is_set():
            first.set()
            worker.wake()  # work came in after the look and before the wait
        return wait

    worker._step = lambda: step
    worker.wake()
    assert work.idle.acquire(timeout=WAIT)
    assert work.idle.acquire(timeout=WAIT)


def test_it_looks_again_when_something_is_due(started: list[Worker]) -> None:
    work = Work()
    work.due = 0.01
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
    assert [record.getMessage() for record in caplog.records] == ["worker failed; trying again"]


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

    def step() -> float:
        busy.set()
        return 0.0 if not go.wait(WAIT) else WAIT

    worker = Worker("worker", step)
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

    def step() -> float:
        worker.stop(WAIT)  # a thread does not wait for itself
        done.set()
        return 0.0

    worker = Worker("worker", step)
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


def test_none_ends_the_thread_and_a_wake_starts_another(started: list[Worker]) -> None:
    calls = threading.Semaphore(0)

    def step() -> None:
        calls.release()

    worker = Worker("worker", step)
    started.append(worker)
    for _ in range(2):
        worker.wake()
        assert calls.acquire(timeout=WAIT)
        assert worker._thread is not None
        worker._thread.join(WAIT)
        assert not worker.running


def test_the_thread_ends_with_the_object_of_its_method(started: list[Worker]) -> None:
    work = Work()
    work.due = 0.01
    worker = working(work, started)
    worker.wake()
    assert work.idle.acquire(timeout=WAIT)
    del work
    gc.collect()
    assert worker._thread is not None
    worker._thread.join(WAIT)
    assert not worker.running
