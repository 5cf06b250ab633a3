"""healthz, readyz and metrics. They need no key, and no worker thread: a busy server is still healthy."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel
from starlette.responses import JSONResponse, Response

from keepstone import __version__
from keepstone.server.keys import KEYS_SCOPE
from keepstone.server.metrics import Metrics
from keepstone.server.problems import problem_response
from keepstone.server.routing import problems
from keepstone.server.service import Service

log = logging.getLogger("keepstone.server")
router = APIRouter(tags=["health"])
_PROBE_SECONDS = 3.0
_NO_KEY: dict[str, Any] = {"security": []}
_NO_STORE = {"cache-control": "no-store"}


class Health(BaseModel):
    status: str
    version: str


class Readiness(BaseModel):
    status: str


class Probe:
    """Checks that a store answers. While one check hangs, later callers wait for the same one."""

    def __init__(self, check: Callable[[], object], seconds: float = _PROBE_SECONDS) -> None:
        self._check, self._seconds = check, seconds
        self._result: asyncio.Future[str | None] | None = None

    async def problem(self) -> str | None:
        """The class name of the store's error, or Timeout; None if it answers."""
        if self._result is None or self._result.done():
            self._result = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._run, args=(self._result,), name="keepstone-ready", daemon=True).start()
        result = self._result
        await asyncio.wait((result,), timeout=self._seconds)
        return result.result() if result.done() else "Timeout"

    def _run(self, result: asyncio.Future[str | None]) -> None:
        problem = None
        try:
            self._check()
        except Exception as error:
            log.warning("the store does not answer", exc_info=error)
            problem = type(error).__name__
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            result.get_loop().call_soon_threadsafe(result.set_result, problem)


def make_probe(service: Service) -> Probe:
    """A probe that makes a cheap read."""
    states = service.backend.key_states
    return Probe(lambda: states.get(KEYS_SCOPE, "ready"))


@router.get("/healthz", operation_id="healthz", response_model=Health, openapi_extra=_NO_KEY)
async def healthz() -> Response:
    """The process answers. The store is not checked."""
    return JSONResponse({"status": "ok", "version": __version__}, headers=_NO_STORE)


@router.get("/readyz", operation_id="readyz", response_model=Readiness, openapi_extra=_NO_KEY, responses=problems(503))
async def readyz(request: Request) -> Response:
    """The store answers."""
    problem = await request.app.state.probe.problem()
    if problem is not None:
        detail = f"the store does not answer ({problem}): see the server's log, or run 'keepstone doctor'."
        return problem_response(503, detail, "StoreError", {"retry-after": "5"})
    return JSONResponse({"status": "ready"}, headers=_NO_STORE)


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    openapi_extra=_NO_KEY,
    responses={200: {"description": "Prometheus metrics.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Prometheus metrics of this process, or of all workers if they share a folder."""
    registry: Metrics = request.app.state.metrics
    raw, content_type = registry.render(request.headers.get("accept", ""))
    return Response(raw, headers={"content-type": content_type, **_NO_STORE})


@router.head("/healthz", include_in_schema=False)
@router.head("/readyz", include_in_schema=False)
async def head(request: Request) -> Response:
    response = await healthz() if request.url.path.endswith("/healthz") else await readyz(request)
    return Response(status_code=response.status_code, headers=_NO_STORE)
