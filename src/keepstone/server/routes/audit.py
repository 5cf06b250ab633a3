"""Routes of the audit log, and of a scope's statistics."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.ports.maintenance import ChainReport
from keepstone.server.identity import ADMIN, READ
from keepstone.server.routing import CurrentCaller, QueryParams, api_router, json_response
from keepstone.server.schemas import AuditSchema, StatsSchema
from keepstone.server.stats import MAX_DAYS, overview

router = api_router("audit")


class AuditParams(QueryParams):
    since: str | None = None
    limit: int = Field(100, ge=1, le=10_000)


class ChainParams(QueryParams):
    """`head` is the head of an earlier report."""

    head: str | None = Field(None, max_length=128)


class StatsParams(QueryParams):
    """The number of days, today included."""

    days: int = Field(30, ge=1, le=MAX_DAYS)


@router.get("/audit", operation_id="audit", response_model=AuditSchema)
async def audit(caller: CurrentCaller, params: Annotated[AuditParams, Query()]) -> Response:
    """The scope's audit entries, newest first, without content."""
    caller.require(READ)
    memory = caller.memory
    return json_response({"rows": await caller.run(lambda: memory.audit(since=params.since, limit=params.limit))})


@router.get("/audit/chain", operation_id="verify_audit", response_model=ChainReport)
async def verify_audit(caller: CurrentCaller, params: Annotated[ChainParams, Query()]) -> Response:
    """Check the hash chain of the tenant's audit log. The head of an earlier report also detects a log that was rewritten."""
    caller.require(ADMIN)
    memory = caller.memory
    return json_response(await caller.run(lambda: memory.audit.verify(head=params.head)))


@router.get("/stats", operation_id="stats", response_model=StatsSchema, tags=["stats"])
async def stats(caller: CurrentCaller, params: Annotated[StatsParams, Query()]) -> Response:
    """The scope's records by kind and tag, its growth, and what waits for a person or a model."""
    caller.require(READ)
    numbers = await caller.run(overview, caller, params.days)
    return json_response({
        "records": numbers.records,
        "kinds": numbers.by_kind,
        "tags": [{"tag": tag, "count": count} for tag, count in numbers.by_tag],
        "growth": [{"day": day.isoformat(), "added": added, "total": total} for day, added, total in numbers.growth()],
        "reviews": numbers.reviews,
        "jobs": {"waiting": numbers.waiting, "failed": numbers.failed},
        "sessions": numbers.sessions,
        "quarantined": numbers.quarantined,
    })  # fmt: skip
