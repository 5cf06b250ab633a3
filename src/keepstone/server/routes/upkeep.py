"""Upkeep: what is put aside, brought back, erased, condensed, checked, mended; a tenant's run, the store's index.

One's own scope is kept in order by a person, a tenant by its admin, what belongs to the whole store by an operator. Durations are
seconds. A policy is an object: a text would be a file of the server's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.maintenance.checkup import FixReport
from keepstone.maintenance.compaction import CompactReport
from keepstone.maintenance.health import Check, HealthReport
from keepstone.maintenance.policy import RunReport, UpkeepPolicy
from keepstone.maintenance.reembedding import ReembedReport
from keepstone.maintenance.retention import MONTH, ArchiveReport, PurgeReport
from keepstone.maintenance.upkeep import YEAR
from keepstone.maintenance.verification import VerifyReport
from keepstone.server.identity import ADMIN, FORGET, OPERATOR, READ, WRITE
from keepstone.server.responses import Asked, Asking, Given, Many, answer, group
from keepstone.server.service import Caller
from keepstone.server.shapes_keeping import AsidesShape, CountShape, IdsShape
from keepstone.vector_sync.indexing import Repaired

router = group("upkeep")
_PERSON = "upkeep"
_HALF_A_YEAR = 15_552_000.0
_MANY = 2**53  # what JSON's numbers hold without loss
Seconds = Annotated[float, Field(ge=0.000_001, le=36_525 * 86_400.0)]
Purged = Literal["aged", "expired", "faded", "capped", "retired", "junk", "duplicate"]  # what was compacted is never erased
Name = Annotated[str, Field(min_length=1, max_length=256)]


class AgeRequest(Given):
    """What counts as old: neither changed nor read for so many seconds."""

    older_than: Seconds = YEAR
    kinds: Many[Name] | None = None
    keyed: bool = False
    dry_run: bool = False


class LapseRequest(Given):
    dry_run: bool = False


class ConsolidateRequest(Given):
    """What matters little and was left alone for so many seconds."""

    importance: float = Field(default=0.3, ge=0, le=1)
    reads: int = Field(default=1, ge=0, le=_MANY)
    older_than: Seconds = MONTH
    dry_run: bool = False


class CapRequest(Given):
    """How many memories the scope may have."""

    most: int = Field(ge=0, le=_MANY)
    kinds: Many[Name] | None = None
    dry_run: bool = False


class UndoRequest(Given):
    """The ticket of a report."""

    ticket: int = Field(ge=1, le=_MANY)


class BringBackRequest(Given):
    ids: Many[Name] = Field(max_length=10_000)


class PurgeRequest(Given):
    """For how many seconds something must have been aside."""

    after: Seconds = MONTH
    why: Many[Purged] | None = None
    dry_run: bool = False
    trust_clock: bool = False


class CompactRequest(Given):
    older_than: Seconds = MONTH
    kinds: Many[Name] = Field(default_factory=lambda: ["fact", "note"])
    tag: Name | None = None
    dry_run: bool = False


class VerifyRequest(Given):
    stale_after: Seconds = _HALF_A_YEAR
    dry_run: bool = False


class FixRequest(Given):
    """Which checks' plans are carried out; null: all."""

    checks: Many[Check] | None = None
    dry_run: bool = False


class PolicyGiven(Given):
    """What a run does, scope by scope; 0 days and a cap of 0 mean never."""

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


class RunRequest(Given):
    policy: PolicyGiven | None = None
    dry_run: bool = False


class ReembedRequest(Given):
    """With a name, the store moves to that embedder."""

    embedder: str | None = None


class AsideAsked(Asked):
    limit: int = Field(1000, ge=1, le=1_000_000)


class HealthAsked(Asked):
    """How many findings of each check are listed."""

    most: int = Field(100, ge=1, le=1_000_000)


async def _kept(asking: Caller, verb: str, given: Given, *rights: str) -> Any:
    """One verb of upkeep in the caller's scope."""
    asking.need(WRITE, *rights, person=_PERSON)
    upkeep: Callable[..., Any] = getattr(asking.memory.upkeep, verb)
    return await asking.run(lambda: upkeep(**dict(given)))


# -- one's own scope ----------------------------------------------------------------------------------------------
@router.post("/upkeep/age", operation_id="upkeep_age", response_model=ArchiveReport)
async def age(asking: Asking, given: AgeRequest | None = None) -> Response:
    """Put aside what was neither changed nor read for a long time."""
    return answer(await _kept(asking, "age", given or AgeRequest()))


@router.post("/upkeep/lapse", operation_id="upkeep_lapse", response_model=ArchiveReport)
async def lapse(asking: Asking, given: LapseRequest | None = None) -> Response:
    """Put aside what has outlived its time to live."""
    return answer(await _kept(asking, "lapse", given or LapseRequest()))


