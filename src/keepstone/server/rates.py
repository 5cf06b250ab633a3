"""Requests a minute: a bucket for each key.

A bucket holds as many requests as the key may make in a minute, and fills again as time goes by: a key that was idle may spend
its minute at once, and then goes on at its rate. Buckets live in the process; with several workers each gives its share, so the
limit is never passed together, and a client that stays with one worker has that worker's share.

Wrong keys are not counted: with 256 random bits in a key there is nothing to guess.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from keepstone.errors import RateLimited

_MINUTE = 60.0
_NEARLY = 1e-9  # what adding up fractions may lose


class Buckets:
    """Counts requests by id. `share` is how many processes count beside each other; `most` are the ids that are held: beyond
    that, the ones that asked longest ago start anew."""

    def __init__(self, *, share: int = 1, ticks: Callable[[], float] = time.monotonic, most: int = 100_000) -> None:
        self._share = max(1, share)
        self._ticks = ticks
        self._most = max(1, most)
        self._lock = threading.Lock()
        self._held: OrderedDict[str, tuple[float, float]] = OrderedDict()  # id: (what was left, when); the latest last

    def __len__(self) -> int:
        return len(self._held)

    def take(self, id: str, per_minute: int) -> None:
        """One request of an id; RateLimited, with the seconds until the next may come, where it has made as many as it may."""
        most = max(1.0, per_minute / self._share)
        fill = per_minute / self._share / _MINUTE
        with self._lock:
            now = self._ticks()
            left, last = self._held.pop(id, (most, now))
            left = min(most, left + (now - last) * fill)
            taken = left >= 1.0 - _NEARLY
            self._held[id] = (max(0.0, left - 1.0) if taken else left, now)
            self._drop_idle(now)
        if not taken:
            wait = (1.0 - left) / fill
            raise RateLimited(
                f"this key may make {per_minute} requests a minute and has made them: try again in {math.ceil(wait)} seconds.",
                wait,
            )

    def _drop_idle(self, now: float) -> None:
        """Forget ids whose buckets are full again, a few at a time, and the oldest beyond the most that are held."""
        for _ in range(2):
            id, (_, last) = next(iter(self._held.items()))
            if len(self._held) > self._most or now - last > _MINUTE * self._share:
                del self._held[id]
