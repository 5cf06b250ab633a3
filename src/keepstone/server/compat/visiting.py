"""Who asks over the paths of another memory, whose memory is meant, and how it is told what went wrong.

The key says whose memory it is, here as everywhere. A user_id or agent_id in a request chooses among what the key reaches: a
service's key may act for each user of its tenant, a key that is bound to no agent for each agent; nothing else is reached.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from keepstone.errors import Conflict, Forbidden, KeepstoneError, ValidationError
from keepstone.server.bodies import StrictRoute
from keepstone.server.problems import TITLES, problem_of
from keepstone.server.responses import header
from keepstone.server.service import Caller
from keepstone.types import Scope, clean_name

EVERYONE = "*"
_MOST = 200  # scopes that one request looks through


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks in one request. `agent` and `user` are what the headers X-Keepstone-… hold it to, where they are sent."""

    caller: Caller
    agent: str | None = None
    user: str | None = None

    @property
    def _any_user(self) -> bool:
        return self.caller.identity.service and self.user is None

    @property
    def _any_agent(self) -> bool:
        return self.caller.identity.agent is None and self.agent is None

    def need(self, *rights: str, person: str | None = None) -> None:
        """Forbidden unless the key has these rights."""
        self.caller.need(*rights, person=person)

    def acting(self, user: str | None = None, agent: str | None = None) -> Caller:
        """The share of the request in one scope; Forbidden where it is not the key's, in the same words for everybody's."""
        own = self.caller.scope
        user = own.user if user is None else clean_name(user, "user_id")
        agent = own.agent if agent is None else clean_name(agent, "agent_id")
        with self.caller.noted():
            if user != own.user and not self._any_user:
                raise Forbidden("this key acts for its own user only: leave user_id out, or use a service key.")
            if agent != own.agent and not self._any_agent:
                raise Forbidden("this key is bound to one agent and cannot act for another: leave agent_id out.")
        return self.at(Scope(own.tenant, agent, user))

    def at(self, scope: Scope) -> Caller:
        """The share of the request in a scope that the key reaches."""
        own = self.caller.scope
        if scope == own:
            return self.caller
        user = self.user if scope.user == own.user else scope.user
        return self.caller.service.caller(self.caller.identity, scope.agent, user)

    def reach(self, users: frozenset[str] | None, agents: frozenset[str] | None) -> list[Caller]:
        """The scopes that a question is about. No users named: the key's own; no agents: all of theirs."""
        own, everyone = self.caller.scope, EVERYONE in (users or ())
        named = {own.user} if users is None else {user or own.user for user in users} - {EVERYONE}
        only = None if agents is None or EVERYONE in agents else {agent or own.agent for agent in agents}
        scopes = [self.acting(user or None, agent).scope for user in sorted(named) for agent in sorted(only or {own.agent})]
        if everyone or (only is None and self._any_agent):
            for user in [None] if everyone else sorted(named):
                scopes += [each for each in self._there(user) if self._may(each) and (only is None or each.agent in only)]
        scopes = list(dict.fromkeys(scopes))
        if len(scopes) > _MOST:
            raise ValidationError(f"this looks through {len(scopes)} users and agents, the limit is {_MOST}: name the user_id.")
        return [self.at(scope) for scope in scopes]

    def everything(self) -> list[Scope]:
        """Every scope that the key reaches and that has something."""
        return [scope for scope in self._there(None if self._any_user else self.caller.scope.user) if self._may(scope)]

    def holder(self, id: str) -> Caller:
        """The share of the request in the scope that has a record. Where the key reaches none that has, it is its own, in which
        the record is then not found, whoever has it."""
        id, own = clean_name(id, "memory_id"), self.caller.scope
        found = [
            each for each in self.caller.service.engine.store.retention.scopes_with_record(own.tenant, id) if self._may(each)
        ]
        if not found or own in found:
            return self.caller
        if len(found) > 1:
            raise Conflict(f"{len(found)} users or agents have a memory {id!r:.80}: it was imported; use a key of one of them.")
        return self.at(found[0])

    def _there(self, user: str | None) -> list[Scope]:
        return list(self.caller.service.engine.store.retention.scopes(self.caller.scope.tenant, user))

    def _may(self, scope: Scope) -> bool:
        own = self.caller.scope
        if scope.user != own.user and not (self._any_user and scope.user):
            return False
        return self._any_agent or scope.agent == own.agent


async def visitor(request: Request) -> Visitor:
    """Who asks, by 'Authorization: Token …'; settled once, before the body is read."""
    known: Visitor | None = getattr(request.state, "visitor", None)
    if known is None:
        kind, _, credential = (header(request, "authorization") or "").partition(" ")
        agent, user = header(request, "x-keepstone-agent"), header(request, "x-keepstone-user")
        given = credential.strip() if kind.lower() in ("token", "bearer") else None
        caller = await request.app.state.service.asked_by(given, agent, user)
        request.state.caller = caller  # for the log
        known = request.state.visitor = Visitor(caller, agent, user)
    return known


Visiting = Annotated[Visitor, Depends(visitor)]


class VisitorsRoute(StrictRoute):
    """A route whose problems are what mem0's client reads: plain JSON with a `detail`, 400 for what cannot be taken."""

    async def before(self, request: Request) -> None:
        await visitor(request)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def told(request: Request) -> Response:
            try:
                return await handle(request)
            except (KeepstoneError, RequestValidationError, HTTPException) as error:
                if isinstance(error, Forbidden):
                    await request.app.state.service.settled()  # whoever reads the trail after this answer finds it there
                return _told(problem_of(error))

        return told


def _told(problem: Response) -> Response:
    status = 400 if problem.status_code == 422 else problem.status_code
    body = json.loads(bytes(problem.body)) | {"status": status, "title": TITLES[status]}
    body["detail"] = body["detail"].replace(" /openapi.json says what is taken.", "")
    headers = {name: value for name, value in problem.headers.items() if not name.startswith("content-")}
    return Response(json.dumps(body), status, headers, "application/json")
