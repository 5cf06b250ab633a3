"""The overview: how much there is, how it grew, how quick and how sound it is, what waits for somebody."""

from __future__ import annotations

from markupsafe import Markup
from starlette.responses import Response

from keepstone.server.dashboard import plots
from keepstone.server.dashboard.latency import latency
from keepstone.server.dashboard.places import Place
from keepstone.server.dashboard.visit import Visit
from keepstone.server.stats import Overview, overview

_SPANS = (30, 90, 365)
_RECENT = 8


def show(visit: Visit) -> Response:
    asked = visit.asked.query.get("days", "")
    days = int(asked) if asked in map(str, _SPANS) else _SPANS[0]
    found = overview(visit.caller, days)
    rows = [row for row in visit.memory.audit(limit=100) if row.verb != "key"]
    return visit.page(
        "overview.html", found=found, days=days, spans=_SPANS, recent=rows[:_RECENT], latency=latency(visit.desk.service.meter),
        growth=_growth(found, days), came=sum(count for _, count in found.per_day), person=not visit.identity.bound_to_agent,
    )  # fmt: skip


def _growth(found: Overview, days: int) -> Markup:
    """How many memories there were at the end of each day."""
    totals = [(f"{day:%d %b}".lstrip("0"), there) for day, _, there in found.growth()]
    return plots.area(totals, f"Memories over the last {days} days", "memories")


def health(visit: Visit) -> Response:
    """The health report: it reads everything, so the page asks for it when it is there already."""
    report = visit.memory.upkeep.health(most=5)
    shown = sorted(report.counts.items(), key=lambda each: each[1] == 0)  # what was found first
    return visit.page("health.html", report=report, counts=shown)


PLACES = (
    Place("/", get=show),
    Place("/overview/health", get=health, person="the health report"),
)
