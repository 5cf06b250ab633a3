"""The shapes of answers about keeping, governing and administering, for the OpenAPI document."""

from __future__ import annotations

from datetime import date, datetime

from pydantic import BaseModel, Field

from keepstone.ports.maintenance import ArchivedRecord, ReviewItem
from keepstone.ports.queue import Job
from keepstone.types import AuditRow, Scope


class IdsShape(BaseModel):
    ids: list[str]


class CountShape(BaseModel):
    count: int


class NothingShape(BaseModel):
    """There is nothing more to say."""


class AsidesShape(BaseModel):
    archived: list[ArchivedRecord]


class ReviewsShape(BaseModel):
    items: list[ReviewItem]


class JobsShape(BaseModel):
    jobs: list[Job]


class AuditShape(BaseModel):
    """What was done, newest first."""

    rows: list[AuditRow]


class LineShape(BaseModel):
    """What is wrong with a line of a file."""

    line: int
    problem: str


class ImportShape(BaseModel):
    """What an import came to: where there are errors, nothing was stored."""

    added: int
    skipped: int
    errors: list[LineShape]


class IdentityShape(BaseModel):
    """A key without the key itself: who it stands for, and what it may do."""

    id: str
    name: str
    tenant: str
    agent: str | None = Field(description="The one agent it is bound to; null: any.")
    user: str | None = Field(description="Whose memory it is for; null: a service key that names the user itself.")
    service: bool
    rights: list[str]
    created_at: datetime
    expires_at: datetime | None
    rate: int | None = Field(description="Requests a minute; null: the server's setting.")


class MeShape(IdentityShape):
    """Who is asking, and whose memory is meant."""

    via: str = Field(description="key, or token.")
    scope: Scope


class KeysShape(BaseModel):
    keys: list[IdentityShape]


class NewKeyShape(BaseModel):
    """A new key: it is shown this once."""

    key: str
    identity: IdentityShape


class TagShape(BaseModel):
    tag: str
    count: int


class DayShape(BaseModel):
    """A day in UTC: how many records came that are there now, and how many of these there were at its end."""

    day: date
    added: int
    total: int


class StatsShape(BaseModel):
    """A scope in numbers."""

    records: int
    kinds: dict[str, int]
    tags: list[TagShape] = Field(description="The twelve largest.")
    growth: list[DayShape] = Field(description="Every one of the last days, oldest first.")
    reviews: int = Field(description="Open ones.")
    jobs: dict[str, int] = Field(description="How many are waiting, and how many have failed.")
    sessions: int
    quarantined: int
