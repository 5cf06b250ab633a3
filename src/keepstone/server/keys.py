"""API keys: made, checked, listed, revoked.

A key is `ks_`, eight characters that tell it apart in lists, and 256 random bits. What is kept is its SHA-256: with that much
chance in it nothing slower is needed, and a look-up by the hash takes as long for a wrong key as for a right one. Keys are
states in a tenant of their own, so both stores have them, they move with a store, and nobody's memory is near them. Nothing is
remembered between two requests: a key that is revoked anywhere is refused by the next request everywhere.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from keepstone.errors import Forbidden, NotFound, Unauthenticated, ValidationError
from keepstone.server.identity import OPERATOR, RESERVED, USUAL, Identity, checked_rights
from keepstone.text.times import parse_time
from keepstone.types import Scope, clean_name

if TYPE_CHECKING:
    from keepstone.engine import Engine

PREFIX = "ks_"
PREFIXES = (PREFIX, "rk_")  # keys made by 0.1 begin with rk_
_HOME = Scope(RESERVED, "keys", "")
_LONGEST = 200  # characters of something that may be a key


@dataclass(frozen=True, slots=True)
class KeyDraft:
    """What a key is to be. Without a user, the user is its name; a service key may have none."""

    name: str
    tenant: str = "local"
    agent: str | None = None
    user: str | None = None
    service: bool = False
    expires_at: datetime | None = None
    rights: Iterable[str] = USUAL
    rate: int | None = None


class Keys:
    """The keys of one store."""

    def __init__(self, engine: Engine) -> None:
        self._states = engine.unguarded_states
        self._trail = engine.store.audit_log
        self._clock = engine.clock

    def create(self, draft: KeyDraft, maker: Identity | None = None) -> tuple[str, Identity]:
        """A new key: (the key itself, which is shown this once, and who it stands for). One that an admin makes (`maker`) may do
        no more than the admin's own, and for no longer. Forbidden, ValidationError."""
        now = self._clock()
        name = clean_name(draft.name, "name")
        expires = None if draft.expires_at is None else parse_time(draft.expires_at, "expires_at")
        if expires is not None and expires <= now:
            raise ValidationError(f"the key would expire at {expires.isoformat()}, which is past: name a later time.")
        if draft.rate is not None and (type(draft.rate) is not int or not 1 <= draft.rate <= 10_000_000):
            raise ValidationError(f"rate is {draft.rate!r:.40}: use 1 to 10000000 requests a minute.")
        user = draft.user if draft.user is not None or draft.service else name
        if maker is not None:
            _within(maker, draft, expires)
        shown = secrets.token_hex(4)
        while any(each.id == shown for each in self.list()):
            shown = secrets.token_hex(4)
        key = f"{PREFIX}{shown}_{secrets.token_urlsafe(32)}"
        identity = Identity(
            shown, name, clean_name(draft.tenant, "tenant"), draft.agent and clean_name(draft.agent, "agent"),
            None if user is None else clean_name(user, "user"), draft.service, checked_rights(draft.rights), now,
            expires, draft.rate,
        )  # fmt: skip
        if not self._states.put(_HOME, _name(key), _text(identity), new=True):
            raise RuntimeError("two keys with 256 random bits are the same")
        self._noted(identity, "created")
        return key, identity

    def check(self, key: str) -> Identity:
        """Who a key stands for; Unauthenticated for one that is unknown, revoked or expired, without saying which."""
        if not isinstance(key, str) or not key.startswith(PREFIXES) or len(key) > _LONGEST:
            raise Unauthenticated(_REFUSED)
        text = self._states.get(_HOME, _name(key))
        if text is None:
            raise Unauthenticated(_REFUSED)
        return self._valid(_identity(text))

    def current(self, name: str) -> Identity:
        """The same by the hash that `name_of` gave, for who has shown the key before."""
        text = self._states.get(_HOME, name) if name.startswith("key:") else None
        if text is None:
            raise Unauthenticated(_REFUSED)
        return self._valid(_identity(text))

    @staticmethod
    def name_of(key: str) -> str:
        """What a key is kept under: its hash."""
        return _name(key)

    def _valid(self, identity: Identity) -> Identity:
        if identity.expires_at is not None and identity.expires_at <= self._clock():
            raise Unauthenticated(_REFUSED)
        return identity

    def list(self, tenant: str | None = None) -> Sequence[Identity]:
        """Every key, or those of a tenant, the oldest first; never the keys themselves."""
        tenant = tenant and clean_name(tenant, "tenant")
        found = (_identity(text) for name, text in self._states.all(_HOME) if name.startswith("key:"))
        return sorted((each for each in found if tenant in (None, each.tenant)), key=lambda each: each.created_at)

    def revoke(self, id: str, tenant: str | None = None, maker: Identity | None = None) -> Identity:
        """Take a key away, by its id. NotFound where the tenant has none of that id, Forbidden where it is an operator's
        and the admin's (`maker`) who asks is not."""
        tenant = tenant and clean_name(tenant, "tenant")
        for name, text in self._states.all(_HOME):
            if not name.startswith("key:"):
                continue
            identity = _identity(text)
            named = hmac.compare_digest(identity.id.encode(), str(id).encode("utf-8", "surrogatepass"))
            if not named or tenant not in (None, identity.tenant):
                continue
            if maker is not None and OPERATOR in identity.rights - maker.rights:
                said = f"key {identity.id} is an operator's, and yours is not"
                raise Forbidden(f"{said}: revoke it where the store is, with 'keepstone keys revoke'.")
            if self._states.drop(_HOME, name):
                self._noted(identity, "revoked")
                return identity
        raise NotFound(f"there is no key {id!r:.40}: 'keepstone keys list' shows them.")

    def secret(self, name: str) -> bytes:
        """A random secret of the store's own, made when it is first asked for."""
        if (held := self._states.get(_HOME, f"secret:{name}")) is None:
            self._states.put(_HOME, f"secret:{name}", secrets.token_hex(32), new=True)
            held = self._states.get(_HOME, f"secret:{name}")
        return bytes.fromhex(held or "")

    def _noted(self, identity: Identity, action: str) -> None:
        """Into the trail of whom the key acts for, so that they can see it."""
        scope = Scope(identity.tenant, identity.agent or "default", identity.user or "")
        said = f"key {identity.id} ({identity.name}) with {', '.join(sorted(identity.rights))}"
        self._trail.note(scope, "key", action, "system", (said,))


