"""What the samples of a soak come to: does anything grow? Pure arithmetic on numbers.

The beginning of a run, its warm-up, is left out: caches fill, threads start, pages are read for the first time. Of what follows
only the second half is judged. It is cut into thirds, and each third is told by its median, which a spike does not move. A
measure grows where both steps go up, from the first third to the middle one and on to the last, and the rise from the first to
the last is more than its tolerance: a share of where it was or so much at the least, whichever is larger. The rise goes over two
thirds of the half, and `per_hour` says what that would be in an hour: a leak slower than `least_per_hour` is not seen by a run
of this length, and a longer run sees a slower one.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.measure import percentile

WARM_UP = 0.2  # of a run is left out
FEWEST = 9  # samples of a measure that can be judged: three a third
HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Tolerance:
    """By how much a measure may rise over what is judged: a share of where it was, or so much at the least."""

    share: float
    least: float
    why: str

    def of(self, level: float) -> float:
        return max(self.share * level, self.least)


TOLERANCES: Mapping[str, Tolerance] = {
    "resident_mb": Tolerance(0.03, 4.0, "an allocator takes its pages in large steps"),
    "upkeep_mb": Tolerance(0.03, 4.0, "the process that runs upkeep beside the server"),
    "handles": Tolerance(0.0, 4.0, "files and sockets; a caller's connection may just be opened anew"),
    "threads": Tolerance(0.0, 3.0, "of a pool that has a fixed number at most"),
    "wal_mb": Tolerance(0.5, 8.0, "the log is used again from its beginning, and has its size by the largest writes"),
    "jobs": Tolerance(0.5, 20.0, "what waits for a model"),
    "live": Tolerance(0.2, 60.0, "what the callers keep: were it to grow, nothing else could be judged"),
    "cpu_ms": Tolerance(0.25, 0.5, "of the server for each request"),
    "p50_ms": Tolerance(0.5, 5.0, "a busy machine slows everything"),
    "p99_ms": Tolerance(1.0, 50.0, "the few that wait for a whole export or a run of upkeep"),
}


@dataclass(frozen=True, slots=True)
class Slope:
    """How one measure went: the medians of the three thirds, and what that means."""

    first: float
    middle: float
    last: float
    per_hour: float
    tolerance: float
    least_per_hour: float
    grows: bool

    def as_json(self) -> dict[str, Any]:
        shown = {name: round(getattr(self, name), 3) for name in self.__slots__ if name != "grows"}
        return {**shown, "grows": self.grows}


def judge(samples: Sequence[Mapping[str, float]], tolerances: Mapping[str, Tolerance] = TOLERANCES) -> dict[str, Slope]:
    """How each measure went. A sample has its time under `at`, in seconds from the beginning, and any of the measures; one with
    too few samples to judge is left out."""
    if not samples:
        return {}
    begun, ended = samples[0]["at"], samples[-1]["at"]
    warm = begun + WARM_UP * (ended - begun)
    half = [each for each in samples if each["at"] >= warm + (ended - warm) / 2]
    found = {}
    for name, tolerance in tolerances.items():
        series = [(each["at"], each[name]) for each in half if name in each]
        if len(series) >= FEWEST:
            found[name] = slope(series, tolerance)
    return found


def slope(series: Sequence[tuple[float, float]], tolerance: Tolerance) -> Slope:
    """How one series of (seconds, value) went, by the medians of its thirds."""
    cut = len(series) // 3
    thirds = [series[:cut], series[cut : len(series) - cut], series[len(series) - cut :]]
    first, middle, last = (statistics.median(value for _, value in third) for third in thirds)
    began, ended = (statistics.median(at for at, _ in third) for third in (thirds[0], thirds[2]))
    hours = (ended - began) / HOUR
    allowed = tolerance.of(first)
    per_hour, least = ((last - first) / hours, allowed / hours) if hours else (0.0, 0.0)
    return Slope(first, middle, last, per_hour, allowed, least, first < middle < last and last - first > allowed)


def grows(slopes: Mapping[str, Slope]) -> list[str]:
    """The measures that grow."""
    return sorted(name for name, each in slopes.items() if each.grows)


def verdict(slopes: Mapping[str, Slope]) -> str:
    """ "grows", "steady", or "too short" where there is too little to say that anything is steady."""
    return "grows" if grows(slopes) else "steady" if "resident_mb" in slopes else "too short"


def minutes(took: Sequence[tuple[float, float]]) -> list[dict[str, float]]:
    """Latency minute by minute: of requests as (when they were answered, how long they took), both in seconds."""
    sorts: dict[int, list[float]] = {}
    for at, seconds in took:
        sorts.setdefault(int(at // 60), []).append(seconds)
    return [
        {"minute": minute + 1, "requests": len(each), **spread(each)} for minute, each in sorted(sorts.items())
    ]  # fmt: skip


def spread(times: list[float]) -> dict[str, float]:
    """The median and the 99th percentile in milliseconds."""
    return {"p50_ms": round(1e3 * percentile(times, 0.5), 2), "p99_ms": round(1e3 * percentile(times, 0.99), 2)}


def thin(samples: Sequence[Mapping[str, float]], most: int = 120) -> list[dict[str, float]]:
    """So many samples at most, evenly taken, the last one among them."""
    step = -(-len(samples) // most) or 1
    return [dict(each) for each in samples[::-1][::step]][::-1]
