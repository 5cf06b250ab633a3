"""How long recalls took in this process, from the figures that /metrics shows."""

from __future__ import annotations

from dataclasses import dataclass

from keepstone.server.metrics import BUCKETS, Metrics
from keepstone.server.service import Meter

_VERBS = ("recall", "mcp_recall_memory")


@dataclass(frozen=True, slots=True)
class Latency:
    """Recalls since the start: how many, median and 95th percentile in milliseconds, and (up to so many
    milliseconds, how many) by bucket."""

    count: int
    median: float
    p95: float
    bins: tuple[tuple[str, int], ...]


def latency(metrics: Meter | None) -> Latency | None:
    """None while there was no recall."""
    if not isinstance(metrics, Metrics):
        return None
    below = [_sum(metrics, "keepstone_verb_seconds_bucket", le=str(edge)) for edge in BUCKETS]
    count = _sum(metrics, "keepstone_verb_seconds_count")
    if not count:
        return None
    each = [now - before for now, before in zip([*below, count], [0, *below], strict=True)]
    names = [*(f"{edge * 1000:g}" for edge in BUCKETS), "more"]
    used = [at for at, number in enumerate(each) if number]
    first, last = max(used[0] - 1, 0), min(max(used[-1] + 1, used[0] + 4), len(each) - 1)
    bins = tuple(zip(names, each, strict=True))[first : last + 1]
    return Latency(count, _quantile(below, count, 0.5), _quantile(below, count, 0.95), bins)


def _sum(metrics: Metrics, name: str, **labels: str) -> int:
    return int(sum(metrics.registry.get_sample_value(name, {"verb": verb, **labels}) or 0 for verb in _VERBS))


def _quantile(below: list[int], count: int, share: float) -> float:
    """Milliseconds below which this share of them lies, as if they lay evenly in their bucket."""
    wanted, edge, before = share * count, 0.0, 0
    for upper, number in zip(BUCKETS, below, strict=True):
        if number >= wanted:
            return 1000 * (edge + (upper - edge) * (wanted - before) / (number - before))
        edge, before = upper, number
    return 1000 * edge
