"""The writing verbs of mem0's client: add, update, delete."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from keepstone.errors import NotFound, ValidationError
from keepstone.ports.filters import All, Condition
from keepstone.ports.values import ListQuery, Selector
from keepstone.rights import READ
from keepstone.server.compat.callers import Mem0Caller
from keepstone.server.compat.entries import APP_ID, DEFAULT_AGENT, DEFAULT_SESSION, FACT, make_entry
from keepstone.server.compat.filters import ENTITIES
from keepstone.server.compat.reads import get
from keepstone.server.compat.requests import (
    AddBody,
    BatchBody,
    MessageBody,
    UpdateBody,
    merge_names,
    parse_time_value,
    time_to_live,
)
from keepstone.server.routing import require_stored
from keepstone.server.service import Caller, no_record
from keepstone.text.times import now
from keepstone.types import MESSAGE, Receipt, Record
from keepstone.write.blocks import split_content
from keepstone.write.request import WriteRequest

_EVENTS = {"added": "ADD", "redacted": "ADD", "merged": "UPDATE", "updated": "UPDATE", "superseded": "UPDATE"}
_ROLE_SOURCES = {"assistant": "agent", "tool": "tool"}
_ENTITY_KINDS = ("user", "agent", "app", "run")


# -- add -----------------------------------------------------------------------------------------------------------------------
def add(mem0: Mem0Caller, body: AddBody) -> dict[str, Any]:
    """Remember messages; one result for each fact found, and for each message without one."""
    names = body.names()
    caller = mem0.acting_for(names["user_id"], names["agent_id"])
    app_id = {} if names["app_id"] is None else {APP_ID: names["app_id"]}
    metadata: dict[str, Any] = {**(body.metadata or {}), **app_id}
    messages = [message for message in body.messages if message.content not in (None, "", [])]
    if not messages:
        raise ValidationError("no message has content: give at least one of them a content.")
    start = caller.backend.now()
    at, session = parse_time_value(body.timestamp, "timestamp"), names["run_id"]
    if body.infer is False or body.expiration_date is not None:  # messages do not expire, so these are stored as memories
        ttl = None if body.expiration_date is None else time_to_live(body.expiration_date, start)
        receipts = caller.memory.remember_many([_as_memory(caller, one, metadata, session, at, ttl) for one in messages])
    else:
        documents = [
            {"role": message.role, "content": _content(message), "name": message.name, "at": at, "metadata": metadata}
            for message in messages
        ]
        session = DEFAULT_SESSION if session is None else session
        receipts = caller.backend.ingest(caller.scope, documents, session, caller.max_source)
    if all(receipt.action == "refused" for receipt in receipts):
        require_stored(receipts[0])
    return {"results": _results(caller, receipts, start), "status": "SUCCEEDED"}


def _content(message: MessageBody) -> Any:
    return [message.content] if isinstance(message.content, dict) else message.content


def _as_memory(
    caller: Caller,
    message: MessageBody,
    metadata: Mapping[str, Any],
    session: str | None,
    at: datetime | str | None,
    ttl: timedelta | None,
) -> dict[str, Any]:
    """A message as the arguments of remember."""
    text, _ = split_content(_content(message))
    source = caller.source(None, _ROLE_SOURCES.get(message.role, "user"))
    item = {"content": text, "metadata": metadata, "source": source, "session": session, "occurred_at": at, "ttl": ttl}
    return {name: value for name, value in item.items() if value is not None}


def _results(caller: Caller, receipts: Sequence[Receipt], start: datetime) -> list[dict[str, Any]]:
    results: dict[str, dict[str, Any]] = {}
    if not caller.identity.may(READ):
        return [{"id": receipt.id, "memory": None, "event": _EVENTS.get(receipt.action, "NONE")} for receipt in receipts]
    for receipt in receipts:
        facts = [record for record in map(caller.memory.get, receipt.learned) if record is not None]
        for fact in facts:
            results.setdefault(fact.id, {**make_entry(fact), "event": _fact_event(fact, start)})
        if facts:
            continue
        record = None if receipt.id is None else caller.memory.get(receipt.id)
        event, reasons = _EVENTS.get(receipt.action, "NONE"), list(receipt.reasons)
        if record is not None:
            results.setdefault(record.id, {**make_entry(record), "event": event} | ({"reasons": reasons} if reasons else {}))
        else:
            hidden = {"id": receipt.id, "memory": None, "event": event, "reasons": reasons}
            results[f"refused {len(results)}"] = hidden
    return list(results.values())


def _fact_event(fact: Record, start: datetime) -> str:
    """What happened to a fact since the start of the request."""
    if fact.created_at >= start:
        return "ADD"
    return "UPDATE" if fact.updated_at >= start else "NONE"


# -- update --------------------------------------------------------------------------------------------------------------------
def update(mem0: Mem0Caller, id: str, body: UpdateBody) -> dict[str, Any]:
    """Change a memory; earlier versions stay in its history."""
    _update(*_find(mem0, id), body)
    return get(mem0, id)


def update_many(mem0: Mem0Caller, body: BatchBody) -> dict[str, Any]:
    """Change several memories; none if one does not exist or cannot be changed."""
    records = [_find(mem0, item.memory_id) for item in body.memories]
    for (_, record), item in zip(records, body.memories, strict=True):
        _check_update(record, item)
    for (caller, record), item in zip(records, body.memories, strict=True):
        _update(caller, record, item)
    return {"message": f"Successfully updated {len(records)} memories"}


def _find(mem0: Mem0Caller, id: str) -> tuple[Caller, Record]:
    caller = mem0.holding(id)
    return caller, caller.find(id)


def _update(caller: Caller, record: Record, body: UpdateBody) -> None:
    _check_update(record, body)
    if body.text is None and body.metadata is None:
        return
    metadata = body.metadata
    if metadata is not None and APP_ID in record.metadata:
        metadata = {APP_ID: record.metadata[APP_ID], **metadata}
    at = parse_time_value(body.timestamp, "timestamp")
    require_stored(caller.backend.update(caller.scope, record.id, body.text, metadata=metadata, occurred_at=at))


def _check_update(record: Record, body: UpdateBody) -> None:
    """ValidationError for a change that cannot be stored."""
    names_expiry = "expiration_date" in body.model_fields_set
    if names_expiry and (body.expiration_date is not None or record.expires_at is not None):
        raise ValidationError("expiration_date cannot be changed: add the memory again with another one.")
    if body.text is None and body.metadata is None and not names_expiry:
        raise ValidationError("the update is empty: give text or metadata.")
    at = parse_time_value(body.timestamp, "timestamp")
    WriteRequest("x" if body.text is None else body.text, metadata=body.metadata, occurred_at=at).draft(now())


# -- delete --------------------------------------------------------------------------------------------------------------------
def _report(what: str, count: int) -> dict[str, Any]:
    return {"message": f"{what} deleted successfully!", "deleted": count}


def delete(mem0: Mem0Caller, id: str) -> dict[str, Any]:
    """Erase a memory."""
    return _report("Memory", _erase(*_find_kind(mem0, id)))


def delete_many(mem0: Mem0Caller, body: BatchBody) -> dict[str, Any]:
    """Erase several memories; none if one does not exist."""
    found = {item.memory_id: _find_kind(mem0, item.memory_id) for item in body.memories}
    for caller, id, kind in found.values():
        with contextlib.suppress(NotFound):  # erased with an earlier one
            _erase(caller, id, kind)
    return {"message": f"Successfully deleted {len(found)} memories"}


def _find_kind(mem0: Mem0Caller, id: str) -> tuple[Caller, str, str]:
    """A record by its id and its kind: a key that may only forget sees no more of it."""
    caller = mem0.holding(id)
    kind = caller.backend.kind_of(caller.scope, id)
    if kind is None:
        raise no_record(id)
    return caller, id, kind


def _erase(caller: Caller, id: str, kind: str) -> int:
    """Erase a record and, of a fact, the messages it was learned from, which say the same. Other facts of them are kept."""
    messages = tuple(caller.backend.grounds(caller.scope, [id]).get(id, ())) if kind == FACT else ()
    erased = caller.memory.forget(id).forgotten
    if messages:
        erased += caller.backend.forget(caller.scope, Selector(ids=messages, kind=MESSAGE, keep_facts=True))
    return erased


def delete_all(mem0: Mem0Caller, names: dict[str, str | None]) -> dict[str, Any]:
    """Erase everything of a user (with every agent), an agent, a run or an app."""
    return _report("Memories", _erase_named(mem0, names))


def _erase_named(mem0: Mem0Caller, names: dict[str, str | None]) -> int:
    agents = None if names["agent_id"] is None else frozenset((names["agent_id"],))
    users = None if names["user_id"] is None else frozenset((names["user_id"],))
    callers = mem0.callers_for(users, agents)
    return sum(_erase_all(caller, names["run_id"], names["app_id"]) for caller in callers)


def _erase_all(caller: Caller, run_id: str | None, app_id: str | None) -> int:
    if app_id is not None:
        query = ListQuery(session=run_id, filter=All((Condition((APP_ID,), "eq", app_id),)))
        return caller.backend.forget_matching(caller.scope, query)
    if run_id is not None:
        return caller.memory.forget(session=run_id).forgotten
    return caller.memory.forget(everything=True).forgotten


def delete_entity(mem0: Mem0Caller, kind: str, name: str) -> dict[str, Any]:
    """Erase everything of a user, agent, app or run that the key reaches."""
    if kind not in _ENTITY_KINDS:
        raise ValidationError(f"entity type {kind!r:.40} does not exist: use {', '.join(_ENTITY_KINDS)}.")
    names = merge_names({f"{kind}_id": name}, dict.fromkeys(ENTITIES))
    if kind == "user":
        return _report("Entity", _erase_named(mem0, names))
    if kind == "agent" and name == DEFAULT_AGENT:
        raise ValidationError(f"{name!r} is the agent of memories without one: delete by user.")
    if kind == "agent":
        mem0.acting_for(None, name)  # Forbidden for an agent that the key does not reach
    scopes = [scope for scope in mem0.all_scopes() if kind != "agent" or scope.agent == name]
    run_id, app_id = names["run_id"], names["app_id"]
    if run_id is not None:  # do not write to the many scopes that have no such run
        scopes = [scope for scope in scopes if mem0.looking_into(scope).backend.holds_session(scope, run_id)]
    return _report("Entity", sum(_erase_all(mem0.in_scope(scope), run_id, app_id) for scope in scopes))
