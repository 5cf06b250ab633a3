"""Keys of a tenant, and who is asking.

An admin makes and revokes keys of the own tenant, none with a right that the own key lacks. What a key is appears once, in the
answer that made it; its hash never.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from keepstone.server.identity import ADMIN, USUAL, Identity, checked_rights
from keepstone.server.keys import KeyDraft
from keepstone.server.responses import Asking, Given, Many, also, answer, group
from keepstone.server.service import Caller
from keepstone.server.shapes_keeping import IdentityShape, KeysShape, MeShape, NewKeyShape
from keepstone.text.times import parse_time

router = group("keys")
Name = Annotated[str, Field(min_length=1, max_length=256)]
Right = Literal["read", "write", "forget", "admin", "operator"]


class KeyRequest(Given):
    """What a key is to be. Without a user, the user is its name; a service key may have none. Without rights, it may do what
    the key that makes it may do of read, write and forget."""

    name: Name
    agent: Name | None = None
    user: Name | None = None
    service: bool = False
    expires_at: str | None = None
    rights: Many[Right] | None = Field(None, min_length=1)
    rate: int | None = Field(None, ge=1, le=10_000_000)


@router.get("/me", operation_id="me", response_model=MeShape)
async def me(asking: Asking) -> Response:
    """Who is asking, what they may do, and whose memory is meant."""
    return answer({**shown(asking.identity), "via": asking.identity.via, "scope": asking.scope})


def shown(identity: Identity) -> dict[str, Any]:
    """An identity as others may see it."""
    return {name: getattr(identity, name) for name in IdentityShape.model_fields} | {"rights": sorted(identity.rights)}


@router.get("/keys", operation_id="keys_list", response_model=KeysShape)
async def list_(asking: Asking) -> Response:
    """Every key of the tenant, the oldest first; never the keys themselves."""
    asking.need(ADMIN)
    found = await asking.run(asking.service.keys.list, asking.scope.tenant)
    return answer({"keys": [shown(each) for each in found]})


@router.post("/keys", operation_id="keys_create", response_model=NewKeyShape, status_code=201)
async def create(asking: Asking, given: KeyRequest) -> Response:
    """Make a key of the own tenant. It is shown this once."""
    asking.need(ADMIN)
    key, identity = await asking.run(_made, asking, given)
    return answer({"key": key, "identity": shown(identity)}, 201, {"cache-control": "no-store"})


def _made(asking: Caller, given: KeyRequest) -> tuple[str, Identity]:
    rights = checked_rights(asking.identity.rights.intersection(USUAL) if given.rights is None else given.rights)
    expires = None if given.expires_at is None else parse_time(given.expires_at, "expires_at")
    tenant = asking.identity.tenant
    draft = KeyDraft(given.name, tenant, given.agent, given.user, given.service, expires, sorted(rights), given.rate)
    with asking.noted():
        return asking.service.keys.create(draft, asking.identity)


@router.delete("/keys/{id}", operation_id="keys_revoke", response_model=IdentityShape, responses=also(404))
async def revoke(asking: Asking, id: str) -> Response:
    """Take a key of the tenant away: the next request with it is refused."""
    asking.need(ADMIN)
    return answer(shown(await asking.run(_revoked, asking, id)))


def _revoked(asking: Caller, id: str) -> Identity:
    with asking.noted():
        return asking.service.keys.revoke(id, asking.identity.tenant, asking.identity)
