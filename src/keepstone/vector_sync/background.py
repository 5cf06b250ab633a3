"""A thread that feeds the index in the background.

It is notified of the scopes that changed. A scope that it cannot feed is tried again at growing intervals. It ends when it is
closed, when the store is closed, or when its IndexSync no longer exists; what it has not fed then, the next recall or process
feeds.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref

from keepstone.errors import IndexUnavailable, StoreClosed
from keepstone.ports.forks import reset_after_fork
from keepstone.ports.worker import Worker
from keepstone.types import Scope
from keepstone.vector_sync.sync import FedElsewhere, IndexSync

log = logging.getLogger("keepstone.vector_sync")
FIRST_RETRY_SECONDS = 0.5
MAX_RETRY_SECONDS = 60.0
_CLOSE_SECONDS = 5.0


class FeedWorker:
    """Feeds the scopes it is notified of, one after the other."""

    def __init__(
        self, sync: IndexSync, *, first_retry: float = FIRST_RETRY_SECONDS, max_retry: float = MAX_RETRY_SECONDS
    ) -> None:
        self._sync = weakref.ref(sync)
        self._first_retry, self._max_retry = first_retry, max_retry
        self._worker = Worker("keepstone-feeding", self._step)
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._scopes: dict[Scope, None] = {}
        self._find_scopes = True  # whether to look for scopes that are behind
        self._busy = False
        self._pause, self._resume_at = 0.0, 0.0  # after a failure
        self.problem: str | None = None  # why the last feeding failed

    def tell(self, scope: Scope | None = None) -> None:
        """Feed a scope, or every scope that is behind, soon. Returns at once."""
        with self._changed:
            if self._worker.stopped:
                return
            if scope is None:
                self._find_scopes = True
            else:
                self._scopes[scope] = None
            self._worker.wake()

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is left to feed; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._has_work(), timeout)

    def wait_until_idle(self, timeout: float) -> None:
        """Wait until nothing is left to feed, or the index cannot be reached."""
        with self._changed:
            self._changed.wait_for(lambda: self.problem is not None or not self._has_work(), timeout)

    def _has_work(self) -> bool:
        return bool(self._scopes) or self._busy or (self._find_scopes and self._worker.running)

    def close(self, timeout: float = _CLOSE_SECONDS) -> None:
        """Feed what is left, unless the index cannot be reached, and end the thread."""
        if self._worker.running:
            self.wait_until_idle(timeout)
        self._worker.stop(timeout)

    def _step(self) -> float | None:
        """Feed one scope. Returns the seconds until there may be more to do, None to end."""
        pause = self._resume_at - time.monotonic()
        if pause > 0:
            return pause
        with self._changed:
            scope = next(iter(self._scopes), None)
            if scope is None and not self._find_scopes:
                return None if self._sync() is None else self._max_retry
            if scope is not None:
                del self._scopes[scope]
            self._busy = True
        retry = self._feed(scope)
        with self._changed:
            if retry is None:
                self._scopes.clear()  # no thread is left to feed them, so none may wait for it
            elif retry and scope is not None:
                self._scopes[scope] = None
            self._pause = retry or 0.0
            self._resume_at = time.monotonic() + self._pause
            self._busy = False
            self._changed.notify_all()
        return retry

    def _feed(self, scope: Scope | None) -> float | None:
        """Feed a scope, or find those that an earlier process has left; the seconds to pause then, None to end."""
        sync = self._sync()
        if sync is None:
            return None
        try:
            if scope is None:
                self._find_scopes = False
                behind = sync.scopes_behind()
                with self._changed:
                    self._scopes.update(dict.fromkeys(behind))
            else:
                sync.feed(scope)
                self.problem = None
            return 0.0
        except StoreClosed:
            return None
        except FedElsewhere:  # the other feeder may have read before the change
            return self._first_retry
        except IndexUnavailable as error:
            self.problem = str(error)
        except Exception:
            log.exception("the index could not be fed; trying again")
            self.problem = "an unexpected error, see the log"
        return min(max(self._first_retry, self._pause * 2), self._max_retry)
