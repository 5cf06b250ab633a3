"""A thread that feeds the index while the process has other things to do.

It is told which scopes changed. What it cannot feed because the index is away it tries again, less and less often. It ends when
it is stopped, when the store is closed, or when nobody has the feeder any more; what it has not fed by then is behind, and is
fed by the next recall or by the next process.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import weakref

from keepstone.errors import IndexUnavailable, StoreClosed
from keepstone.types import Scope
from keepstone.vector_sync.cursor import FedElsewhere
from keepstone.vector_sync.sync import IndexSync

log = logging.getLogger("keepstone.vector_sync")
_FIRST, _LONGEST = 0.5, 60.0  # seconds until the index is tried again


class FeedWorker:
    """Feeds the scopes it is told of, one after the other."""

    def __init__(self, feeder: IndexSync, *, first: float = _FIRST, longest: float = _LONGEST) -> None:
        self._feeder = weakref.ref(feeder)
        self._first, self._longest = first, longest
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._change = threading.Condition()
        self._told: dict[Scope, None] = {}
        self._look_over = True
        self._busy = self._ended = False
        self._problem: str | None = None
        self._thread: threading.Thread | None = None

    @property
    def problem(self) -> str | None:
        """Why the index could not be fed when it was last tried; None if it could."""
        return self._problem

    def tell(self, scope: Scope | None = None) -> None:
        """Something changed in a scope, or in every scope. Takes no time."""
        if self._process != os.getpid():
            self._begin()  # a fork leaves the thread behind
        with self._change:
            if self._ended:
                return
            if scope is None:
                self._look_over = True
            else:
                self._told[scope] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="keepstone-feeding", daemon=True)
                self._thread.start()
            self._change.notify_all()

    def drained(self, patience: float) -> bool:
        """Wait until everything that was told is fed; whether it is."""
        with self._change:
            return self._change.wait_for(lambda: not self._at_work(), patience)

    def settled(self, patience: float) -> None:
        """Wait until everything that was told is fed, or the index turns out to be away."""
        if self._process == os.getpid():
            with self._change:
                self._change.wait_for(lambda: self._problem is not None or not self._at_work(), patience)

    def _at_work(self) -> bool:
        """Whether anything is being fed or still to be, or looked for."""
        looking = self._look_over and self._thread is not None and self._thread.is_alive()
        return bool(self._told) or self._busy or looking

    def close(self, patience: float = 5.0) -> None:
        """Feed what was told, unless the index is away, and end the thread."""
        if self._process != os.getpid():
            return
        with self._change:
            if self._thread is not None and self._thread.is_alive():
                self._change.wait_for(lambda: self._problem is not None or not self._at_work(), patience)
            self._ended = True
            self._change.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(patience)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            with self._change:
                self._told.clear()  # nobody is left to feed them, so nobody has to wait
                self._change.notify_all()

    def _work(self) -> None:
        pause = 0.0
        while (scope := self._next(pause)) is not None:
            try:
                pause = self._feed(scope, pause)
            except StoreClosed:
                return
            except Exception:
                log.exception("the index could not be fed; trying again")
                pause = self._after(scope, pause, "something unforeseen happened, see the log")
            finally:
                with self._change:
                    self._busy = False
                    self._change.notify_all()

    def _next(self, pause: float) -> Scope | None:
        """The scope to feed next, when there is one and the pause is over; None: end."""
        over = time.monotonic() + pause
        while True:
            with self._change:
                if self._ended or self._feeder() is None:
                    return None
                left = over - time.monotonic()
                if left <= 0 and self._told:
                    self._busy = True
                    return self._take()
                looks = left <= 0 and self._look_over
                if not looks:
                    self._change.wait(left if left > 0 else self._longest)
                    continue
                self._look_over = False
                self._busy = True
            self._look()

    def _take(self) -> Scope:
        scope = next(iter(self._told))
        del self._told[scope]
        return scope

    def _look(self) -> None:
        """Find scopes that are behind: a process before this one may have ended while the index was away."""
        feeder = self._feeder()
        try:
            late = [] if feeder is None else feeder.late()
        except StoreClosed:
            late = []
        except Exception:
            log.exception("the scopes that the index has to be fed with could not be listed")
            late = []
        with self._change:
            self._told.update(dict.fromkeys(late))
            self._busy = False
            self._change.notify_all()

    def _feed(self, scope: Scope, pause: float) -> float:
        """Feed one scope; how long to wait then."""
        feeder = self._feeder()
        if feeder is None:
            return 0.0
        try:
            feeder.feed(scope)
        except FedElsewhere:
            self._again(scope)  # whoever is at it may have read before the change
            return self._first
        except IndexUnavailable as error:
            return self._after(scope, pause, str(error))
        self._problem = None
        return 0.0

    def _after(self, scope: Scope, pause: float, problem: str) -> float:
        self._problem = problem
        self._again(scope)
        return min(max(self._first, pause * 2), self._longest)

    def _again(self, scope: Scope) -> None:
        with self._change:
            self._told[scope] = None
