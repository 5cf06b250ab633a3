"""Routes for maintenance: archive, restore, purge, compact, verify, fix; a tenant's run; the vector index.

A person maintains the own scope, an admin the tenant, an operator the whole store. Durations are seconds. A policy is an
object: a path would name a file of the server.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.maintenance.checkup import FixReport
from keepstone.maintenance.compaction import CompactReport
from keepstone.maintenance.health import Check, HealthReport
from keepstone.maintenance.policy import RunReport, UpkeepPolicy
from keepstone.maintenance.reembedding import ReembedReport
from keepstone.maintenance.retention import MONTH, YEAR, ArchiveReport, PurgeReport
from keepstone.maintenance.verification import VerifyReport
from keepstone.server.identity import ADMIN, FORGET, OPERATOR, READ, WRITE
from keepstone.server.routing import Body, CurrentCaller, FailFastList, QueryParams, api_router, json_response
from keepstone.server.schemas import ArchivedSchema, CountSchema, IdsSchema
from keepstone.server.service import Caller
from keepstone.vector_sync.indexing import Repaired

router = api_router("upkeep")
_PERSON = "maintenance"
_HALF_YEAR_SECONDS = 15_552_000.0
_MAX_INT = 2**53  # the largest integer that JSON numbers hold exactly
Seconds = Annotated[float, Field(ge=0.000_001, le=36_525 * 86_400.0)]
PurgeReason = Literal["aged", "expired", "faded", "capped", "retired", "junk", "duplicate"]  # compacted records are not purged
Name = Annotated[str, Field(min_length=1, max_length=256)]


class AgeBody(Body):
    """The age in seconds: the time since a record was last changed or read."""

    older_than: Seconds = YEAR
    kinds: FailFastList[Name] | None = None
    keyed: bool = False
    dry_run: bool = False


class LapseBody(Body):
    dry_run: bool = False


class FadeBody(Body):
    """The maximum importance and reads, and the minimum age in seconds, of what fades."""

    importance: float = Field(default=0.3, ge=0, le=1)
    reads: int = Field(default=1, ge=0, le=_MAX_INT)
    older_than: Seconds = MONTH
    dry_run: bool = False


class CapBody(Body):
    """The maximum number of memories in the scope."""

    most: int = Field(ge=0, le=_MAX_INT)
    kinds: FailFastList[Name] | None = None
    dry_run: bool = False


class UndoBody(Body):
    """The ticket of a report."""

    ticket: int = Field(ge=1, le=_MAX_INT)


class RestoreBody(Body):
    ids: FailFastList[Name] = Field(max_length=10_000)


class PurgeBody(Body):
    """The minimum time in seconds since a record was archived."""

    after: Seconds = MONTH
    why: FailFastList[PurgeReason] | None = None
    dry_run: bool = False
    trust_clock: bool = False


class CompactBody(Body):
    older_than: Seconds = MONTH
    kinds: FailFastList[Name] = Field(default_factory=lambda: ["fact", "note"])
    tag: Name | None = None
    dry_run: bool = False


class VerifyBody(Body):
    stale_after: Seconds = _HALF_YEAR_SECONDS
    dry_run: bool = False


class FixBody(Body):
    """The checks whose plans are carried out; null: all."""

    checks: FailFastList[Check] | None = None
    dry_run: bool = False


class PolicyBody(Body):
    """What a run does in each scope; 0 days or a cap of 0 means never."""

    learn: bool = True
    lapse: bool = True
    age_days: float = Field(0.0, ge=0, lt=1e9)
    age_messages: bool = False
    fade_days: float = Field(90.0, ge=0, lt=1e9)
    fade_importance: float = Field(default=0.3, ge=0, le=1)
    fade_reads: int = Field(1, ge=0, lt=10**9)
    cap: int = Field(0, ge=0, lt=10**9)
    compact_days: float = Field(0.0, ge=0, lt=1e9)
    verify: bool = True
    purge_days: float = Field(30.0, ge=0, lt=1e9)
    trust_clock: bool = False


class RunBody(Body):
    policy: PolicyBody | None = None
    dry_run: bool = False


class ReembedBody(Body):
    """With a name, the store changes to that embedder."""

    embedder: str | None = None


class ArchivedParams(QueryParams):
    limit: int = Field(1000, ge=1, le=1_000_000)


class HealthParams(QueryParams):
    """The maximum number of findings for each check."""

    most: int = Field(100, ge=1, le=1_000_000)


async def _call(caller: Caller, verb: str, body: Body, *rights: str) -> Any:
    """Call a verb of `memory.upkeep` in the caller's scope."""
    caller.require(WRITE, *rights, person=_PERSON)
    method = getattr(caller.memory.upkeep, verb)
    return await caller.run(lambda: method(**dict(body)))


# -- the caller's scope --------------------------------------------------------------------------------------------------------
@router.post("/upkeep/age", operation_id="upkeep_age", response_model=ArchiveReport)
async def age(caller: CurrentCaller, body: AgeBody | None = None) -> Response:
    """Archive records that were neither changed nor read for a long time."""
    return json_response(await _call(caller, "age", body or AgeBody()))


@router.post("/upkeep/lapse", operation_id="upkeep_lapse", response_model=ArchiveReport)
async def lapse(caller: CurrentCaller, body: LapseBody | None = None) -> Response:
    """Archive records whose time to live is over."""
    return json_response(await _call(caller, "lapse", body or LapseBody()))


