"""Reads from a standby whose lag is known: never older than a limit, or the primary is asked.

The position of the primary's log is noted now and then, with the time. Every query of a standby says how far it has replayed; if
that is as far as a note, what it shows is at most as old as the note. So a standby that has lost its primary, and cannot know how
far it is behind, is noticed as well, and so is a connection that leads to another server than before.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from keepstone.errors import StoreError
from keepstone.stores.common.transaction import Values
from keepstone.stores.postgres.connections import PostgresDriver
from keepstone.stores.postgres.statements import Statement, statement
from keepstone.stores.postgres.target import Target
from keepstone.stores.postgres.transaction import PostgresTransaction, ReadTransaction

T = TypeVar("T")
_NOTES = 10  # in the time of the limit
_PATIENCE_SECONDS = 2.0  # with a standby: the primary can answer instead
_AWAY_SECONDS = 5.0  # until a standby that failed is tried again


class StandbyBehind(Exception):
    """A standby is further behind than it may be."""


class Standby:
    """Another server with the same data, which may be behind."""

    def __init__(self, primary: PostgresDriver, url: str, limit: float) -> None:
        session = replace(primary.session, patience=_PATIENCE_SECONDS)
        self._primary, self._limit = primary, limit
        self._driver = PostgresDriver(Target.of(url), session)
        self._driver.make_read = lambda driver, tenant: _StandbyRead(driver, tenant, self)
        self._probe = PostgresDriver(primary.target, session)  # a primary that is away must not delay what the standby can answer
        self._lock = threading.Lock()
        self._noted: deque[tuple[float, int]] = deque(maxlen=2 * _NOTES)  # when, and the position of the primary
        self._asked = self._away_until = 0.0
        self._read = threading.local()

    def read(self, tenant: str, work: Callable[[PostgresTransaction], T]) -> T:
        """Read from the standby if it is recent enough, else from the primary."""
        self._keep_notes()
        if self._noted and time.monotonic() >= self._away_until:
            try:
                with self._driver.reading(tenant) as db:
                    return work(db)
            except StandbyBehind:
                pass
            except StoreError:
                self._away_until = time.monotonic() + _AWAY_SECONDS
        with self._primary.reading(tenant) as db:
            return work(db)

    def check(self, replayed: int | None) -> None:
        """StandbyBehind if a server that has replayed so far is too old; None: it is a primary, which is not."""
        if replayed is None:
            return
        reached = max((at for at, position in list(self._noted) if position <= replayed), default=0.0)
        behind = time.monotonic() - reached
        if behind > self._limit:
            raise StandbyBehind
        self._read.behind = max(behind, getattr(self._read, "behind", 0.0))

    def take_behind(self) -> float | None:
        """How far the standby was behind at the most in what this thread has read from it since it last asked; None: nothing."""
        behind: float | None = self._read.__dict__.pop("behind", None)
        return behind

    def _keep_notes(self) -> None:
        """Note the position of the primary, if the last note is old; but for the first one, in the background."""
        now = time.monotonic()
        if now - self._asked < self._limit / _NOTES or not self._lock.acquire(blocking=False):
            return
        self._asked = now
        if self._noted:
            threading.Thread(target=self._note, args=(now,), name="keepstone-standby", daemon=True).start()
        else:
            self._note(now)

    def _note(self, now: float) -> None:
        try:
            with contextlib.suppress(StoreError), self._probe.reading("") as db:  # away: what was noted before counts on
                (position,) = db.one("primary_position")
                if position is not None:
                    self._noted.append((now, int(position)))
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connections."""
        self._driver.close()
        self._probe.close()


class _StandbyRead(ReadTransaction):
    """Queries of a standby, each with the position that it has replayed before."""

    def __init__(self, driver: PostgresDriver, tenant: str, standby: Standby) -> None:
        super().__init__(driver, tenant)
        self._standby = standby

    def _asked(self, asked: Sequence[tuple[Statement, Values]], prepare: bool = True) -> list[list[Any]]:
        position, *found = super()._asked([(statement("standby_position"), ()), *asked], prepare)
        self._standby.check(None if position[0][0] is None else int(position[0][0]))
        return found
