"""Routes for export, import and backup."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from keepstone.server.files import JSONL, save_body, send_file
from keepstone.server.identity import FORGET, OPERATOR, READ, WRITE
from keepstone.server.problems import RequestRefused
from keepstone.server.routing import (
    Body,
    CurrentCaller,
    FailFastList,
    Json,
    QueryParams,
    api_router,
    json_response,
    operation,
    problems,
)
from keepstone.server.schemas import ImportSchema
from keepstone.server.service import Caller

router = api_router("transfer")
_SQLITE = "application/vnd.sqlite3"
_SYNC = "synchronising"
_IMPORT_TYPES = (JSONL, "application/x-ndjson", "application/octet-stream")
_TEXT: dict[str, Any] = {"schema": {"type": "string"}}
_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}


class ExportParams(QueryParams):
    """`everything`: all data of the user, with every agent, for a subject access request. It cannot be imported.
    `plaintext`: of an encrypted store too; what is sent is not encrypted at rest."""

    everything: bool = False
    plaintext: bool = False


class ImportParams(QueryParams):
    """`source` replaces the sources in the file."""

    source: str | None = Field(None, min_length=1, max_length=256)


@router.get(
    "/export",
    operation_id="export",
    response_class=Response,
    responses={200: {"description": "One JSON object per line.", "content": {JSONL: _TEXT}}},
)
async def export(caller: CurrentCaller, params: Annotated[ExportParams, Query()]) -> Response:
    """The scope as JSONL, one record with its history per line; or all data of the user."""
    caller.require(READ, person="an export")
    memory = caller.memory
    name = "everything.jsonl" if params.everything else "memories.jsonl"
    return await send_file(caller, lambda path: memory.export(path, **params.model_dump()), JSONL, name)


@router.post(
    "/import",
    operation_id="import",
    response_model=ImportSchema,
    responses=problems(413, 415),
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(_IMPORT_TYPES, _TEXT)}},
)
async def import_(caller: CurrentCaller, params: Annotated[ImportParams, Query()], request: Request) -> Response:
    """Import an export into this scope: all lines or, if one is invalid, none. Existing records are skipped."""
    caller.require(WRITE, person="an import")
    source = None if params.source is None else caller.source(params.source)
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type not in _IMPORT_TYPES:
        raise RequestRefused(415, f"content-type is {media_type!r:.60}: send {JSONL}.")
    memory = caller.memory
    async with save_body(caller, request) as path:
        return json_response(await caller.run(lambda: memory.import_(path, source=source)))


@router.get(
    "/store/backup",
    operation_id="backup",
    response_class=Response,
    responses={200: {"description": "The store.", "content": {_SQLITE: _BINARY}}},
    tags=["store"],
)
async def backup(caller: CurrentCaller) -> Response:
    """A consistent copy of the whole store as a SQLite file, with all tenants and the hashes of keys."""
    caller.require(OPERATOR)
    return await send_file(caller, caller.memory.backup, _SQLITE, "keepstone.db")


class SyncParams(QueryParams):
    """`cursor` is that of the page before."""

    cursor: str | None = Field(None, max_length=200)
    limit: int = Field(200, ge=1, le=1000)


class SyncBody(Body):
    """A page of another store's changes, as `GET /v1/sync` gives it there."""

    records: FailFastList[dict[str, Json]] = Field(max_length=1000)
    forgotten: FailFastList[str]


class SyncPage(BaseModel):
    """Changed records with their histories, and the ids of forgotten ones."""

    records: list[dict[str, Any]]
    forgotten: list[str]
    cursor: str
    more: bool


class SyncAnswer(BaseModel):
    """What this store has instead of what it was sent, where that differs, and how many records changed or were erased."""

    records: list[dict[str, Any]]
    forgotten: list[str]
    received: int
    erased: int


@operation(router, "GET", "/sync", "sync_changes", rights=(READ,), person=_SYNC, schema=SyncPage, model=SyncParams)
def sync_changes(caller: Caller, cursor: str | None = None, limit: int = 200) -> dict[str, Any]:
    """What changed in the scope after a cursor, for `keepstone sync`; without a cursor, everything."""
    return caller.backend.sync_changes(caller.scope, cursor, limit)


@operation(
    router, "POST", "/sync", "sync_apply", rights=(READ, WRITE, FORGET), person=_SYNC, schema=SyncAnswer, model=SyncBody,
    statuses=(413,),
)  # fmt: skip
def sync_apply(caller: Caller, records: list[dict[str, Any]], forgotten: list[str]) -> dict[str, Any]:
    """Merge the changes of another store: versions of both are kept, forgetting wins."""
    return caller.backend.sync_apply(caller.scope, records, forgotten)
