"""A buffer of recent messages in this process, bounded by size and evicted by last use."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from keepstone.ports.caches import Window
from keepstone.ports.forks import reset_after_fork
from keepstone.types import Scope

_RECORD_BYTES = 1_500  # of a record without content: its object, times and names

WindowKey = tuple[Scope, str | None]


@dataclass(frozen=True, slots=True)
class _Slot:
    window: Window
    expires: float
    size: int


class MemoryBuffer:
    """A buffer that no other process sees. A forked child begins with an empty one.

    `keep` drops a window that the same thread looked up before the last `clear`: it may hold what was erased."""

    def __init__(
        self, bound: int = 200, ttl: float = 3600.0, max_bytes: int = 32 * 2**20, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.bound, self.ttl = bound, ttl
        self._max_bytes = max_bytes
        self._clock = clock
        self._next_sweep = clock() + self.ttl
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._slots: OrderedDict[WindowKey, _Slot] = OrderedDict()
        self._bytes = 0
        self._clears = 0
        self._lookup = threading.local()  # .key and .clears of this thread's last lookup

    @property
    def name(self) -> str:
        return "this process's memory"

    @property
    def problem(self) -> str | None:
        return None

    def window(self, scope: Scope, session: str | None) -> Window | None:
        key = (scope, session)
        with self._lock:
            self._lookup.key, self._lookup.clears = key, self._clears
            slot = self._slots.get(key)
            if slot is None:
                return None
            if slot.expires <= self._clock():
                self._drop(key)
                return None
            self._slots.move_to_end(key)
        return slot.window

    def put(self, scope: Scope, session: str | None, window: Window) -> None:
        key = (scope, session)
        size = _window_bytes(window) if len(window.messages) <= self.bound else self._max_bytes + 1
        with self._lock:
            if getattr(self._lookup, "key", None) == key and self._lookup.clears != self._clears:
                return
            self._drop(key)
            now = self._clock()
            if now >= self._next_sweep:  # at most twice per ttl
                self._next_sweep = now + self.ttl / 2
                for expired in [each for each, slot in self._slots.items() if slot.expires <= now]:
                    self._drop(expired)
            if size > self._max_bytes:
                return
            self._slots[key] = _Slot(window, now + self.ttl, size)
            self._bytes += size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._slots)))

    def clear(self, scope: Scope) -> bool:
        with self._lock:
            self._clears += 1
            self._lookup.key = None
            for key in [key for key in self._slots if key[0] == scope]:
                self._drop(key)
        return True

    def close(self) -> None:
        self._reset()

    def _drop(self, key: WindowKey) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._bytes -= slot.size


def _window_bytes(window: Window) -> int:
    """The approximate size of a window."""
    return _RECORD_BYTES + sum(
        _RECORD_BYTES
        + sys.getsizeof(record.content)
        + _value_bytes(record.metadata)
        + _value_bytes(record.blocks)
        + _value_bytes(record.parents)
        for _, record in window.messages
    )


def _value_bytes(value: Any) -> int:
    if isinstance(value, Mapping):
        return 64 + sum(100 + _value_bytes(key) + _value_bytes(inner) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return 64 + sum(8 + _value_bytes(inner) for inner in value)
    return sys.getsizeof(value)
