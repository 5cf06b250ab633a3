"""Mem0Caller: the caller of a mem0 request, the scopes it reaches, and errors in mem0's form.

The key decides whose memory is reached. A user_id or agent_id selects within that: a service key acts for every user of its
tenant, a key bound to no agent for every agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from keepstone.errors import Conflict, Forbidden, KeepstoneError, ValidationError
from keepstone.server.problems import TITLES, error_response
from keepstone.server.routing import ApiRoute, read_header
from keepstone.server.service import Caller
from keepstone.types import Scope, clean_name

ANY = "*"
_MAX_SCOPES = 200


@dataclass(frozen=True, slots=True)
class Mem0Caller:
    """The caller of one request. `agent` and `user` are those of the X-Keepstone-… headers, which it is held to."""

    caller: Caller
    agent: str | None = None
    user: str | None = None

    @property
    def _any_user(self) -> bool:
        return self.caller.identity.service and self.user is None

    @property
    def _any_agent(self) -> bool:
        return self.caller.identity.agent is None and self.agent is None

    def in_scope(self, scope: Scope) -> Caller:
        """The caller in a scope that the key reaches."""
        own = self.caller.scope
        if scope == own:
            return self.caller
        user = self.user if scope.user == own.user else scope.user
        return self.caller.service.caller_for(self.caller.identity, scope.agent, user)

    def looking_into(self, scope: Scope) -> Caller:
        """The caller in one of `all_scopes`, which it only looks into: no use of the key is written there."""
        return replace(self.caller, scope=scope)

    def acting_for(self, user: str | None = None, agent: str | None = None) -> Caller:
        """The caller in the scope of a user and an agent; Forbidden, with the same message for every other one's."""
        own = self.caller.scope
        user = own.user if user is None else clean_name(user, "user_id")
        agent = own.agent if agent is None else clean_name(agent, "agent_id")
        with self.caller.audit_denials():
            if user != own.user and not self._any_user:
                raise Forbidden("this key acts for its own user only: leave user_id out, or use a service key.")
            if agent != own.agent and not self._any_agent:
                raise Forbidden("this key is bound to one agent and cannot act for another: leave agent_id out.")
        return self.in_scope(Scope(own.tenant, agent, user))

    def callers_for(self, users: frozenset[str] | None, agents: frozenset[str] | None) -> list[Caller]:
        """The caller in every scope that a request is about. Without users: the key's own; without agents: all of theirs."""
        own, any_user = self.caller.scope, ANY in (users or ())
        names = {own.user} if users is None else {user or own.user for user in users} - {ANY}
        chosen_agents = None if agents is None or ANY in agents else {agent or own.agent for agent in agents}
        scopes = [
            self.acting_for(user or None, agent).scope for user in sorted(names) for agent in sorted(chosen_agents or {own.agent})
        ]
        if any_user or (chosen_agents is None and self._any_agent):
            for user in [None] if any_user else sorted(names):
                existing = self.caller.backend.scopes(own.tenant, user)
                scopes += [
                    scope
                    for scope in existing
                    if self._reaches(scope) and (chosen_agents is None or scope.agent in chosen_agents)
                ]
        scopes = list(dict.fromkeys(scopes))
        if len(scopes) > _MAX_SCOPES:
            raise ValidationError(f"this covers {len(scopes)} users and agents, the maximum is {_MAX_SCOPES}: name the user_id.")
        return [self.in_scope(scope) for scope in scopes]

    def all_scopes(self) -> list[Scope]:
        """Every scope with records that the key reaches."""
        own = self.caller.scope
        scopes = self.caller.backend.scopes(own.tenant, None if self._any_user else own.user)
        return [scope for scope in scopes if self._reaches(scope)]

    def holding(self, id: str) -> Caller:
        """The caller in the scope that holds a record; in its own scope, where it is not found, if the key reaches none."""
        id, own = clean_name(id, "memory_id"), self.caller.scope
        scopes = [scope for scope in self.caller.backend.scopes_with(own.tenant, id) if self._reaches(scope)]
        if not scopes or own in scopes:
            return self.caller
        if len(scopes) > 1:
            raise Conflict(f"{len(scopes)} users or agents have a memory {id!r:.80}: use a key of one of them.")
        return self.in_scope(scopes[0])

    def _reaches(self, scope: Scope) -> bool:
        own = self.caller.scope
        if scope.user != own.user and not (self._any_user and scope.user):
            return False
        return self._any_agent or scope.agent == own.agent


async def _current_caller(request: Request) -> Mem0Caller:
    agent, user = read_header(request, "x-keepstone-agent"), read_header(request, "x-keepstone-user")
    return Mem0Caller(request.state.caller, agent, user)


CurrentMem0Caller = Annotated[Mem0Caller, Depends(_current_caller)]


class Mem0Route(ApiRoute):
    """A route whose errors are in the form that mem0's client reads: JSON with a `detail`, 400 for invalid requests."""

    schemes = ("token", "bearer")

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_errors(request: Request) -> Response:
            try:
                return await handle(request)
            except (KeepstoneError, RequestValidationError, HTTPException) as error:
                if isinstance(error, Forbidden):
                    await request.app.state.service.flush_denials()
                return _as_mem0_error(error_response(error))

        return handle_errors


def _as_mem0_error(problem: Response) -> Response:
    status = 400 if problem.status_code == 422 else problem.status_code
    body = json.loads(bytes(problem.body)) | {"status": status, "title": TITLES[status]}
    body["detail"] = body["detail"].replace(" See /openapi.json for the schema.", "")
    headers = {name: value for name, value in problem.headers.items() if not name.startswith("content-")}
    return Response(json.dumps(body), status, headers, "application/json")
