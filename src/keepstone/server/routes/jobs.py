"""Queued work of a scope: listed, run, retried, dropped."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from keepstone.learning.jobs import WorkReport
from keepstone.ports.queue import JobState
from keepstone.server.identity import READ, WRITE
from keepstone.server.responses import Asked, Asking, Given, also, answer, group
from keepstone.server.shapes_keeping import CountShape, JobsShape, NothingShape

router = group("jobs")
_PERSON = "queued work"


class JobsAsked(Asked):
    state: JobState | None = None
    limit: int = Field(100, ge=1, le=10_000)


class RetryRequest(Given):
    """One failed job; null: all of them."""

    number: int | None = Field(None, ge=1, le=2**53)


@router.get("/jobs", operation_id="jobs_list", response_model=JobsShape)
async def list_(asking: Asking, given: Annotated[JobsAsked, Query()]) -> Response:
    """Jobs that wait, run, or have been given up, oldest first."""
    asking.need(READ)
    jobs = asking.memory.jobs
    return answer({"jobs": await asking.run(lambda: jobs.list(state=given.state, limit=given.limit))})


@router.post("/jobs/run", operation_id="jobs_run", response_model=WorkReport)
async def run(asking: Asking) -> Response:
    """Work on everything that waits in this scope, now."""
    asking.need(WRITE, person=_PERSON)
    return answer(await asking.run(asking.memory.jobs.run))


@router.post("/jobs/retry", operation_id="jobs_retry", response_model=CountShape, responses=also(404))
async def retry(asking: Asking, given: RetryRequest | None = None) -> Response:
    """Let one failed job, or all, wait again."""
    asking.need(WRITE, person=_PERSON)
    return answer({"count": await asking.run(asking.memory.jobs.retry, None if given is None else given.number)})


@router.delete("/jobs/{number:int}", operation_id="jobs_drop", response_model=NothingShape, responses=also(404))
async def drop(asking: Asking, number: Annotated[int, Path(ge=1, le=2**53)]) -> Response:
    """Take a job out of the queue; its messages stay."""
    asking.need(WRITE, person=_PERSON)
    await asking.run(asking.memory.jobs.drop, number)
    return answer({})
