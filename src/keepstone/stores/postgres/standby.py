"""Reads from a standby whose lag is known: never older than a limit, or the primary is asked.

The position of the primary's log is noted now and then, with the time. A standby that has replayed up to such a position is at
most as old as the note. So a standby that has lost its primary, and cannot know how far it is behind, is noticed as well.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from keepstone.errors import StoreError
from keepstone.stores.postgres.connections import PostgresDriver
from keepstone.stores.postgres.target import Target
from keepstone.stores.postgres.transaction import PostgresTransaction

T = TypeVar("T")
_CHECKS = 10  # in the time of the limit
_PATIENCE_SECONDS = 2.0  # with a standby: the primary can answer instead
_AWAY_SECONDS = 5.0  # until a standby that failed is tried again


class Standby:
    """Another server with the same data, which may be behind."""

    def __init__(self, primary: PostgresDriver, url: str, limit: float) -> None:
        session = replace(primary.session, patience=_PATIENCE_SECONDS)
        self._primary, self._limit = primary, limit
        self._driver = PostgresDriver(Target.of(url), session)
        self._probe = PostgresDriver(primary.target, session)  # a primary that is away must not delay what the standby can answer
        self._lock = threading.Lock()
        self._read = threading.local()
        self._noted: deque[tuple[float, int]] = deque(maxlen=4 * _CHECKS)  # when, and the primary's position
        self._current_at: float | None = None  # the state of the standby is at least as new as the primary's was then
        self._checked = self._away_until = 0.0

    def behind(self) -> float | None:
        """At most how many seconds the standby is behind; None: too many, or not known."""
        now = time.monotonic()
        if now < self._away_until:
            return None
        if now - self._checked >= self._limit / _CHECKS and self._lock.acquire(blocking=False):
            self._checked = now
            if self._current_at is None:
                self._check(now)
            else:
                threading.Thread(target=self._check, args=(now,), name="keepstone-standby", daemon=True).start()
        behind = None if self._current_at is None else time.monotonic() - self._current_at
        return None if behind is None or behind > self._limit else behind

    def _check(self, now: float) -> None:
        """Note the position of the primary and compare that of the standby."""
        try:
            self._compare(now)
        finally:
            self._lock.release()

    def _compare(self, now: float) -> None:
        with contextlib.suppress(StoreError):  # the primary is away: what was noted before counts on
            position = self._position(self._probe, "primary_position")
            if position is not None:
                self._noted.append((now, position))
        try:
            replayed = self._position(self._driver, "standby_position")
        except StoreError:
            self._away_until = now + _AWAY_SECONDS
            return
        reached = [at for at, position in self._noted if replayed is None or position <= replayed]  # None: it is a primary
        self._current_at = max(reached, default=self._current_at)

    @staticmethod
    def _position(driver: PostgresDriver, name: str) -> int | None:
        with driver.reading("") as db:
            found = db.one(name)[0]
        return None if found is None else int(found)

    def read(self, tenant: str, work: Callable[[PostgresTransaction], T]) -> T:
        """Read from the standby if it is recent enough, else from the primary."""
        behind = self.behind()
        if behind is not None:
            try:
                with self._driver.reading(tenant) as db:
                    result = work(db)
                self._read.behind = max(behind, getattr(self._read, "behind", 0.0))
                return result
            except StoreError:
                self._away_until = time.monotonic() + _AWAY_SECONDS
        with self._primary.reading(tenant) as db:
            return work(db)

    def take_behind(self) -> float | None:
        """How far the standby was behind at the most in what this thread has read from it since it last asked; None: nothing."""
        behind: float | None = self._read.__dict__.pop("behind", None)
        return behind

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()
        self._probe.close()
