"""What mem0's client adds: messages that are kept, and the facts in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from keepstone.errors import ValidationError
from keepstone.server.compat.requests import Add, Said, instant, lifetime
from keepstone.server.compat.shapes import APP, SESSION, entry
from keepstone.server.compat.visiting import Visitor
from keepstone.server.responses import written
from keepstone.server.service import Caller
from keepstone.types import Receipt, Record
from keepstone.write.blocks import split_content

_EVENTS = {"added": "ADD", "redacted": "ADD", "merged": "UPDATE", "updated": "UPDATE", "superseded": "UPDATE"}


def add(visitor: Visitor, given: Add) -> dict[str, Any]:
    """Remember what was said, and say what became of it."""
    names = given.names()
    there = visitor.acting(names["user_id"], names["agent_id"])
    app = {} if names["app_id"] is None else {APP: names["app_id"]}
    metadata: dict[str, Any] = {**(given.metadata or {}), **app}
    spoken = [each for each in given.messages if each.content not in (None, "", [])]
    if not spoken:
        raise ValidationError("messages hold nothing that was said: give at least one of them a content.")
    began = there.service.engine.clock()
    at, session = instant(given.timestamp, "timestamp"), names["run_id"]
    if given.infer is False or given.expiration_date is not None:  # a message has no end: what has one is kept as it is
        life = None if given.expiration_date is None else lifetime(given.expiration_date, began)
        items = [_item(there, each, metadata, session, at, life) for each in spoken]
        receipts = there.memory.remember_many(items)
    else:
        said = [
            {"role": each.role, "content": _content(each), "name": each.name, "at": at, "metadata": metadata} for each in spoken
        ]
        learner = there.service.engine.learner
        receipts = learner.ingest(there.scope, said, SESSION if session is None else session, most=there.speaks_as)
    if all(receipt.action == "refused" for receipt in receipts):
        written(receipts[0])  # raises
    return {"results": _results(there, receipts, began), "status": "SUCCEEDED"}


def _content(said: Said) -> Any:
    return [said.content] if isinstance(said.content, dict) else said.content


def _item(there: Caller, said: Said, metadata: Mapping[str, Any], session: str | None, at: Any, life: Any) -> dict[str, Any]:
    """A message as a memory of its own."""
    source = there.source(None, "agent" if said.role == "assistant" else "tool" if said.role == "tool" else "user")
    text, _ = split_content(_content(said))
    item = {"content": text, "metadata": metadata, "source": source, "session": session, "occurred_at": at, "ttl": life}
    return {name: value for name, value in item.items() if value is not None}


def _results(there: Caller, receipts: Sequence[Receipt], began: datetime) -> list[dict[str, Any]]:
    """The facts that were found, and each message in which none were."""
    made: dict[str, dict[str, Any]] = {}
    for receipt in receipts:
        facts = [record for record in map(there.memory.get, receipt.learned) if record is not None]
        for fact in facts:
            made.setdefault(fact.id, _result(fact, _event(fact, began)))
        if not facts:
            record = None if receipt.id is None else there.memory.get(receipt.id)
            event = _EVENTS.get(receipt.action, "NONE")
            if record is not None and (record.status != "quarantined" or not there.identity.bound_to_agent):
                made.setdefault(record.id, _result(record, event, receipt.reasons))
            else:
                made[f"refused {len(made)}"] = {
                    "id": receipt.id,
                    "memory": None,
                    "event": event,
                    "reasons": list(receipt.reasons),
                }
    return list(made.values())


def _result(record: Record, event: str, reasons: Sequence[str] = ()) -> dict[str, Any]:
    told = {"reasons": list(reasons)} if reasons else {}
    return {**entry(record), "event": event, **told}


def _event(fact: Record, began: datetime) -> str:
    """What became of a fact: a request tells by when it began."""
    if fact.created_at >= began:
        return "ADD"
    return "UPDATE" if fact.updated_at >= began else "NONE"
