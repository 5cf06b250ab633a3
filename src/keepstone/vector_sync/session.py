"""Access to an index within a process: threads share the open space, and another is opened when none is using it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from keepstone.errors import IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.ports.forks import reset_after_fork


class IndexSession:
    """An index has one space open at a time. A thread that needs another waits until no thread uses the open one, and later
    threads wait behind it. A thread must not enter twice: it could wait for itself."""

    def __init__(self, index: VectorIndex) -> None:
        self.index = index
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._space: str | None = None
        self._users = 0
        self._entry = threading.Lock()
        self._exit = threading.Condition()

    @contextmanager
    def open(self, space: str, dimension: int) -> Iterator[VectorIndex]:
        """The index with this space open."""
        with self._entry:
            if self._space != space:
                with self._exit:
                    self._exit.wait_for(lambda: self._users == 0)
                self._space = None
                self.index.open(space, dimension)
                self._space = space
            with self._exit:
                self._users += 1
        try:
            yield self.index
        except IndexUnavailable:
            self._space = None  # an engine that was restarted may have lost the space: open it again
            raise
        finally:
            with self._exit:
                self._users -= 1
                self._exit.notify_all()
