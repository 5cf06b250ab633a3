"""The trail: what was done in a scope, and whether a tenant's chain is whole."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.ports.maintenance import ChainReport
from keepstone.server.identity import ADMIN, READ
from keepstone.server.responses import Asked, Asking, answer, group
from keepstone.server.shapes_keeping import AuditShape

router = group("audit")


class AuditAsked(Asked):
    since: str | None = None
    limit: int = Field(100, ge=1, le=10_000)


class ChainAsked(Asked):
    """The head of an earlier report."""

    head: str | None = Field(None, max_length=128)


@router.get("/audit", operation_id="audit", response_model=AuditShape)
async def audit(asking: Asking, given: Annotated[AuditAsked, Query()]) -> Response:
    """What was done in this scope, newest first; never content."""
    asking.need(READ)
    memory = asking.memory
    return answer({"rows": await asking.run(lambda: memory.audit(since=given.since, limit=given.limit))})


@router.get("/audit/chain", operation_id="verify_audit", response_model=ChainReport)
async def chain(asking: Asking, given: Annotated[ChainAsked, Query()]) -> Response:
    """Whether the tenant's trail is what was written; with the head of an earlier report, nobody can have written it anew."""
    asking.need(ADMIN)
    memory = asking.memory
    return answer(await asking.run(lambda: memory.audit.verify(head=given.head)))
