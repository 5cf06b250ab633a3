"""What a model is given: the prompt, the memory tools, and the answers to its use of them."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from keepstone.agent.tools import FORGET as FORGET_TOOL
from keepstone.agent.tools import RECALL, UPDATE
from keepstone.agent.tools import WRITE as WRITE_TOOL
from keepstone.errors import KeepstoneError, NotFound
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.responses import Asked, Asking, Given, Json, also, answer, group
from keepstone.server.routes.memories import open_to
from keepstone.server.service import Caller
from keepstone.server.shapes_talking import PromptShape, ToolsShape

router = group("prompts")
_NEEDED = {RECALL: READ, WRITE_TOOL: WRITE, UPDATE: WRITE, FORGET_TOOL: FORGET}  # the right that each tool takes


class PromptRequest(Given):
    """What a prompt is for; `working` names a working memory that is in hand."""

    query: str = ""
    max_tokens: int = Field(1500, ge=1, le=10_000_000)
    working: str | None = None


class Offered(Asked):
    """Which tools, in whose shape."""

    allow_forget: bool = False
    format: Literal["anthropic", "openai"] = "anthropic"


class ToolCall(Given):
    """A model's use of a tool; `allow_forget` as it was asked of the tools."""

    input: dict[str, Json] = Field(default_factory=dict)
    allow_forget: bool = False


@router.post("/prompt", operation_id="system_prompt", response_model=PromptShape)
async def prompt(asking: Asking, given: PromptRequest) -> Response:
    """The rules of remembering for a model with the memory tools; with a query, or a task under way, what is known for it."""
    asking.need(READ)
    return answer({"prompt": await asking.run(_prompt, asking, given)})


def _prompt(asking: Caller, given: PromptRequest) -> str:
    memory = asking.memory
    if given.working is not None:
        memory.working.restore(given.working)
    return memory.system_prompt(given.query, max_tokens=given.max_tokens)


@router.get("/tools", operation_id="tools", response_model=ToolsShape)
async def tools(asking: Asking, given: Annotated[Offered, Query()]) -> Response:
    """The memory tools' schemas for a model."""
    asking.need(READ)
    return answer({"tools": asking.memory.tools(allow_forget=given.allow_forget, format=given.format)})


@router.post("/tools/{name}", operation_id="call_tool", response_model=dict[str, Json], responses=also(404))
async def call_tool(asking: Asking, name: str, given: ToolCall) -> Response:
    """Answer a model's use of a memory tool. What is wrong with its input is in the answer under "error", for it to read."""
    if name not in _NEEDED:
        raise NotFound(f"there is no tool {name!r:.60}: use {', '.join(_NEEDED)}.")
    asking.need(_NEEDED[name])
    return answer(await asking.run(_called, asking, name, given))


def _called(asking: Caller, name: str, given: ToolCall) -> Any:
    memory, id = asking.memory, given.input.get("id")
    if name == FORGET_TOOL and given.allow_forget and isinstance(id, str):
        try:
            open_to(asking, id)
        except KeepstoneError as error:  # as the tool tells its own
            return {"error": str(error)}
    return memory.call_tool(name, given.input, allow_forget=given.allow_forget)
