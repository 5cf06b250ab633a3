"""recall, context, why, why not, diff."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from keepstone.maintenance.diff import Diff
from keepstone.server.identity import READ
from keepstone.server.responses import Asked, Asking, Given, Json, Many, also, answer, group
from keepstone.server.routes.memories import readable
from keepstone.server.service import Caller
from keepstone.server.shapes import ContextShape, RecallShape
from keepstone.types import Explanation

router = group("recall")


class RecallRequest(Given):
    """A question to the memory."""

    query: str
    limit: int = 5
    kinds: Many[str] | None = None
    tag: str | None = None
    filter: dict[str, Json] | None = None
    min_similarity: float | None = None
    min_importance: float = 0.0
    max_tokens: int | None = None
    as_of: str | None = None
    known_at: str | None = None
    min_trust: float | None = None
    session: str | None = None
    asked_at: str | None = None


class ContextRequest(Given):
    """A question to be answered with a block for a prompt; `working` names a working memory that is in hand."""

    query: str
    max_tokens: int = 1500
    working: str | None = None


class Why(Given):
    """The question that a record is held against."""

    query: str


class Between(Asked):
    """Two times."""

    since: str
    until: str | None = None
    kinds: list[str] | None = None


@router.post("/recall", operation_id="recall", response_model=RecallShape)
async def recall(asking: Asking, given: RecallRequest) -> Response:
    """The memories that answer a query, best first, each with the parts of its score."""
    asking.need(READ)
    arguments = dict(given)
    query = arguments.pop("query")
    memory = asking.memory
    return answer(await asking.compute(lambda: memory.recall(query, **arguments)))


@router.post("/context", operation_id="context", response_model=ContextShape)
async def context(asking: Asking, given: ContextRequest) -> Response:
    """What is known about a query as one block for a prompt: fenced, escaped, within the budget."""
    asking.need(READ)
    return answer({"query": given.query, "context": await asking.compute(_context, asking, given)})


def _context(asking: Caller, given: ContextRequest) -> str:
    memory = asking.memory
    if given.working is not None:
        memory.working.restore(given.working)
    return memory.context(given.query, max_tokens=given.max_tokens)


@router.post("/memories/{id:path}/why", operation_id="why", response_model=Explanation, responses=also(404))
async def why(asking: Asking, id: str, given: Why) -> Response:
    """How a record scores for a query, part by part, and what keeps it out where it is not recalled."""
    asking.need(READ)
    return answer(await asking.compute(_why, asking, id, given.query))


def _why(asking: Caller, id: str, query: str) -> Explanation:
    if asking.identity.bound_to_agent:
        readable(asking, asking.memory.get(id), id)
    return asking.memory.why(query, id)


@router.get("/diff", operation_id="diff", response_model=Diff)
async def diff(asking: Asking, given: Annotated[Between, Query()]) -> Response:
    """What came, changed and went between what was known at two times."""
    asking.need(READ)
    memory = asking.memory
    return answer(await asking.run(lambda: memory.audit.diff(given.since, given.until, kinds=given.kinds)))
