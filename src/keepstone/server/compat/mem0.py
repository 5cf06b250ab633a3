"""mem0's paths below /compat/mem0: the requests of `mem0ai.MemoryClient`, answered from a keepstone memory.

They are not part of /openapi.json. docs/guides/integrations/mem0.md describes them.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.server.compat import reads, writes
from keepstone.server.compat.callers import CurrentMem0Caller, Mem0Route
from keepstone.server.compat.reads import PATH
from keepstone.server.compat.requests import AddBody, BatchBody, GetAllBody, SearchBody, UpdateBody, parse_delete_query
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.problems import RequestRefused

router = APIRouter(prefix=PATH, route_class=Mem0Route, include_in_schema=False)
_UNSUPPORTED = {  # by the prefix of the path
    "v1/exports": "exports by a schema: use get_all(), or GET /v1/export",
    "v1/summary": "summaries of exports: use POST /v1/conversations/…/consolidate",
    "v1/feedback": "feedback: use update(), or the review list",
    "v2/profiles": "profiles: search for what is known about a user",
    "v2/entities": "profiles: search for what is known about a user",
    "api/v1/webhooks": "webhooks",
    "api/v1/orgs": "organisations and projects: a key belongs to a tenant; create keys with 'keepstone keys'",
}


def _json(value: Any) -> Response:
    return Response(to_json(value, inf_nan_mode="null"), 200, {"cache-control": "no-store"}, "application/json")


@router.get("/v1/ping/", operation_id="mem0_ping")
async def ping(mem0: CurrentMem0Caller) -> Response:
    """Whether the key is valid. The tenant serves as the organisation and project that the client expects."""
    tenant = mem0.caller.identity.tenant
    return _json({"status": "ok", "org_id": tenant, "project_id": tenant, "user_email": None})


@router.post("/v3/memories/add/", operation_id="mem0_add")
async def add(mem0: CurrentMem0Caller, body: AddBody) -> Response:
    mem0.caller.require(WRITE)
    return _json(await mem0.caller.run(writes.add, mem0, body))


@router.post("/v3/memories/search/", operation_id="mem0_search")
async def search(mem0: CurrentMem0Caller, body: SearchBody) -> Response:
    mem0.caller.require(READ)
    return _json(await mem0.caller.compute(reads.search, mem0, body))


@router.post("/v3/memories/", operation_id="mem0_get_all")
async def get_all(
    mem0: CurrentMem0Caller, body: GetAllBody, page: Annotated[int, Query()] = 1, page_size: Annotated[int, Query()] = 100
) -> Response:
    mem0.caller.require(READ)
    return _json(await mem0.caller.run(reads.get_all, mem0, body, page, page_size))


@router.delete("/v1/memories/", operation_id="mem0_delete_all")
async def delete_all(mem0: CurrentMem0Caller, request: Request) -> Response:
    mem0.caller.require(FORGET)
    names = parse_delete_query(request.query_params.multi_items())
    deleted = await mem0.caller.run(writes.delete_all, mem0, names)
    return _json({"message": "Memories deleted successfully!", "deleted": deleted})


@router.put("/v1/batch/", operation_id="mem0_batch_update")
async def batch_update(mem0: CurrentMem0Caller, body: BatchBody) -> Response:
    mem0.caller.require(WRITE)
    updated = await mem0.caller.run(writes.update_many, mem0, body.memories)
    return _json({"message": f"Successfully updated {updated} memories"})


@router.delete("/v1/batch/", operation_id="mem0_batch_delete")
async def batch_delete(mem0: CurrentMem0Caller, body: BatchBody) -> Response:
    mem0.caller.require(FORGET)
    deleted = await mem0.caller.run(writes.delete_many, mem0, [item.memory_id for item in body.memories])
    return _json({"message": f"Successfully deleted {deleted} memories"})


@router.get("/v1/memories/{id:path}/history/", operation_id="mem0_history")
async def history(mem0: CurrentMem0Caller, id: str) -> Response:
    mem0.caller.require(READ)
    return _json(await mem0.caller.run(reads.history, mem0, id))


@router.get("/v1/memories/{id:path}/", operation_id="mem0_get")
async def get(mem0: CurrentMem0Caller, id: str) -> Response:
    mem0.caller.require(READ)
    return _json(await mem0.caller.run(reads.get, mem0, id))


@router.put("/v1/memories/{id:path}/", operation_id="mem0_update")
async def update(mem0: CurrentMem0Caller, id: str, body: UpdateBody) -> Response:
    mem0.caller.require(WRITE)
    return _json(await mem0.caller.run(writes.update, mem0, id, body))


@router.delete("/v1/memories/{id:path}/", operation_id="mem0_delete")
async def delete(mem0: CurrentMem0Caller, id: str) -> Response:
    mem0.caller.require(FORGET)
    deleted = await mem0.caller.run(writes.delete, mem0, id)
    return _json({"message": "Memory deleted successfully!", "deleted": deleted})


@router.get("/v1/entities/", operation_id="mem0_users")
async def users(mem0: CurrentMem0Caller) -> Response:
    mem0.caller.require(READ)
    return _json(await mem0.caller.run(reads.entities, mem0))


@router.delete("/v2/entities/{kind}/{name:path}/", operation_id="mem0_delete_users")
async def delete_users(mem0: CurrentMem0Caller, kind: str, name: str) -> Response:
    mem0.caller.require(FORGET)
    deleted = await mem0.caller.run(writes.delete_entity, mem0, kind, name)
    return _json({"message": "Entity deleted successfully!", "deleted": deleted})


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], operation_id="mem0_other")
async def unsupported(mem0: CurrentMem0Caller, rest: str) -> Response:
    """Any other path, with a status that the client raises as an error."""
    for prefix, what in _UNSUPPORTED.items():
        if rest.startswith(prefix):
            raise RequestRefused(400, f"keepstone has no {what}.")
    raise NotFound("this address does not exist below /compat/mem0: keepstone's own routes are below /v1.")
