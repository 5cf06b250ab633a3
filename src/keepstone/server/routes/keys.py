"""Routes for the keys of a tenant, and for the caller's own identity.

An admin creates and revokes keys of the own tenant, with no right that the admin's key lacks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from keepstone.server.identity import ADMIN, DEFAULT_RIGHTS, Identity, parse_rights
from keepstone.server.keys import KeyDraft
from keepstone.server.routing import FailFastList, api_router, json_response, operation
from keepstone.server.schemas import IdentitySchema, MeSchema, envelope
from keepstone.server.service import Caller
from keepstone.text.times import parse_time

router = api_router("keys")
Name = Annotated[str, Field(min_length=1, max_length=256)]
Right = Literal["read", "write", "forget", "admin", "operator"]


def _public(identity: Identity) -> dict[str, Any]:
    return {name: getattr(identity, name) for name in IdentitySchema.model_fields} | {"rights": sorted(identity.rights)}


@operation(router, "GET", "/me", "me", rights=(), schema=MeSchema)
def me(caller: Caller) -> dict[str, Any]:
    """The caller's identity, rights and scope."""
    return {**_public(caller.identity), "via": caller.identity.via, "scope": caller.scope}


@operation(
    router, "GET", "/keys", "keys_list", rights=(ADMIN,), schema=envelope("KeysResult", keys=list[IdentitySchema]), result="keys"
)
def list_keys(caller: Caller) -> list[dict[str, Any]]:
    """The identities of the tenant's keys, oldest first."""
    return [_public(identity) for identity in caller.keys.list(caller.scope.tenant)]


@operation(
    router,
    "POST",
    "/keys",
    "keys_create",
    rights=(ADMIN,),
    schema=envelope("NewKeyResult", "A new key. It is shown only once.", key=str, identity=IdentitySchema),
    status_code=201,
)
def create_key(
    caller: Caller,
    name: Name,
    agent: Name | None = None,
    user: Name | None = None,
    service: bool = False,
    expires_at: str | None = None,
    rights: Annotated[FailFastList[Right], Field(min_length=1)] | None = None,
    rate: Annotated[int | None, Field(ge=1, le=10_000_000)] = None,
) -> Response:
    """Create a key of the own tenant. It is shown only in this response. Without a user, its name is the user; a service key may
    have none. Without rights, it gets the read, write and forget rights of the key that creates it."""
    draft = KeyDraft(
        name=name,
        tenant=caller.identity.tenant,
        agent=agent,
        user=user,
        service=service,
        expires_at=None if expires_at is None else parse_time(expires_at, "expires_at"),
        rights=sorted(parse_rights(caller.identity.rights & set(DEFAULT_RIGHTS) if rights is None else rights)),
        rate=rate,
    )
    with caller.audit_denials():
        key, identity = caller.keys.create(draft, caller.identity)
    return json_response({"key": key, "identity": _public(identity)}, 201, {"cache-control": "no-store"})


@operation(router, "DELETE", "/keys/{id}", "keys_revoke", rights=(ADMIN,), schema=IdentitySchema, statuses=(404,))
def revoke_key(caller: Caller, id: str) -> dict[str, Any]:
    """Revoke a key of the tenant. The next request with it is refused."""
    with caller.audit_denials():
        return _public(caller.keys.revoke(id, caller.identity.tenant, caller.identity))
