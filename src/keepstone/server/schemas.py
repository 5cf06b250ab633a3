"""Response schemas for the OpenAPI document. Where a keepstone value is sent as it is, it is its own schema."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, create_model

from keepstone.types import Page, Recall, Record, Scope


def envelope(name: str, text: str = "", /, **fields: Any) -> type[BaseModel]:
    """The schema of an object with these fields."""
    definitions: Any = {field: (kind, ...) for field, kind in fields.items()}
    return create_model(name, __doc__=text or None, **definitions)


# -- memories --------------------------------------------------------------------------------------------------------------
class LessonSchema(BaseModel):
    """The outcome of a similar task."""

    id: str
    content: str
    reasons: list[str] = Field(description="Why it was recalled, in short.")
    record: Record
    score: float
    signals: dict[str, float] = Field(description="The parts of its score by name.")
    superseded_by: str | None = Field(description="A later record that probably replaces what this one says.")


class HitSchema(LessonSchema):
    """A recalled memory."""

    rank: int


class RecallSchema(BaseModel):
    """The hits of a recall, best first."""

    query: str
    hits: list[HitSchema]
    considered: int
    left_out: int
    notes: list[str]
    cut: list[str]
    confidence: float


class PageSchema(BaseModel):
    """Records, newest first; `cursor` is for the next page."""

    records: list[Record]
    cursor: str | None


# The schemas of results that are not sent as they are.
SCHEMAS: dict[type, type[BaseModel]] = {Recall: RecallSchema, Page: PageSchema}


class EmptySchema(BaseModel):
    """An empty object."""


class LineErrorSchema(BaseModel):
    """What is wrong with a line of a file."""

    line: int
    problem: str


class ImportSchema(BaseModel):
    """The result of an import; if there are errors, nothing was stored."""

    added: int
    skipped: int
    errors: list[LineErrorSchema]


# -- keys --------------------------------------------------------------------------------------------------------------------
class IdentitySchema(BaseModel):
    """A key's identity and rights, without the key."""

    id: str
    name: str
    tenant: str
    agent: str | None = Field(description="The agent it is bound to; null: any.")
    user: str | None = Field(description="The user it acts for; null: a service key, which names the user in each request.")
    service: bool
    rights: list[str]
    created_at: datetime
    expires_at: datetime | None
    rate: int | None = Field(description="Requests per minute; null: the server's setting.")


class MeSchema(IdentitySchema):
    """The caller, and the scope of its requests."""

    via: str = Field(description="key or token.")
    scope: Scope
