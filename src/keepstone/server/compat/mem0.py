"""mem0's paths below /compat/mem0: what `mem0ai.MemoryClient` sends, answered with what it expects, from a keepstone memory.

They are not in /openapi.json, which describes keepstone's own verbs; docs/guides/integrations/mem0.md tells what they do.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic_core import to_json
from starlette.responses import Response

from keepstone.errors import NotFound
from keepstone.server.compat import adding, changing, looking
from keepstone.server.compat.looking import PATH
from keepstone.server.compat.requests import Add, Batch, GetAll, Search, Update, swept
from keepstone.server.compat.visiting import Visiting, VisitorsRoute
from keepstone.server.identity import FORGET, READ, WRITE
from keepstone.server.problems import Refused

router = APIRouter(prefix=PATH, route_class=VisitorsRoute, include_in_schema=False)
_ABSENT = {  # by how the rest of the address begins
    "v1/exports": "exports by a schema: use get_all(), or GET /v1/export",
    "v1/summary": "summaries of exports: use POST /v1/conversations/…/consolidate",
    "v1/feedback": "feedback: use update(), or the review list",
    "v2/profiles": "profiles: search for what is known of a user",
    "v2/entities": "profiles: search for what is known of a user",
    "api/v1/webhooks": "webhooks",
    "api/v1/orgs": "organisations and projects: a key belongs to a tenant, and keys are made with 'keepstone keys'",
}


def _json(value: Any) -> Response:
    return Response(to_json(value, inf_nan_mode="null"), 200, {"cache-control": "no-store"}, "application/json")


@router.get("/v1/ping/", operation_id="mem0_ping")
async def ping(asking: Visiting) -> Response:
    """Whether a key is valid. The names that the client wants of an organisation and a project are those of the tenant."""
    tenant = asking.caller.identity.tenant
    return _json({"status": "ok", "org_id": tenant, "project_id": tenant, "user_email": None})


@router.post("/v3/memories/add/", operation_id="mem0_add")
async def add(asking: Visiting, given: Add) -> Response:
    asking.need(WRITE)
    return _json(await asking.caller.run(adding.add, asking, given))


@router.post("/v3/memories/search/", operation_id="mem0_search")
async def search(asking: Visiting, given: Search) -> Response:
    asking.need(READ)
    return _json(await asking.caller.compute(looking.search, asking, given))


@router.post("/v3/memories/", operation_id="mem0_get_all")
async def get_all(
    asking: Visiting, given: GetAll, page: Annotated[int, Query()] = 1, page_size: Annotated[int, Query()] = 100
) -> Response:
    asking.need(READ)
    return _json(await asking.caller.run(looking.get_all, asking, given, page, page_size))


@router.delete("/v1/memories/", operation_id="mem0_delete_all")
async def delete_all(asking: Visiting, request: Request) -> Response:
    asking.need(FORGET)
    gone = await asking.caller.run(changing.delete_all, asking, swept(request.query_params.multi_items()))
    return _json({"message": "Memories deleted successfully!", "deleted": gone})


@router.put("/v1/batch/", operation_id="mem0_batch_update")
async def batch_update(asking: Visiting, given: Batch) -> Response:
    asking.need(WRITE)
    done = await asking.caller.run(changing.update_many, asking, given.memories)
    return _json({"message": f"Successfully updated {done} memories"})


@router.delete("/v1/batch/", operation_id="mem0_batch_delete")
async def batch_delete(asking: Visiting, given: Batch) -> Response:
    asking.need(FORGET)
    done = await asking.caller.run(changing.delete_many, asking, [each.memory_id for each in given.memories])
    return _json({"message": f"Successfully deleted {done} memories"})


@router.get("/v1/memories/{id:path}/history/", operation_id="mem0_history")
async def history(asking: Visiting, id: str) -> Response:
    asking.need(READ)
    return _json(await asking.caller.run(looking.changes, asking, id))


@router.get("/v1/memories/{id:path}/", operation_id="mem0_get")
async def get(asking: Visiting, id: str) -> Response:
    asking.need(READ)
    return _json(await asking.caller.run(looking.get, asking, id))


@router.put("/v1/memories/{id:path}/", operation_id="mem0_update")
async def update(asking: Visiting, id: str, given: Update) -> Response:
    asking.need(WRITE)
    return _json(await asking.caller.run(changing.update, asking, id, given))


@router.delete("/v1/memories/{id:path}/", operation_id="mem0_delete")
async def delete(asking: Visiting, id: str) -> Response:
    asking.need(FORGET)
    gone = await asking.caller.run(changing.delete, asking, id)
    return _json({"message": "Memory deleted successfully!", "deleted": gone})


@router.get("/v1/entities/", operation_id="mem0_users")
async def users(asking: Visiting) -> Response:
    asking.need(READ)
    return _json(await asking.caller.run(looking.entities, asking))


@router.delete("/v2/entities/{kind}/{name:path}/", operation_id="mem0_delete_users")
async def delete_users(asking: Visiting, kind: str, name: str) -> Response:
    asking.need(FORGET)
    gone = await asking.caller.run(changing.delete_entity, asking, kind, name)
    return _json({"message": "Entity deleted successfully!", "deleted": gone})


@router.api_route("/{rest:path}", methods=["GET", "POST", "PUT", "PATCH", "DELETE"], operation_id="mem0_other")
async def other(asking: Visiting, rest: str) -> Response:
    """What there is not: told with a status that the client makes an error of."""
    for start, what in _ABSENT.items():
        if rest.startswith(start):
            raise Refused(400, f"keepstone has no {what}.")
    raise NotFound("there is nothing at this address below /compat/mem0: keepstone's own verbs are below /v1.")
