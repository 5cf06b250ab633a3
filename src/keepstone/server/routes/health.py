"""healthz, readyz, metrics: for whoever watches over the server. No key is needed, and nothing is said about anybody.

The three are answered without a worker thread: a server that is busy is still healthy.
"""

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
from keepstone.server.identity import RESERVED
from keepstone.server.metrics import Metrics
from keepstone.server.problems import MEDIA, problem
from keepstone.server.service import Service
from keepstone.types import Scope

log = logging.getLogger("keepstone.server")
router = APIRouter(tags=["health"])
_SECONDS = 3.0  # that the store has for an answer
_OPEN: dict[str, Any] = {"security": []}
_HOME = Scope(RESERVED, "keys", "")
_NOT_READY: dict[int | str, dict[str, Any]] = {
    503: {
        "description": "The store does not answer.",
        "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
}


class Alive(BaseModel):
    """The process answers."""

    status: str
    version: str


class Ready(BaseModel):
    """The store answers too."""

    status: str


class Probe:
    """Asks a store for a sign of life. A store that hangs is asked once, not once a second: later callers wait with the first."""

    def __init__(self, ask: Callable[[], object], seconds: float = _SECONDS) -> None:
        self._ask, self._seconds = ask, seconds
        self._asked: asyncio.Future[str | None] | None = None

    async def trouble(self) -> str | None:
        """What is wrong, in a word; None for nothing."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().create_future()
            threading.Thread(target=self._answer, args=(self._asked,), name="keepstone-ready", daemon=True).start()
        asked = self._asked
        await asyncio.wait((asked,), timeout=self._seconds)
        return asked.result() if asked.done() else "Timeout"

    def _answer(self, asked: asyncio.Future[str | None]) -> None:
        wrong = None
        try:
            self._ask()
        except Exception as error:
            log.warning("the store does not answer", exc_info=error)
            wrong = type(error).__name__
        with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
            asked.get_loop().call_soon_threadsafe(asked.set_result, wrong)


def probe_of(service: Service) -> Probe:
    """A cheap read, which every store can answer."""
    return Probe(lambda: service.engine.unguarded_states.get(_HOME, "ready"))


@router.get("/healthz", operation_id="healthz", response_model=Alive, openapi_extra=_OPEN)
async def healthz() -> Response:
    """The process answers. The store is not asked."""
    return JSONResponse({"status": "ok", "version": __version__}, headers={"cache-control": "no-store"})


@router.get("/readyz", operation_id="readyz", response_model=Ready, openapi_extra=_OPEN, responses=_NOT_READY)
async def readyz(request: Request) -> Response:
    """The store answers."""
    wrong = await request.app.state.probe.trouble()
    if wrong is not None:
        said = f"the store does not answer ({wrong}): the server's log and 'keepstone doctor' say more."
        return problem(503, said, "StoreError", {"retry-after": "5"})
    return JSONResponse({"status": "ready"}, headers={"cache-control": "no-store"})


@router.get(
    "/metrics",
    operation_id="metrics",
    response_class=Response,
    openapi_extra=_OPEN,
    responses={200: {"description": "The figures, for Prometheus.", "content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(request: Request) -> Response:
    """Figures for Prometheus: of this process, or of all where they share a folder."""
    held: Metrics = request.app.state.metrics
    raw, kind = held.shown(request.headers.get("accept", ""))
    return Response(raw, headers={"content-type": kind, "cache-control": "no-store"})


@router.head("/healthz", include_in_schema=False)
@router.head("/readyz", include_in_schema=False)
async def looked_at(request: Request) -> Response:
    """The same for who wants the status alone."""
    answer = await healthz() if request.url.path.endswith("/healthz") else await readyz(request)
    return Response(status_code=answer.status_code, headers={"cache-control": "no-store"})
