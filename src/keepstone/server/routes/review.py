"""The review list: what a person should look at, and what they decide."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query
from pydantic import Field
from starlette.responses import Response

from keepstone.maintenance.review import Decision
from keepstone.ports.maintenance import ReviewState
from keepstone.server.identity import READ, WRITE
from keepstone.server.responses import Asked, Asking, Given, also, answer, group, written
from keepstone.server.shapes_keeping import ReviewsShape
from keepstone.types import Receipt

router = group("review")
_PERSON = "the review list"


class ReviewAsked(Asked):
    """Which items; `after` is the number of the last one that was seen."""

    state: ReviewState = "open"
    limit: int = Field(100, ge=1, le=10_000)
    after: int = Field(0, ge=0, le=2**53)


class ResolveRequest(Given):
    """A decision; correct needs the content that the memory should have."""

    decision: Decision
    content: str | None = None
    by: str = Field("user", min_length=1, max_length=256)


@router.get("/review", operation_id="review_list", response_model=ReviewsShape)
async def list_(asking: Asking, given: Annotated[ReviewAsked, Query()]) -> Response:
    """What waits for a decision, or was decided, oldest first."""
    asking.need(READ, person=_PERSON)
    review = asking.memory.review
    return answer({"items": await asking.run(lambda: review.list(state=given.state, limit=given.limit, after=given.after))})


@router.post("/review/{number}", operation_id="review_resolve", response_model=Receipt, responses=also(404, 409, 413))
async def resolve(asking: Asking, number: Annotated[int, Path(ge=1, le=2**53)], given: ResolveRequest) -> Response:
    """Decide about one item: keep, correct or retire."""
    asking.need(WRITE, person=_PERSON)
    review = asking.memory.review
    receipt = await asking.run(lambda: review.resolve(number, given.decision, content=given.content, by=given.by))
    return written(receipt) if receipt.action == "refused" else answer(receipt)
