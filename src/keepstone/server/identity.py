"""Identity: who is asking, and what they may do. Pure.

The owner of what is read and written comes from here and from nowhere else: a key, or a token of an issuer that is trusted, is
bound to a tenant and to a user; only a service key may name the user it acts for, and only within its tenant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from keepstone.errors import Forbidden, ValidationError
from keepstone.types import Scope, clean_name

READ, WRITE, FORGET, ADMIN, OPERATOR = "read", "write", "forget", "admin", "operator"
RIGHTS = (READ, WRITE, FORGET, ADMIN, OPERATOR)
USUAL = (READ, WRITE, FORGET)
RESERVED = "keepstone.keys"  # the tenant that keys are kept in; nobody's memory


@dataclass(frozen=True, slots=True)
class Identity:
    """Who is asking. `agent` None: any agent of theirs; `user` None: a service key that has to name none. `rate` are requests a
    minute (None: the server's setting). `via` is "key" or "token"."""

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

    def __post_init__(self) -> None:
        scope = Scope(self.tenant, "default" if self.agent is None else self.agent, self.user or "")  # names as they are compared
        if scope.tenant == RESERVED:
            raise ValidationError(f"the tenant {RESERVED!r} is keepstone's own: choose another name.")
        object.__setattr__(self, "tenant", scope.tenant)
        object.__setattr__(self, "agent", self.agent and scope.agent)
        object.__setattr__(self, "user", self.user and scope.user)

    @property
    def bound_to_agent(self) -> bool:
        """An agent's key: what it says counts as an agent's word, and quarantine is closed to it, unless it is an admin's."""
        return self.agent is not None and ADMIN not in self.rights

    def may(self, right: str) -> bool:
        return right in self.rights

    def need(self, *rights: str) -> None:
        """Forbidden unless every right is there."""
        missing = [right for right in rights if right not in self.rights]
        if missing:
            raise Forbidden(
                f"this key may not {' or '.join(missing)}: use one that was made with --scopes …,{','.join(missing)}."
            )

    def need_person(self, what: str) -> None:
        """Forbidden for the key of an agent: what a person decides, or what nobody has looked through yet."""
        if self.bound_to_agent:
            raise Forbidden(f"{what} is not for an agent's key: use a user's key, or one with the scope admin.")

    def scope(self, agent: str | None = None, user: str | None = None) -> Scope:
        """Whose memory is meant, from what the caller asks for; Forbidden where that is not theirs to ask."""
        chosen = self.agent or "default"
        if agent is not None and clean_name(agent, "agent") != chosen:
            if self.agent is not None:
                raise Forbidden("this key is bound to one agent and cannot act for another: leave X-Keepstone-Agent out.")
            chosen = clean_name(agent, "agent")
        owner = self.user or ""
        if user is not None and clean_name(user, "user") != owner:
            if not self.service:
                raise Forbidden("this key acts for its own user only: leave X-Keepstone-User out, or use a service key.")
            owner = clean_name(user, "user")
        return Scope(self.tenant, chosen, owner)


def checked_rights(given: Iterable[str]) -> frozenset[str]:
    """Rights by name; ValidationError for one that there is not."""
    rights = frozenset(given)
    unknown = sorted(rights - set(RIGHTS))
    if unknown or not rights:
        said = f"there is no scope {unknown[0]!r:.40}" if unknown else "a key without a scope can do nothing"
        raise ValidationError(f"{said}: use some of {', '.join(RIGHTS)}.")
    return rights
