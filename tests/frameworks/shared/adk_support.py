"""What the tests of Google's ADK share: two users of an app, and events of theirs."""

from __future__ import annotations

from typing import Any

from google.adk.events.event import Event
from google.genai import types

DANA = {"app_name": "helpdesk", "user_id": "dana"}
EVE = {"app_name": "helpdesk", "user_id": "eve"}


def text_event(text: str, author: str = "user", **more: Any) -> Event:
    content = types.Content(role="user" if author == "user" else "model", parts=[types.Part(text=text)])
    return Event(author=author, content=content, **more)
