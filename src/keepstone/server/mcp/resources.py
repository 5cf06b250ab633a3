"""The MCP resources, which a person can attach for a model, and the recall prompt.

They never contain quarantined memories: those wait for a person, and the reader is a model.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from mcp_types import GetPromptResult, Prompt, PromptArgument, PromptMessage, Resource, ResourceTemplate, TextContent

from keepstone.agent.handlers import NOTE, memory_not_found
from keepstone.agent.tools import MAX_RECALLED, RECALL
from keepstone.errors import NotFound, ValidationError
from keepstone.memory import Memory
from keepstone.ports.maintenance import ReviewItem
from keepstone.ports.serialize import document
from keepstone.recall.render import CLOSE, OPEN, render_line
from keepstone.server.identity import READ
from keepstone.server.mcp.caller import McpCaller
from keepstone.types import Record

PROFILE, RECENT, REVIEW = "memory://profile", "memory://recent", "memory://review"
_MEMORY_PREFIX = "memory://memory/"
_TEXT, _JSON = "text/plain", "application/json"
_PROFILE_TAGS = frozenset({"profile", "preference", "preferences"})  # these come first
_MAX_PROFILE_CHARS = 16_000
_MAX_PROFILE_RECORDS = 100  # of each kind
_MAX_REVIEWS = 50
_RESOURCES = (
    Resource(
        uri=PROFILE, name="profile", title="Profile", mime_type=_TEXT,
        description="What is known about the user: preferences, settings and facts, one per line.",
    ),
    Resource(
        uri=RECENT, name="recent", title="Recent memories", mime_type=_JSON,
        description=f"The {MAX_RECALLED} last updated memories.",
    ),
    Resource(
        uri=REVIEW, name="review", title="Review list", mime_type=_JSON,
        description="Memories that a person should review: contradicted, stale, unsupported or quarantined.",
    ),
)  # fmt: skip
TEMPLATE = ResourceTemplate(
    uri_template=_MEMORY_PREFIX + "{id}", name="memory", title="A memory", mime_type=_JSON,
    description="One memory by its id, with its source, trust, times and version.",
)  # fmt: skip


PROMPT = "recall"
_PROMPT_TITLE = "Recall what matters for a question"
_PROMPT = Prompt(
    name=PROMPT,
    title=_PROMPT_TITLE,
    description="Start with what is remembered: the rules of the memory, the tags in use, and what is known about a question.",
    arguments=[
        PromptArgument(name="query", description="What you want to talk about or do.", required=True),
        PromptArgument(name="task", description="What the model is to do then; default: answer the question.", required=False),
    ],
)


# -- resources -----------------------------------------------------------------------------------------------------------------
def list_resources(caller: McpCaller) -> list[Resource]:
    """The resources that the caller may read."""
    if READ not in caller.rights:
        return []
    return [resource for resource in _RESOURCES if caller.person or resource.uri != REVIEW]


def read_resource(caller: McpCaller, uri: str) -> tuple[str, str]:
    """(text, media type) of a resource. Raises NotFound, Forbidden, StoreError."""
    caller.require(READ, person="the review list" if uri == REVIEW else None)
    memory = caller.memory
    if uri == PROFILE:
        return _profile(caller), _TEXT
    if uri == RECENT:
        return _to_json(memory.call_tool(RECALL, {"limit": MAX_RECALLED})), _JSON
    if uri == REVIEW:
        items = memory.review.list(limit=_MAX_REVIEWS)
        return _to_json({"items": [_review_item(item) for item in items], "note": NOTE}), _JSON
    if uri.startswith(_MEMORY_PREFIX):
        return _to_json(document(_get_record(memory, unquote(uri.removeprefix(_MEMORY_PREFIX))))), _JSON
    raise NotFound(f"resource {uri!r:.120} does not exist: use {PROFILE}, {RECENT}, {REVIEW} or {TEMPLATE.uri_template}.")


def _to_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _get_record(memory: Memory, id: str) -> Record:
    record = memory.get(id)
    if record is None or record.status == "quarantined":
        raise memory_not_found(id)
    return record


def _profile(caller: McpCaller) -> str:
    """Preferences first, then the most important memories, up to a length; fenced as in a prompt. They count as read."""
    memory = caller.memory
    records = [record for kind in ("value", "fact") for record in memory.list(kind=kind, limit=_MAX_PROFILE_RECORDS)]
    records.sort(
        key=lambda record: (record.tag not in _PROFILE_TAGS, -record.importance, -record.updated_at.timestamp(), record.id)
    )
    lines: dict[str, str] = {}
    chars_left = _MAX_PROFILE_CHARS
    for record in records:
        text = render_line(record)
        chars_left -= len(text)
        if chars_left < 0:
            break
        lines[record.id] = text
    caller.backend.count_reads(memory.scope, lines)
    return "\n".join([OPEN, *lines.values(), CLOSE]) if lines else "Nothing is remembered about this user yet."


def _review_item(item: ReviewItem) -> dict[str, Any]:
    """An item of the review list, without the text of a quarantined memory."""
    fields: dict[str, Any] = {
        "number": item.number,
        "id": item.id,
        "flag": item.flag,
        "reason": item.reason,
        "evidence": list(item.evidence),
        "at": item.at.isoformat(timespec="seconds"),
    }
    if item.record is not None:
        quarantined = item.record.status == "quarantined"
        fields |= {"tag": item.record.tag, "source": item.record.source}
        fields["content"] = "(quarantined: 'keepstone review' shows it)" if quarantined else item.record.content
    return fields


# -- the prompt ----------------------------------------------------------------------------------------------------------------
def list_prompts(caller: McpCaller) -> list[Prompt]:
    """The prompts that the caller may use."""
    return [_PROMPT] if READ in caller.rights else []


def get_prompt(caller: McpCaller, name: str, arguments: Mapping[str, str]) -> GetPromptResult:
    """The messages of a prompt. Raises NotFound, ValidationError, Forbidden, StoreError."""
    if name != PROMPT:
        raise NotFound(f"prompt {name!r:.60} does not exist: use {PROMPT}.")
    caller.require(READ)
    query, task = arguments.get("query", ""), arguments.get("task", "")
    if not query.strip():
        raise ValidationError(f"the prompt {PROMPT} needs 'query': what you want to talk about or do.")
    texts = [caller.memory.system_prompt(query), task if task.strip() else query]
    return GetPromptResult(
        description=_PROMPT_TITLE,
        messages=[PromptMessage(role="user", content=TextContent(text=text)) for text in texts],
    )
