"""RequestMiddleware: what happens to every request, around the application.

It limits the body, gives the request an id, counts and logs it, adds the headers that every response has, and answers for
unhandled errors. It names a request by its route's template, never by its address.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keepstone.open import safe_message
from keepstone.server import logs
from keepstone.server.bodies import BodyReader
from keepstone.server.metrics import METHODS, OTHER, Metrics
from keepstone.server.problems import error_response, iterate_routes

if TYPE_CHECKING:
    from keepstone.server.tracing import Tracing

log = logging.getLogger(logs.ACCESS)
_REQUEST_ID = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_CLIENT_CLOSED = 499
_PROBES = frozenset(("/healthz", "/readyz", "/metrics"))  # logged only if they fail
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")


MAX_OTHER_BYTES = 1024 * 1024  # of a body that brings no text to remember
_TEXT_PATHS = (
    "/v1/memories", "/v1/conversations/", "/v1/ingest", "/v1/learn", "/v1/values/", "/v1/working/", "/v1/review/", "/v1/tools/",
    "/v1/tasks", "/mcp", "/compat/", "/memories",
)  # fmt: skip


class RequestMiddleware:
    """ASGI middleware. `limits` are a body's (bytes, seconds), `path_limits` those of paths that take files."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        limits: tuple[int, float],
        path_limits: Mapping[str, tuple[int, float]],
        tracing: Tracing | None = None,
    ) -> None:
        self._app, self._metrics, self._tracing = app, metrics, tracing
        self._limits, self._path_limits = limits, path_limits
        self._templates: dict[int, str] | None = None  # of routes that are not FastAPI's, by the id of their endpoint

    def _limits_of(self, path: str) -> tuple[int, float]:
        """The limits of a body: those of files, of texts to remember, or of anything else."""
        found = self._path_limits.get(path, self._limits)
        takes_text = path in self._path_limits or path.startswith(_TEXT_PATHS)
        return found if takes_text else (min(found[0], MAX_OTHER_BYTES), found[1])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        response = _Response(scope, send)
        token = logs.request_id.set(response.id.decode())
        span = None if self._tracing is None else self._tracing.start_request(scope)
        self._metrics.in_flight.inc()
        start = time.perf_counter()
        try:
            body = BodyReader(scope, receive, *self._limits_of(scope["path"]))
            body.check_headers()
            await self._app(scope, body.receive, response.send)
            if response.status == 0:
                response.status = 500
        except Exception as error:
            problem = error_response(error)  # logs the error
            if response.status == 0:
                await problem(scope, receive, response.send)
            else:
                response.failed = True  # the server closes the connection in the middle of the response
        finally:
            seconds = time.perf_counter() - start
            self._metrics.in_flight.dec()
            route = self._route(scope)
            status = 500 if response.failed else response.status or _CLIENT_CLOSED
            try:
                self._record(scope, route, status, seconds, response.bytes)
            finally:
                if self._tracing is not None and span is not None:
                    self._tracing.end_request(span, scope, route, status)
                logs.request_id.reset(token)

    def _record(self, scope: Scope, route: str, status: int, seconds: float, size: int) -> None:
        """Count the request and log it."""
        self._metrics.count_request(scope["method"], route, status, seconds)
        verb = getattr(scope.get("route"), "operation_id", None)
        if verb is not None and route not in _PROBES:
            self._metrics.count_verb(verb, status, seconds)
        level = logging.DEBUG if status < 400 and route in _PROBES else logging.INFO
        if log.isEnabledFor(level):
            method = scope["method"] if scope["method"] in METHODS else OTHER
            line = logging.LogRecord(logs.ACCESS, level, "", 0, "%s %s %s", (method, route, status), None)
            line.__dict__.update(
                method=method, route=route, status=status, seconds=round(seconds, 6), key=_key_id(scope), bytes=size
            )
            log.handle(line)  # log.info would search the stack for the caller, which takes as long as all the rest

    def _route(self, scope: Scope) -> str:
        """The template of the request's route."""
        path = getattr(scope.get("route"), "path_format", None)
        if path is not None:
            return str(path)
        endpoint = scope.get("endpoint")
        if endpoint is None:
            return OTHER
        if self._templates is None:
            self._templates = {}
            for route in iterate_routes(getattr(scope.get("app"), "routes", ())):
                target = getattr(route, "endpoint", None) or getattr(route, "app", None)
                template = getattr(route, "path_format", None) or getattr(route, "path", None)
                if target is not None and template:
                    self._templates.setdefault(id(target), template)
        return self._templates.get(id(endpoint), OTHER)


class _Response:
    """The response to one request: its id, status and size."""

    __slots__ = ("_is_api", "_send", "bytes", "failed", "id", "status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._is_api = scope["path"].startswith("/v1/")
        self.id = _request_id(scope)
        self.status = self.bytes = 0
        self.failed = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self.id)]
            names = {name for name, _ in headers}
            if b"x-content-type-options" not in names:
                headers.append(_NOSNIFF)
            if self._is_api and b"cache-control" not in names:
                headers.append(_NO_STORE)
            message["headers"] = headers
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)


def _request_id(scope: Scope) -> bytes:
    """The caller's request id if it is safe to log, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            if _REQUEST_ID.fullmatch(value) and b"ks_" not in value and safe_message(text := value.decode()) == text:  # no secret
                return bytes(value)
            break
    return secrets.token_hex(8).encode()


def _key_id(scope: Scope) -> str | None:
    """The public id of the caller's key. Of a token only that it is one: its id may identify a person."""
    identity = getattr(scope.get("state", {}).get("caller"), "identity", None)
    if identity is None:
        return None
    return str(identity.id) if identity.via == "key" else "token"
