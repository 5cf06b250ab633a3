"""What the tools answer, as schemas for clients.

They describe what is sent, and tests hold one against the other; what has no value is left out.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from keepstone.types import Action


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class MemoryShape(_Shape):
    """One memory."""

    id: str
    tag: str
    content: str
    updated_at: str = Field(description="When it was last changed, in ISO 8601.")
    kind: str = Field(description="fact, note, value, summary, episode or message.")
    key: str = Field("", description="The name of a value.")
    said_by: str = Field("", description="Of a message: who said it.")
    session: str = Field("", description="Of a message: the conversation.")
    said_at: str = Field("", description="Of a message: when, in ISO 8601.")


class Recalled(_Shape):
    """The memories that were found, best first, or those last updated."""

    memories: list[MemoryShape]
    note: str


class Written(_Shape):
    """What became of a write."""

    action: Action
    reasons: list[str]
    id: str = Field("", description="The memory that now holds the content; left out where nothing was stored.")
    memory: MemoryShape | None = Field(None, description="That memory.")
    retry_after_seconds: int = Field(0, description="When a write that a limit refused can be tried again.")


class Forgotten(_Shape):
    """What was erased."""

    action: Literal["forgotten"]
    id: str
    erased: bool = Field(description="False where bytes are left for now, in a log or a file that is being read.")


class Known(_Shape):
    """What is known for a question."""

    context: str = Field(description="The block for a prompt; empty where nothing is known.")


class MessageShape(_Shape):
    """One message of a conversation."""

    id: str
    content: str
    said_at: str = Field(description="When it was said, in ISO 8601.")
    session: str = Field("", description="The conversation.")
    said_by: str = Field("", description="Who said it: a name, or a role.")


class Said(_Shape):
    """The messages that were found, best first."""

    messages: list[MessageShape]
    note: str
