"""Clocks and tables that the benchmarks share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Times:
    """Wall and CPU time of some calls, in seconds. CPU is that of the whole process, every thread of it."""

    wall: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)

    def take(self, work: Callable[[], Any]) -> Any:
        """Run something and note how long it took."""
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        self.wall.append(time.perf_counter() - wall)
        self.cpu.append(time.process_time() - cpu)
        return result

    def summary(self) -> dict[str, float]:
        """Percentiles in milliseconds."""
        return {
            f"{clock}_{name}_ms": round(percentile(values, share) * 1e3, 4)
            for clock, values in (("wall", self.wall), ("cpu", self.cpu))
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))
        }


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of all lies."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


def ratio(one: float, other: float) -> float:
    """One divided by the other, to two digits; 0 if the other is 0."""
    return round(one / other, 2) if other else 0.0


def progress(text: str) -> None:
    """Say on standard error what is being measured."""
    print(f"… {text}", file=sys.stderr, flush=True)


def table(title: str, values: dict[str, Any]) -> None:
    """Print a section of results, one line an entry."""
    print(title)
    for name, text in _lines(values):
        print(f"  {name:<34}{text}")


def _lines(values: dict[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        path = f"{above}{name}"
        if not isinstance(value, dict):
            yield path, _shown(value)
        elif "wall_p50_ms" in value:
            yield path, "  ".join(f"{clock} {_percentiles(value, clock)} ms" for clock in ("wall", "cpu"))
        elif any(isinstance(each, dict) for each in value.values()):
            yield from _lines(value, f"{path}.")
        else:
            yield path, "  ".join(f"{key} {_shown(each)}" for key, each in value.items())


def _percentiles(value: dict[str, float], clock: str) -> str:
    return " / ".join(f"{value[f'{clock}_{name}_ms']:.3g}" for name in ("p50", "p95", "p99"))


def _shown(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
