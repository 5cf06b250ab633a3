"""What a model is given to use a memory: the rules of remembering, and the tools with their schemas (`tools.json`)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keepstone.errors import ConfigurationError
from keepstone.ports.stores import Store
from keepstone.prompts import read_text
from keepstone.types import Scope

RECALL, WRITE, UPDATE, FORGET = "recall_memory", "write_memory", "update_memory", "forget_memory"
FORMATS = ("anthropic", "openai")
MAX_RECALLED = 20
MAX_TAGS = 40

RULES = read_text("remembering")
TASK = read_text("task")
PLAIN_TAG = re.compile(r"[\w-]{1,30}([ /:.][\w-]{1,30}){0,2}")
NO_TAGS = "No tags are in use yet. Choose short, lower-case ones: profile, preference, project, decision, lesson."
_TOOLS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("tools.json").read_text(encoding="utf-8"))


def schemas(allow_forget: bool = False, format: str = "anthropic") -> list[dict[str, Any]]:
    """The tools in a provider's shape; forgetting only where it is allowed.

    >>> [tool["name"] for tool in schemas()]
    ['recall_memory', 'write_memory', 'update_memory']
    """
    if format not in FORMATS:
        raise ConfigurationError(f"there is no tool format {format!r:.40}: use {' or '.join(FORMATS)}.")
    chosen = [tool for tool in _TOOLS if allow_forget or tool["name"] != FORGET]
    if format == "anthropic":
        return [{**tool} for tool in chosen]
    return [
        {
            "type": "function",
            "function": {"name": tool["name"], "description": tool["description"], "parameters": tool["input_schema"]},
        }
        for tool in chosen
    ]


def tool_problem(name: Any, input: Any, allow_forget: bool) -> str | None:
    """What is wrong with a tool call before anything is looked up; None if nothing is."""
    known = (RECALL, WRITE, UPDATE, FORGET) if allow_forget else (RECALL, WRITE, UPDATE)
    if name not in known:
        return f"There is no tool {name!r:.60}: use {', '.join(known)}."
    if not isinstance(input, Mapping):
        return f"The input of {name} must be an object, got {type(input).__name__}."
    return None


def compose_rules(store: Store, scope: Scope) -> str:
    """The rules of remembering with the tags in use; the same from call to call until a new tag is used. A tag is named only if
    it is a few plain words: every writer of memories can choose one, and this part of a prompt is not fenced."""
    tags = sorted(tag for tag, _ in store.tags(scope, MAX_TAGS) if PLAIN_TAG.fullmatch(tag))
    return f"{RULES}\n\n" + (f"Tags in use: {', '.join(tags)}." if tags else NO_TAGS)
