"""Errors as problem+json (RFC 9457): one table from the error tree to status codes and public messages.

A problem says what was wrong and what to do next. Details of the server's own failures go to the log, not to callers.
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

from keepstone.client.transport import NO_ROUTE
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

log = logging.getLogger("keepstone.server")
MEDIA_TYPE = "application/problem+json"
UNEXPECTED = "an unexpected error occurred; the server's log has the details. No write was stored partially."


class IssuerUnavailable(ProviderError):
    """The token issuer's keys cannot be fetched, so no token can be checked."""


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
    IssuerUnavailable: 503,
    ModelError: 502,
    ProviderError: 502,
}
TITLES = {
    400: "Bad request", 401: "Not authenticated", 403: "Forbidden", 404: "Not found", 405: "Method not allowed",
    406: "Not acceptable", 408: "Request timeout", 409: "Conflict", 411: "Length required",
    412: "Precondition failed", 413: "Too large", 415: "Unsupported media type",
    421: "Misdirected request", 422: "Invalid request",
    429: "Too many requests", 500: "Server error", 502: "Provider failed", 503: "Temporarily unavailable",
    507: "Storage full",
}  # fmt: skip
_ERROR_NAMES = {
    401: "Unauthenticated", 403: "Forbidden", 404: "NotFound", 409: "Conflict", 412: "Conflict", 413: "TooLarge",
    429: "RateLimited",
}  # fmt: skip
_PUBLIC_MESSAGES: dict[type[BaseException], str] = {
    StoreBusy: "the store is busy. Nothing was stored partially: try again in a moment.",
    StoreUnreachable: "the store cannot be reached. No acknowledged write is lost: try again in a moment.",
    StorageFull: "the store has no space left. Nothing was stored partially, and reads still work: tell the operator.",
    StoreError: "the store cannot do this now. Nothing was stored partially: tell the operator.",
    IndexUnavailable: "the vector index cannot be reached: try again in a moment.",
    IssuerUnavailable: "the token issuer cannot be reached, so the token cannot be checked: try again in a moment.",
    ModelError: "the model failed: try again, or tell the operator.",
    ProviderError: "a provider of the server failed: try again, or tell the operator.",
}
_RETRY_SECONDS = {StoreBusy: 1, StoreUnreachable: 2, StoreError: 5, IndexUnavailable: 5, IssuerUnavailable: 5}
_MAX_REPORTED_ERRORS = 20


class Problem(BaseModel):
    """What was wrong, and what to do next."""

    type: str = Field("about:blank", description="The kind of problem.")
    title: str = Field(description="The kind of problem in words.")
    status: int = Field(description="The HTTP status.")
    detail: str = Field(description="What was wrong, with which value, and what to do next.")
    error: str = Field(description="The error's class name.")
    errors: list[dict[str, str]] | None = Field(None, description="Each invalid part of the request.")
    receipt: dict[str, Any] | None = Field(None, description="The receipt of a refused write.")


class RequestRefused(KeepstoneError):
    """A request refused with a given status, before the memory is called."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None, **extra: Any) -> None:
        super().__init__(message)
        self.status, self.headers, self.extra = status, dict(headers or {}), extra


def status_of(error: BaseException) -> int:
    """The status of the error's nearest ancestor in the table."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def error_name(status: int) -> str:
    """The error class that a client raises for a status."""
    return _ERROR_NAMES.get(status, "ValidationError" if status < 500 else "ServerError")


def public_message(error: KeepstoneError) -> str:
    """The message that callers get: the error's own, unless it is about the server's internals."""
    return next((_PUBLIC_MESSAGES[kind] for kind in type(error).__mro__ if kind in _PUBLIC_MESSAGES), str(error))


def problem_response(status: int, detail: str, error: str, headers: Mapping[str, str] | None = None, **extra: Any) -> Response:
    """A problem+json response."""
    body = {"type": "about:blank", "title": TITLES.get(status, "Error"), "status": status, "detail": detail, "error": error}
    raw = to_json(body | extra, inf_nan_mode="null", serialize_unknown=True)
    return Response(raw, status, {"cache-control": "no-store", **(headers or {})}, MEDIA_TYPE)


def error_response(error: Exception) -> Response:
    """Any error as a problem+json response."""
    if isinstance(error, RequestRefused):
        return problem_response(error.status, str(error), error_name(error.status), error.headers, **error.extra)
    if isinstance(error, KeepstoneError):
        status = status_of(error)
        if status >= 500:
            log.warning("a request failed", exc_info=error)
        return problem_response(status, public_message(error), type(error).__name__, _headers(error))
    if isinstance(error, RequestValidationError):
        return _validation_response(error)
    if isinstance(error, HTTPException):
        return problem_response(error.status_code, _http_detail(error), error_name(error.status_code), error.headers)
    log.error("a request failed with an unexpected error", exc_info=error)
    return problem_response(500, UNEXPECTED, "Error")


def _headers(error: KeepstoneError) -> dict[str, str]:
    if isinstance(error, Unauthenticated):
        return {"www-authenticate": 'Bearer realm="keepstone"'}
    if isinstance(error, RateLimited):
        return {"retry-after": str(math.ceil(error.retry_after))}
    seconds = next((_RETRY_SECONDS[kind] for kind in type(error).__mro__ if kind in _RETRY_SECONDS), None)
    return {} if seconds is None or isinstance(error, StorageFull) else {"retry-after": str(seconds)}


def _http_detail(error: HTTPException) -> str:
    if error.status_code == 404:
        return f"{NO_ROUTE}: see /openapi.json for those that do."
    if error.status_code == 405:
        return "this address does not take this method: see /openapi.json for those it takes."
    return f"{error.detail}".rstrip(".") + "."


def _validation_response(error: RequestValidationError) -> Response:
    """The invalid parts of a request, without their values, which may be personal data."""
    errors = [
        {"at": _redact(".".join(str(part) for part in item["loc"]))[:200], "problem": _redact(str(item["msg"]))[:300]}
        for item in error.errors()[:_MAX_REPORTED_ERRORS]
    ]
    first = errors[0] if errors else {"at": "body", "problem": "it cannot be read"}
    detail = f"{first['at']}: {first['problem']}. See /openapi.json for the schema."
    return problem_response(422, detail, "ValidationError", None, errors=errors)


def _redact(text: str) -> str:
    """The text without sensitive data: names of unknown fields come from the request."""
    return str(ValidationError(text))


async def handle_error(request: Request, error: Exception) -> Response:
    """The application's exception handler."""
    if isinstance(error, Forbidden):
        await request.app.state.service.flush_denials()
    response = error_response(error)
    if response.status_code == 405:  # Starlette names the methods of the first matching route only
        matching = (route for route in iterate_routes(request.app.routes) if route.matches(request.scope)[0] is not Match.NONE)
        methods = {method for route in matching for method in getattr(route, "methods", None) or ()}
        response.headers["allow"] = ", ".join(sorted(methods))
    return response


def iterate_routes(routes: Any) -> Iterator[Any]:
    """The routes, with those of included routers, which FastAPI keeps as one route each."""
    for route in routes:
        inner = getattr(route, "original_router", None)
        if inner is None:
            yield route
        else:
            yield from iterate_routes(inner.routes)
