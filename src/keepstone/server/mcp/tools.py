"""The MCP tools: the memory tools of keepstone's agents, and three more, whose schemas are in `tools.json`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ConfigDict, Field

from keepstone.agent import tools as agent
from keepstone.agent.handlers import NOTE
from keepstone.errors import ValidationError
from keepstone.memory import Memory
from keepstone.recall.query import check_int
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.mcp.caller import McpCaller
from keepstone.text.token_count import estimate_tokens
from keepstone.types import MESSAGE, Action, Record

CONTEXT, SEARCH, RATE = "memory_context", "search_conversations", "rate_memory"
COST_SESSION = "mcp"  # requests of a client over MCP have no session
_MIN_TOKENS, _DEFAULT_TOKENS, _MAX_TOKENS = 100, 1500, 20_000
_DEFAULT_MESSAGES = 10
_MAX_RESULT_CHARS = 16_000  # of all messages
_MAX_MESSAGE_CHARS = 2000
_MESSAGE_OVERHEAD_CHARS = 200


# -- results -------------------------------------------------------------------------------------------------------------------
class _Schema(BaseModel):
    """The schema of a result. Fields without a value are left out of results."""

    model_config = ConfigDict(extra="forbid")


class MemorySchema(_Schema):
    """One memory."""

    id: str
    tag: str
    content: str
    updated_at: str = Field(description="When it was last changed, in ISO 8601.")
    kind: str = Field(description="fact, note, value, summary, episode or message.")
    key: str = Field("", description="The key of a value.")
    said_by: str = Field("", description="The speaker of a message.")
    session: str = Field("", description="The conversation of a message.")
    said_at: str = Field("", description="The time of a message, in ISO 8601.")
    superseded_by: str = Field("", description="The id of a later memory that probably replaces what this one says.")


class RecallResult(_Schema):
    """The memories, best first, or those last updated."""

    memories: list[MemorySchema]
    note: str
    confidence: float | None = Field(None, description="The probability that one of them answers the query.")


class WriteResult(_Schema):
    """The outcome of a write."""

    action: Action
    reasons: list[str]
    id: str = Field("", description="The memory that holds the content; left out if nothing was stored.")
    memory: MemorySchema | None = Field(None, description="That memory.")
    retry_after_seconds: int = Field(0, description="When a write that a limit refused can be tried again.")
    may_replace: dict[str, float] = Field(
        default_factory=dict, description="Ids of earlier memories that this may replace, each with the probability."
    )


class ForgetResult(_Schema):
    """What was erased."""

    action: Literal["forgotten"]
    id: str
    erased: bool = Field(description="False if some bytes remain for now, in a log or a file that is being read.")


class RateResult(_Schema):
    """What became of the feedback."""

    action: Action
    id: str
    reasons: list[str]


class ContextResult(_Schema):
    """What is known about a question."""

    context: str = Field(description="The block for a prompt; empty if nothing is known.")
    tokens: int = Field(description="How many tokens it takes, estimated.")


class MessageSchema(_Schema):
    """One message of a conversation."""

    id: str
    content: str
    said_at: str = Field(description="The time of the message, in ISO 8601.")
    session: str = Field("", description="The conversation.")
    said_by: str = Field("", description="The speaker: a name, or a role.")


class SearchResult(_Schema):
    """The messages, best first."""

    messages: list[MessageSchema]
    note: str


# -- tools ---------------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class McpTool:
    """A tool and the right it needs."""

    tool: Tool
    right: str


def _make_tool(schema: Mapping[str, Any], title: str, right: str, result: type[BaseModel]) -> McpTool:
    hints = ToolAnnotations(
        title=title,
        read_only_hint=right == READ,
        destructive_hint=right == FORGET,
        idempotent_hint=True,  # a repeated write is a duplicate
        open_world_hint=False,
    )
    tool = Tool(
        name=schema["name"],
        title=title,
        description=schema["description"],
        input_schema=schema["input_schema"],
        output_schema=result.model_json_schema(),
        annotations=hints,
    )
    return McpTool(tool, right)


_OWN_TOOLS = json.loads(Path(__file__).with_name("tools.json").read_text(encoding="utf-8"))
_SCHEMAS = {schema["name"]: schema for schema in (*agent.schemas(allow_forget=True), *_OWN_TOOLS)}
TOOLS: dict[str, McpTool] = {
    tool.tool.name: tool
    for tool in (
        _make_tool(_SCHEMAS[agent.RECALL], "Recall memories", READ, RecallResult),
        _make_tool(_SCHEMAS[agent.WRITE], "Write a memory", WRITE, WriteResult),
        _make_tool(_SCHEMAS[agent.UPDATE], "Update a memory", WRITE, WriteResult),
        _make_tool(_SCHEMAS[agent.FORGET], "Forget a memory", FORGET, ForgetResult),
        _make_tool(_SCHEMAS[CONTEXT], "Context for a question", READ, ContextResult),
        _make_tool(_SCHEMAS[SEARCH], "Search conversations", READ, SearchResult),
        _make_tool(_SCHEMAS[RATE], "Rate a memory", WRITE, RateResult),
    )
}


def list_tools(caller: McpCaller) -> list[Tool]:
    """The tools that the caller may use."""
    return [tool.tool for tool in TOOLS.values() if tool.right in caller.rights]


def call_tool(caller: McpCaller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    """The result of a tool. Raises Forbidden, ValidationError, StoreError."""
    caller.require(TOOLS[name].right)
    result = _call_tool(caller, name, arguments)
    if TOOLS[name].right == READ and WRITE in caller.rights:
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        caller.memory.add_cost(COST_SESSION, recalled=estimate_tokens(text))
    return result


def _call_tool(caller: McpCaller, name: str, arguments: Mapping[str, Any]) -> CallToolResult:
    memory = caller.memory
    if name == CONTEXT:
        return _context(memory, arguments)
    if name == RATE:
        return _rate(memory, arguments)
    if name == SEARCH:
        return _result(_search(memory, arguments))
    result = memory.call_tool(name, arguments, allow_forget=FORGET in caller.rights)
    return error_result(result["error"]) if "error" in result else _result(result)


def error_result(message: str, **fields: Any) -> CallToolResult:
    """An error for the model to read."""
    return CallToolResult(content=[TextContent(text=message)], is_error=True, **fields)


def _result(value: Mapping[str, Any]) -> CallToolResult:
    """A result as data, and as text for clients that read text only. A refused write is an error."""
    data = _without_none(value)
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    if data.get("action") == "refused":
        return error_result(text, structured_content=data)
    return CallToolResult(content=[TextContent(text=text)], structured_content=data)


def _without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _without_none(item) for name, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, (list, tuple)) else value


def _context(memory: Memory, arguments: Mapping[str, Any]) -> CallToolResult:
    query, tokens = _text_argument(arguments, CONTEXT, "query"), arguments.get("max_tokens")
    max_tokens = check_int(_DEFAULT_TOKENS if tokens is None else tokens, "max_tokens", _MIN_TOKENS, _MAX_TOKENS)
    narrowed = {name: arguments.get(name) for name in ("limit", "kinds", "tag", "min_trust")}
    block = memory.context(query, max_tokens=max_tokens, **narrowed)
    text = TextContent(text=str(block) or "Nothing is remembered about this.")
    return CallToolResult(content=[text], structured_content={"context": str(block), "tokens": block.tokens})


def _rate(memory: Memory, arguments: Mapping[str, Any]) -> CallToolResult:
    id, helped = _text_argument(arguments, RATE, "id"), arguments.get("helped")
    if not isinstance(helped, bool):
        raise ValidationError(f"{RATE} needs 'helped': true or false.")
    receipt = memory.feedback(id, helped=helped)
    return _result({"action": receipt.action, "id": receipt.id, "reasons": receipt.reasons})


def _search(memory: Memory, arguments: Mapping[str, Any]) -> dict[str, Any]:
    words, limit = _text_argument(arguments, SEARCH, "words"), arguments.get("limit")
    limit = check_int(_DEFAULT_MESSAGES if limit is None else limit, "limit", 1, agent.MAX_RECALLED)
    messages: list[dict[str, Any]] = []
    chars_left = _MAX_RESULT_CHARS
    for hit in memory.recall(words, kinds=(MESSAGE,), session=arguments.get("session"), limit=limit):
        message = _message(hit.record)
        chars_left -= len(message["content"]) + _MESSAGE_OVERHEAD_CHARS
        if chars_left < 0 and messages:
            break
        messages.append(message)
    return {"messages": messages, "note": NOTE}


def _text_argument(arguments: Mapping[str, Any], tool: str, name: str) -> str:
    text = arguments.get(name)
    if not isinstance(text, str) or not text.strip():
        raise ValidationError(f"{tool} needs {name!r}: a few words, or a question.")
    return text


def _message(record: Record) -> dict[str, Any]:
    content = record.content
    return {
        "id": record.id,
        "content": content if len(content) <= _MAX_MESSAGE_CHARS else f"{content[:_MAX_MESSAGE_CHARS]}…",
        "said_at": record.occurred_at.isoformat(timespec="seconds"),
        "session": record.session,
        "said_by": record.name or record.role,
    }