@router.post("/upkeep/fade", operation_id="upkeep_fade", response_model=ArchiveReport)
async def fade(caller: CurrentCaller, body: FadeBody | None = None) -> Response:
    """Archive facts of low importance that were rarely read and not changed."""
    return json_response(await _call(caller, "fade", body or FadeBody()))


@router.post("/upkeep/cap", operation_id="upkeep_cap", response_model=ArchiveReport)
async def cap(caller: CurrentCaller, body: CapBody) -> Response:
    """Archive the records that exceed the maximum number of memories."""
    return json_response(await _call(caller, "cap", body))


@router.post("/upkeep/undo", operation_id="upkeep_undo", response_model=IdsSchema)
async def undo(caller: CurrentCaller, body: UndoBody) -> Response:
    """Restore everything that one job archived, by the ticket of its report."""
    return json_response({"ids": await _call(caller, "undo", body)})


@router.post("/upkeep/restore", operation_id="upkeep_restore", response_model=CountSchema)
async def restore(caller: CurrentCaller, body: RestoreBody) -> Response:
    """Restore archived records, except those that were remembered again since."""
    return json_response({"count": await _call(caller, "restore", body)})


@router.post("/upkeep/purge", operation_id="upkeep_purge", response_model=PurgeReport)
async def purge(caller: CurrentCaller, body: PurgeBody | None = None) -> Response:
    """Erase records that have been archived for long enough."""
    return json_response(await _call(caller, "purge", body or PurgeBody(), FORGET))


@router.post("/upkeep/compact", operation_id="upkeep_compact", response_model=CompactReport)
async def compact(caller: CurrentCaller, body: CompactBody | None = None) -> Response:
    """Condense related memories that were not changed for a while into fewer."""
    return json_response(await _call(caller, "compact", body or CompactBody()))


@router.post("/upkeep/verify", operation_id="upkeep_verify", response_model=VerifyReport)
async def verify(caller: CurrentCaller, body: VerifyBody | None = None) -> Response:
    """Check memories against newer messages, and add those that fail to the review list. Probes do not run over HTTP."""
    return json_response(await _call(caller, "verify", body or VerifyBody()))


@router.post("/upkeep/fix", operation_id="upkeep_fix", response_model=FixReport)
async def fix(caller: CurrentCaller, body: FixBody | None = None) -> Response:
    """Carry out the plan of the health report: archive (can be undone), redact, flag for review."""
    return json_response(await _call(caller, "fix", body or FixBody()))


@router.get("/upkeep/archived", operation_id="upkeep_archived", response_model=ArchivedSchema)
async def archived(caller: CurrentCaller, params: Annotated[ArchivedParams, Query()]) -> Response:
    """Archived records, the earliest archived first, each with the reason and the time."""
    caller.require(READ, person=_PERSON)
    upkeep = caller.memory.upkeep
    return json_response({"archived": await caller.run(lambda: upkeep.archived(limit=params.limit))})


@router.get("/upkeep/health", operation_id="upkeep_health", response_model=HealthReport)
async def health(caller: CurrentCaller, params: Annotated[HealthParams, Query()]) -> Response:
    """Duplicates, echoes, junk, secrets, and stale, contradicted, orphaned or unused memories, with a plan to fix them."""
    caller.require(READ, person=_PERSON)
    upkeep = caller.memory.upkeep
    return json_response(await caller.run(lambda: upkeep.health(most=params.most)))


# -- the tenant, and the whole store -------------------------------------------------------------------------------------------
@router.post("/upkeep/run", operation_id="upkeep_run", response_model=RunReport)
async def run(caller: CurrentCaller, body: RunBody | None = None) -> Response:
    """Run a policy in every scope of the tenant, and the jobs that wait for a model there."""
    caller.require(ADMIN)
    body = body or RunBody()
    policy = UpkeepPolicy() if body.policy is None else UpkeepPolicy(**dict(body.policy))
    return json_response(await caller.run(caller.backend.run_upkeep, caller.scope.tenant, policy, body.dry_run))


@router.post("/upkeep/reembed", operation_id="upkeep_reembed", response_model=ReembedReport)
async def reembed(caller: CurrentCaller, body: ReembedBody | None = None) -> Response:
    """Compute the missing vectors of the store, or change it to another embedder."""
    caller.require(OPERATOR)
    upkeep, embedder = caller.memory.upkeep, None if body is None else body.embedder
    return json_response(await caller.run(lambda: upkeep.reembed(embedder=embedder)))


@router.post("/upkeep/repair_index", operation_id="upkeep_repair_index", response_model=Repaired)
async def repair_index(caller: CurrentCaller) -> Response:
    """Add what is missing in the vector index, and remove what should not be there."""
    caller.require(OPERATOR)
    return json_response(await caller.run(caller.memory.upkeep.repair_index))


@router.post("/upkeep/rebuild_index", operation_id="upkeep_rebuild_index", response_model=CountSchema)
async def rebuild_index(caller: CurrentCaller) -> Response:
    """Empty the vector index and add every memory again."""
    caller.require(OPERATOR)
    return json_response({"count": await caller.run(caller.memory.upkeep.rebuild_index)})
