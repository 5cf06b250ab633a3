"""What goes wrong, as problem+json (RFC 9457): one table from the error tree to status codes.

Every problem says what was wrong and what to do next, and nothing about anybody else's memory.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Match

from keepstone.errors import (
    ConfigurationError,
    Conflict,
    Forbidden,
    IndexUnavailable,
    KeepstoneError,
    ModelError,
    NotFound,
    ProviderError,
    RateLimited,
    StorageFull,
    StoreBusy,
    StoreError,
    StoreUnreachable,
    TooLarge,
    Unauthenticated,
    ValidationError,
)
from keepstone.server.failures import worded

log = logging.getLogger("keepstone.server")
MEDIA = "application/problem+json"
STATUS: dict[type[BaseException], int] = {
    TooLarge: 413,
    ValidationError: 422,
    NotFound: 404,
    Conflict: 409,
    Unauthenticated: 401,
    Forbidden: 403,
    RateLimited: 429,
    ConfigurationError: 422,
    StorageFull: 507,
    StoreError: 503,
    IndexUnavailable: 503,
    ModelError: 502,
    ProviderError: 502,
}
TITLES = {
    400: "The request cannot be read", 401: "Not signed in", 403: "Not allowed", 404: "Not found", 405: "Method not allowed",
    406: "Not acceptable", 408: "The request took too long to arrive", 409: "Conflict", 411: "Length required",
    412: "It has changed since", 413: "Too large", 415: "This type of content is not taken",
    421: "Not the address of this server", 422: "The request cannot be taken",
    429: "Too many requests", 500: "Something went wrong here", 502: "A provider failed", 503: "Not available just now",
    507: "No space left",
}  # fmt: skip
_WAIT = {StoreBusy: 1, StoreUnreachable: 2, StoreError: 5, IndexUnavailable: 5}  # seconds after which it is worth another try


class Problem(BaseModel):
    """What was wrong, and what to do next."""

    type: str = Field("about:blank", description="The kind of problem.")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What was wrong, with which value, and what to do next.")
    error: str = Field(description="The name of the error in keepstone's tree of errors.")
    errors: list[dict[str, str]] | None = Field(None, description="Where the request is wrong, part by part.")
    receipt: dict[str, Any] | None = Field(None, description="The receipt of a write that was refused.")


class Refused(KeepstoneError):
    """A request that is refused before anything of keepstone's own sees it, with the status that says so."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **more: Any) -> None:
        super().__init__(message)
        self.status, self.headers, self.more = status, dict(headers or {}), more


def problem(status: int, detail: str, error: str, headers: Mapping[str, str] | None = None, **more: Any) -> Response:
    """A problem as a response."""
    title = TITLES.get(status, "Something went wrong")
    body = {"type": "about:blank", "title": title, "status": status, "detail": detail, "error": error, **more}
    raw = to_json(body, inf_nan_mode="null", serialize_unknown=True)
    return Response(raw, status, {"cache-control": "no-store", **(headers or {})}, MEDIA)


def status_of(error: BaseException) -> int:
    """The status of an error: that of its nearest ancestor in the table."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def problem_of(error: Exception) -> Response:
    """Any error as a response."""
    if isinstance(error, Refused):
        return problem(error.status, str(error), _named(error.status), error.headers, **error.more)
    if isinstance(error, KeepstoneError):
        if status_of(error) >= 500:
            log.warning("a request failed", exc_info=error)
        return problem(status_of(error), worded(error), type(error).__name__, _headers(error))
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        return problem(error.status_code, _said(error), _named(error.status_code), error.headers)
    log.error("a request failed in a way nobody foresaw", exc_info=error)
    return problem(
        500, "something went wrong that nobody foresaw; the server's log says what. Nothing was stored by half.", "Error"
    )


def _headers(error: KeepstoneError) -> dict[str, str]:
    if isinstance(error, Unauthenticated):
        return {"www-authenticate": 'Bearer realm="keepstone"'}
    if isinstance(error, RateLimited):
        return {"retry-after": str(math.ceil(error.retry_after))}
    wait = next((_WAIT[kind] for kind in type(error).__mro__ if kind in _WAIT), None)
    return {} if wait is None or isinstance(error, StorageFull) else {"retry-after": str(wait)}


def _named(status: int) -> str:
    """The name of the error that a client makes of a status."""
    return {401: "Unauthenticated", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 412: "Conflict", 413: "TooLarge",
            429: "RateLimited"}.get(status, "ValidationError" if status < 500 else "ServerError")  # fmt: skip


def _said(error: HTTPException) -> str:
    if error.status_code == 404:
        return "there is nothing at this address: /openapi.json lists what there is."
    if error.status_code == 405:
        return "this address does not take this method: /openapi.json lists what there is."
    return f"{error.detail}".rstrip(".") + "."


def _invalid(error: RequestValidationError) -> Response:
    """What does not fit the schema, part by part, without the values: somebody's words may stand in them."""
    errors = [
        {"at": _clean(".".join(str(each) for each in one["loc"]))[:200], "problem": _clean(str(one["msg"]))[:300]}
        for one in error.errors()[:20]
    ]
    first = errors[0] if errors else {"at": "body", "problem": "it cannot be read"}
    said = f"{first['at']}: {first['problem']}. /openapi.json says what is taken."
    return problem(422, said, "ValidationError", None, errors=errors)


def _clean(text: str) -> str:
    """A text without sensitive data, as every error of keepstone's own has it: names that nobody asked for stand in it too."""
    return str(ValidationError(text))


async def handle(request: Request, error: Exception) -> Response:
    """The handler of every error."""
    if isinstance(error, Forbidden):
        await request.app.state.service.settled()  # whoever reads the trail after this answer finds it there
    answer = problem_of(error)
    if answer.status_code == 405:  # the first route that fits names only its own methods
        answer.headers["allow"] = ", ".join(sorted(_methods(request)))
    return answer


def _methods(request: Request) -> set[str]:
    """What the routes of an address take."""
    fitting = (route for route in _routes(request.app.routes) if route.matches(request.scope)[0] is not Match.NONE)
    return {method for route in fitting for method in getattr(route, "methods", None) or ()}


def _routes(routes: Any) -> Iterator[Any]:
    """Routes, and those of the routers among them: FastAPI keeps a router as one."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from _routes(inner.routes)
