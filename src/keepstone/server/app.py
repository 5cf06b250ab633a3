"""The application: everything the server answers, put together."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Depends, FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from keepstone import __version__
from keepstone.errors import KeepstoneError
from keepstone.server.bodies import BodyLimitMiddleware
from keepstone.server.compat import mem0
from keepstone.server.dashboard.mounting import mount as mount_dashboard
from keepstone.server.mcp.http import mount as mount_mcp
from keepstone.server.metrics import Metrics
from keepstone.server.problems import Problem, handle
from keepstone.server.request_log import RequestLogMiddleware
from keepstone.server.routes import (
    audit,
    conversations,
    health,
    jobs,
    keys,
    memories,
    moving,
    prompts,
    recalling,
    review,
    stats,
    store,
    upkeep,
    values,
    working,
)
from keepstone.server.service import Service

if TYPE_CHECKING:
    from keepstone.server.tracing import Tracing

ROUTERS: Sequence[APIRouter] = (
    health.router,
    recalling.router,  # before memories: /memories/{id}/why before /memories/{id}
    memories.router,
    values.router,
    conversations.router,
    working.router,
    prompts.router,
    upkeep.router,
    review.router,
    jobs.router,
    audit.router,
    moving.router,
    keys.router,
    stats.router,
    store.router,
    mem0.router,
)
# FastAPI would write down addresses, queries and what errors say; see tracing.py
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "operation_spans": False, "auto_configure": False}
_UPLOAD = 1800.0  # seconds that a file may take to arrive
_ABOUT = """Persistent memory for AI agents. Every request but those for health needs a key: `Authorization: Bearer ks_…`.
A service key names the user it acts for in `X-Keepstone-User`; a key bound to no agent may name one in `X-Keepstone-Agent`."""


def make_app(service: Service) -> FastAPI:
    """The server of one service."""

    @contextlib.asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            for part in app.state.parts:
                await stack.enter_async_context(part())
            yield

    app = FastAPI(
        title="keepstone", version=__version__, description=_ABOUT, lifespan=living, docs_url=None, redoc_url=None,
        openapi_url="/openapi.json", telemetry=_NO_TELEMETRY,
        redirect_slashes=False,  # it would send a key to whatever Host says, and without TLS
    )  # fmt: skip
    app.state.service = service
    app.state.parts = []  # async context managers that live as long as the application
    tracing = _watched(app, service)
    for kind in (KeepstoneError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, handle)
    for router in ROUTERS:
        app.include_router(router, dependencies=None if tracing is None else [Depends(tracing.verb)])
    mount_mcp(app, service)
    mount_dashboard(app, service)
    settings = service.settings
    files = {"/v1/import": (settings.import_bytes, max(_UPLOAD, settings.request_seconds))}
    app.add_middleware(BodyLimitMiddleware, most=settings.request_bytes, seconds=settings.request_seconds, larger=files)
    app.add_middleware(RequestLogMiddleware, metrics=app.state.metrics, tracing=tracing)  # last, so that it is outside all other
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    return app


def _watched(app: FastAPI, service: Service) -> Tracing | None:
    """What measures the application: figures always, spans where telemetry is on."""
    store = "postgres" if service.engine.target.startswith(("postgres:", "postgresql:")) else "sqlite"
    app.state.metrics = service.meter = Metrics(store, service.busy)
    app.state.probe = health.probe_of(service)
    if not service.settings.telemetry:
        return None
    from keepstone.server.tracing import Tracing

    made = Tracing(service.engine.store.id, service.tracer_provider)
    service.saw = made.saw
    return made


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document: FastAPI's, with the shape of problems and how to sign in."""
    if app.openapi_schema is None:
        from fastapi.openapi.utils import get_openapi

        made = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
        parts = made.setdefault("components", {})
        parts.setdefault("schemas", {})["Problem"] = Problem.model_json_schema()
        parts["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer", "description": "A key, or a token."}}
        made["security"] = [{"key": []}]
        app.openapi_schema = made
    return app.openapi_schema
