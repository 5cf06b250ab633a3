"""Sweeping what has expired in a thread, and answers that may be awaited or not: LangGraph has a store of either kind, ours is
both."""

from __future__ import annotations

import concurrent.futures
import logging
import threading
from collections.abc import Generator
from typing import Any

from keepstone.integrations.document_store import Shelf

_log = logging.getLogger("keepstone.langgraph")


class Done:
    """Nothing, for who awaits it and who does not."""

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class Count(int):
    """A number, for who awaits it and who does not."""

    def __await__(self) -> Generator[Any, None, int]:
        return int(self)
        yield


class Sweeper(concurrent.futures.Future[None]):
    """Ends with the sweeping; cancelling it stops it. Awaiting it gives itself at once, as LangGraph's task is given."""

    def __await__(self) -> Generator[Any, None, Sweeper]:
        return self
        yield


class Sweeping:
    """The thread that sweeps a shelf."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._thread: threading.Thread | None = None
        self.end = threading.Event()

    def start(self, minutes: float) -> Sweeper:
        sweeper = Sweeper()
        sweeper.add_done_callback(lambda future: self.end.set() if future.cancelled() else None)
        if self._thread is not None and self._thread.is_alive():
            return sweeper
        self.end.clear()
        self._thread = threading.Thread(target=self._run, args=(minutes * 60, sweeper), daemon=True, name="keepstone-ttl-sweeper")
        self._thread.start()
        return sweeper

    def stop(self, timeout: float | None) -> bool:
        self.end.set()
        if self._thread is None or not self._thread.is_alive():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self, seconds: float, sweeper: Sweeper) -> None:
        while not self.end.wait(seconds):
            try:
                self._shelf.sweep()
            except Exception:  # the next time may go better, and nobody waits for this one
                _log.warning("items that have expired could not be swept", exc_info=True)
        if not sweeper.cancelled():
            sweeper.set_result(None)
