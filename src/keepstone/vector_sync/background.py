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
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._changed = threading.Condition()
        self._scopes: dict[Scope, None] = {}
        self._find_scopes = True  # whether to look for scopes that are behind
        self._busy = self._closed = False
        self.problem: str | None = None  # why the last feeding failed
        self._thread: threading.Thread | None = None

    def tell(self, scope: Scope | None = None) -> None:
        """Feed a scope, or every scope that is behind, soon. Returns at once."""
        with self._changed:
            if self._closed:
                return
            if scope is None:
                self._find_scopes = True
            else:
                self._scopes[scope] = None
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="keepstone-feeding", daemon=True)
                self._thread.start()
            self._changed.notify_all()

    def drain(self, timeout: float) -> bool:
        """Wait until nothing is left to feed; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._has_work(), timeout)

    def wait_until_idle(self, timeout: float) -> None:
        """Wait until nothing is left to feed, or the index cannot be reached."""
        with self._changed:
            self._changed.wait_for(lambda: self.problem is not None or not self._has_work(), timeout)

    def _has_work(self) -> bool:
        searching = self._find_scopes and self._thread is not None and self._thread.is_alive()
        return bool(self._scopes) or self._busy or searching

    def close(self, timeout: float = _CLOSE_SECONDS) -> None:
        """Feed what is left, unless the index cannot be reached, and end the thread."""
        if self._thread is not None and self._thread.is_alive():
            self.wait_until_idle(timeout)
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _run(self) -> None:
        try:
            self._work()
        finally:
            with self._changed:
                self._scopes.clear()  # no thread is left to feed them, so none may wait for it
                self._changed.notify_all()

    def _work(self) -> None:
        pause: float | None = 0.0
        while pause is not None and self._wait_for_work(pause):
            scope = None
            with self._changed:
                if self._scopes:
                    scope = next(iter(self._scopes))
                    del self._scopes[scope]
            pause = self._feed(scope, pause)
            with self._changed:
                if pause and scope is not None:
                    self._scopes[scope] = None
                self._busy = False
                self._changed.notify_all()

    def _feed(self, scope: Scope | None, pause: float) -> float | None:
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
        return min(max(self._first_retry, pause * 2), self._max_retry)

    def _wait_for_work(self, pause: float) -> bool:
        """Wait for the end of the pause, and for something to feed; False to end."""
        resume_at = time.monotonic() + pause
        with self._changed:
            while not self._closed and self._sync() is not None:
                left = resume_at - time.monotonic()
                if left <= 0 and (self._scopes or self._find_scopes):
                    self._busy = True
                    return True
                self._changed.wait(left if left > 0 else self._max_retry)
        return False
