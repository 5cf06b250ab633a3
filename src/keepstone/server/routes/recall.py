"""Routes for recall, context, explanations, the system prompt and the memory tools."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from keepstone.agent.strategies import BOOT, GatheredMemory, Strategy
from keepstone.client.plans import Route, routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.errors import NotFound
from keepstone.memory import Memory
from keepstone.rights import READ, TOOLS
from keepstone.server.routing import FailFastList, Json, add_verb, api_router, operation, request_model
from keepstone.server.schemas import envelope
from keepstone.server.service import Caller

router = api_router("recall")


def _restore_working(caller: Caller, working: str | None) -> Memory:
    """The caller's memory with a saved working memory, if one is named."""
    memory = caller.memory
    if working is not None:
        memory.working.restore(working)
    return memory


def _context(caller: Caller, query: str, working: str | None, **arguments: Any) -> dict[str, Any]:
    block = _restore_working(caller, working).context(query, **arguments)
    return {"query": query, "context": str(block), "tokens": block.tokens, "ids": list(block.ids)}


def _system_prompt(caller: Caller, working: str | None, **arguments: Any) -> str:
    return _restore_working(caller, working).system_prompt(**arguments)


_VERBS = routes_of(RemoteVerbs)
_WORKING: Any = {"working": (str | None, Field(None, description="The name of a working memory to include."))}
_CONTEXT = Route(Memory.context, "POST", "/context", "context", rights=(READ,))
_PROMPT = Route(Memory.system_prompt, "POST", "/prompt", "system_prompt", "prompt", (READ,))
_ALSO = FailFastList[dict[Literal["tenant", "agent", "user"], str]] | None
_RecallBody = request_model(_VERBS["recall"], also=(_ALSO, None))
add_verb(router, _VERBS["recall"], model=_RecallBody, compute=True)
add_verb(router, _VERBS["why"], compute=True, statuses=(404,))
add_verb(
    router,
    _CONTEXT,
    _context,
    model=request_model(_CONTEXT, **_WORKING),
    compute=True,
    schema=envelope("ContextResult", query=str, context=str, tokens=int, ids=list[str]),
)
add_verb(router, _PROMPT, _system_prompt, model=request_model(_PROMPT, **_WORKING), tags=["prompts"])


@operation(
    router,
    "GET",
    "/tools",
    "tools",
    schema=envelope("ToolsResult", tools=list[dict[str, Json]]),
    result="tools",
    tags=["prompts"],
)
def list_tools(
    caller: Caller, allow_forget: bool = False, format: Literal["anthropic", "openai"] = "anthropic"
) -> list[dict[str, Any]]:
    """The schemas of the memory tools for a model; with the forget tool if it is allowed."""
    return caller.memory.tools(allow_forget=allow_forget, format=format)


@operation(router, "POST", "/tools/{name}", "call_tool", rights=(), schema=dict[str, Json], statuses=(404,), tags=["prompts"])
def call_tool(
    caller: Caller,
    name: str,
    input: dict[str, Json] = Field(default_factory=dict),
    allow_forget: bool = False,
    leave_out: list[str] = Field(default_factory=list, max_length=10_000, description="Ids that the model sees anyway."),
    session: str | None = Field(None, description="Where what it writes was said."),
    misled: bool = Field(False, description="The model has just read what waits for a review."),
) -> dict[str, Any]:
    """Carry out a model's call of a memory tool. If its input is invalid, the result has an "error" for the model to read."""
    if name not in TOOLS:
        raise NotFound(f"tool {name!r:.60} does not exist: use {', '.join(TOOLS)}.")
    options: dict[str, Any] = {"leave_out": leave_out, "session": session, "misled": misled}
    return caller.backend.call_tool(caller.scope, name, input, allow_forget=allow_forget, **options)


@operation(router, "POST", "/agent/prompt", "agent_prompt", schema=GatheredMemory, tags=["prompts"])
def agent_prompt(
    caller: Caller,
    text: str,
    session: str | None = Field(None, description="Where the user said the text; without one it is a task."),
    until: str | None = Field(None, description="The id of the message that was said."),
    name: Literal["tools", "buffer", "summary", "vector"] = "tools",
    boot: list[str] = Field(default_factory=lambda: list(BOOT), max_length=100),
    max_messages: int = Field(50, ge=1, le=10_000_000),
    window_tokens: int = Field(8000, ge=100, le=10_000_000),
    memory_tokens: int = Field(1500, ge=0, le=10_000_000),
    working: str | None = None,
) -> GatheredMemory:
    """What an agent's next request to its model shows of memory: the messages, the system prompt and the recalled block."""
    memory = _restore_working(caller, working)
    strategy = Strategy(name, tuple(boot), max_messages, window_tokens, memory_tokens)
    access = memory._agent_access()
    if session is None:
        return access.gather_for_task(strategy, text)
    return access.gather(strategy, text, session, access.model, until)
