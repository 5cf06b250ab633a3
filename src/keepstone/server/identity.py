"""Identity: who calls, and what they may do. Pure.

The owner of what is read and written comes from the identity alone. A key, or a token of a trusted issuer, is bound to a tenant
and a user; only a service key may name the user it acts for, within its tenant.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import SplitResult, urlsplit

from keepstone.errors import Forbidden, ValidationError
from keepstone.rights import ADMIN, FORGET, OPERATOR, READ, RIGHTS, WRITE
from keepstone.types import Scope, clean_name
from keepstone.write.request import trust_of

__all__ = ["ADMIN", "FORGET", "OPERATOR", "READ", "RIGHTS", "WRITE"]

DEFAULT_RIGHTS = (READ, WRITE, FORGET)
_ORIGIN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[A-Za-z0-9._:\[\]-]+")
RESERVED_TENANT = "keepstone.keys"  # holds the keys, and no memories


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of a key or token. `agent` None: any agent; `user` None: a service key. `rate` is requests per minute (None:
    the server's setting). `via` is "key" or "token"."""

    id: str
    name: str
    tenant: str
    agent: str | None
    user: str | None
    service: bool
    rights: frozenset[str]
    created_at: datetime
    expires_at: datetime | None = None
    rate: int | None = None
    via: str = "key"
    from_token: bool = False  # a key that a token has made, or a key made by such a key

    def __post_init__(self) -> None:
        scope = Scope(self.tenant, "default" if self.agent is None else self.agent, self.user or "")  # normalises the names
        if scope.tenant == RESERVED_TENANT:
            raise ValidationError(f"the tenant name {RESERVED_TENANT!r} is reserved: choose another name.")
        object.__setattr__(self, "tenant", scope.tenant)
        object.__setattr__(self, "agent", self.agent and scope.agent)
        object.__setattr__(self, "user", self.user and scope.user)

    @property
    def bound_to_agent(self) -> bool:
        """An agent's key, unless it is an admin's: it writes as an agent, and quarantine is closed to it."""
        return self.agent is not None and ADMIN not in self.rights

    def may(self, right: str) -> bool:
        return right in self.rights

    def require(self, *rights: str) -> None:
        """Forbidden if a right is missing."""
        missing = [right for right in rights if right not in self.rights]
        if missing:
            raise Forbidden(f"this key may not {' or '.join(missing)}: use a key created with --scopes …,{','.join(missing)}.")

    def require_person(self, what: str) -> None:
        """Forbidden for an agent's key: decisions and unreviewed content are for people."""
        if self.bound_to_agent:
            raise Forbidden(f"{what} is not available to an agent's key: use a user's key, or one with the scope admin.")

    @property
    def max_source(self) -> str:
        """The most trusted source that it may write as: an agent does not write as the user."""
        return "agent" if self.bound_to_agent else "user"

    def require_source(self, source: str) -> None:
        """Forbidden for a source that is trusted more than the identity."""
        if source != self.max_source and trust_of(source) > trust_of(self.max_source):
            message = f"this key cannot write as {source!r:.40}: its writes are trusted as {self.max_source!r} at most."
            raise Forbidden(f"{message} Leave source out.")

    def require_scope(self, scope: Scope) -> None:
        """Forbidden for a scope that this identity may not act in."""
        if scope.tenant != self.tenant:
            raise Forbidden("a request acts in the tenant of its key: use a key of that tenant.")
        if self.scope(scope.agent, scope.user or None) != scope:
            raise Forbidden("this key acts for its own user only: leave the others out, or use a service key.")

    def scope(self, agent: str | None = None, user: str | None = None) -> Scope:
        """The scope of a request that names this agent and user; Forbidden if the key may not act for them."""
        chosen_agent = self.agent or "default"
        if agent is not None and clean_name(agent, "agent") != chosen_agent:
            if self.agent is not None:
                raise Forbidden("this key is bound to one agent and cannot act for another: leave X-Keepstone-Agent out.")
            chosen_agent = clean_name(agent, "agent")
        chosen_user = self.user or ""
        if user is not None and clean_name(user, "user") != chosen_user:
            if not self.service:
                raise Forbidden("this key acts for its own user only: leave X-Keepstone-User out, or use a service key.")
            chosen_user = clean_name(user, "user")
        return Scope(self.tenant, chosen_agent, chosen_user)


def parse_origin(header: str) -> SplitResult | None:
    """An Origin header, which is a scheme, a host and perhaps a port; None for anything else, which parsers read differently."""
    if _ORIGIN.fullmatch(header) is None:
        return None
    try:
        parts = urlsplit(header)
        parts.hostname  # noqa: B018  # raises for an invalid address
    except ValueError:
        return None
    return parts


def parse_rights(names: Iterable[str]) -> frozenset[str]:
    """Rights by name; ValidationError for an unknown one, or for none."""
    rights = frozenset(names)
    unknown = sorted(rights - set(RIGHTS))
    if unknown or not rights:
        problem = f"the scope {unknown[0]!r:.40} does not exist" if unknown else "a key needs at least one scope"
        raise ValidationError(f"{problem}: use some of {', '.join(RIGHTS)}.")
    return rights
