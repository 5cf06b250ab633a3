"""keys: the API keys of a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from keepstone.cli import options as o
from keepstone.cli.arguments import duration
from keepstone.cli.invocation import Invocation, Missing
from keepstone.cli.output import Output, err
from keepstone.errors import Forbidden, ValidationError
from keepstone.ports.serialize import document
from keepstone.text.times import now, parse_time

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory
    from keepstone.server.identity import Identity

KeyFields = dict[str, Any]  # fields of a key without its secret
app = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="API keys of a server.")
app.add_typer(keys, name="keys")


@o.command(keys, "create")
def create(
    call: Invocation,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="The name of the key, and of its user unless --user or --service is given.")
    ],
    service: Annotated[
        bool, typer.Option("--service", help="The key acts for any user of its tenant, named in X-Keepstone-User.")
    ] = False,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="Expiry: 30d, 12h … from now, or an ISO 8601 time.")] = None,
    scopes: Annotated[
        str, typer.Option(metavar="LIST", help="Rights: read, write, forget, admin, operator.")
    ] = "read,write,forget",
    rate: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Maximum requests per minute; default: the server's setting.")
    ] = None,
) -> None:
    """Create a key and print it once; the store keeps only its hash.

    The key is bound to --tenant (default: local), to --user, and to --agent if one is named. An agent's key writes as an agent
    and does not see memories that wait for a review.
    """
    rights = [right.strip() for right in scopes.split(",") if right.strip()]
    draft = {
        "name": name, "agent": call.agent if "agent" in call.named else None, "user": call.user if "user" in call.named else None,
        "service": service, "expires_at": _parse_expiry(expires), "rights": rights, "rate": rate,
    }  # fmt: skip
    with _open_keys(call, "create") as store:
        key, identity = store.create(draft)
    if call.json:
        call.answer({"key": key, **identity}, lambda out: None)
        return
    print(key, file=sys.stdout)
    err().line((f"{_describe_key(identity)}. The key is not shown again.", "dim"))


def _parse_expiry(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        length = duration(text, "--expires")
    except ValidationError:
        return parse_time(text, "--expires")
    return None if length is None else now() + length


@o.command(keys, "list")
def list_(call: Invocation) -> None:
    """List the keys by id and name; with --tenant, those of one tenant."""
    with _open_keys(call, "empty") as store:
        found = store.list()
    call.answer({"keys": found}, lambda out: _list(out, found))


def _list(out: Output, found: Sequence[KeyFields]) -> None:
    for identity in found:
        out.line((identity["id"], "bold"), f"  {_describe_key(identity)}")
    if not found:
        out.line("There are no keys: 'keepstone keys create --name NAME' creates one.")


@o.command(keys, "revoke")
def revoke(
    call: Invocation, id: Annotated[str, typer.Argument(metavar="ID", help="The id of a key, as 'keys list' shows it.")]
) -> None:
    """Revoke a key at once."""
    with _open_keys(call, "refuse") as store:
        identity = store.revoke(id)
    call.answer(identity, lambda out: out.line(("revoked", "bold"), f"  {id}  {identity['name']}"))


def _describe_key(identity: KeyFields) -> str:
    whom = "any user" if identity["service"] else f"user {identity['user'] or '(none)'}"
    agent = f", agent {identity['agent']}" if identity["agent"] else ""
    ends = f", until {identity['expires_at'][:16].replace('T', ' ')} UTC" if identity["expires_at"] else ""
    return f"{identity['name']}: tenant {identity['tenant']}, {whom}{agent}; {', '.join(identity['rights'])}{ends}"


@contextmanager
def _open_keys(call: Invocation, missing: Missing) -> Iterator[_StoreKeys | _ServerKeys]:
    """The keys of a store, or of the server in KEEPSTONE_URL."""
    if call.url is None:
        with call.open(missing=missing) as memory:
            yield _StoreKeys(memory, call.tenant, "tenant" in call.named)
        return
    from keepstone.client.client import Client

    with Client(call.url) as client:
        if "tenant" in call.named and call.tenant != client.scope.tenant:
            raise Forbidden(f"the key in KEEPSTONE_KEY is not of the tenant {call.tenant!r:.60}: use a key of that tenant.")
        yield _ServerKeys(client)


class _StoreKeys:
    """Keys in a store."""

    def __init__(self, memory: Memory, tenant: str, named: bool) -> None:
        from keepstone.backend import backend_of
        from keepstone.server.keys import Keys

        self._keys = Keys(backend_of(memory))
        self._tenant, self._only = tenant, tenant if named else None

    def create(self, draft: KeyFields) -> tuple[str, KeyFields]:
        from keepstone.server.keys import KeyDraft

        key, identity = self._keys.create(KeyDraft(tenant=self._tenant, **draft))
        return key, _public_fields(identity)

    def list(self) -> Sequence[KeyFields]:
        return [_public_fields(identity) for identity in self._keys.list(self._only)]

    def revoke(self, id: str) -> KeyFields:
        return _public_fields(self._keys.revoke(id, self._only))


class _ServerKeys:
    """Keys of a server: those of the tenant of an admin key."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, draft: KeyFields) -> tuple[str, KeyFields]:
        ends = draft["expires_at"]
        made = self._client._request("POST", "/v1/keys", draft | {"expires_at": None if ends is None else ends.isoformat()})
        return made["key"], made["identity"]

    def list(self) -> Sequence[KeyFields]:
        found: list[KeyFields] = self._client._request("GET", "/v1/keys")["keys"]
        return found

    def revoke(self, id: str) -> KeyFields:
        gone: KeyFields = self._client._request("DELETE", f"/v1/keys/{quote(id, safe='')}")
        return gone


def _public_fields(identity: Identity) -> KeyFields:
    return {**document(identity), "rights": sorted(identity.rights)}
