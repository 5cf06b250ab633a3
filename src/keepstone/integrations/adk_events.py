"""Events of the ADK as turns, and back: exactly, with what they say to be found by."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from pydantic_core import to_jsonable_python

from keepstone.integrations.coerce import named, plain
from keepstone.integrations.message_items import Turn

OF = "adk"
_PLAIN = str.maketrans("-_", "+/")


def scoped(memory: Any, app_name: str, user_id: str | None) -> Any:
    """The memory of one user of one app; without a user, what all users of the app share."""
    given: Any = plain(memory)
    return given.with_scope(agent=named(app_name), user="" if user_id is None else named(user_id))


def json_of(value: Any) -> Any:
    """A value as JSON data: dates and models as JSON has them, and what has no such form as its text."""
    return to_jsonable_python(value, fallback=repr, inf_nan_mode="null")


def turn_of(event: Event, value: Mapping[str, Any], labels: Mapping[str, Any]) -> Turn:
    """An event as it is kept: what a user or an agent said by its words, everything else as a step."""
    by_user = event.author == "user"
    tool = event.content is not None and any(part.function_response for part in event.content.parts or ())
    return Turn(
        "user" if by_user else "tool" if tool else "assistant",
        said(event.content),
        {**value, "event": _plain_bytes(json_of(event.model_dump(mode="json", exclude_defaults=True)))},
        name=None if by_user or not event.author else named(event.author),
        at=time_of(event.timestamp),
        labels=labels,
    )


def event_of(turn: Turn) -> Event:
    """The event that a turn holds."""
    return Event.model_validate(turn.value["event"])


def said(content: types.Content | None) -> str:
    """The words of a content; thoughts are not said."""
    parts = (content.parts if content is not None else None) or ()
    return "\n".join(part.text for part in parts if part.text and not part.thought)


def time_of(timestamp: float) -> datetime | None:
    """When an event was; None for what is no time, which the event itself keeps."""
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def _plain_bytes(event: dict[str, Any]) -> dict[str, Any]:
    """An event with its images and signatures in plain base64, which is read as well: with "-" and "_" a piece of one may look
    like somebody's key, and would be taken out."""
    for part in (event.get("content") or {}).get("parts") or ():
        answered = (part.get("function_response") or {}).get("parts") or ()
        for each in (part, *answered):
            blob = each.get("inline_data") or {}
            for holder, name in ((each, "thought_signature"), (blob, "data")):
                if isinstance(holder.get(name), str):
                    holder[name] = holder[name].translate(_PLAIN)
    return event