@router.post("/upkeep/fade", operation_id="upkeep_fade", response_model=ArchiveReport)
async def fade(asking: Asking, given: ConsolidateRequest | None = None) -> Response:
    """Put aside facts that matter little, were hardly read and were left alone."""
    return answer(await _kept(asking, "fade", given or ConsolidateRequest()))


@router.post("/upkeep/cap", operation_id="upkeep_cap", response_model=ArchiveReport)
async def cap(asking: Asking, given: CapRequest) -> Response:
    """Put aside what is over, where the scope may have so many memories."""
    return answer(await _kept(asking, "cap", given))


@router.post("/upkeep/undo", operation_id="upkeep_undo", response_model=IdsShape)
async def undo(asking: Asking, given: UndoRequest) -> Response:
    """Take back what one job has put aside, by the ticket of its report."""
    return answer({"ids": await _kept(asking, "undo", given)})


@router.post("/upkeep/restore", operation_id="upkeep_restore", response_model=CountShape)
async def restore(asking: Asking, given: BringBackRequest) -> Response:
    """Bring back these records, unless the same has been remembered anew."""
    return answer({"count": await _kept(asking, "restore", given)})


@router.post("/upkeep/purge", operation_id="upkeep_purge", response_model=PurgeReport)
async def purge(asking: Asking, given: PurgeRequest | None = None) -> Response:
    """Erase what has been aside for long enough."""
    return answer(await _kept(asking, "purge", given or PurgeRequest(), FORGET))


@router.post("/upkeep/compact", operation_id="upkeep_compact", response_model=CompactReport)
async def compact(asking: Asking, given: CompactRequest | None = None) -> Response:
    """Condense related memories that were not changed for a while into fewer."""
    return answer(await _kept(asking, "compact", given or CompactRequest()))


@router.post("/upkeep/verify", operation_id="upkeep_verify", response_model=VerifyReport)
async def verify(asking: Asking, given: VerifyRequest | None = None) -> Response:
    """Check memories against newer messages; what does not hold goes on the review list. Probes are not run from here."""
    return answer(await _kept(asking, "verify", given or VerifyRequest()))


@router.post("/upkeep/fix", operation_id="upkeep_fix", response_model=FixReport)
async def fix(asking: Asking, given: FixRequest | None = None) -> Response:
    """Carry out the health report's plan: put aside (can be undone), redact, flag for review."""
    return answer(await _kept(asking, "fix", given or FixRequest()))


@router.get("/upkeep/aside", operation_id="upkeep_aside", response_model=AsidesShape)
async def archived(asking: Asking, given: Annotated[AsideAsked, Query()]) -> Response:
    """What is put aside at present, the longest first, with why and since when."""
    asking.need(READ, person=_PERSON)
    upkeep = asking.memory.upkeep
    return answer({"aside": await asking.run(lambda: upkeep.archived(limit=given.limit))})


@router.get("/upkeep/health", operation_id="upkeep_health", response_model=HealthReport)
async def health(asking: Asking, given: Annotated[HealthAsked, Query()]) -> Response:
    """Duplicates, echoes, junk, secrets, what is stale, contradicted, orphaned or never recalled, and a plan against it."""
    asking.need(READ, person=_PERSON)
    upkeep = asking.memory.upkeep
    return answer(await asking.run(lambda: upkeep.health(most=given.most)))


# -- a tenant, and the store --------------------------------------------------------------------------------------
@router.post("/upkeep/run", operation_id="upkeep_run", response_model=RunReport)
async def run(asking: Asking, given: RunRequest | None = None) -> Response:
    """Do what a policy says in every scope of the caller's tenant, and work on what waits for a model there."""
    asking.need(ADMIN)
    chosen = given or RunRequest()
    policy = UpkeepPolicy() if chosen.policy is None else UpkeepPolicy(**dict(chosen.policy))
    engine = asking.service.engine
    return answer(await asking.run(engine.run_upkeep, asking.scope.tenant, policy, chosen.dry_run))


@router.post("/upkeep/reembed", operation_id="upkeep_reembed", response_model=ReembedReport)
async def reembed(asking: Asking, given: ReembedRequest | None = None) -> Response:
    """Embed every record of the store that waits for its vector, or move the store to another embedder."""
    asking.need(OPERATOR)
    upkeep, embedder = asking.memory.upkeep, None if given is None else given.embedder
    return answer(await asking.run(lambda: upkeep.reembed(embedder=embedder)))


@router.post("/upkeep/repair_index", operation_id="upkeep_repair_index", response_model=Repaired)
async def repair_index(asking: Asking) -> Response:
    """Put into the index of vectors what is missing there, and take out what should not be."""
    asking.need(OPERATOR)
    return answer(await asking.run(asking.memory.upkeep.repair_index))


@router.post("/upkeep/rebuild_index", operation_id="upkeep_rebuild_index", response_model=CountShape)
async def rebuild_index(asking: Asking) -> Response:
    """Empty the index of vectors and put every memory in again."""
    asking.need(OPERATOR)
    return answer({"count": await asking.run(asking.memory.upkeep.rebuild_index)})
