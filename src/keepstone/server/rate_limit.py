"""Requests per minute: a token bucket for each key.

A bucket holds a minute's requests and refills steadily: an idle key may spend its minute at once and then continues at its rate.
Buckets live in the process; each of several workers grants its share, so together they never exceed the limit.

Invalid keys are not counted: a key has 256 random bits, so guessing is hopeless.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from keepstone.errors import RateLimited

_MINUTE_SECONDS = 60.0
_ROUNDING = 1e-9


class RateLimiter:
    """Counts requests by id. `workers` processes share each limit; at most `max_ids` buckets are kept, the oldest go first."""

    def __init__(self, *, workers: int = 1, ticks: Callable[[], float] = time.monotonic, max_ids: int = 100_000) -> None:
        self._workers = max(1, workers)
        self._ticks = ticks
        self._max_ids = max(1, max_ids)
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # id: (requests left, when); the latest last

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, id: str, per_minute: int) -> None:
        """Count one request; RateLimited, with the seconds until the next is allowed, if the bucket is empty."""
        size = max(1.0, per_minute / self._workers)
        per_second = per_minute / self._workers / _MINUTE_SECONDS
        with self._lock:
            now = self._ticks()
            left, last = self._buckets.pop(id, (size, now))
            left = min(size, left + (now - last) * per_second)
            allowed = left >= 1.0 - _ROUNDING
            self._buckets[id] = (max(0.0, left - 1.0) if allowed else left, now)
            for _ in range(2):  # drop up to two buckets that are full again or exceed the maximum
                oldest, (_, last) = next(iter(self._buckets.items()))
                if len(self._buckets) > self._max_ids or now - last > _MINUTE_SECONDS * self._workers:
                    del self._buckets[oldest]
        if not allowed:
            wait = (1.0 - left) / per_second
            message = f"the limit of {per_minute} requests per minute is reached: try again in {math.ceil(wait)} seconds."
            raise RateLimited(message, wait)
