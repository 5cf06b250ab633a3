"""A background thread that does one piece of work after the other."""

from __future__ import annotations

import inspect
import logging
import threading
import weakref
from collections.abc import Callable

from keepstone.errors import StoreClosed
from keepstone.ports.forks import reset_after_fork

log = logging.getLogger("keepstone.worker")
_ERROR_RETRY_SECONDS = 5.0


class Worker:
    """Calls `step` in a thread until it returns None. Other results are the seconds until the next call, which comes earlier
    after a `wake`. The thread is started by the first `wake`, and ends when the store is closed or when the object that `step`
    is a method of no longer exists."""

    def __init__(self, name: str, step: Callable[[], float | None]) -> None:
        self._name = name
        self._step: Callable[[], Callable[[], float | None] | None]
        self._step = weakref.WeakMethod(step) if inspect.ismethod(step) else lambda: step
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def stopped(self) -> bool:
        return self._ended.is_set()

    def wake(self) -> None:
        """Start the thread if there is none (a fork does not copy it), or end its wait."""
        with self._lock:
            if self.running:
                self._woken.set()
            elif not self.stopped:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def stop(self, timeout_seconds: float) -> None:
        """End the thread, waiting for its current step."""
        self._ended.set()
        self._woken.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while not self.stopped:
            self._woken.clear()
            try:
                step = self._step()
                wait = None if step is None else step()
                del step  # keep no reference to its object while waiting
            except StoreClosed:
                return
            except Exception:
                log.exception("%s failed; trying again", self._name)
                wait = _ERROR_RETRY_SECONDS
            if wait is None:
                return
            self._woken.wait(wait)
