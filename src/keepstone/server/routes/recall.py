"""Routes for recall, context, explanations, the system prompt and the memory tools."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.agent import tools as agent_tools
from keepstone.client.plans import routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.errors import KeepstoneError, NotFound
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.routing import (
    Body,
    CurrentCaller,
    Json,
    QueryParams,
    add_verb,
    api_router,
    json_response,
    problems,
)
from keepstone.server.schemas import ContextSchema, PromptSchema, ToolsSchema
from keepstone.server.service import Caller
from keepstone.types import Explanation

router = api_router("recall")
_TOOL_RIGHTS = {
    agent_tools.RECALL: READ,
    agent_tools.WRITE: WRITE,
    agent_tools.UPDATE: WRITE,
    agent_tools.FORGET: FORGET,
}


class ContextBody(Body):
    """A query; `working` names a working memory to include."""

    query: str
    max_tokens: int = 1500
    working: str | None = None


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


def _why(caller: Caller, query: str, id: str) -> Explanation:
    caller.require_open(id)
    return caller.memory.why(query, id)


_VERBS = routes_of(RemoteVerbs)
add_verb(router, _VERBS["recall"], compute=True)
add_verb(router, _VERBS["why"], _why, compute=True, statuses=(404,))


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
