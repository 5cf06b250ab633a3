"""The resources: what a person can hand to a model as a whole.

What lies in quarantine is in none of them, whoever asks: it waits for a person, and who reads here is a model.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from mcp_types import Resource, ResourceTemplate

from keepstone.agent.handlers import NOTE
from keepstone.agent.tools import MOST_RECALLED, RECALL
from keepstone.errors import NotFound
from keepstone.memory import Memory
from keepstone.ports.maintenance import ReviewItem
from keepstone.ports.serialize import document
from keepstone.recall.render import CLOSE, OPEN, render_line
from keepstone.server.identity import READ
from keepstone.server.mcp.caller import Asker
from keepstone.types import Record

PROFILE, RECENT, REVIEW = "memory://profile", "memory://recent", "memory://review"
_ONE = "memory://memory/"
_TEXT, _JSON = "text/plain", "application/json"
_FIRST = frozenset({"profile", "preference", "preferences"})  # tags of what a profile begins with
_ROOM = 16_000  # characters of a profile
_PAGE = 100
_REVIEWS = 50
_RESOURCES = (
    Resource(
        uri=PROFILE, name="profile", title="Profile", mime_type=_TEXT,
        description="What is known about the user: preferences, settings and facts, one a line.",
    ),
    Resource(
        uri=RECENT, name="recent", title="Recent memories", mime_type=_JSON,
        description=f"The {MOST_RECALLED} memories that were last updated.",
    ),
    Resource(
        uri=REVIEW, name="review", title="Waiting for a review", mime_type=_JSON,
        description="Memories that a person should look at: contradicted, stale, unsupported, in quarantine.",
    ),
)  # fmt: skip
TEMPLATE = ResourceTemplate(
    uri_template=_ONE + "{id}", name="memory", title="A memory", mime_type=_JSON,
    description="One memory by its id, with its source, trust, times and version.",
)  # fmt: skip


def offered(asker: Asker) -> list[Resource]:
    """The resources that somebody may read."""
    if READ not in asker.rights:
        return []
    return [each for each in _RESOURCES if asker.person or each.uri != REVIEW]


def read(asker: Asker, uri: str) -> tuple[str, str]:
    """(the text, its type) of a resource. Raises NotFound, Forbidden, StoreError."""
    asker.need(READ, person="the review list" if uri == REVIEW else None)
    memory = asker.memory
    if uri == PROFILE:
        return _profile(memory), _TEXT
    if uri == RECENT:
        return _json(memory.call_tool(RECALL, {"limit": MOST_RECALLED})), _JSON
    if uri == REVIEW:
        items = memory.review.list(limit=_REVIEWS)
        return _json({"items": [_reviewed(item) for item in items], "note": NOTE}), _JSON
    if uri.startswith(_ONE):
        return _json(document(_record(memory, unquote(uri.removeprefix(_ONE))))), _JSON
    raise NotFound(f"there is no resource {uri!r:.120}: use {PROFILE}, {RECENT}, {REVIEW} or {TEMPLATE.uri_template}.")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)


def _record(memory: Memory, id: str) -> Record:
    record = memory.get(id)
    if record is None or record.status == "quarantined":
        raise NotFound(f"there is no memory {id!r:.80}: use an id that recall_memory gave.")
    return record


def _profile(memory: Memory) -> str:
    """Preferences first, then what matters most, as much as fits; fenced, as in every prompt."""
    records = [record for kind in ("value", "fact") for record in memory.list(kind=kind, limit=_PAGE)]
    records.sort(key=lambda each: (each.tag not in _FIRST, -each.importance, -each.updated_at.timestamp(), each.id))
    lines: list[str] = []
    room = _ROOM
    for record in records:
        text = render_line(record)
        room -= len(text)
        if room < 0:
            break
        lines.append(text)
    return "\n".join([OPEN, *lines, CLOSE]) if lines else "Nothing is remembered about this user yet."


def _reviewed(item: ReviewItem) -> dict[str, Any]:
    """An item of the review list; the text of what is in quarantine stays there."""
    shown: dict[str, Any] = {
        "number": item.number,
        "id": item.id,
        "flag": item.flag,
        "reason": item.reason,
        "evidence": list(item.evidence),
        "at": item.at.isoformat(timespec="seconds"),
    }
    if item.record is not None:
        closed = item.record.status == "quarantined"
        shown |= {"tag": item.record.tag, "source": item.record.source}
        shown["content"] = "(in quarantine: 'keepstone review' shows it)" if closed else item.record.content
    return shown
