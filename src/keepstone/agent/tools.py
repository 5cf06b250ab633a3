"""The memory tools a model is given: names, descriptions, schemas, for Anthropic and OpenAI. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keepstone.errors import ConfigurationError

RECALL, WRITE, UPDATE, FORGET = "recall_memory", "write_memory", "update_memory", "forget_memory"
FORMATS = ("anthropic", "openai")
MAX_RECALLED = 20

_QUERY = {"type": "string", "description": "What you want to know, in a few words or as a question. Leave it out to list a tag."}
_ONLY_TAG = {"type": "string", "description": "Only memories with this tag."}
_LIMIT = {"type": "integer", "description": f"How many at most, 1 to {MAX_RECALLED}; 5 if left out."}
_TAG = {"type": "string", "description": "One short lower-case word for the topic; use a tag that exists where one fits."}
_CONTENT = {
    "type": "string",
    "description": "One fact in a sentence that stands by itself: who, what, exact names and numbers.",
}
_NEW_CONTENT = {"type": "string", "description": "The whole sentence as it should read now."}
_ID = {"type": "string", "description": "The id of the memory, as recall_memory gave it."}


def _tool(name: str, description: str, properties: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": dict(properties), "required": required, "additionalProperties": False}
    return {"name": name, "description": description, "input_schema": schema}


_TOOLS = {
    RECALL: _tool(
        RECALL,
        "Look up what is remembered from earlier conversations. Use it before you answer anything that may depend on the user, "
        "their preferences, or earlier work. Each memory comes with its id, tag, content and when it was last updated: of two "
        "that disagree, the newer one holds.",
        {"query": _QUERY, "tag": _ONLY_TAG, "limit": _LIMIT},
        [],
    ),
    WRITE: _tool(
        WRITE,
        "Remember one lasting fact for later conversations: a preference, a decision, a fact about the user or their work, a "
        "lesson. Not for small talk, passing states, what you could look up, or secrets. If the fact changes something that is "
        "remembered, use update_memory instead.",
        {"tag": _TAG, "content": _CONTENT},
        ["tag", "content"],
    ),
    UPDATE: _tool(
        UPDATE,
        "Correct or complete a memory whose content is out of date. What it said before stays in its history.",
        {"id": _ID, "content": _NEW_CONTENT},
        ["id", "content"],
    ),
    FORGET: _tool(
        FORGET,
        "Erase one memory for good, only when the user asks for it.",
        {"id": _ID},
        ["id"],
    ),
}


def schemas(allow_forget: bool = False, format: str = "anthropic") -> list[dict[str, Any]]:
    """The tools in a provider's shape; forgetting only where it is allowed.

    >>> [tool["name"] for tool in schemas()]
    ['recall_memory', 'write_memory', 'update_memory']
    """
    if format not in FORMATS:
        raise ConfigurationError(f"there is no tool format {format!r:.40}: use {' or '.join(FORMATS)}.")
    chosen = [tool for name, tool in _TOOLS.items() if allow_forget or name != FORGET]
    if format == "anthropic":
        return [{**tool} for tool in chosen]
    return [
        {
            "type": "function",
            "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]},
        }
        for tool in chosen
    ]
