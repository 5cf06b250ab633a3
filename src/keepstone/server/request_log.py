"""Observing: what happens to every request, whoever answers it.

ASGI middleware, outside all other: it gives a request its id, counts it, writes its line in the log, adds the headers that every
answer has, and answers where nobody else did. It knows a request by its route's template, never by its address, and it looks at
nobody's body. `tracing`, where there is one, gets told when a request begins and ends.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from keepstone.server import logs
from keepstone.server.metrics import METHODS, OTHER, Metrics
from keepstone.server.problems import problem_of

if TYPE_CHECKING:
    from keepstone.server.tracing import Tracing

log = logging.getLogger(logs.ACCESS)
_SAFE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_GONE = 499  # nobody waited for the answer
_PROBES = frozenset(("/healthz", "/readyz", "/metrics"))  # asked for all day long: not worth a line unless something is wrong
_NOSNIFF = (b"x-content-type-options", b"nosniff")
_NO_STORE = (b"cache-control", b"no-store")


class RequestLogMiddleware:
    """Watches over an application."""

    def __init__(self, app: ASGIApp, metrics: Metrics, tracing: Tracing | None = None) -> None:
        self._app, self._metrics, self._tracing = app, metrics, tracing
        self._templates: dict[int, str] | None = None  # of routes that are not FastAPI's own, by their endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(scope, send)
        token = logs.request_id.set(answer.id.decode())
        span = None if self._tracing is None else self._tracing.begin(scope)
        in_flight = self._metrics.in_flight
        in_flight.inc()
        begun = time.perf_counter()
        try:
            await self._app(scope, receive, answer.send)
            if answer.status == 0:
                answer.status = 500
        except Exception as error:
            response = problem_of(error)  # logs it
            if answer.status == 0:
                await response(scope, receive, answer.send)
            else:
                answer.failed = True  # half of it is on its way: the server cuts the line, and that is all that can be said
        finally:
            seconds = time.perf_counter() - begun
            in_flight.dec()
            route = self._route(scope)
            try:
                self._note(scope, answer, route, seconds)
            finally:
                if self._tracing is not None and span is not None:
                    self._tracing.end(span, scope, route, 500 if answer.failed else answer.status or _GONE)
                logs.request_id.reset(token)

    def _note(self, scope: Scope, answer: _Answer, route: str, seconds: float) -> None:
        method = scope["method"]
        status = 500 if answer.failed else answer.status or _GONE
        self._metrics.request(method, route, status, seconds)
        verb = getattr(scope.get("route"), "operation_id", None)
        if verb is not None and route not in _PROBES:
            self._metrics.verb(verb, status, seconds)
        level = logging.DEBUG if status < 400 and route in _PROBES else logging.INFO
        if log.isEnabledFor(level):
            method = method if method in METHODS else OTHER
            line = logging.LogRecord(logs.ACCESS, level, "", 0, "%s %s %s", (method, route, status), None)
            line.__dict__.update(
                method=method, route=route, status=status, seconds=round(seconds, 6), key=_key(scope), bytes=answer.bytes
            )
            log.handle(
                line
            )  # made by hand: log.info would look for the line of code that called it, and take as long as the rest

    def _route(self, scope: Scope) -> str:
        """The template of the route that a request took; never its address, which anybody may make up."""
        path = getattr(scope.get("route"), "path_format", None)
        if path is not None:
            return str(path)
        endpoint = scope.get("endpoint")
        if endpoint is None:
            return OTHER
        if self._templates is None:
            self._templates = dict(reversed(_templates(getattr(scope.get("app"), "routes", ()))))  # of two the first
        return self._templates.get(id(endpoint), OTHER)


def _templates(routes: Any) -> list[tuple[int, str]]:
    """Of routes and of routers among them: whom they call, and their template."""
    found: list[tuple[int, str]] = []
    for each in routes:
        endpoint = getattr(each, "endpoint", None) or getattr(each, "app", None)
        path = getattr(each, "path_format", None) or getattr(each, "path", None)
        if endpoint is not None and path:
            found.append((id(endpoint), path))
        found += _templates(getattr(getattr(each, "original_router", None), "routes", ()))
    return found


class _Answer:
    """One answer on its way: its id, its status, how many bytes it has."""

    __slots__ = ("_send", "_v1", "bytes", "failed", "id", "status")

    def __init__(self, scope: Scope, send: Send) -> None:
        self._send = send
        self._v1 = scope["path"].startswith("/v1/")
        self.id = _id(scope)
        self.status = self.bytes = 0
        self.failed = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = [*message.get("headers", ()), (b"x-request-id", self.id)]
            there = {name for name, _ in headers}
            if b"x-content-type-options" not in there:
                headers.append(_NOSNIFF)
            if self._v1 and b"cache-control" not in there:
                headers.append(_NO_STORE)
            message["headers"] = headers
        elif message["type"] == "http.response.body":
            self.bytes += len(message.get("body", b""))
        await self._send(message)


def _id(scope: Scope) -> bytes:
    """The id that the caller gave, if it is one that can be written down; else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            if _SAFE.fullmatch(value) and b"ks_" not in value:  # a key is nothing to write down
                return bytes(value)
            break
    return secrets.token_hex(8).encode()


def _key(scope: Scope) -> str | None:
    """The public id of the key that asked; of a token nothing, for its id may name a person."""
    identity = getattr(scope.get("state", {}).get("caller"), "identity", None)
    if identity is None:
        return None
    return str(identity.id) if identity.via == "key" else "token"
