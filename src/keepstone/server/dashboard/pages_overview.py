"""The overview page: counts, growth, recall latency, health, and what waits for a person or a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from starlette.responses import Response

from keepstone.server.dashboard import charts
from keepstone.server.dashboard.context import Page, PageRequest
from keepstone.server.dashboard.pages_health import LARGE_SCOPE
from keepstone.server.metrics import BUCKETS, Metrics
from keepstone.server.stats import overview

_SPAN_DAYS = (30, 90, 365)
_RECENT_ROWS = 8
_SCANNED_AUDIT_ROWS = 100
_HEALTH_FINDINGS = 5
_RECALL_VERBS = ("recall", "mcp_recall_memory")


def show_overview(request: PageRequest) -> Response:
    chosen = request.http.query.get("days", "")
    days = int(chosen) if chosen in map(str, _SPAN_DAYS) else _SPAN_DAYS[0]
    numbers = overview(request.caller.backend, request.caller.scope, days)
    totals = [(f"{row.day:%d %b}".lstrip("0"), row.total) for row in numbers.growth]
    rows = [row for row in request.memory.audit(limit=_SCANNED_AUDIT_ROWS) if row.verb != "key"]
    return request.page(
        "overview.html",
        numbers=numbers,
        days=days,
        spans=_SPAN_DAYS,
        recent=rows[:_RECENT_ROWS],
        texts=request.texts(row.id for row in rows[:_RECENT_ROWS]),
        latency=recall_latency(request.service.metrics),
        growth=charts.area(totals, f"Memories over the last {days} days", "memories"),
        added=sum(day.added for day in numbers.growth),
        costs=request.memory.costs(days=min(days, 30))[:_RECENT_ROWS],
        person=not request.identity.bound_to_agent,
        large=LARGE_SCOPE,
    )


def show_health(request: PageRequest) -> Response:
    """The health report. It reads every memory, so the overview loads it after the page is shown."""
    report = request.memory.upkeep.health(most=_HEALTH_FINDINGS)
    counts = sorted(report.counts.items(), key=lambda check: check[1] == 0)  # checks with findings first
    return request.page("health.html", report=report, counts=counts)


@dataclass(frozen=True, slots=True)
class Latency:
    """Recalls since the start of the server: their number, median and 95th percentile in milliseconds, and (upper bound in
    milliseconds, count) of each histogram bucket."""

    count: int
    median: float
    p95: float
    bins: tuple[tuple[str, int], ...]


def recall_latency(metrics: Metrics | None) -> Latency | None:
    """The latency of the recalls of all workers from the figures of /metrics; None before the first recall."""
    if metrics is None:
        return None
    registry = metrics.all_workers()
    samples = [sample for family in registry.collect() if family.name == "keepstone_verb_seconds" for sample in family.samples]
    recalls = [sample for sample in samples if sample.labels.get("verb") in _RECALL_VERBS]
    buckets: Counter[str] = Counter()
    for sample in recalls:
        buckets[sample.labels.get("le", sample.name.rpartition("_")[2])] += int(sample.value)
    cumulative = [buckets[str(edge)] for edge in BUCKETS]
    count = buckets["count"]
    if not count:
        return None
    counts = [upper - lower for upper, lower in zip([*cumulative, count], [0, *cumulative], strict=True)]
    labels = [*(f"{edge * 1000:g}" for edge in BUCKETS), "more"]
    used = [index for index, number in enumerate(counts) if number]
    first, last = max(used[0] - 1, 0), min(max(used[-1] + 1, used[0] + 4), len(counts) - 1)
    bins = tuple(zip(labels, counts, strict=True))[first : last + 1]
    return Latency(count, _quantile(cumulative, count, 0.5), _quantile(cumulative, count, 0.95), bins)


def _quantile(cumulative: list[int], count: int, fraction: float) -> float:
    """A quantile in milliseconds, by linear interpolation within its bucket."""
    rank, lower_edge, lower_count = fraction * count, 0.0, 0
    for edge, number in zip(BUCKETS, cumulative, strict=True):
        if number >= rank:
            return 1000 * (lower_edge + (edge - lower_edge) * (rank - lower_count) / (number - lower_count))
        lower_edge, lower_count = edge, number
    return 1000 * lower_edge


PAGES = (
    Page("/", get=show_overview),
    Page("/overview/health", get=show_health, person="the health report"),
)