_REFUSED = "this key is not valid: send 'Authorization: Bearer ks_…' with one that 'keepstone keys create' made."


def _within(maker: Identity, draft: KeyDraft, expires: datetime | None) -> None:
    """Forbidden where a key would be more than the key that makes it."""
    beyond = frozenset(draft.rights) - maker.rights
    if beyond:
        raise Forbidden(f"a key cannot be given more than the key that makes it has: leave out {_listed(beyond)}.")
    if draft.service and maker.via == "token":
        raise Forbidden("a token cannot make a service key: make it with an admin's key, or with 'keepstone keys create'.")
    if maker.expires_at is not None and (expires is None or expires > maker.expires_at):
        raise Forbidden(f"a key cannot outlive the key that makes it: let it expire by {maker.expires_at.isoformat()}.")
    if maker.rate is not None and (draft.rate is None or draft.rate > maker.rate):
        raise Forbidden(f"a key cannot make more requests than the key that makes it: give it a rate up to {maker.rate}.")


def _listed(rights: Iterable[str]) -> str:
    return ", ".join(sorted(rights))


def _name(key: str) -> str:
    return "key:" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def _text(identity: Identity) -> str:
    return json.dumps({
        "id": identity.id, "name": identity.name, "tenant": identity.tenant, "agent": identity.agent, "user": identity.user,
        "service": identity.service, "rights": sorted(identity.rights), "created_at": identity.created_at.isoformat(),
        "expires_at": None if identity.expires_at is None else identity.expires_at.isoformat(), "rate": identity.rate,
    })  # fmt: skip


def _identity(text: str) -> Identity:
    held: dict[str, Any] = json.loads(text)
    expires = held.pop("expires_at")
    return Identity(
        **held | {
            "rights": frozenset(held["rights"]),
            "created_at": parse_time(held["created_at"], "created_at"),
            "expires_at": None if expires is None else parse_time(expires, "expires_at"),
        }
    )  # fmt: skip
