"""Routes for export, import and backup."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from keepstone.server.files import JSONL, save_body, send_file
from keepstone.server.identity import OPERATOR, READ, WRITE
from keepstone.server.problems import RequestRefused
from keepstone.server.routing import CurrentCaller, QueryParams, api_router, json_response, problems
from keepstone.server.schemas import ImportSchema

router = api_router("transfer")
_SQLITE = "application/vnd.sqlite3"
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
