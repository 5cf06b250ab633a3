"""mem0's paths below /compat/mem0: the requests of `mem0ai.MemoryClient`, answered from a keepstone memory.

They are not part of /openapi.json. docs/guides/integrations/mem0.md describes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from inspect import Parameter, Signature
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.server.compat import reads, writes
from keepstone.server.compat.callers import CurrentMem0Caller, Mem0Caller, Mem0Route
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
    return _json(await mem0.caller.run(writes.delete_all, mem0, names))


def _add_verb(
    method: str, path: str, operation: str, rights: str, work: Callable[..., Any], body: Any = None, *, compute: bool = False
) -> None:
    """Declare a route that calls `work` with the caller, the parameters in the path, and the body if there is one."""

    async def endpoint(mem0: Mem0Caller, **values: Any) -> Response:
        mem0.caller.require(*rights.split())
        run = mem0.caller.compute if compute else mem0.caller.run
        return _json(await run(partial(work, mem0, **values)))

    kinds: dict[str, Any] = {"mem0": CurrentMem0Caller, **dict.fromkeys(re.findall(r"{(\w+)", path), str)}
    kinds |= {} if body is None else {"body": body}
    parameters = [Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind) for name, kind in kinds.items()]
    endpoint.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    router.add_api_route(path, endpoint, methods=[method], operation_id=f"mem0_{operation}")


_add_verb("POST", "/v3/memories/add/", "add", WRITE, writes.add, AddBody)
_add_verb("POST", "/v3/memories/search/", "search", READ, reads.search, SearchBody, compute=True)
_add_verb("PUT", "/v1/batch/", "batch_update", f"{READ} {WRITE}", writes.update_many, BatchBody)
_add_verb("DELETE", "/v1/batch/", "batch_delete", FORGET, writes.delete_many, BatchBody)
_add_verb("GET", "/v1/memories/{id:path}/history/", "history", READ, reads.history)
_add_verb("GET", "/v1/memories/{id:path}/", "get", READ, reads.get)
_add_verb("PUT", "/v1/memories/{id:path}/", "update", f"{READ} {WRITE}", writes.update, UpdateBody)
_add_verb("DELETE", "/v1/memories/{id:path}/", "delete", FORGET, writes.delete)
_add_verb("GET", "/v1/entities/", "users", READ, reads.entities)
_add_verb("DELETE", "/v2/entities/{kind}/{name:path}/", "delete_users", FORGET, writes.delete_entity)


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], operation_id="mem0_other")
async def unsupported(mem0: CurrentMem0Caller, rest: str) -> Response:
    """Any other path, with a status that the client raises as an error."""
    for prefix, what in _UNSUPPORTED.items():
        if rest.startswith(prefix):
            raise RequestRefused(400, f"keepstone has no {what}.")
    raise NotFound("this address does not exist below /compat/mem0: keepstone's own routes are below /v1.")
