"""Routes for maintenance, the review list, the job queue, the audit log and the statistics of a scope.

A person maintains the own scope, an admin the tenant, an operator the whole store. A policy is an object: a path would name a
file of the server.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Annotated, Any

from pydantic import Field, create_model
from starlette.responses import Response

from keepstone.client.maintenance import AuditVerbs, JobVerbs, ReviewVerbs, UpkeepVerbs
from keepstone.client.plans import routes_of
from keepstone.maintenance.health import Check
from keepstone.maintenance.policy import RunReport, UpkeepPolicy
from keepstone.rights import FORGET
from keepstone.server.routing import (
    Body,
    FailFastList,
    add_verbs,
    api_router,
    json_response,
    operation,
    request_model,
    require_stored,
)
from keepstone.server.service import Caller
from keepstone.server.stats import MAX_DAYS, ScopeOverview, overview
from keepstone.types import Receipt

upkeep, review, jobs, audit, stats = ROUTERS = [api_router(tag) for tag in ("upkeep", "review", "jobs", "audit", "stats")]
_Ids = FailFastList[Annotated[str, Field(min_length=1, max_length=256)]]
_Numbers = FailFastList[Annotated[int, Field(ge=1, le=2**53)]]
_POLICY: Any = {
    field.name: (bool, field.default)
    if isinstance(field.default, bool)
    else (type(field.default), Field(field.default, ge=0, le=1 if field.name == "fade_importance" else 999_999_999))
    for field in fields(UpkeepPolicy)
}
_PolicyBody = create_model("PolicyBody", __base__=Body, __doc__="What a run does in each scope; 0 means never.", **_POLICY)
_UPKEEP, _REVIEW = routes_of(UpkeepVerbs), routes_of(ReviewVerbs)


def _run(caller: Caller, policy: Any, dry_run: bool) -> RunReport:
    """Run a policy in the scopes of the caller's tenant. Without the right to forget, a purge that the policy names is refused,
    and the default one is skipped."""
    chosen = UpkeepPolicy.of(None if policy is None else dict(policy))
    skips = not caller.identity.may(FORGET) and (policy is None or "purge_days" not in policy.model_fields_set)
    if not skips:
        return caller.backend.run_upkeep(caller.scope.tenant, chosen, dry_run)
    report = caller.backend.run_upkeep(caller.scope.tenant, replace(chosen, purge_days=0.0), dry_run)
    return replace(report, problems=(*report.problems, "purge: skipped, because this key may not forget"))


def _respond_resolved(receipt: Receipt) -> Response:
    require_stored(receipt)
    return json_response(receipt)


add_verbs(
    upkeep,
    UpkeepVerbs,
    lambda memory: memory.upkeep,
    run={
        "work": _run,
        "model": request_model(_UPKEEP["run"], policy=(_PolicyBody | None, None)),
        "description": "Run a policy in every scope of the tenant, and the jobs that wait for a model there.",
    },
    archive={"model": request_model(_UPKEEP["archive"], ids=(_Ids, Field(max_length=10_000)))},
    restore={"model": request_model(_UPKEEP["restore"], ids=(_Ids, Field(max_length=10_000)))},
    fix={"model": request_model(_UPKEEP["fix"], checks=(FailFastList[Check] | None, None))},
    reembed={"model": request_model(_UPKEEP["reembed"], embedder=(str | None, None))},
    doctor={"tags": ["store"]},
)
add_verbs(
    review,
    ReviewVerbs,
    lambda memory: memory.review,
    resolve={"respond": _respond_resolved, "statuses": (404, 409, 413)},
    resolve_many={"model": request_model(_REVIEW["resolve_many"], numbers=(_Numbers, Field(max_length=1000)))},
)
add_verbs(jobs, JobVerbs, lambda memory: memory.jobs, retry={"statuses": (404,)}, drop={"statuses": (404,)})
add_verbs(audit, AuditVerbs, lambda memory: memory.audit)


@operation(stats, "GET", "/stats", "stats")
def show_stats(caller: Caller, days: Annotated[int, Field(ge=1, le=MAX_DAYS)] = 30) -> ScopeOverview:
    """The scope's records by kind and tag, its growth, and what waits for a person or a model. `days` includes today."""
    return overview(caller.backend, caller.scope, days)
