"""Routes for recall, context, explanations, differences, the system prompt and the memory tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.agent import tools as agent_tools
from keepstone.errors import KeepstoneError, NotFound
from keepstone.maintenance.audit import Diff
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.routing import (
    Body,
    CurrentCaller,
    FailFastList,
    Json,
    QueryParams,
    api_router,
    json_response,
    problems,
)
from keepstone.server.schemas import ContextSchema, PromptSchema, RecallSchema, ToolsSchema
from keepstone.server.service import Caller
from keepstone.types import Explanation

router = api_router("recall")
_TOOL_RIGHTS = {
    agent_tools.RECALL: READ,
    agent_tools.WRITE: WRITE,
    agent_tools.UPDATE: WRITE,
    agent_tools.FORGET: FORGET,
}


class RecallBody(Body):
    """A query."""

    query: str
    limit: int = 5
    kinds: FailFastList[str] | None = None
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


class ContextBody(Body):
    """A query; `working` names a working memory to include."""

    query: str
    max_tokens: int = 1500
    working: str | None = None


class WhyBody(Body):
    """The query to explain."""

    query: str


class DiffParams(QueryParams):
    """Two times."""

    since: str
    until: str | None = None
    kinds: list[str] | None = None


class PromptBody(Body):
    """A query, or none; `working` names a working memory to include."""

    query: str = ""
    max_tokens: int = Field(1500, ge=1, le=10_000_000)
    working: str | None = None


class ToolsParams(QueryParams):
    """Whether to include the forget tool, and the format of the schemas."""

    allow_forget: bool = False
    format: Literal["anthropic", "openai"] = "anthropic"


class ToolCallBody(Body):
    """A model's call of a tool; `allow_forget` as in the request for the tools."""

    input: dict[str, Json] = Field(default_factory=dict)
    allow_forget: bool = False


@router.post("/recall", operation_id="recall", response_model=RecallSchema)
async def recall(caller: CurrentCaller, body: RecallBody) -> Response:
    """The memories that answer a query, best first, each with the parts of its score."""
    caller.require(READ)
    memory, arguments = caller.memory, dict(body)
    return json_response(await caller.compute(lambda: memory.recall(**arguments)))


@router.post("/context", operation_id="context", response_model=ContextSchema)
async def context(caller: CurrentCaller, body: ContextBody) -> Response:
    """What is known about a query as one block for a prompt: fenced, escaped, within a token budget."""
    caller.require(READ)
    return json_response({"query": body.query, "context": await caller.compute(_context, caller, body)})


def _context(caller: Caller, body: ContextBody) -> str:
    memory = caller.memory
    if body.working is not None:
        memory.working.restore(body.working)
    return memory.context(body.query, max_tokens=body.max_tokens)


@router.post("/memories/{id:path}/why", operation_id="why", response_model=Explanation, responses=problems(404))
async def why(caller: CurrentCaller, id: str, body: WhyBody) -> Response:
    """How a record scores for a query, part by part, and why it is recalled or not."""
    caller.require(READ)
    return json_response(await caller.compute(_why, caller, id, body.query))


def _why(caller: Caller, id: str, query: str) -> Explanation:
    caller.require_open(id)
    return caller.memory.why(query, id)


@router.get("/diff", operation_id="diff", response_model=Diff)
async def diff(caller: CurrentCaller, params: Annotated[DiffParams, Query()]) -> Response:
    """What was added, changed and removed between two times."""
    caller.require(READ)
    memory = caller.memory
    return json_response(await caller.run(lambda: memory.audit.diff(params.since, params.until, kinds=params.kinds)))


@router.post("/prompt", operation_id="system_prompt", response_model=PromptSchema, tags=["prompts"])
async def system_prompt(caller: CurrentCaller, body: PromptBody) -> Response:
    """The rules for a model with the memory tools and, with a query or a task, what is known about it."""
    caller.require(READ)
    return json_response({"prompt": await caller.run(_system_prompt, caller, body)})


def _system_prompt(caller: Caller, body: PromptBody) -> str:
    memory = caller.memory
    if body.working is not None:
        memory.working.restore(body.working)
    return memory.system_prompt(body.query, max_tokens=body.max_tokens)


@router.get("/tools", operation_id="tools", response_model=ToolsSchema, tags=["prompts"])
async def tools(caller: CurrentCaller, params: Annotated[ToolsParams, Query()]) -> Response:
    """The schemas of the memory tools for a model."""
    caller.require(READ)
    return json_response({"tools": caller.memory.tools(allow_forget=params.allow_forget, format=params.format)})


@router.post("/tools/{name}", operation_id="call_tool", response_model=dict[str, Json], responses=problems(404), tags=["prompts"])
async def call_tool(caller: CurrentCaller, name: str, body: ToolCallBody) -> Response:
    """Carry out a model's call of a memory tool. If its input is invalid, the result has an "error" for the model to read."""
    if name not in _TOOL_RIGHTS:
        raise NotFound(f"tool {name!r:.60} does not exist: use {', '.join(_TOOL_RIGHTS)}.")
    caller.require(_TOOL_RIGHTS[name])
    return json_response(await caller.run(_call_tool, caller, name, body))


def _call_tool(caller: Caller, name: str, body: ToolCallBody) -> Any:
    id = body.input.get("id")
    if name == agent_tools.FORGET and body.allow_forget and isinstance(id, str):
        try:
            caller.require_open(id)
        except KeepstoneError as error:  # in the form of the tool's own errors
            return {"error": str(error)}
    return caller.memory.call_tool(name, body.input, allow_forget=body.allow_forget)
