"""MemoryBuffer: short-term messages in this process, the ones used longest ago leaving first."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from keepstone.errors import ConfigurationError
from keepstone.ports.caches import Window
from keepstone.types import Scope

LONGEST = 86_400.0  # seconds that a wait is remembered at most; the store is asked again after that
_WAITS = 10_000
_RECORD = 1_500  # bytes of a record that says nothing: its object, times, names

Place = tuple[Scope, str | None]


def checked(bound: int, ttl: float) -> None:
    """ConfigurationError for a buffer that could hold nothing."""
    if isinstance(bound, bool) or not isinstance(bound, int) or bound < 1:
        raise ConfigurationError(f"a buffer cannot hold {bound!r:.40} messages of a session: give a whole number from 1 on.")
    if isinstance(ttl, bool) or not isinstance(ttl, (int, float)) or not 0 < ttl <= 31_536_000:
        raise ConfigurationError(f"a buffer cannot keep anything for {ttl!r:.40} seconds: give more than 0 and at most a year.")


@dataclass(slots=True)
class _Kept:
    window: Window
    until: float
    size: int


@dataclass(slots=True)
class _Held:
    """All that one process holds."""

    pid: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    windows: OrderedDict[Place, _Kept] = field(default_factory=OrderedDict)
    sessions: dict[Scope, set[str | None]] = field(default_factory=dict)
    size: int = 0
    waits: OrderedDict[tuple[Scope, str], float] = field(default_factory=OrderedDict)
    clears: int = 0
    asked: threading.local = field(default_factory=threading.local)  # .place, .clears: what this thread looked for, and when

    def drop(self, place: Place) -> None:
        kept = self.windows.pop(place, None)
        if kept is not None:
            self.size -= kept.size
            sessions = self.sessions[place[0]]
            sessions.discard(place[1])
            if not sessions:
                del self.sessions[place[0]]


class MemoryBuffer:
    """A buffer that no other process sees. A forked child begins with an empty one.

    A window that was read from the store before somebody cleared its scope is not taken any more: `keep` knows by when the same
    thread asked for it."""

    def __init__(
        self, bound: int = 200, ttl: float = 3600.0, most_bytes: int = 32 * 2**20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        checked(bound, ttl)
        self._bound = bound
        self._ttl = float(ttl)
        self._most = most_bytes
        self._clock = clock
        self._state = _Held()
        self._sweep = clock() + self._ttl

    @property
    def name(self) -> str:
        return "this process's memory"

    @property
    def bound(self) -> int:
        return self._bound

    @property
    def ttl(self) -> float:
        """Seconds that anything is kept at most."""
        return self._ttl

    @property
    def problem(self) -> str | None:
        return None

    def window(self, scope: Scope, session: str | None) -> Window | None:
        held, place = self._held(), (scope, session)
        with held.lock:
            held.asked.place, held.asked.clears = place, held.clears
            kept = held.windows.get(place)
            if kept is None:
                return None
            if kept.until <= self._clock():
                held.drop(place)
                return None
            held.windows.move_to_end(place)
        return kept.window

    def keep(self, scope: Scope, session: str | None, window: Window) -> None:
        held, place = self._held(), (scope, session)
        size = _weight(window) if len(window.turns) <= self._bound else self._most + 1
        with held.lock:
            if getattr(held.asked, "place", None) == place and held.asked.clears != held.clears:
                return  # cleared since it was looked for: it may hold what was erased
            held.drop(place)
            self._tidy(held)
            if size > self._most:
                return
            held.windows[place] = _Kept(window, self._clock() + self._ttl, size)
            held.sessions.setdefault(scope, set()).add(session)
            held.size += size
            while held.size > self._most:
                held.drop(next(iter(held.windows)))

    def _tidy(self, held: _Held) -> None:
        """Now and then, let go of what nobody asks for any more."""
        now = self._clock()
        if now >= self._sweep:
            self._sweep = now + self._ttl / 2
            for place in [place for place, kept in held.windows.items() if kept.until <= now]:
                held.drop(place)

    def clear(self, scope: Scope) -> bool:
        held = self._held()
        with held.lock:
            held.clears += 1
            held.asked.place = None
            for session in list(held.sessions.get(scope, ())):
                held.drop((scope, session))
            for key in [key for key in held.waits if key[0] == scope]:
                del held.waits[key]
        return True

    def wait(self, scope: Scope, name: str, seconds: float) -> None:
        if not seconds > 0:
            return
        held = self._held()
        with held.lock:
            held.waits[scope, name] = self._clock() + min(seconds, LONGEST)
            held.waits.move_to_end((scope, name))
            if len(held.waits) > _WAITS:
                held.waits.popitem(last=False)

    def waiting(self, scope: Scope, names: Sequence[str]) -> tuple[float, str | None]:
        held, now = self._held(), self._clock()
        longest: tuple[float, str | None] = (0.0, None)
        with held.lock:
            for name in names:
                seconds = held.waits.get((scope, name), now) - now
                if seconds > longest[0]:
                    longest = (seconds, name)
        return longest

    def close(self) -> None:
        self._state = _Held()

    def _held(self) -> _Held:
        if self._state.pid != os.getpid():  # a forked child; the lock may be held by a thread that is not here
            self._state = _Held()
        return self._state


def _weight(window: Window) -> int:
    """About how many bytes a window takes."""
    return _RECORD + sum(
        _RECORD + sys.getsizeof(record.content) + _bytes(record.metadata) + _bytes(record.blocks) + _bytes(record.parents)
        for _, record in window.turns
    )


def _bytes(value: Any) -> int:
    if isinstance(value, Mapping):
        return 64 + sum(100 + _bytes(key) + _bytes(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return 64 + sum(8 + _bytes(inner) for inner in value)
    return sys.getsizeof(value)
