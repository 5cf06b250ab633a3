"""Routes for memories (remember, get, list, update, forget, history) and for values by key."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel
from starlette.responses import Response

from keepstone.client.plans import routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.identity import FORGET
from keepstone.server.problems import RequestRefused
from keepstone.server.routing import (
    FailFastList,
    Json,
    add_verb,
    api_router,
    etag,
    json_response,
    operation,
    parse_if_match,
    request_model,
)
from keepstone.server.schemas import envelope
from keepstone.server.service import Caller
from keepstone.types import ForgetReceipt, Page, Receipt, Record, Version

router = api_router("memories")
_MISSING: Any = object()  # null is a value


# -- writing -----------------------------------------------------------------------------------------------------------------
def _remember(caller: Caller, header: str | None, idempotency_key: str | None, source: str | None, **arguments: Any) -> Receipt:
    if header is not None and idempotency_key not in (None, header):
        raise ValidationError("the header Idempotency-Key and idempotency_key in the body differ: send one of them.")
    key = idempotency_key if header is None else header
    return caller.memory.remember(source=caller.source(source), idempotency_key=key, **arguments)


def _remember_many(caller: Caller, items: list[BaseModel]) -> list[Receipt]:
    arguments = [dict(item) | {"source": caller.source(dict(item)["source"])} for item in items]
    return caller.memory.remember_many([{name: value for name, value in item.items() if value is not None} for item in arguments])


def _update(caller: Caller, id: str, content: str | None, if_match: str | None, **changes: Any) -> Receipt:
    version = parse_if_match(if_match)
    if version is not None:
        changes["expected_version"] = version
    try:
        return caller.backend.update(caller.scope, id, content, **changes)
    except Conflict as error:
        if version is not None:
            raise RequestRefused(412, str(error)) from None
        raise


def _set(caller: Caller, key: str, value: Any, tag: str) -> Receipt:
    return caller.backend.set_value(caller.scope, key, value, tag, caller.source(None))


_VERBS = routes_of(RemoteVerbs)
_RememberBody = request_model(_VERBS["remember"], source=(str | None, None))
_RememberManyBody = request_model(_VERBS["remember_many"], items=(FailFastList[_RememberBody], ...))  # type: ignore[valid-type]
add_verb(
    router,
    _VERBS["remember"],
    _remember,
    model=_RememberBody,
    headers={"header": "idempotency-key"},
    statuses=(409, 413),
)
add_verb(router, _VERBS["remember_many"], _remember_many, model=_RememberManyBody, statuses=(409, 413))
add_verb(
    router,
    _VERBS["update"],
    _update,
    headers={"if_match": "if-match"},
    statuses=(404, 409, 412, 413),
    description="Change a record; earlier versions stay in its history. With If-Match, only if it still has that version.",
)
add_verb(router, _VERBS["feedback"], respond=json_response, schema=Receipt, statuses=(404,))
_SCOPE = dict[Literal["tenant", "agent", "user"], str]
for _name in ("promote", "demote"):
    _model = request_model(_VERBS[_name], to=(_SCOPE, ...))
    add_verb(router, _VERBS[_name], model=_model, respond=json_response, schema=Receipt, statuses=(404, 409))
add_verb(router, _VERBS["forget"], statuses=(404,))
add_verb(router, _VERBS["set"], _set, statuses=(413,), tags=["values"])


@operation(
    router,
    "DELETE",
    "/memories/{id:path}",
    "forget_one",
    rights=(FORGET,),
    headers={"if_match": "if-match"},
    statuses=(404, 412),
)
def forget_one(caller: Caller, id: str, if_match: str | None = None) -> ForgetReceipt:
    """Erase a record with its history and what was derived from it alone. With If-Match, only if it still has that version."""
    version = parse_if_match(if_match)
    if version is not None:
        record = caller.find(id)
        if record.version != version:
            raise RequestRefused(412, f"record {id} has version {record.version}, not {version}: read it again, then decide.")
    return caller.memory.forget(id)


# -- reading -----------------------------------------------------------------------------------------------------------------
@operation(router, "GET", "/memories", "list")
def list_memories(
    caller: Caller,
    tag: str | None = None,
    kind: str | None = None,
    filter: str | None = None,
    key: str | None = None,
    limit: int = 20,
    cursor: str | None = None,
    prefix: str | None = None,
    order: str = "stored",
) -> Page:
    """Records in pages, the last stored first, or with order=occurred what happened last. `filter` is a JSON object of
    conditions on the metadata; `key` alone selects the current record of a key."""
    if key is None:
        conditions = _parse_filter(filter)
        return caller.memory.list(tag=tag, kind=kind, filter=conditions, limit=limit, cursor=cursor, prefix=prefix, order=order)
    if (tag, kind, filter, cursor, prefix) != (None,) * 5:
        raise ValidationError("key selects one record: leave out tag, kind, filter, cursor and prefix.")
    record = caller.memory.get(key=key)
    return Page(() if record is None else (record,))


def _parse_filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    conditions = parse_json(text.encode("utf-8", "surrogatepass"))
    if not isinstance(conditions, dict):
        raise ValidationError('filter must be a JSON object of conditions: {"age": {"gte": 18}}.')
    return conditions


@operation(
    router,
    "GET",
    "/memories/{id:path}/history",
    "history",
    schema=envelope("HistoryResult", id=str, versions=list[Version]),
    statuses=(404,),
)
def history(caller: Caller, id: str) -> dict[str, Any]:
    """Every version of a record, oldest first."""
    caller.find(id)
    return {"id": id, "versions": list(caller.memory.history(id))}


@operation(
    router,
    "GET",
    "/memories/{id:path}",
    "get",
    schema=Record,
    headers={"if_none_match": "if-none-match"},
    statuses=(404,),
    responses={304: {"description": "It has not changed."}},
)
def get(caller: Caller, id: str, if_none_match: str | None = None) -> Response:
    """A record by its id. Its ETag is its version."""
    record = caller.observe(caller.find(id))
    tag = etag(record.version, record.status)
    known_tags = [part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")]
    if tag in known_tags or "*" in known_tags:
        return Response(status_code=304, headers={"etag": tag})
    return json_response(record, headers={"etag": tag})


add_verb(router, _VERBS["entities"])
add_verb(router, _VERBS["costs"], tags=["stats"])
add_verb(router, _VERBS["add_cost"], tags=["stats"])
add_verb(router, _VERBS["scopes"], tags=["store"])


# -- values ------------------------------------------------------------------------------------------------------------------
@operation(
    router, "GET", "/values", "values", schema=envelope("ValuesResult", values=dict[str, Json]), result="values", tags=["values"]
)
def values(caller: Caller, tag: str) -> Any:
    """The values of a tag, by key."""
    return caller.memory.value(tag=tag)


@operation(
    router,
    "GET",
    "/values/{key:path}",
    "value",
    schema=envelope("ValueResult", "The value of a key; null is a value too.", key=str, value=Json),
    statuses=(404,),
    tags=["values"],
)
def value(caller: Caller, key: str) -> dict[str, Any]:
    """The current value of a key."""
    current = caller.memory.value(key, _MISSING)
    if current is _MISSING:
        raise NotFound(f"key {key!r:.80} has no value in this scope: check the key, or set it.")
    return {"key": key, "value": current}
