"""Running upkeep by itself, now and then, in a thread of a process that stays.

Of several processes on one store one runs it in each period: whoever takes the period's lease. Each waits a little longer than it
should, by chance, so that they do not all wake at once.
"""

from __future__ import annotations

import logging
import os
import random
import secrets
import threading
from collections.abc import Callable
from datetime import timedelta

from keepstone.errors import KeepstoneError
from keepstone.ports.stores import Store

log = logging.getLogger("keepstone.maintenance")
_PERIOD = "upkeep period"
_JITTER = 0.1  # of the period


class Scheduler:
    """Runs something every so often until it is stopped."""

    def __init__(self, store: Store, run: Callable[[], object], every: timedelta, chance: random.Random | None = None) -> None:
        self._store = store
        self._run = run
        self._every = every
        self._chance = chance or random.Random()
        self._holder = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._stopped = threading.Event()
        self.runs = 0
        self._thread = threading.Thread(target=self._loop, name="keepstone.maintenance", daemon=True)
        self._thread.start()

    def stop(self, patience: float = 5.0) -> None:
        """Run no more; what is under way may end."""
        self._stopped.set()
        self._thread.join(patience)

    def _loop(self) -> None:
        while not self._stopped.wait(self._pause()):
            try:
                self.turn()
            except KeepstoneError as error:  # a busy or full store: next time
                log.warning("upkeep could not run: %s", error)
            except Exception:  # a fault of ours must not end upkeep for good
                log.exception("upkeep could not run")

    def turn(self) -> bool:
        """Run once, if nobody has in this period. Whether it did."""
        if not self._store.leases.acquire(_PERIOD, f"{self._holder}-{self.runs}", self._every * (1 - _JITTER)):
            return False
        self._run()
        self.runs += 1
        return True

    def _pause(self) -> float:
        return self._every.total_seconds() * (1 + _JITTER * self._chance.random())
