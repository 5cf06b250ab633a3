"""keepstone keys: who may use a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from keepstone.cli import options as o
from keepstone.cli.given import duration
from keepstone.cli.invocation import Invocation, Missing
from keepstone.cli.output import Output, err
from keepstone.errors import Forbidden, ValidationError
from keepstone.ports.serialize import document
from keepstone.text.times import now, parse_time

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory
    from keepstone.server.identity import Identity

Shown = dict[str, Any]  # a key as it may be seen, or as it is to be
app = typer.Typer()
keys = typer.Typer(no_args_is_help=True, help="Keys for a server: who may use it, and for what.")
app.add_typer(keys, name="keys")


@o.command(keys, "create")
def create(
    call: Invocation,
    name: Annotated[str, typer.Option(metavar="NAME", help="What the key is called; its user too, unless --user or --service.")],
    service: Annotated[
        bool, typer.Option("--service", help="It acts for any user of its tenant, named in X-Keepstone-User.")
    ] = False,
    expires: Annotated[str | None, typer.Option(metavar="TIME", help="When it ends: 30d, 12h …, or an ISO 8601 time.")] = None,
    scopes: Annotated[
        str, typer.Option(metavar="LIST", help="What it may: read, write, forget, admin, operator.")
    ] = "read,write,forget",
    rate: Annotated[int | None, typer.Option(metavar="N", min=1, help="Requests a minute; else the server's setting.")] = None,
) -> None:
    """Make a key and print it, this once: only its hash is kept.

    It is bound to --tenant (default: local), to --user, and to --agent where one is named: an agent's key speaks as an agent,
    and sees nothing that waits for a review.
    """
    rights = [each.strip() for each in scopes.split(",") if each.strip()]
    asked = {
        "name": name, "agent": call.agent if "agent" in call.named else None, "user": call.user if "user" in call.named else None,
        "service": service, "expires_at": _ends(expires), "rights": rights, "rate": rate,
    }  # fmt: skip
    with _ring(call, "create") as ring:
        key, identity = ring.create(asked)
    if call.json:
        call.answer({"key": key, **identity}, lambda out: None)
        return
    print(key, file=sys.stdout)
    err().line((f"{_told(identity)}. This is the only time it is shown.", "dim"))


def _ends(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        length = duration(text, "--expires")
    except ValidationError:
        return parse_time(text, "--expires")
    return None if length is None else now() + length


@o.command(keys, "list")
def list_(call: Invocation) -> None:
    """The keys there are, without the keys themselves; with --tenant, those of one tenant."""
    with _ring(call, "empty") as ring:
        found = ring.list()
    call.answer({"keys": found}, lambda out: _list(out, found))


def _list(out: Output, found: Sequence[Shown]) -> None:
    for identity in found:
        out.line((identity["id"], "bold"), f"  {_told(identity)}")
    if not found:
        out.line("There are no keys: 'keepstone keys create --name NAME' makes one.")


@o.command(keys, "revoke")
def revoke(
    call: Invocation, id: Annotated[str, typer.Argument(metavar="ID", help="The id of a key, as 'keys list' shows it.")]
) -> None:
    """Take a key away, at once and everywhere."""
    with _ring(call, "refuse") as ring:
        identity = ring.revoke(id)
    call.answer(identity, lambda out: out.line(("revoked", "bold"), f"  {id}  {identity['name']}"))


def _told(identity: Shown) -> str:
    whom = "any user" if identity["service"] else f"user {identity['user'] or '(none)'}"
    agent = f", agent {identity['agent']}" if identity["agent"] else ""
    ends = f", until {identity['expires_at'][:16].replace('T', ' ')} UTC" if identity["expires_at"] else ""
    return f"{identity['name']}: tenant {identity['tenant']}, {whom}{agent}; {', '.join(identity['rights'])}{ends}"


@contextmanager
def _ring(call: Invocation, missing: Missing) -> Iterator[_Here | _There]:
    """The keys of a store, or of the server that KEEPSTONE_URL names."""
    if call.url is None:
        with call.open(missing=missing) as memory:
            yield _Here(memory, call.tenant, "tenant" in call.named)
        return
    from keepstone.client.client import Client

    with Client(call.url) as client:
        if "tenant" in call.named and call.tenant != client.scope.tenant:
            raise Forbidden(f"the key in KEEPSTONE_KEY is of another tenant than {call.tenant!r:.60}: use one of that tenant.")
        yield _There(client)


class _Here:
    """Keys in a store."""

    def __init__(self, memory: Memory, tenant: str, named: bool) -> None:
        from keepstone.memory import engine_of
        from keepstone.server.keys import Keys

        self._keys = Keys(engine_of(memory))
        self._tenant, self._only = tenant, tenant if named else None

    def create(self, asked: Shown) -> tuple[str, Shown]:
        from keepstone.server.keys import KeyDraft

        key, identity = self._keys.create(KeyDraft(tenant=self._tenant, **asked))
        return key, _shown(identity)

    def list(self) -> Sequence[Shown]:
        return [_shown(each) for each in self._keys.list(self._only)]

    def revoke(self, id: str) -> Shown:
        return _shown(self._keys.revoke(id, self._only))


class _There:
    """Keys of a server, as far as an admin's key may: those of its tenant."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def create(self, asked: Shown) -> tuple[str, Shown]:
        ends = asked["expires_at"]
        made = self._client._request("POST", "/v1/keys", asked | {"expires_at": None if ends is None else ends.isoformat()})
        return made["key"], made["identity"]

    def list(self) -> Sequence[Shown]:
        found: list[Shown] = self._client._request("GET", "/v1/keys")["keys"]
        return found

    def revoke(self, id: str) -> Shown:
        gone: Shown = self._client._request("DELETE", f"/v1/keys/{quote(id, safe='')}")
        return gone


def _shown(identity: Identity) -> Shown:
    return {**document(identity), "rights": sorted(identity.rights)}
