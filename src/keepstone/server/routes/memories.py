"""Routes for memories (remember, get, list, update, forget, history) and for values by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Header, Query
from pydantic import BaseModel
from starlette.responses import Response

from keepstone.client.plans import routes_of
from keepstone.client.verbs import RemoteVerbs
from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.identity import FORGET, READ
from keepstone.server.problems import RequestRefused
from keepstone.server.routing import (
    CurrentCaller,
    FailFastList,
    QueryParams,
    add_verb,
    api_router,
    etag,
    json_response,
    parse_if_match,
    problems,
    request_model,
)
from keepstone.server.schemas import PageSchema, ValueSchema, ValuesSchema, VersionsSchema
from keepstone.server.service import Caller
from keepstone.types import ForgetReceipt, Page, Receipt, Record, Version

router = api_router("memories")
_MISSING: Any = object()  # null is a value


class ListParams(QueryParams):
    """Which records to list."""

    tag: str | None = None
    kind: str | None = None
    filter: str | None = None
    key: str | None = None
    limit: int = 20
    cursor: str | None = None


class ValuesParams(QueryParams):
    """The tag of the values."""

    tag: str


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
        return caller.update(id, content, **changes)
    except Conflict as error:
        if version is not None:
            raise RequestRefused(412, str(error)) from None
        raise


def _forget(caller: Caller, id: str | None, key: str | None, **chosen: Any) -> ForgetReceipt:
    if any(chosen.values()):  # these would also erase quarantined records
        caller.require(person="erasing more than a single memory")
    elif caller.identity.bound_to_agent and (id is None) != (key is None):
        id, key = caller.readable(caller.memory.get(id, key=key), id or key or "").id, None
    return caller.memory.forget(id, key=key, **chosen)


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
add_verb(router, _VERBS["forget"], _forget, statuses=(404,))
add_verb(router, _VERBS["set"], _set, statuses=(413,), tags=["values"])


@router.delete("/memories/{id:path}", operation_id="forget_one", response_model=ForgetReceipt, responses=problems(404, 412))
async def forget_one(caller: CurrentCaller, id: str, if_match: Annotated[str | None, Header()] = None) -> Response:
    """Erase a record with its history and what was derived from it alone. With If-Match, only if it still has that version."""
    caller.require(FORGET)
    return json_response(await caller.run(_forget_one, caller, id, parse_if_match(if_match)))


def _forget_one(caller: Caller, id: str, matched: int | None) -> ForgetReceipt:
    memory = caller.memory
    caller.require_open(id)
    if matched is not None:
        record = caller.readable(memory.get(id), id)
        if record.version != matched:
            raise RequestRefused(412, f"record {id} has version {record.version}, not {matched}: read it again, then decide.")
    return memory.forget(id)


# -- reading -----------------------------------------------------------------------------------------------------------------
@router.get("/memories", operation_id="list", response_model=PageSchema)
async def list_memories(caller: CurrentCaller, params: Annotated[ListParams, Query()]) -> Response:
    """Records, newest first, in pages. `filter` is a JSON object of conditions on the metadata; `key` alone selects the current
    record of a key."""
    caller.require(READ)
    memory = caller.memory
    if params.key is not None:
        if (params.tag, params.kind, params.filter, params.cursor) != (None,) * 4:
            raise ValidationError("key selects one record: leave out tag, kind, filter and cursor.")
        record = await caller.run(lambda: memory.get(key=params.key))
        return json_response(Page(() if record is None else (record,)))
    filter = _parse_filter(params.filter)
    page = await caller.run(
        lambda: memory.list(tag=params.tag, kind=params.kind, filter=filter, limit=params.limit, cursor=params.cursor)
    )
    return json_response(page)


def _parse_filter(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    conditions = parse_json(text.encode("utf-8", "surrogatepass"))
    if not isinstance(conditions, dict):
        raise ValidationError('filter must be a JSON object of conditions: {"age": {"gte": 18}}.')
    return conditions


@router.get("/memories/{id:path}/history", operation_id="history", response_model=VersionsSchema, responses=problems(404))
async def history(caller: CurrentCaller, id: str) -> Response:
    """Every version of a record, oldest first."""
    caller.require(READ)
    return json_response({"id": id, "versions": list(await caller.run(_history, caller, id))})


def _history(caller: Caller, id: str) -> Sequence[Version]:
    memory = caller.memory
    caller.readable(memory.get(id), id)
    return memory.history(id)


@router.get(
    "/memories/{id:path}",
    operation_id="get",
    response_model=Record,
    responses={304: {"description": "It has not changed."}, **problems(404)},
)
async def get(caller: CurrentCaller, id: str, if_none_match: Annotated[str | None, Header()] = None) -> Response:
    """A record by its id. Its ETag is its version."""
    caller.require(READ)
    record = caller.readable(await caller.run(caller.memory.get, id), id)
    tag = etag(record.version, record.status)
    known_tags = [part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")]
    if tag in known_tags or "*" in known_tags:
        return Response(status_code=304, headers={"etag": tag})
    return json_response(record, headers={"etag": tag})


# -- values ------------------------------------------------------------------------------------------------------------------
@router.get("/values", operation_id="values", response_model=ValuesSchema, tags=["values"])
async def values(caller: CurrentCaller, params: Annotated[ValuesParams, Query()]) -> Response:
    """The values of a tag, by key."""
    caller.require(READ)
    memory = caller.memory
    return json_response({"values": await caller.run(lambda: memory.value(tag=params.tag))})


@router.get("/values/{key:path}", operation_id="value", response_model=ValueSchema, responses=problems(404), tags=["values"])
async def value(caller: CurrentCaller, key: str) -> Response:
    """The current value of a key."""
    caller.require(READ)
    current = await caller.run(caller.memory.value, key, _MISSING)
    if current is _MISSING:
        raise NotFound(f"key {key!r:.80} has no value in this scope: check the key, or set it.")
    return json_response({"key": key, "value": current})
