"""MCP over HTTP at /mcp: an OAuth 2.1 resource server that takes keepstone's keys and tokens of a trusted issuer.

Requests are stateless, in both revisions of the protocol: any worker process can answer any request, and a revoked key is refused
by the next request. The caller travels in the request's scope.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import SplitResult, urlsplit

from fastapi import FastAPI
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import INVALID_REQUEST, PARSE_ERROR
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from keepstone.errors import KeepstoneError, NotFound, Unauthenticated, ValidationError
from keepstone.server.bodies import parse_json
from keepstone.server.identity import DEFAULT_RIGHTS, parse_origin
from keepstone.server.mcp.caller import McpCaller
from keepstone.server.mcp.server import Context, make_server
from keepstone.server.problems import RequestRefused, error_response
from keepstone.server.routing import authenticate, read_header
from keepstone.server.service import Service

PATH = "/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def mount(app: FastAPI, service: Service) -> None:
    """Add /mcp and its OAuth metadata to an application."""
    endpoint = McpEndpoint(service)
    app.state.lifespans.append(endpoint.lifespan)

    async def metadata(request: Request) -> Response:
        return JSONResponse(resource_metadata(service), headers={"access-control-allow-origin": "*"})

    for path in (PATH, PATH + "/"):
        app.router.routes.append(Route(path, endpoint=endpoint, include_in_schema=False))
    for path in (METADATA_PATH, METADATA_PATH + PATH):
        app.router.routes.append(Route(path, endpoint=metadata, methods=["GET"], include_in_schema=False))


def resource_metadata(service: Service) -> dict[str, Any]:
    """The metadata of RFC 9728. NotFound without an issuer: a client that finds metadata would look for a token instead of
    sending its key."""
    if not service.settings.token_issuer:
        raise NotFound("this server has no token issuer: send 'Authorization: Bearer ks_…' with a key.")
    return {
        "resource": service.address + PATH,
        "resource_name": "keepstone",
        "authorization_servers": [service.settings.token_issuer],
        "scopes_supported": list(DEFAULT_RIGHTS),
        "bearer_methods_supported": ["header"],
    }


class McpEndpoint:
    """The ASGI application at /mcp: authenticates a request, then passes it to the MCP server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._server = make_server(_caller_of)
        self._manager: StreamableHTTPSessionManager | None = None

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        max_bytes = self._service.settings.request_bytes
        manager = StreamableHTTPSessionManager(self._server, json_response=True, stateless=True, max_request_body_size=max_bytes)
        async with manager.run():
            self._manager = manager
            try:
                yield
            finally:
                self._manager = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            service = self._service
            server = None if service.settings.public_url else request.scope["server"]  # behind a proxy it is the proxy's address
            host = read_header(request, "host")
            check_origin(read_header(request, "origin"), host, service.address, server and server[0])
            await authenticate(request)
            body = await _read_body(request)
        except ClientDisconnect:
            return
        except KeepstoneError as error:
            await self._refusal(request, error)(scope, receive, send)
            return
        if isinstance(body, Response):
            await body(scope, receive, send)
            return
        if self._manager is None:
            raise RuntimeError("the application was not started: its lifespan has to run")
        await self._manager.handle_request(scope, _replay(body, receive), send)

    def _refusal(self, request: Request, error: KeepstoneError) -> Response:
        """A problem; a 401 also says where to get a token."""
        response = error_response(error)
        if isinstance(error, Unauthenticated):
            challenge = {"realm": "keepstone"}
            if self._service.settings.token_issuer:
                challenge |= {
                    "resource_metadata": self._service.address + METADATA_PATH + PATH,
                    "scope": " ".join(DEFAULT_RIGHTS),
                }
            if "authorization" in request.headers:
                challenge |= {"error": "invalid_token", "error_description": "The key or token is not valid here."}
            header = "Bearer " + ", ".join(f'{name}="{value}"' for name, value in challenge.items())
            response.headers["www-authenticate"] = header
        return response


async def _read_body(request: Request) -> bytes | Response:
    """The body of a valid request, or the response to an invalid one."""
    if request.method != "POST":
        raise RequestRefused(405, "this address takes POST only: it has no streams and no sessions.", {"allow": "POST"})
    if request.headers.get("mcp-session-id") is not None:
        return _json_rpc_error(404, INVALID_REQUEST, "this session does not exist: initialize again, without Mcp-Session-Id.")
    body = await request.body()
    try:
        parse_json(body)
    except ValidationError as error:
        return _json_rpc_error(400, PARSE_ERROR, str(error))
    return body


def _caller_of(context: Context) -> McpCaller:
    request = context.request
    if not isinstance(request, Request):
        raise RuntimeError("a call came without its request")
    return McpCaller.over_http(request.state.caller)


def _json_rpc_error(status: int, code: int, message: str) -> Response:
    body = {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}
    return Response(json.dumps(body), status, media_type="application/json")


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once more."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return messages.pop() if messages else await receive()

    return next_message


# -- DNS rebinding -------------------------------------------------------------------------------------------------------------
def check_origin(origin: str | None, host: str | None, address: str, server: str | None) -> None:
    """Refuse a request from a web page of another site, or through a foreign host name (DNS rebinding).

    Only pages of this server and of this machine may call. A request that arrives on a loopback address must name this machine as
    its Host. `address` is this server's; `server` is the address the connection arrived at, None behind a proxy."""
    if origin is not None:
        own, page = _split(address), parse_origin(origin)
        if page is None or (not _is_loopback(page.hostname) and (page.scheme, page.netloc) != (own.scheme, own.netloc)):
            raise RequestRefused(403, f"Origin is {origin!r:.80}: pages of other sites may not call this server.")
    if _is_loopback(server) and not _is_loopback(_split(f"//{host or ''}").hostname):
        raise RequestRefused(421, f"Host is {host!r:.80}, not this machine: set public_url to the server's address.")


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text)
        parts.hostname  # noqa: B018  # raises for an invalid address
        return parts
    except ValueError:
        return SplitResult("", "", "", "", "")


def _is_loopback(name: str | None) -> bool:
    return name is not None and (name in _LOOPBACK_NAMES or name.endswith(".localhost"))
