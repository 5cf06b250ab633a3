"""Routes for memories (remember, get, list, update, forget, history) and for values by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.problems import RequestRefused
from keepstone.server.routing import (
    Body,
    CurrentCaller,
    FailFastList,
    Json,
    QueryParams,
    api_router,
    etag,
    json_response,
    parse_if_match,
    problems,
    read_header,
    receipt_response,
)
from keepstone.server.schemas import PageSchema, ReceiptsSchema, ValueSchema, ValuesSchema, VersionsSchema
from keepstone.server.service import Caller
from keepstone.types import ForgetReceipt, Page, Receipt, Record, Version

router = api_router("memories")
_EXISTING: dict[int | str, dict[str, Any]] = {
    200: {"model": Receipt, "description": "It existed already, or replaces an earlier one, which stays in the history."}
}
_MISSING: Any = object()  # null is a value


class RememberBody(Body):
    """A memory to store."""

    content: str
    kind: str = "fact"
    tag: str = "general"
    key: str | None = None
    importance: float = 0.5
    metadata: dict[str, Json] | None = None
    ttl: float | None = None
    source: str | None = None
    session: str | None = None
    occurred_at: str | None = None
    idempotency_key: str | None = None


class RememberManyBody(Body):
    """Up to 100 memories, stored all or none."""

    items: FailFastList[RememberBody]


class UpdateBody(Body):
    """The changes to a memory."""

    content: str | None = None
    importance: float | None = None
    metadata: dict[str, Json] | None = None
    expected_version: int | None = None
    occurred_at: str | None = None


class ForgetBody(Body):
    """What to erase: exactly one of these."""

    id: str | None = None
    key: str | None = None
    source: str | None = None
    session: str | None = None
    everything: bool = False


class ListParams(QueryParams):
    """Which records to list."""

    tag: str | None = None
    kind: str | None = None
    filter: str | None = None
    key: str | None = None
    limit: int = 20
    cursor: str | None = None


class ValueBody(Body):
    """A value, and its tag."""

    value: Json
    tag: str = "general"


class ValuesParams(QueryParams):
    """The tag of the values."""

    tag: str


@router.post(
    "/memories", operation_id="remember", response_model=Receipt, status_code=201, responses=_EXISTING | problems(409, 413)
)
async def remember(
    caller: CurrentCaller, body: RememberBody, request: Request, idempotency_key: Annotated[str | None, Header()] = None
) -> Response:
    """Store a memory. When this answers, the memory is on disk."""
    caller.require(WRITE)
    header = read_header(request, "idempotency-key")  # as UTF-8; the parameter is for the OpenAPI document
    if header is not None and body.idempotency_key not in (None, header):
        raise ValidationError("the header Idempotency-Key and idempotency_key in the body differ: send one of them.")
    arguments = _remember_arguments(caller, body)
    if header is not None:
        arguments["idempotency_key"] = header
    memory = caller.memory
    return receipt_response(await caller.run(lambda: memory.remember(**arguments)))


def _remember_arguments(caller: Caller, body: RememberBody) -> dict[str, Any]:
    return body.model_dump() | {"source": caller.source(body.source)}


@router.post("/memories/batch", operation_id="remember_many", response_model=ReceiptsSchema, responses=problems(409, 413))
async def remember_many(caller: CurrentCaller, body: RememberManyBody) -> Response:
    """Store up to 100 memories in one transaction, all or none; a receipt for each."""
    caller.require(WRITE)
    arguments = [_remember_arguments(caller, item) for item in body.items]
    items = [{name: value for name, value in item.items() if value is not None} for item in arguments]
    return json_response({"receipts": await caller.run(caller.memory.remember_many, items)})


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


@router.patch("/memories/{id:path}", operation_id="update", response_model=Receipt, responses=problems(404, 409, 412, 413))
async def update(caller: CurrentCaller, id: str, body: UpdateBody, if_match: Annotated[str | None, Header()] = None) -> Response:
    """Change a record; earlier versions stay in its history. With If-Match, only if it still has that version."""
    caller.require(WRITE)
    return receipt_response(await caller.run(_update, caller, id, body, parse_if_match(if_match)))


def _update(caller: Caller, id: str, body: UpdateBody, matched: int | None) -> Receipt:
    caller.require_open(id)
    rewritten = caller.identity.bound_to_agent and body.content is not None
    try:
        return caller.backend.update(
            caller.scope,
            id,
            body.content,
            importance=body.importance,
            metadata=body.metadata,
            expected_version=body.expected_version if matched is None else matched,
            source=caller.source(None) if rewritten else None,  # an agent's words, whoever wrote the first version
            occurred_at=body.occurred_at,
        )
    except Conflict as error:
        if matched is not None:
            raise RequestRefused(412, str(error)) from None
        raise


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


@router.post("/forget", operation_id="forget", response_model=ForgetReceipt, responses=problems(404))
async def forget(caller: CurrentCaller, body: ForgetBody) -> Response:
    """Erase a record, a key, everything from a source or a session, or everything in this scope."""
    bulk = body.source is not None or body.everything  # these would also erase quarantined records
    caller.require(FORGET, person="erasing a source, or everything," if bulk else None)
    return json_response(await caller.run(_forget, caller, body))


def _forget(caller: Caller, body: ForgetBody) -> ForgetReceipt:
    if body.id is not None and body.model_dump(exclude_defaults=True).keys() == {"id"}:
        caller.require_open(body.id)
    return caller.memory.forget(**body.model_dump())


# -- values ------------------------------------------------------------------------------------------------------------------
@router.get("/values", operation_id="values", response_model=ValuesSchema, tags=["values"])
async def values(caller: CurrentCaller, params: Annotated[ValuesParams, Query()]) -> Response:
    """The values of a tag, by key."""
    caller.require(READ)
    memory = caller.memory
    return json_response({"values": await caller.run(lambda: memory.value(tag=params.tag))})


@router.put(
    "/values/{key:path}",
    operation_id="set",
    response_model=Receipt,
    status_code=201,
    responses=_EXISTING | problems(413),
    tags=["values"],
)
async def set_value(caller: CurrentCaller, key: str, body: ValueBody) -> Response:
    """Set the value of a key to any JSON value. Earlier values stay in the history."""
    caller.require(WRITE)
    backend, source = caller.backend, caller.source(None)
    return receipt_response(await caller.run(backend.set_value, caller.scope, key, body.value, body.tag, source))


@router.get("/values/{key:path}", operation_id="value", response_model=ValueSchema, responses=problems(404), tags=["values"])
async def value(caller: CurrentCaller, key: str) -> Response:
    """The current value of a key."""
    caller.require(READ)
    current = await caller.run(caller.memory.value, key, _MISSING)
    if current is _MISSING:
        raise NotFound(f"key {key!r:.80} has no value in this scope: check the key, or set it.")
    return json_response({"key": key, "value": current})
