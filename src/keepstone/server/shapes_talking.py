"""The shapes of answers about talking and doing, for the OpenAPI document."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field, JsonValue

from keepstone.ports.queue import Session
from keepstone.types import Message, Receipt, Record


class ValueShape(BaseModel):
    """The value of a key; null is a value too."""

    key: str
    value: JsonValue


class ValuesShape(BaseModel):
    """The values of keys by key."""

    values: dict[str, JsonValue]


class SessionsShape(BaseModel):
    """Conversations, the last one spoken in first."""

    sessions: list[Session]


class ConversationShape(BaseModel):
    session: str
    messages: int = Field(description="How many there are; 0 where nothing was said.")


class MessagesShape(BaseModel):
    """Messages, oldest first."""

    messages: list[Message]


class MessagePageShape(MessagesShape):
    """Messages, oldest first; `cursor` is for the next page."""

    cursor: str | None


class MaybeReceiptShape(BaseModel):
    receipt: Receipt | None = Field(description="null where too little was said.")


class SaidShape(BaseModel):
    """A message of an exported conversation."""

    role: str
    content: str | list[dict[str, JsonValue]]
    name: str | None
    at: str | None
    metadata: dict[str, JsonValue]


class SummaryShape(BaseModel):
    """The summary of an exported conversation: its text, of how many messages it was made, and by whom."""

    text: str
    messages: int
    by: str


class ExportShape(BaseModel):
    """A whole conversation."""

    keepstone: Literal[1]
    session: str
    messages: list[SaidShape]
    summary: SummaryShape | None


class CountShape(BaseModel):
    messages: int = Field(description="How many were stored.")


class WorkingShape(BaseModel):
    """What is in hand."""

    task: str | None
    task_id: str | None
    goal: str | None
    subgoals: list[str]
    results: dict[str, JsonValue]
    thoughts: list[str]
    variables: dict[str, JsonValue]
    steps: list[str]
    done: int
    step_ids: list[str]
    lessons: list[str]


class LessonShape(BaseModel):
    """What a similar task came to."""

    id: str
    content: str
    reasons: list[str]
    record: Record
    score: float
    signals: dict[str, float]


class TaskShape(BaseModel):
    """A task that has begun."""

    id: str
    task: str
    session: str
    lessons: list[LessonShape]
    working: WorkingShape


class StepShape(BaseModel):
    """What became of a step, and what is in hand after it."""

    receipt: Receipt
    working: WorkingShape


class DroppedShape(BaseModel):
    dropped: Literal[True]


class PromptShape(BaseModel):
    prompt: str


class ToolsShape(BaseModel):
    tools: list[dict[str, JsonValue]]
