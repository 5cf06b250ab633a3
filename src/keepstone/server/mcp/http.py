"""MCP over HTTP at /mcp: an OAuth 2.1 resource server that takes keepstone's keys, and tokens of an issuer it trusts.

Every request is answered by itself, in both revisions of the protocol: no session outlives a request, so any worker process can
answer any of them, a key that is revoked is refused by the next request, and there is no session to take over. Who asks travels
with the request, in its scope; no state of the process tells.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from keepstone.errors import KeepstoneError, NotFound, Unauthenticated, ValidationError
from keepstone.server.bodies import strict_json
from keepstone.server.identity import USUAL
from keepstone.server.mcp import origins
from keepstone.server.mcp.caller import Asker
from keepstone.server.mcp.protocol import Context, make_server
from keepstone.server.problems import Refused, problem_of
from keepstone.server.responses import bearer, header
from keepstone.server.service import Caller, Service

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"


def mount(app: FastAPI, service: Service) -> None:
    """Answer at /mcp, and say who may."""
    endpoint = Endpoint(service)
    app.state.parts.append(endpoint.living)

    async def metadata(request: Request) -> Response:
        return JSONResponse(protected_resource(service), headers={"access-control-allow-origin": "*"})

    for path in (PATH, PATH + "/"):
        app.router.routes.append(Route(path, endpoint=endpoint, include_in_schema=False))
    for path in (METADATA, METADATA + PATH):
        app.router.routes.append(Route(path, endpoint=metadata, methods=["GET"], include_in_schema=False))


def protected_resource(service: Service) -> dict[str, Any]:
    """The metadata of RFC 9728. NotFound without an issuer: there is nobody to get a token from, and a client that found this
    would look for one instead of sending the key it was given."""
    if not service.settings.token_issuer:
        raise NotFound("no issuer of tokens is set here: send 'Authorization: Bearer ks_…' with a key of this server.")
    return {
        "resource": service.address + PATH,
        "resource_name": "keepstone",
        "authorization_servers": [service.settings.token_issuer],
        "scopes_supported": list(USUAL),
        "bearer_methods_supported": ["header"],
    }


class Endpoint:
    """/mcp as an ASGI application: who asks is settled here, what they ask in the protocol."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._server = make_server(_asker)
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def living(self) -> AsyncIterator[None]:
        """For as long as the application lives."""
        most = self._service.settings.request_bytes
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True, max_request_body_size=most)
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            request.state.caller = await self._caller(request)
            body = await self._body(request)
        except ClientDisconnect:
            return
        except KeepstoneError as error:
            await self._refused(request, error)(scope, receive, send)
            return
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        if self._manager is None:
            raise RuntimeError("the application was not started: its lifespan has to run")
        await self._manager.handle_request(scope, _again(body, receive), send)

    async def _caller(self, request: Request) -> Caller:
        service = self._service
        reached = None if service.settings.public_url else request.scope["server"]  # behind a proxy it is always the proxy's way
        origins.check(header(request, "origin"), header(request, "host"), service.address, reached and reached[0])
        credential, agent, user = bearer(request), header(request, "x-keepstone-agent"), header(request, "x-keepstone-user")
        return await service.asked_by(credential, agent, user)

    async def _body(self, request: Request) -> bytes | Response:
        """The body of a request that the protocol can have, or the answer to one that it cannot."""
        if request.method != "POST":
            raise Refused(405, "only POST is answered here: there are no streams and no sessions.", {"allow": "POST"})
        if request.headers.get("mcp-session-id") is not None:
            return _error(404, INVALID_REQUEST, "there is no such session: initialize again, and send no Mcp-Session-Id.")
        body = await request.body()
        try:
            strict_json(body)
        except ValidationError as error:
            return _error(400, PARSE_ERROR, str(error))
        return body

    def _refused(self, request: Request, error: KeepstoneError) -> Response:
        """A problem; where nobody is signed in, it says where to learn how."""
        made = problem_of(error)
        if isinstance(error, Unauthenticated):
            parts = {"realm": "keepstone"}
            if self._service.settings.token_issuer:
                parts |= {"resource_metadata": self._service.address + METADATA + PATH, "scope": " ".join(USUAL)}
            if "authorization" in request.headers:
                parts |= {"error": "invalid_token", "error_description": "The key or token is not valid here."}
            made.headers["www-authenticate"] = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in parts.items())
        return made


def _asker(context: Context) -> Asker:
    """Who sent the request that this call came with."""
    request = context.request
    if not isinstance(request, Request):
        raise RuntimeError("a call came without its request")
    caller: Caller = request.state.caller
    return Asker.remote(caller)


def _error(status: int, code: int, said: str) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": said}}
    return Response(json.dumps(body), status, media_type="application/json")


def _again(body: bytes, receive: Receive) -> Receive:
    """A request's body for a second reader; then whatever else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return waiting.pop() if waiting else await receive()

    return next_message
