"""The shapes of answers, for the OpenAPI document. Made from keepstone's own values where those are what is sent."""

from __future__ import annotations

from pydantic import BaseModel, Field

from keepstone.types import Receipt, Record, Version


class HitShape(BaseModel):
    """A recalled memory."""

    rank: int
    id: str
    content: str
    reasons: list[str] = Field(description="Why it was recalled, in a few words.")
    record: Record
    score: float
    signals: dict[str, float] = Field(description="The parts of its score by name.")


class RecallShape(BaseModel):
    """What a recall found, best first."""

    query: str
    hits: list[HitShape]
    considered: int
    left_out: int
    notes: list[str]
    cut: list[str]


class PageShape(BaseModel):
    """Some records, newest first; `cursor` is for the next page."""

    records: list[Record]
    cursor: str | None


class ReceiptsShape(BaseModel):
    receipts: list[Receipt]


class VersionsShape(BaseModel):
    id: str
    versions: list[Version]


class ContextShape(BaseModel):
    query: str
    context: str
