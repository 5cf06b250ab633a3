"""What mem0's client changes and erases."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from keepstone.errors import KeepstoneError, NotFound, ValidationError
from keepstone.ports.filters import All, Condition
from keepstone.ports.values import ListQuery, Selector
from keepstone.server.compat.filters import ENTITIES
from keepstone.server.compat.looking import get, grounds
from keepstone.server.compat.requests import Changed, Update, instant, named
from keepstone.server.compat.shapes import APP, NO_AGENT, learned
from keepstone.server.compat.visiting import Visitor
from keepstone.server.responses import written
from keepstone.server.routes.memories import readable
from keepstone.server.service import Caller
from keepstone.text.times import now
from keepstone.types import MESSAGE, ForgetReceipt, Record
from keepstone.write.request import WriteRequest

_STEP = 500
_KINDS = ("user", "agent", "app", "run")


def update(visitor: Visitor, id: str, given: Update) -> dict[str, Any]:
    """Change a memory; what it was stays in its history."""
    there = visitor.holder(id)
    record = readable(there, there.memory.get(id), id)
    _update(there, record, given)
    return get(visitor, id)


def _update(there: Caller, record: Record, given: Update) -> None:
    _checked(record, given)
    if given.text is None and given.metadata is None:
        return
    metadata = given.metadata
    if metadata is not None and APP in record.metadata:
        metadata = {APP: record.metadata[APP], **metadata}
    source = there.source(None) if there.identity.bound_to_agent and given.text is not None else None
    at = instant(given.timestamp, "timestamp")
    written(there.service.engine.writing.update(there.scope, record.id, given.text, None, metadata, None, source, at))


def _checked(record: Record, given: Update) -> None:
    """ValidationError for what cannot be written, whatever the record says."""
    if "expiration_date" in given.model_fields_set and (given.expiration_date is not None or record.expires_at is not None):
        raise ValidationError("expiration_date is set when a memory is added and does not change: add it anew with another.")
    if given.text is None and given.metadata is None and "expiration_date" not in given.model_fields_set:
        raise ValidationError("nothing to update: give text or metadata.")
    draft = WriteRequest(
        "x" if given.text is None else given.text, metadata=given.metadata, occurred_at=instant(given.timestamp, "timestamp")
    )
    draft.draft(now())


def update_many(visitor: Visitor, given: Sequence[Changed]) -> int:
    """Change several; none where one of them is not there or cannot be changed."""
    found = [_found(visitor, each.memory_id) for each in given]
    for (_, record), each in zip(found, given, strict=True):
        _checked(record, each)
    for (there, record), each in zip(found, given, strict=True):
        _update(there, record, each)
    return len(found)


def _found(visitor: Visitor, id: str) -> tuple[Caller, Record]:
    there = visitor.holder(id)
    return there, readable(there, there.memory.get(id), id)


def delete(visitor: Visitor, id: str) -> int:
    """Erase a memory."""
    return _erase(*_found(visitor, id))


def delete_many(visitor: Visitor, ids: Sequence[str]) -> int:
    """Erase several; none where one of them is not there."""
    found = {id: _found(visitor, id) for id in dict.fromkeys(ids)}
    for there, record in found.values():
        with contextlib.suppress(NotFound):  # it went with one before
            _erase(there, record)
    return len(found)


def _erase(there: Caller, record: Record) -> int:
    """Erase a record and, of a fact, the words it was learned from: they say the same. What else was learned from them stays."""
    words = tuple(grounds(there, [record.id]).get(record.id, ())) if learned(record) else ()
    gone = there.memory.forget(record.id).forgotten
    return gone + (_without(there, Selector(ids=words, kind=MESSAGE, keep_facts=True)).forgotten if words else 0)


def _without(there: Caller, selector: Selector) -> ForgetReceipt:
    engine = there.service.engine
    receipt = engine.store.forget(there.scope, selector)
    for session in receipt.summarised:
        with contextlib.suppress(KeepstoneError):  # what was to go has gone; a summary can be made at any time
            engine.consolidator.consolidate(there.scope, session)
    return receipt


def delete_all(visitor: Visitor, names: dict[str, str | None]) -> int:
    """Erase all that is somebody's: of a user with every agent, of an agent, of a run, of an app."""
    agents = None if names["agent_id"] is None else frozenset((names["agent_id"],))
    users = None if names["user_id"] is None else frozenset((names["user_id"],))
    places = visitor.reach(users, agents)
    return sum(_sweep(there, names["run_id"], names["app_id"]) for there in places)


def _sweep(there: Caller, run: str | None, app: str | None) -> int:
    if app is not None:
        ids = _of_app(there, run, app)
        return _without(there, Selector(ids=tuple(ids))).forgotten if ids else 0
    if run is not None:
        return there.memory.forget(session=run).forgotten
    there.need(person="erasing everything")
    return there.memory.forget(everything=True).forgotten


def _of_app(there: Caller, run: str | None, app: str) -> list[str]:
    store, before, ids = there.service.engine.store, None, list[str]()
    tree = All((Condition((APP,), "eq", app),))
    while rows := store.list(there.scope, ListQuery(session=run, filter=tree, limit=_STEP, before=before)):
        before = rows[-1][0]
        ids += [record.id for _, record in rows]
    return ids


def delete_entity(visitor: Visitor, kind: str, name: str) -> int:
    """Erase all that is a user's, an agent's, an app's or a run's, wherever the key reaches."""
    if kind not in _KINDS:
        raise ValidationError(f"there is no kind {kind!r:.40} of entity: use {', '.join(_KINDS)}.")
    names = named({f"{kind}_id": name}, dict.fromkeys(ENTITIES))  # one name, never everybody's
    if kind == "user":
        return delete_all(visitor, names)
    if kind == "agent" and name == NO_AGENT:
        raise ValidationError(f"{name!r} is the agent of whatever names none: erase by user.")
    if kind == "agent":
        visitor.acting(None, name)  # Forbidden, where it is another's
    scopes = [each for each in visitor.everything() if kind != "agent" or each.agent == name]
    run, app = names["run_id"], names["app_id"]
    if run is not None:  # a tenant has many, and to erase is to write, even nothing
        store = visitor.caller.service.engine.store
        scopes = [scope for scope in scopes if store.list(scope, ListQuery(session=run, limit=1))]
    return sum(_sweep(visitor.at(scope), run, app) for scope in scopes)
