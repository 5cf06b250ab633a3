"""How a route is made and how it answers.

Answers are written as JSON straight from keepstone's own values; the classes that FastAPI is shown describe them, and tests hold
one against the other.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, get_args

from fastapi import APIRouter, Depends, Request
from pydantic import BaseModel, ConfigDict, FailFast, JsonValue, model_validator
from pydantic_core import PydanticCustomError, to_json
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from keepstone.errors import ValidationError
from keepstone.ports.serialize import document, outline
from keepstone.server.bodies import StrictRoute
from keepstone.server.problems import MEDIA, Refused
from keepstone.server.service import Caller, Service
from keepstone.types import Receipt, Status

T = TypeVar("T")
Json = JsonValue


class _First(FailFast):
    __hash__ = object.__hash__  # a union of types needs one


Many = Annotated[list[T], _First()]  # of a hundred thousand that are wrong the first is told: each of them takes its time
_FIELDS = 50  # more than anything that is asked for has


class _Whole(PathConvertor):
    regex = r"[\s\S]*"  # newlines too: a name with one is refused by name, not by address


register_url_convertor("path", _Whole())
_STATUSES = {
    400: "The request cannot be read.",
    401: "No key, or one that is not valid.",
    403: "The key may not do this.",
    408: "The body took too long to arrive.",
    413: "The body, or a value in it, is too large.",
    415: "The body is not JSON.",
    422: "A value cannot be taken.",
    429: "Too many requests, or a write that a limit refused.",
    503: "The store cannot be reached just now; Retry-After says when to try again.",
}


class Given(BaseModel):
    """What a request brings: nothing that is not asked for, and no text where a number is meant."""

    model_config = ConfigDict(extra="forbid", strict=True)

    @model_validator(mode="before")
    @classmethod
    def _few(cls, given: Any) -> Any:
        """Fields that nobody asked for are named one by one, unless there are very many."""
        if isinstance(given, dict) and len(given) > _FIELDS:
            raise PydanticCustomError("too_many_fields", "there are more than {most} fields", {"most": _FIELDS})
        return given


class Asked(BaseModel):
    """What stands in the query of an address, where everything is text."""

    model_config = ConfigDict(extra="forbid")


def group(tag: str) -> APIRouter:
    """A router for one group of verbs."""
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for status, text in _STATUSES.items()
    }
    return APIRouter(prefix="/v1", tags=[tag], route_class=_Route, responses=responses)


def also(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Further statuses that a route answers with as a problem."""
    said = {404: "There is no such thing in this scope.", 409: "Conflict.", 412: "It has changed since.", 413: "Too large."}
    content = {MEDIA: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    return {status: {"description": said[status], "content": content} for status in statuses}


def answer(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value of keepstone as JSON."""
    return Response(to_json(outline(value), inf_nan_mode="null"), status, headers, "application/json")


def written(receipt: Receipt) -> Response:
    """A receipt. A write that was refused is no success, whatever else it is: its receipt comes with a problem."""
    if receipt.action != "refused":
        headers = {} if receipt.id is None else {"location": f"/v1/memories/{receipt.id}", "etag": _tag(receipt)}
        return answer(receipt, 201 if receipt.action in ("added", "quarantined") else 200, headers)
    said = "; ".join(receipt.reasons) or "the write was refused"
    if receipt.retry_after is not None:
        wait = {"retry-after": str(max(1, round(receipt.retry_after + 0.5)))}
        raise Refused(429, f"{said}: try again later.", wait, receipt=document(receipt))
    raise Refused(422, f"{said}: nothing was stored.", receipt=document(receipt))


def _tag(receipt: Receipt) -> str:
    return etag(receipt.version, "quarantined" if receipt.action == "quarantined" else "active")


def etag(version: int, status: str = "active") -> str:
    """What tells two states of a record apart: it may be put aside and brought back without a new version."""
    return f'"{version}"' if status == "active" else f'"{version}.{status}"'


def version_in(header: str | None) -> int | None:
    """The version that If-Match names; None for none, or for any."""
    if header is None or header.strip() == "*":
        return None
    text, _, status = header.strip().removeprefix("W/").strip('"').partition(".")
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or status not in ("", *get_args(Status)):
        raise ValidationError(f"If-Match is {header!r:.40}: send the ETag that the memory came with.")
    return int(text)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def header(request: Request, name: str) -> str | None:
    """A header as UTF-8; ValidationError where it comes twice or is not text."""
    found = [value for held, value in request.scope["headers"] if held == name.encode()]
    if len(found) > 1:
        raise ValidationError(f"the header {name} comes {len(found)} times: send it once.")
    try:
        return found[0].decode("utf-8") if found else None
    except UnicodeDecodeError:
        raise ValidationError(f"the header {name} is not UTF-8: encode it so.") from None


def bearer(request: Request) -> str | None:
    """The credential of a request: 'Authorization: Bearer …'."""
    kind, _, credential = (header(request, "authorization") or "").partition(" ")
    return credential.strip() if kind.lower() == "bearer" else None


async def _caller(request: Request) -> Caller:
    known: Caller | None = getattr(request.state, "caller", None)
    if known is not None:  # settled before the body was read
        return known
    service = _service(request)
    credential, agent, user = bearer(request), header(request, "x-keepstone-agent"), header(request, "x-keepstone-user")
    caller = await service.asked_by(credential, agent, user)
    request.state.caller = caller
    return caller


class _Route(StrictRoute):
    """A route of the API: who has no key sends no body, and one that is too many is not read."""

    async def before(self, request: Request) -> None:
        await _caller(request)


Asking = Annotated[Caller, Depends(_caller)]
