"""A thread that works through the queue while the process has other things to do."""

from __future__ import annotations

import inspect
import logging
import os
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from keepstone.errors import StoreClosed

T = TypeVar("T")
log = logging.getLogger("keepstone.learning")
_LOOK = 60.0  # seconds between two looks when nothing is known to be due: other processes queue work too
_AFTER_TROUBLE = 5.0


class Worker:
    """Calls `step` until it says there is nothing to do, then waits for `wake`, or until the next work is due."""

    def __init__(self, step: Callable[[], bool], until_due: Callable[[], float | None]) -> None:
        self._step = _weakly(step)
        self._until_due = _weakly(until_due)
        self._lock = threading.Lock()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """There is work: start the thread if there is none (a fork leaves it behind), or tell it."""
        with self._lock:
            if self._process != os.getpid():
                self._begin()
            if (self._thread is None or not self._thread.is_alive()) and not self._ended.is_set():
                self._thread = threading.Thread(target=self._run, name="keepstone-learning", daemon=True)
                self._thread.start()
        self._woken.set()

    def stop(self, patience: float) -> None:
        """End the thread, waiting so many seconds for the work it has in hand; what is not done stays in the queue."""
        self._ended.set()
        self._woken.set()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread() and self._process == os.getpid():
            thread.join(patience)

    def _run(self) -> None:
        while not self._ended.is_set():
            self._woken.clear()
            wait = 0.0
            try:
                step, until_due = self._step(), self._until_due()
                if step is None or until_due is None:
                    return  # whoever had the queue is gone
                if step():
                    continue
                due = until_due()
                del step, until_due  # while it waits, nothing is held that could be let go
                wait = _LOOK if due is None else min(max(due, 0.01), _LOOK)
            except StoreClosed:
                return
            except Exception:
                log.exception("the queue could not be worked on; trying again")
                wait = _AFTER_TROUBLE
            self._woken.wait(wait)


def _weakly(method: Callable[[], T]) -> Callable[[], Callable[[], T] | None]:
    """A method that does not keep its object; a plain function is kept."""
    return weakref.WeakMethod(method) if inspect.ismethod(method) else lambda: method
