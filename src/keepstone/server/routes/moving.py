"""Memories in and out as JSONL."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import Field
from starlette.responses import Response

from keepstone.errors import Forbidden
from keepstone.server.files import JSONL, handed, spooled
from keepstone.server.identity import READ, WRITE
from keepstone.server.problems import MEDIA, Refused
from keepstone.server.responses import Asked, Asking, also, answer, group
from keepstone.server.service import Caller
from keepstone.server.shapes_keeping import ImportShape

router = group("moving")
_TAKEN = (JSONL, "application/x-ndjson", "application/octet-stream")
_LINES: dict[str, Any] = {"schema": {"type": "string"}}
_OTHER = {
    "description": "It is not a file of lines.",
    "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


class ExportAsked(Asked):
    """`everything`: all that is kept of the user, with every agent, for an access request; it cannot be imported."""

    everything: bool = False


class ImportAsked(Asked):
    """`source`: whose word all of it is, in place of what the file says."""

    source: str | None = Field(None, min_length=1, max_length=256)


@router.get(
    "/export",
    operation_id="export",
    response_class=Response,
    responses={200: {"description": "One JSON object a line.", "content": {JSONL: _LINES}}},
)
async def export(asking: Asking, given: Annotated[ExportAsked, Query()]) -> Response:
    """The scope as JSONL, a record with its history on each line; or everything that is kept of the user."""
    asking.need(READ, person="an export")
    memory = asking.memory
    if not given.everything:
        return await handed(asking, memory.export, JSONL, "memories.jsonl")
    _need_every_agent(asking)
    return await handed(asking, lambda path: memory.export(path, everything=True), JSONL, "everything.jsonl")


def _need_every_agent(asking: Caller) -> None:
    """Forbidden for a key of one agent, an admin's too: what is asked for is every agent's."""
    if asking.identity.agent is not None:
        said = "this key is bound to one agent, and everything is what all of them know: use a key that is bound to none."
        asking.service.denied(asking.identity, asking.scope, said)
        raise Forbidden(said)


@router.post(
    "/import",
    operation_id="import",
    response_model=ImportShape,
    responses={415: _OTHER, **also(413)},
    openapi_extra={"requestBody": {"required": True, "content": dict.fromkeys(_TAKEN, _LINES)}},
)
async def import_(asking: Asking, given: Annotated[ImportAsked, Query()], request: Request) -> Response:
    """Read an export into this scope: all lines or, if any is bad, none. What is there already is skipped."""
    asking.need(WRITE, person="an import")
    source = None if given.source is None else asking.source(given.source)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in _TAKEN:
        raise Refused(415, f"content-type is {kind!r:.60}: send {JSONL}.")
    memory = asking.memory
    async with spooled(asking, request) as path:
        return answer(await asking.run(lambda: memory.import_(path, source=source)))
