"""How API routes are declared: routers, authentication, request models and JSON responses.

Responses are written straight from keepstone's values. The response models are for the OpenAPI document only; tests compare them
with what is sent.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar, get_args

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, FailFast, JsonValue, model_validator
from pydantic_core import PydanticCustomError, to_json
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from keepstone.errors import ValidationError
from keepstone.ports.serialize import document, outline
from keepstone.server.bodies import StrictRequest
from keepstone.server.problems import MEDIA_TYPE, RequestRefused
from keepstone.server.service import Caller
from keepstone.types import Receipt, Status

T = TypeVar("T")
Json = JsonValue
_MAX_BODY_FIELDS = 50  # more than any body has
_PROBLEM = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
_STATUSES = {
    400: "The request cannot be read.",
    401: "The key is missing or not valid.",
    403: "The key lacks a right.",
    404: "It does not exist in this scope.",
    408: "The body took too long to arrive.",
    409: "Conflict.",
    412: "It was changed in the meantime.",
    413: "The body, or a value in it, is too large.",
    415: "The body is not JSON.",
    422: "A value is not valid.",
    429: "Too many requests, or a write refused by a limit.",
    503: "The store cannot be reached; Retry-After says when to try again.",
}
_COMMON_STATUSES = (400, 401, 403, 408, 413, 415, 422, 429, 503)


class _FailFast(FailFast):
    __hash__ = object.__hash__  # a union of types needs one


FailFastList = Annotated[list[T], _FailFast()]  # reports the first invalid item only: a list may have 100,000


class _AnyPath(PathConvertor):
    regex = r"[\s\S]*"  # with newlines: a name that holds one is refused as a name, not as an unknown address


register_url_convertor("path", _AnyPath())


class Body(BaseModel):
    """A JSON body: unknown fields are refused, and text is not converted to numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _limit_fields(cls, value: Any) -> Any:
        """Unknown fields are reported one by one, so their number is limited."""
        if isinstance(value, dict) and len(value) > _MAX_BODY_FIELDS:
            raise PydanticCustomError(
                "too_many_fields", "the object has more than {maximum} fields", {"maximum": _MAX_BODY_FIELDS}
            )
        return value


class QueryParams(BaseModel):
    """The parameters of a query string; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")


# -- authentication --------------------------------------------------------------------------------------------------------
def read_header(request: Request, name: str) -> str | None:
    """A header as UTF-8; ValidationError if it is repeated or not text."""
    values = [value for header, value in request.scope["headers"] if header == name.encode()]
    if len(values) > 1:
        raise ValidationError(f"the header {name} is sent {len(values)} times: send it once.")
    try:
        return values[0].decode("utf-8") if values else None
    except UnicodeDecodeError:
        raise ValidationError(f"the header {name} is not UTF-8: encode it as UTF-8.") from None


async def authenticate(request: Request, schemes: tuple[str, ...] = ("bearer",)) -> Caller:
    """The caller of a request, by its Authorization and X-Keepstone-… headers; kept in the request's state."""
    scheme, _, credential = (read_header(request, "authorization") or "").partition(" ")
    caller: Caller = await request.app.state.service.authenticate(
        credential.strip() if scheme.lower() in schemes else None,
        read_header(request, "x-keepstone-agent"),
        read_header(request, "x-keepstone-user"),
    )
    request.state.caller = caller
    return caller


class ApiRoute(APIRoute):
    """A route that authenticates before it reads the body, and reads the body as strict JSON."""

    schemes: tuple[str, ...] = ("bearer",)

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            strict = StrictRequest(request.scope, request.receive)
            await authenticate(strict, self.schemes)
            if self.body_field is not None:
                await strict.read_json()
            return await handle(strict)

        return handle_strictly


async def _current_caller(request: Request) -> Caller:
    caller: Caller = request.state.caller
    return caller


CurrentCaller = Annotated[Caller, Depends(_current_caller)]


# -- declaring routes --------------------------------------------------------------------------------------------------------
def api_router(tag: str) -> APIRouter:
    """A router below /v1 for one group of routes."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=ApiRoute, responses=problems(*_COMMON_STATUSES))


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI description of statuses that a route answers with a problem."""
    return {status: {"description": _STATUSES[status], "content": _PROBLEM} for status in statuses}


# -- responses ---------------------------------------------------------------------------------------------------------------
def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A keepstone value as JSON."""
    return Response(to_json(outline(value), inf_nan_mode="null"), status, headers, "application/json")


def receipt_response(receipt: Receipt) -> Response:
    """A receipt: 201 for a new record, 200 for any other, a problem for a refused write."""
    require_stored(receipt)
    headers = {}
    if receipt.id is not None:
        status = "quarantined" if receipt.action == "quarantined" else "active"
        headers = {"location": f"/v1/memories/{receipt.id}", "etag": etag(receipt.version, status)}
    return json_response(receipt, 201 if receipt.action in ("added", "quarantined") else 200, headers)


def require_stored(receipt: Receipt) -> None:
    """RequestRefused if the write was refused."""
    if receipt.action != "refused":
        return
    reasons = "; ".join(receipt.reasons) or "the write was refused"
    if receipt.retry_after is not None:
        headers = {"retry-after": str(max(1, round(receipt.retry_after + 0.5)))}
        raise RequestRefused(429, f"{reasons}: try again later.", headers, receipt=document(receipt))
    raise RequestRefused(422, f"{reasons}: nothing was stored.", receipt=document(receipt))


def etag(version: int, status: str = "active") -> str:
    """The ETag of a record: its version, and its status, which changes without a new version."""
    return f'"{version}"' if status == "active" else f'"{version}.{status}"'


def parse_if_match(header: str | None) -> int | None:
    """The version that If-Match names; None for no header, or for any version."""
    if header is None or header.strip() == "*":
        return None
    text, _, status = header.strip().removeprefix("W/").strip('"').partition(".")
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or status not in ("", *get_args(Status)):
        raise ValidationError(f"If-Match is {header!r:.40}: send the ETag of the memory.")
    return int(text)
