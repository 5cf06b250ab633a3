"""The ASGI application: API routes, MCP, dashboard, middleware, OpenAPI document."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from keepstone import __version__
from keepstone.errors import KeepstoneError
from keepstone.server.compat import mem0
from keepstone.server.dashboard.mount import mount as mount_dashboard
from keepstone.server.mcp.http import mount as mount_mcp
from keepstone.server.metrics import Metrics
from keepstone.server.middleware import RequestMiddleware
from keepstone.server.problems import Problem, handle_error
from keepstone.server.routes import conversations, health, keys, maintenance, memories, recall, tasks, transfer
from keepstone.server.service import Service
from keepstone.types import Scope

if TYPE_CHECKING:
    from keepstone.server.tracing import Tracing

ROUTERS: Sequence[APIRouter] = (
    health.router,
    recall.router,  # before memories: /memories/{id}/why must match before /memories/{id}
    memories.router,
    conversations.router,
    tasks.router,
    *maintenance.ROUTERS,
    transfer.router,
    keys.router,
    mem0.router,
)
# FastAPI's own telemetry would record addresses, queries and error messages; see tracing.py
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}
_UPLOAD_SECONDS = 1800.0
_DESCRIPTION = """Persistent memory for AI agents. Every request but the health checks needs a key: `Authorization: Bearer ks_…`.
A service key names the user it acts for in `X-Keepstone-User`; a key that is not bound to an agent may name one in
`X-Keepstone-Agent`."""


def make_app(service: Service) -> FastAPI:
    """The application of one service."""
    settings = service.settings

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for part in app.state.lifespans:
                await stack.enter_async_context(part())
            if settings.upkeep_hours:
                upkeep = service.backend.memory(Scope()).upkeep
                stack.callback(upkeep.schedule(every=3600 * settings.upkeep_hours).stop)
            yield

    app = FastAPI(
        title="keepstone",
        version=__version__,
        description=_DESCRIPTION,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        telemetry=_NO_TELEMETRY,
        redirect_slashes=False,  # a redirect would send the key to the host that the Host header names, without TLS
    )
    app.state.service = service
    app.state.lifespans = []  # async context managers that live as long as the application
    app.state.metrics = service.metrics = Metrics(service.backend.store_kind, service.busy_threads)
    app.state.probe = health.make_probe(service)
    tracing = _make_tracing(service) if settings.telemetry else None
    for kind in (KeepstoneError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle_error)
    for router in ROUTERS:
        app.include_router(router, dependencies=None if tracing is None else [Depends(tracing.trace_verb)])
    app.openapi = lambda: _openapi(app)  # type: ignore[method-assign]
    mount_mcp(app, service)
    mount_dashboard(app, service)
    app.add_middleware(
        RequestMiddleware,
        metrics=app.state.metrics,
        limits=(settings.request_bytes, settings.request_seconds),
        path_limits=dict.fromkeys(
            ("/v1/import", "/v1/sync", "/transfer/import"),
            (settings.import_bytes, max(_UPLOAD_SECONDS, settings.request_seconds)),
        ),
        tracing=tracing,
    )
    return app


def _make_tracing(service: Service) -> Tracing:
    from keepstone.server.tracing import Tracing

    tracing = Tracing(service.backend.store_id, service.tracer_provider)
    service.on_result = tracing.record_result
    return tracing


def _openapi(app: FastAPI) -> dict[str, Any]:
    """FastAPI's OpenAPI document with the schema of problems and the security scheme."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi

        openapi = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        components = openapi.setdefault("components", {})
        components.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "A key, or a token."}}
        openapi["security"] = [{"key": []}]
        app.openapi_schema = openapi
    return app.openapi_schema
