"""Routes of the review list and the job queue."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from keepstone.learning.jobs import WorkReport
from keepstone.maintenance.review import Decision
from keepstone.ports.maintenance import ReviewState
from keepstone.ports.queue import JobState
from keepstone.server.identity import READ, WRITE
from keepstone.server.routing import (
    Body,
    CurrentCaller,
    QueryParams,
    api_router,
    json_response,
    problems,
    require_stored,
)
from keepstone.server.schemas import CountSchema, EmptySchema, JobsSchema, ReviewsSchema
from keepstone.types import Receipt

router = api_router("review")
_REVIEW, _JOBS = "the review list", "the job queue"
Number = Annotated[int, Path(ge=1, le=2**53)]


class ReviewParams(QueryParams):
    """`after` is the number of the last item of the previous page."""

    state: ReviewState = "open"
    limit: int = Field(100, ge=1, le=10_000)
    after: int = Field(0, ge=0, le=2**53)


class ResolveBody(Body):
    """A decision; `correct` needs the corrected content."""

    decision: Decision
    content: str | None = None
    by: str = Field("user", min_length=1, max_length=256)


class JobsParams(QueryParams):
    state: JobState | None = None
    limit: int = Field(100, ge=1, le=10_000)


class RetryBody(Body):
    """The number of a failed job; null: all of them."""

    number: int | None = Field(None, ge=1, le=2**53)


@router.get("/review", operation_id="review_list", response_model=ReviewsSchema)
async def list_reviews(caller: CurrentCaller, params: Annotated[ReviewParams, Query()]) -> Response:
    """Review items, oldest first."""
    caller.require(READ, person=_REVIEW)
    review = caller.memory.review
    return json_response({
        "items": await caller.run(lambda: review.list(state=params.state, limit=params.limit, after=params.after))
    })  # fmt: skip


@router.post("/review/{number}", operation_id="review_resolve", response_model=Receipt, responses=problems(404, 409, 413))
async def resolve_review(caller: CurrentCaller, number: Number, body: ResolveBody) -> Response:
    """Decide a review item: keep, correct or retire the memory."""
    caller.require(WRITE, person=_REVIEW)
    review = caller.memory.review
    receipt = await caller.run(lambda: review.resolve(number, body.decision, content=body.content, by=body.by))
    require_stored(receipt)
    return json_response(receipt)


@router.get("/jobs", operation_id="jobs_list", response_model=JobsSchema, tags=["jobs"])
async def list_jobs(caller: CurrentCaller, params: Annotated[JobsParams, Query()]) -> Response:
    """Waiting, running and failed jobs, oldest first."""
    caller.require(READ)
    jobs = caller.memory.jobs
    return json_response({"jobs": await caller.run(lambda: jobs.list(state=params.state, limit=params.limit))})


@router.post("/jobs/run", operation_id="jobs_run", response_model=WorkReport, tags=["jobs"])
async def run_jobs(caller: CurrentCaller) -> Response:
    """Run the scope's waiting jobs now."""
    caller.require(WRITE, person=_JOBS)
    return json_response(await caller.run(caller.memory.jobs.run))


@router.post("/jobs/retry", operation_id="jobs_retry", response_model=CountSchema, responses=problems(404), tags=["jobs"])
async def retry_jobs(caller: CurrentCaller, body: RetryBody | None = None) -> Response:
    """Queue one failed job, or all of them, again."""
    caller.require(WRITE, person=_JOBS)
    return json_response({"count": await caller.run(caller.memory.jobs.retry, None if body is None else body.number)})


@router.delete("/jobs/{number:int}", operation_id="jobs_drop", response_model=EmptySchema, responses=problems(404), tags=["jobs"])
async def drop_job(caller: CurrentCaller, number: Number) -> Response:
    """Remove a job from the queue. Its messages are kept."""
    caller.require(WRITE, person=_JOBS)
    await caller.run(caller.memory.jobs.drop, number)
    return json_response({})
