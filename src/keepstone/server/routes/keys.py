"""Routes for the keys of a tenant, and for the caller's own identity.

An admin creates and revokes keys of the own tenant, with no right that the admin's key lacks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from keepstone.server.identity import ADMIN, DEFAULT_RIGHTS, Identity, parse_rights
from keepstone.server.keys import KeyDraft
from keepstone.server.routing import Body, CurrentCaller, FailFastList, api_router, json_response, problems
from keepstone.server.schemas import IdentitySchema, KeysSchema, MeSchema, NewKeySchema
from keepstone.server.service import Caller
from keepstone.text.times import parse_time

router = api_router("keys")
Name = Annotated[str, Field(min_length=1, max_length=256)]
Right = Literal["read", "write", "forget", "admin", "operator"]


class KeyBody(Body):
    """A key to create. Without a user, its name is the user; a service key may have none. Without rights, it gets the read,
    write and forget rights of the key that creates it."""

    name: Name
    agent: Name | None = None
    user: Name | None = None
    service: bool = False
    expires_at: str | None = None
    rights: FailFastList[Right] | None = Field(None, min_length=1)
    rate: int | None = Field(None, ge=1, le=10_000_000)


@router.get("/me", operation_id="me", response_model=MeSchema)
async def me(caller: CurrentCaller) -> Response:
    """The caller's identity, rights and scope."""
    return json_response({**_public(caller.identity), "via": caller.identity.via, "scope": caller.scope})


def _public(identity: Identity) -> dict[str, Any]:
    return {name: getattr(identity, name) for name in IdentitySchema.model_fields} | {"rights": sorted(identity.rights)}


@router.get("/keys", operation_id="keys_list", response_model=KeysSchema)
async def list_keys(caller: CurrentCaller) -> Response:
    """The identities of the tenant's keys, oldest first."""
    caller.require(ADMIN)
    identities = await caller.run(caller.service.keys.list, caller.scope.tenant)
    return json_response({"keys": [_public(identity) for identity in identities]})


@router.post("/keys", operation_id="keys_create", response_model=NewKeySchema, status_code=201)
async def create_key(caller: CurrentCaller, body: KeyBody) -> Response:
    """Create a key of the own tenant. It is shown only in this response."""
    caller.require(ADMIN)
    key, identity = await caller.run(_create, caller, body)
    return json_response({"key": key, "identity": _public(identity)}, 201, {"cache-control": "no-store"})


def _create(caller: Caller, body: KeyBody) -> tuple[str, Identity]:
    draft = KeyDraft(
        name=body.name,
        tenant=caller.identity.tenant,
        agent=body.agent,
        user=body.user,
        service=body.service,
        expires_at=None if body.expires_at is None else parse_time(body.expires_at, "expires_at"),
        rights=sorted(parse_rights(caller.identity.rights & set(DEFAULT_RIGHTS) if body.rights is None else body.rights)),
        rate=body.rate,
    )
    with caller.audit_denials():
        return caller.service.keys.create(draft, caller.identity)


@router.delete("/keys/{id}", operation_id="keys_revoke", response_model=IdentitySchema, responses=problems(404))
async def revoke_key(caller: CurrentCaller, id: str) -> Response:
    """Revoke a key of the tenant. The next request with it is refused."""
    caller.require(ADMIN)
    return json_response(_public(await caller.run(_revoke, caller, id)))


def _revoke(caller: Caller, id: str) -> Identity:
    with caller.audit_denials():
        return caller.service.keys.revoke(id, caller.identity.tenant, caller.identity)
