"""A scope in numbers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.server.identity import READ
from keepstone.server.responses import Asked, Asking, answer, group
from keepstone.server.shapes_keeping import StatsShape
from keepstone.server.stats import MOST_DAYS, overview

router = group("stats")


class StatsAsked(Asked):
    """How many days, today included."""

    days: int = Field(30, ge=1, le=MOST_DAYS)


@router.get("/stats", operation_id="stats", response_model=StatsShape)
async def stats(asking: Asking, given: Annotated[StatsAsked, Query()]) -> Response:
    """What the scope holds: by kind, by tag, how it grew; what waits for a person or a model."""
    asking.need(READ)
    found = await asking.run(overview, asking, given.days)
    return answer({
        "records": found.records,
        "kinds": found.by_kind,
        "tags": [{"tag": tag, "count": count} for tag, count in found.by_tag],
        "growth": [{"day": day.isoformat(), "added": added, "total": total} for day, added, total in found.growth()],
        "reviews": found.reviews,
        "jobs": {"waiting": found.waiting, "failed": found.failed},
        "sessions": found.sessions,
        "quarantined": found.quarantined,
    })  # fmt: skip
