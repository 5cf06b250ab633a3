"""The one way to an index within a process: many may use the space that is open, and another is opened when all are out."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from keepstone.errors import IndexUnavailable
from keepstone.ports.caches import VectorIndex


class IndexSession:
    """An index has one space open at a time. Whoever needs another waits until nobody is inside, and newcomers wait behind them.
    Nobody may come in twice: they could wait for themselves."""

    def __init__(self, index: VectorIndex) -> None:
        self.index = index
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._space: str | None = None
        self._inside = 0
        self._turn = threading.Lock()
        self._left = threading.Condition()

    @contextmanager
    def open(self, space: str, dimension: int) -> Iterator[VectorIndex]:
        """The index with this space open."""
        if self._process != os.getpid():
            self._begin()  # a fork may have come while somebody was inside, who is not in the child
        with self._turn:
            if self._space != space:
                with self._left:
                    self._left.wait_for(lambda: self._inside == 0)
                self._space = None
                self.index.open(space, dimension)
                self._space = space
            with self._left:
                self._inside += 1
        try:
            yield self.index
        except IndexUnavailable:
            self._space = None  # an engine that comes back may not have the space any more: it is opened, and made, again
            raise
        finally:
            with self._left:
                self._inside -= 1
                self._left.notify_all()
