"""Records in the form of mem0's memories. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from keepstone.types import Record, Version

DEFAULT_SESSION = "mem0"  # of messages without a run_id
DEFAULT_AGENT = "default"
FACT = "fact"  # stands for the messages it was learned from; a summary does not
APP_ID = "app_id"  # a field of mem0 that is kept in the metadata
_UNNAMED_TAGS = ("general", "note")  # tags that are no categories
_DAY = timedelta(days=1)


def make_entry(record: Record, source_metadata: Mapping[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A record as a memory; `source_metadata` is that of the messages a fact was learned from."""
    metadata = {**(source_metadata or {}), **record.metadata}
    app_id = metadata.pop(APP_ID, None)
    return {
        "id": record.id,
        "memory": record.content,
        "user_id": record.scope.user or None,
        "agent_id": None if record.scope.agent == DEFAULT_AGENT else record.scope.agent,
        "app_id": app_id,
        "run_id": None if record.session == DEFAULT_SESSION else record.session,
        "metadata": metadata or None,
        "categories": _categories(record.tag),
        "created_at": format_time(record.created_at),
        "updated_at": format_time(record.updated_at),
        "expiration_date": None if record.expires_at is None else (record.expires_at - _DAY).date().isoformat(),
        "kind": record.kind,
        "role": record.role,
        **fields,
    }


def filter_document(record: Record) -> dict[str, Any]:
    """The fields that filters match: those that are set, with the record's own metadata."""
    return {name: value for name, value in make_entry(record).items() if value is not None and value != []}


def make_history(id: str, versions: Sequence[Version], record: Record) -> list[dict[str, Any]]:
    """The versions of a record as mem0's list of changes."""
    return [
        {
            "id": f"{id}:{version.version}",
            "memory_id": id,
            "old_memory": before and before.content,
            "new_memory": version.content,
            "event": "UPDATE" if before else "ADD",
            "metadata": dict(version.metadata) or None,
            "categories": _categories(version.tag),
            "user_id": record.scope.user or None,
            "created_at": format_time(record.created_at),
            "updated_at": format_time(version.known_from),
        }
        for before, version in zip((None, *versions), versions, strict=False)
    ]


def _categories(tag: str) -> list[str]:
    return [] if tag in _UNNAMED_TAGS else [tag]


def format_time(at: datetime) -> str:
    """A time as text that sorts chronologically."""
    return at.isoformat(timespec="microseconds")
