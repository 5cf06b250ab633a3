"""Records as mem0's client knows memories. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from keepstone.types import MESSAGE, Record, Version

SESSION = "mem0"  # of messages that came without a run_id
NO_AGENT = "default"
FACT = "fact"
APP = "app_id"  # where the metadata has it
_PLAIN = ("general", "note")  # tags that say nothing about what a memory is about
_LAST = timedelta(days=1)


def entry(record: Record, beneath: Mapping[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A record as a memory; `beneath` is the metadata of the messages that a fact was learned from."""
    metadata = {**(beneath or {}), **record.metadata}
    app = metadata.pop(APP, None)
    return {
        "id": record.id,
        "memory": record.content,
        "user_id": record.scope.user or None,
        "agent_id": None if record.scope.agent == NO_AGENT else record.scope.agent,
        "app_id": app,
        "run_id": None if record.session == SESSION else record.session,
        "metadata": metadata or None,
        "categories": [] if record.tag in _PLAIN else [record.tag],
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "expiration_date": None if record.expires_at is None else (record.expires_at - _LAST).date().isoformat(),
        "kind": record.kind,
        "role": record.role,
        **more,
    }


def moment(at: datetime) -> str:
    """A time as text that sorts as times do."""
    return at.isoformat(timespec="microseconds")


def document(record: Record) -> dict[str, Any]:
    """What filters look at: the fields of a memory that are set, and its own metadata alone."""
    return {name: value for name, value in entry(record).items() if value is not None and value != []}


def said(record: Record) -> bool:
    """Whether it is something that was said, rather than learned or stored."""
    return record.kind == MESSAGE


def learned(record: Record) -> bool:
    """Whether it stands for the words it rests on; a summary or a digest does not."""
    return record.kind == FACT


def history(id: str, versions: Sequence[Version], record: Record) -> list[dict[str, Any]]:
    """The versions of a record as mem0 tells of changes."""
    rows: list[dict[str, Any]] = []
    before: str | None = None
    for each in versions:
        rows.append(
            {
                "id": f"{id}:{each.version}",
                "memory_id": id,
                "old_memory": before,
                "new_memory": each.content,
                "event": "ADD" if before is None else "UPDATE",
                "metadata": dict(each.metadata) or None,
                "categories": [] if each.tag in _PLAIN else [each.tag],
                "user_id": record.scope.user or None,
                "created_at": moment(record.created_at),
                "updated_at": moment(each.known_from),
            }
        )
        before = each.content
    return rows
