"""The tools: what is offered to whom, and what a call is answered with.

Names, descriptions, inputs and results of the memory tools are those that every agent of keepstone is given; looking up context
and conversations is added for clients that have no other way to them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel

from keepstone.agent import tools as agent
from keepstone.agent.handlers import NOTE
from keepstone.errors import NotFound, ValidationError
from keepstone.memory import Memory
from keepstone.recall.query import check_int
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.mcp.caller import Asker
from keepstone.server.mcp.shapes import Forgotten, Known, Recalled, Said, Written
from keepstone.types import MESSAGE, Record

CONTEXT, SEARCH = "memory_context", "search_conversations"
_TOKENS = (100, 1500, 20_000)  # of a context: least, usual, most
_ROOM = 16_000  # characters of all messages in one answer
_LONGEST = 2000  # characters of one


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool, the right it takes, and what it answers."""

    tool: Tool
    right: str
    shape: type[BaseModel]


def _offer(tool: Mapping[str, Any], title: str, right: str, shape: type[BaseModel], destructive: bool = False) -> Offer:
    reads = right == READ
    hints = ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=destructive,
        idempotent_hint=True,  # the same again is a duplicate, or changes nothing more
        open_world_hint=False,
    )
    made = Tool(
        name=tool["name"],
        title=title,
        description=tool["description"],
        input_schema=tool["input_schema"],
        output_schema=shape.model_json_schema(),
        annotations=hints,
    )
    return Offer(made, right, shape)


_CONTEXT = {
    "name": CONTEXT,
    "description": "What is known for a question, as one block of text for a prompt: facts, what was said, lessons of past "
    "tasks, each with its date and source, within a budget of tokens. Use it at the beginning of a task; use recall_memory for "
    "single memories with their ids.",
    "input_schema": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "The question or task, in a sentence."},
            "max_tokens": {
                "type": "integer",
                "description": f"How long the block may be, {_TOKENS[0]} to {_TOKENS[2]}; {_TOKENS[1]} if left out.",
            },
        },
        "required": ["query"],
        "additionalProperties": False,
    },
}
_SEARCH = {
    "name": SEARCH,
    "description": "Look up what was said in earlier conversations, in the words it was said in, with who said it, when, and in "
    "which session. Use it for exact wording or sources; use recall_memory for what is known.",
    "input_schema": {
        "type": "object",
        "properties": {
            "words": {"type": "string", "description": "What was said, in a few words or as a question."},
            "session": {"type": "string", "description": "Only this conversation."},
            "limit": {"type": "integer", "description": f"How many at most, 1 to {agent.MOST_RECALLED}; 10 if left out."},
        },
        "required": ["words"],
        "additionalProperties": False,
    },
}
_AGENT = {tool["name"]: tool for tool in agent.schemas(allow_forget=True)}
OFFERS: dict[str, Offer] = {
    offer.tool.name: offer
    for offer in (
        _offer(_AGENT[agent.RECALL], "Recall memories", READ, Recalled),
        _offer(_AGENT[agent.WRITE], "Write a memory", WRITE, Written),
        _offer(_AGENT[agent.UPDATE], "Update a memory", WRITE, Written),
        _offer(_AGENT[agent.FORGET], "Forget a memory", FORGET, Forgotten, destructive=True),
        _offer(_CONTEXT, "Context for a question", READ, Known),
        _offer(_SEARCH, "Search conversations", READ, Said),
    )
}


def offered(asker: Asker) -> list[Tool]:
    """The tools that somebody may use."""
    return [offer.tool for offer in OFFERS.values() if offer.right in asker.rights]


def called(asker: Asker, name: str, given: Mapping[str, Any]) -> CallToolResult:
    """The answer to a call of a tool there is. Raises Forbidden, ValidationError, StoreError."""
    asker.need(OFFERS[name].right)
    if name == CONTEXT:
        return _context(asker.memory, given)
    if name == SEARCH:
        return _answer(_said(asker.memory, given))
    if name == agent.FORGET and not asker.person:
        _open(asker.memory, given.get("id"))
    result = asker.memory.call_tool(name, given, allow_forget=FORGET in asker.rights)
    return failed(result["error"]) if "error" in result else _answer(result)


def _open(memory: Memory, id: Any) -> None:
    """NotFound for what is in quarantine: for an agent's key it is not there, nor to be erased by it."""
    record = memory.get(id) if isinstance(id, str) else None
    if record is not None and record.status == "quarantined":
        raise NotFound(f"there is no memory {id!r:.80}: use an id that recall_memory gave.")


def failed(said: str, **more: Any) -> CallToolResult:
    """What went wrong, for the model to read."""
    return CallToolResult(content=[TextContent(text=said)], is_error=True, **more)


def _answer(result: Mapping[str, Any]) -> CallToolResult:
    """A result as data, and as text for clients that read no data. A write that was refused is no success."""
    bare = _bare(result)
    text = json.dumps(bare, ensure_ascii=False, allow_nan=False)
    if bare.get("action") == "refused":
        return failed(text, structured_content=bare)
    return CallToolResult(content=[TextContent(text=text)], structured_content=bare)


def _bare(value: Any) -> Any:
    """A value without what is None in it."""
    if isinstance(value, Mapping):
        return {name: _bare(held) for name, held in value.items() if held is not None}
    return [_bare(each) for each in value] if isinstance(value, (list, tuple)) else value


# -- the two that an agent of keepstone does not need -------------------------------------------------------------
def _context(memory: Memory, given: Mapping[str, Any]) -> CallToolResult:
    query, most = _text(given, CONTEXT, "query"), given.get("max_tokens")
    block = memory.context(
        query, max_tokens=check_int(_TOKENS[1] if most is None else most, "max_tokens", _TOKENS[0], _TOKENS[2])
    )
    text = TextContent(text=block or "Nothing is remembered about this.")
    return CallToolResult(content=[text], structured_content={"context": block})


def _said(memory: Memory, given: Mapping[str, Any]) -> dict[str, Any]:
    words, session, limit = _text(given, SEARCH, "words"), given.get("session"), given.get("limit")
    limit = check_int(10 if limit is None else limit, "limit", 1, agent.MOST_RECALLED)
    shown: list[dict[str, Any]] = []
    room = _ROOM
    for hit in memory.recall(words, kinds=(MESSAGE,), session=session, limit=limit):
        each = _message(hit.record)
        room -= len(each["content"]) + 200
        if room < 0 and shown:
            break
        shown.append(each)
    return {"messages": shown, "note": NOTE}


def _text(given: Mapping[str, Any], tool: str, name: str) -> str:
    held = given.get(name)
    if not isinstance(held, str) or not held.strip():
        raise ValidationError(f"{tool} needs {name!r}: a few words, or a question.")
    return held


def _message(record: Record) -> dict[str, Any]:
    return {
        "id": record.id,
        "content": record.content if len(record.content) <= _LONGEST else f"{record.content[:_LONGEST]}…",
        "said_at": record.occurred_at.isoformat(timespec="seconds"),
        "session": record.session,
        "said_by": record.name or record.role,
    }
