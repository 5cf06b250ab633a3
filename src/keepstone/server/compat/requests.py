"""The request bodies of mem0's client.

Unknown fields are ignored, as the guide says. Deletions refuse unknown parameters: one might have been meant to delete less.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from keepstone.errors import ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.compat.entries import DEFAULT_SESSION
from keepstone.server.compat.filters import ENTITIES
from keepstone.server.routing import FailFastList, Json

_MAX_FILTER_CHARS = 4096
_MAX_TTL = timedelta(days=36_500)
_IGNORED_PARAMS = frozenset(("org_id", "project_id", "version", "output_format", "api_version"))


class Mem0Body(BaseModel):
    """A body: known fields are checked, others ignored."""

    model_config = ConfigDict(extra="ignore", strict=True)


class NamedBody(Mem0Body):
    """A body that names users, agents, apps and runs, as fields or in filters."""

    user_id: str | None = None
    agent_id: str | None = None
    app_id: str | None = None
    run_id: str | None = None
    filters: dict[str, Json] | None = None

    def conditions(self) -> list[dict[str, Any]]:
        """The names and filters as conditions, all of which must hold."""
        names = [{name: getattr(self, name)} for name in ENTITIES if getattr(self, name) is not None]
        return [*names, *([self.filters] if self.filters else [])]

    def names(self) -> dict[str, str | None]:
        """The names; each may be given once."""
        return merge_names(self.filters or {}, {name: getattr(self, name) for name in ENTITIES})


class MessageBody(Mem0Body):
    """A message. The content is None if an assistant only calls tools."""

    role: str = "user"
    content: str | dict[str, Json] | FailFastList[dict[str, Json]] | None = None
    name: str | None = None


class AddBody(NamedBody):
    """Messages to remember."""

    messages: FailFastList[MessageBody] = Field(min_length=1, max_length=100)
    metadata: dict[str, Json] | None = None
    infer: bool | None = None
    timestamp: int | float | str | None = None
    expiration_date: str | None = None


class SearchBody(NamedBody):
    """A query."""

    query: str
    top_k: int | None = None
    limit: int | None = None
    threshold: float | None = None
    metadata: dict[str, Json] | None = None
    categories: FailFastList[str] | None = None
    fields: FailFastList[str] | None = None
    reference_date: int | str | None = None


class GetAllBody(NamedBody):
    """Which memories to list."""

    categories: FailFastList[str] | None = None
    start_date: str | None = None
    end_date: str | None = None


class UpdateBody(Mem0Body):
    """Changes to a memory. An expiration_date of null differs from a missing one."""

    text: str | None = None
    metadata: dict[str, Json] | None = None
    timestamp: int | float | str | None = None
    expiration_date: str | None = None


class BatchItem(UpdateBody):
    """A memory to change or to delete."""

    memory_id: str


class BatchBody(Mem0Body):
    """Several memories."""

    memories: FailFastList[BatchItem] = Field(min_length=1, max_length=1000)


def merge_names(filters: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, str | None]:
    """user_id and the like from filters and fields: plain names, and nothing else in the filters."""
    names = dict(fields)
    for name, value in filters.items():
        if name not in ENTITIES:
            raise ValidationError(f"filters hold {name!r:.60}: only user_id, agent_id, app_id and run_id are allowed here.")
        if names.get(name) not in (None, value):
            raise ValidationError(f"{name} is given twice with different values: give it once.")
        names[name] = value
    for name, value in names.items():
        if value is not None and (not isinstance(value, str) or not value.strip() or value.strip() == "*"):
            raise ValidationError(f"{name} must be one name here: give the name of one.")
    if names["run_id"] == DEFAULT_SESSION:
        raise ValidationError(f"run_id is {DEFAULT_SESSION!r}, which holds everything without a run: name another run.")
    return names


def parse_delete_query(query: Iterable[tuple[str, str]]) -> dict[str, str | None]:
    """Whose memories to delete, from a query string. An unknown parameter is refused: it might have been meant to delete less."""
    params: dict[str, str] = {}
    for name, value in query:
        if name in params:
            raise ValidationError(f"{name:.60} is given twice: give it once.")
        if name not in (*ENTITIES, "filters") and name not in _IGNORED_PARAMS:
            raise ValidationError(f"delete_all has no parameter {name!r:.60}: use user_id, agent_id, app_id or run_id.")
        params[name] = value
    filters = _parse_filters(params["filters"]) if params.get("filters") else {}
    names = merge_names(filters, {name: params.get(name) for name in ENTITIES})
    if not any(names.values()):
        raise ValidationError("delete_all names no owner: give user_id, agent_id, app_id or run_id.")
    return names


def _parse_filters(text: str) -> dict[str, Any]:
    """Filters in a query string: JSON, or a Python dictionary, which is what the client sends."""
    filters: Any = None
    if len(text) <= _MAX_FILTER_CHARS:
        try:
            filters = parse_json(text.encode("utf-8", "replace"))
        except ValidationError:
            try:
                filters = ast.literal_eval(text)
            except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
                filters = None
    if not isinstance(filters, dict) or not all(isinstance(name, str) for name in filters):
        raise ValidationError("the filters cannot be read: give user_id, agent_id, app_id or run_id as parameters.")
    return filters


def parse_time_value(value: int | float | str | None, name: str) -> datetime | str | None:
    """A time: seconds since 1970, or ISO 8601."""
    if isinstance(value, str) and not value.strip().lstrip("-").replace(".", "", 1).isdecimal():
        return value
    if value is None or isinstance(value, bool):
        return None
    try:
        return datetime.fromtimestamp(float(value), UTC)
    except (OverflowError, OSError, ValueError):
        raise ValidationError(f"{name} is {value!r:.40}: use seconds since 1970, or ISO 8601.") from None


def time_to_live(expiration_date: str, now: datetime) -> timedelta:
    """The time until the end of a day."""
    try:
        last = date.fromisoformat(expiration_date.strip()[:10])
    except ValueError:
        raise ValidationError(f"expiration_date is {expiration_date!r:.40}: use a date such as 2030-12-31.") from None
    left = datetime(last.year, last.month, last.day, tzinfo=UTC) - now
    if left > _MAX_TTL:
        raise ValidationError(f"expiration_date {expiration_date:.40} is more than 100 years ahead: leave it out to keep it.")
    if left <= timedelta(days=-1):
        raise ValidationError(f"expiration_date {expiration_date:.40} has passed: leave it out, or name a later day.")
    return left + timedelta(days=1)
