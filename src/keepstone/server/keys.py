"""API keys: created, checked, listed, revoked.

A key is `ks_`, an id of eight characters, and 256 random bits. The store keeps its SHA-256: with that much entropy nothing
slower is needed, and a look-up by hash takes the same time for any key. Keys are states of a reserved tenant, so every store
engine has them and they move with the store. Nothing is cached: a revoked key is refused by the next request in every process.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from keepstone.errors import Forbidden, NotFound, Unauthenticated, ValidationError
from keepstone.server.identity import DEFAULT_RIGHTS, OPERATOR, RESERVED_TENANT, Identity, parse_rights
from keepstone.text.times import parse_time
from keepstone.types import Scope, clean_name

if TYPE_CHECKING:
    from keepstone.backend import Backend

PREFIX = "ks_"
PREFIXES = (PREFIX, "rk_")  # keys made by 0.1 begin with rk_
KEYS_SCOPE = Scope(RESERVED_TENANT, "keys", "")
_MAX_KEY_CHARS = 200
_MAX_RATE = 10_000_000
_STATE_PREFIX = "key:"
_IDENTITY = TypeAdapter(Identity)
_INVALID = "this key is not valid: send 'Authorization: Bearer ks_…' with a key made by 'keepstone keys create'."


@dataclass(frozen=True, slots=True)
class KeyDraft:
    """A key to create. Without a user, its name is the user; a service key may have none."""

    name: str
    tenant: str = "local"
    agent: str | None = None
    user: str | None = None
    service: bool = False
    expires_at: datetime | None = None
    rights: Iterable[str] = DEFAULT_RIGHTS
    rate: int | None = None


class Keys:
    """The keys of one store."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._states = backend.key_states

    def create(self, draft: KeyDraft, creator: Identity | None = None) -> tuple[str, Identity]:
        """Create a key: (the key, which is shown only now, its identity). A key created with another key (`creator`) may not
        exceed it. Forbidden, ValidationError."""
        now = self._backend.now()
        name = clean_name(draft.name, "name")
        expires_at = None if draft.expires_at is None else parse_time(draft.expires_at, "expires_at")
        if expires_at is not None and expires_at <= now:
            raise ValidationError(f"expires_at is {expires_at.isoformat()}, which has passed: name a later time.")
        if draft.rate is not None and (type(draft.rate) is not int or not 1 <= draft.rate <= _MAX_RATE):
            raise ValidationError(f"rate is {draft.rate!r:.40}: use 1 to {_MAX_RATE} requests per minute.")
        user = draft.user if draft.user is not None or draft.service else name
        if creator is not None:
            _require_within(creator, draft, expires_at)
        id = secrets.token_hex(4)
        while any(identity.id == id for identity in self.list()):
            id = secrets.token_hex(4)
        key = f"{PREFIX}{id}_{secrets.token_urlsafe(32)}"
        identity = Identity(
            id=id,
            name=name,
            tenant=clean_name(draft.tenant, "tenant"),
            agent=draft.agent and clean_name(draft.agent, "agent"),
            user=None if user is None else clean_name(user, "user"),
            service=draft.service,
            rights=parse_rights(draft.rights),
            created_at=now,
            expires_at=expires_at,
            rate=draft.rate,
            from_token=creator is not None and (creator.via == "token" or creator.from_token),
        )
        self._states.put(KEYS_SCOPE, self.name_of(key), _IDENTITY.dump_json(identity, exclude={"via"}).decode(), new=True)
        self._audit(identity, "created")
        return key, identity

    def check(self, key: str) -> Identity:
        """The identity of a key; Unauthenticated, with one message, for an unknown, revoked or expired one."""
        if not isinstance(key, str) or not key.startswith(PREFIXES) or len(key) > _MAX_KEY_CHARS:
            raise Unauthenticated(_INVALID)
        return self.current(self.name_of(key))

    def current(self, name: str) -> Identity:
        """The identity of a key by the name it is stored under (`name_of`)."""
        text = self._states.get(KEYS_SCOPE, name) if name.startswith(_STATE_PREFIX) else None
        if text is None:
            raise Unauthenticated(_INVALID)
        identity = _IDENTITY.validate_json(text)
        if identity.expires_at is not None and identity.expires_at <= self._backend.now():
            raise Unauthenticated(_INVALID)
        return identity

    @staticmethod
    def name_of(key: str) -> str:
        """The name a key is stored under: its hash."""
        return _STATE_PREFIX + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()

    def list(self, tenant: str | None = None) -> Sequence[Identity]:
        """The identities of all keys, or of a tenant's, oldest first."""
        tenant = tenant and clean_name(tenant, "tenant")
        identities = (identity for _, identity in self._stored() if tenant in (None, identity.tenant))
        return sorted(identities, key=lambda identity: identity.created_at)

    def revoke(self, id: str, tenant: str | None = None, revoker: Identity | None = None) -> Identity:
        """Revoke a key by its id. NotFound if the tenant has no such key, Forbidden if it is an operator's and `revoker` is
        not one."""
        tenant = tenant and clean_name(tenant, "tenant")
        for name, identity in self._stored():
            matches = hmac.compare_digest(identity.id.encode(), str(id).encode("utf-8", "surrogatepass"))
            if not matches or tenant not in (None, identity.tenant):
                continue
            if revoker is not None and OPERATOR in identity.rights - revoker.rights:
                raise Forbidden(
                    f"key {identity.id} is an operator's and this key is not: revoke it with 'keepstone keys revoke'."
                )
            if self._states.drop(KEYS_SCOPE, name):
                self._audit(identity, "revoked")
                return identity
        raise NotFound(f"there is no key {id!r:.40}: 'keepstone keys list' shows the keys.")

    def secret(self, name: str) -> bytes:
        """A random secret of the store, created on first use."""
        state = f"secret:{name}"
        if (text := self._states.get(KEYS_SCOPE, state)) is None:
            self._states.put(KEYS_SCOPE, state, secrets.token_hex(32), new=True)
            text = self._states.get(KEYS_SCOPE, state)
        return bytes.fromhex(text or "")

    def _stored(self) -> Iterator[tuple[str, Identity]]:
        for name, text in self._states.all(KEYS_SCOPE):
            if name.startswith(_STATE_PREFIX):
                yield name, _IDENTITY.validate_json(text)

    def _audit(self, identity: Identity, action: str) -> None:
        """Write to the audit log of the scope that the key acts in."""
        scope = Scope(identity.tenant, identity.agent or "default", identity.user or "")
        text = f"key {identity.id} ({identity.name}) with {', '.join(sorted(identity.rights))}"
        self._backend.audit(scope, action, text)


def _require_within(creator: Identity, draft: KeyDraft, expires_at: datetime | None) -> None:
    """Forbidden if a key would exceed the key that creates it."""
    excess = frozenset(draft.rights) - creator.rights
    if excess:
        raise Forbidden(f"a key cannot have more rights than the key that creates it: leave out {', '.join(sorted(excess))}.")
    if draft.service and (creator.via == "token" or creator.from_token):
        raise Forbidden("a token, or a key made with one, cannot create a service key: use 'keepstone keys create'.")
    if creator.expires_at is not None and (expires_at is None or expires_at > creator.expires_at):
        raise Forbidden(f"a key cannot outlive the key that creates it: let it expire by {creator.expires_at.isoformat()}.")
    if creator.rate is not None and (draft.rate is None or draft.rate > creator.rate):
        raise Forbidden(f"a key cannot have a higher rate than the key that creates it: use at most {creator.rate}.")
