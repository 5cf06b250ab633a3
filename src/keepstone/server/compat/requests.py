"""What mem0's client sends.

Everything that it can say and that means nothing here is taken and left alone; the guide lists it. What would widen an erasure is
refused instead: there no word is passed over.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from keepstone.errors import ValidationError
from keepstone.server.bodies import strict_json
from keepstone.server.compat.filters import ENTITIES
from keepstone.server.compat.shapes import SESSION
from keepstone.server.responses import Json, Many

_LONGEST = 4096  # characters of filters in an address
_AGES = timedelta(days=36_500)
_UNHEARD = frozenset(("org_id", "project_id", "version", "output_format", "api_version"))


class Sent(BaseModel):
    """A body: what is known is checked, the rest is left alone."""

    model_config = ConfigDict(extra="ignore", strict=True)


class Named(Sent):
    """Whose memory is meant: beside the other fields, or in filters."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    filters: dict[str, Json] | None = None

    def conditions(self) -> list[dict[str, Any]]:
        """As filters, all of which have to hold."""
        beside = [{name: getattr(self, name)} for name in ENTITIES if getattr(self, name) is not None]
        return [*beside, *([self.filters] if self.filters else [])]

    def names(self) -> dict[str, str | None]:
        """The names, each of which may be said once."""
        return named(self.filters or {}, {name: getattr(self, name) for name in ENTITIES})


class Said(Sent):
    """One message; None is what an assistant says that only calls tools."""

    role: str = "user"
    content: str | dict[str, Json] | Many[dict[str, Json]] | None = None
    name: str | None = None


class Add(Named):
    """Messages to remember."""

    messages: Many[Said] = Field(min_length=1, max_length=100)
    metadata: dict[str, Json] | None = None
    infer: bool | None = None
    timestamp: int | float | str | None = None
    expiration_date: str | None = None


class Search(Named):
    """A question."""

    query: str
    top_k: int | None = None
    limit: int | None = None
    threshold: float | None = None
    metadata: dict[str, Json] | None = None
    categories: Many[str] | None = None
    fields: Many[str] | None = None
    reference_date: int | str | None = None


class GetAll(Named):
    """Which memories to list."""

    categories: Many[str] | None = None
    start_date: str | None = None
    end_date: str | None = None


class Update(Sent):
    """What to change of a memory. An expiration_date that is None is not the same as none."""

    text: str | None = None
    metadata: dict[str, Json] | None = None
    timestamp: int | float | str | None = None
    expiration_date: str | None = None


class Changed(Update):
    """One of several to change, or to erase."""

    memory_id: str


class Batch(Sent):
    """Several memories."""

    memories: Many[Changed] = Field(min_length=1, max_length=1000)


def named(filters: Mapping[str, Any], beside: Mapping[str, Any]) -> dict[str, str | None]:
    """user_id and its like from filters and from beside them: plain names, and nothing else in the filters."""
    found = dict(beside)
    for name, value in filters.items():
        if name not in ENTITIES:
            raise ValidationError(f"filters hold {name!r:.60} here: name user_id, agent_id, app_id or run_id, and nothing else.")
        if found.get(name) not in (None, value):
            raise ValidationError(f"{name} is named twice, as two: name it once.")
        found[name] = value
    for name, value in found.items():
        if value is not None and (not isinstance(value, str) or not value.strip() or value.strip() == "*"):
            raise ValidationError(f"{name} must be one name here: nobody else's memory is meant by it.")
    if found["run_id"] == SESSION:
        raise ValidationError(f"run_id is {SESSION!r}, which is where everything without a run is kept: name another run.")
    return found


def swept(query: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Whose memory is to be erased, from an address. A word that is not known might have been meant to erase less: refused."""
    given: dict[str, str] = {}
    for name, value in query:
        if name in given:
            raise ValidationError(f"{name:.60} stands twice in the address: name it once.")
        if name not in (*ENTITIES, "filters") and name not in _UNHEARD:
            raise ValidationError(f"delete_all does not know {name!r:.60}: name user_id, agent_id, app_id or run_id only.")
        given[name] = value
    filters = _literal(given["filters"]) if given.get("filters") else {}
    found = named(filters, {name: given.get(name) for name in ENTITIES})
    if not any(found.values()):
        raise ValidationError("delete_all names nobody: say whose memories are to be erased, by user_id, agent_id or run_id.")
    return found


def _literal(text: str) -> dict[str, Any]:
    """Filters in an address: JSON, or a dictionary as Python writes it, which is what the client sends."""
    found: Any = None
    if len(text) <= _LONGEST:
        try:
            found = strict_json(text.encode("utf-8", "replace"))
        except ValidationError:
            try:
                found = ast.literal_eval(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                found = None
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ValidationError("filters in the address cannot be read: name user_id, agent_id, app_id or run_id beside them.")
    return found


def instant(value: int | float | str | None, what: str) -> datetime | str | None:
    """When something was said: seconds since 1970, or ISO 8601."""
    if isinstance(value, str) and not value.strip().lstrip("-").replace(".", "", 1).isdecimal():
        return value
    if value is None or isinstance(value, bool):
        return None
    try:
        return datetime.fromtimestamp(float(value), UTC)
    except (OverflowError, OSError, ValueError):
        raise ValidationError(f"{what} is {value!r:.40}: use seconds since 1970, or ISO 8601.") from None


def lifetime(day: str, now: datetime) -> timedelta:
    """How long a memory lives that is to be gone after a day."""
    try:
        last = date.fromisoformat(day.strip()[:10])
    except ValueError:
        raise ValidationError(f"expiration_date is {day!r:.40}: use a date such as 2030-12-31.") from None
    end = datetime(last.year, last.month, last.day, tzinfo=UTC)
    left = end - now
    if left > _AGES:
        raise ValidationError(f"expiration_date {day:.40} is more than 100 years ahead: leave it out for what is to stay.")
    if left <= timedelta(days=-1):
        raise ValidationError(f"expiration_date {day:.40} has passed: leave it out, or name a day to come.")
    return left + timedelta(days=1)
