"""How API routes are declared: routers, authentication, request models and JSON responses.

The clients' table of verbs (keepstone.client) says how a verb travels over HTTP. `add_verb` declares its route: the request model
and the response schema come from the verb's signature. Responses are written straight from keepstone's values. The response
models are for the OpenAPI document only; tests compare them with what is sent.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from inspect import Parameter, Signature
from types import NoneType, UnionType
from typing import Annotated, Any, Optional, TypeVar, Union, get_args, get_origin
from urllib.parse import quote

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, FailFast, Field, JsonValue, create_model, model_validator
from pydantic_core import PydanticCustomError, to_json
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.responses import Response

from keepstone.client.plans import Route, routes_of
from keepstone.errors import ValidationError
from keepstone.ports.serialize import document, outline
from keepstone.server.bodies import StrictRequest
from keepstone.server.problems import MEDIA_TYPE, RequestRefused
from keepstone.server.schemas import SCHEMAS, EmptySchema
from keepstone.server.service import Caller
from keepstone.types import Receipt, Status

T = TypeVar("T")
Json = JsonValue
Work = Callable[..., Any]
Seconds = Annotated[float, Field(ge=0, le=36_525 * 86_400.0)]
_EXISTING = "It existed already, or replaces an earlier one, which stays in the history."
ROUTES: dict[str, Route] = {}  # that were declared, by operation
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
    """A header as text; ValidationError if it is repeated or not UTF-8, except in ETags, which may hold any bytes."""
    values = [value for header, value in request.scope["headers"] if header == name.encode()]
    if len(values) > 1:
        raise ValidationError(f"the header {name} is sent {len(values)} times: send it once.")
    try:
        return values[0].decode("latin-1" if name.startswith("if-") else "utf-8") if values else None
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
    caller = replace(caller, is_gone=request.is_disconnected)
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


# -- routes of verbs ---------------------------------------------------------------------------------------------------------
def json_type(hint: Any) -> Any:
    """The type of an argument in JSON: times are text, durations are seconds, collections are lists."""
    kinds, origin = get_args(hint), get_origin(hint)
    if hint is Any:
        return Json
    if origin is Mapping:
        return dict[str, Json]
    if origin in (Iterable, Sequence, Collection):
        return FailFastList[json_type(kinds[0])]  # type: ignore[misc]
    if origin not in (Union, UnionType):
        return hint
    if datetime in kinds:
        kinds = tuple(kind for kind in kinds if kind is not datetime)
    if timedelta in kinds:
        kinds = tuple(Seconds if kind is float else kind for kind in kinds if kind is not timedelta)
    return Union[tuple(json_type(kind) for kind in kinds)]  # noqa: UP007  # of types that are known only now


def request_model(route: Route, omit: Collection[str] = (), **types: tuple[Any, Any]) -> type[BaseModel] | None:
    """The model of a verb's body or query, without the arguments in its path; None if nothing is left. `types` are (type,
    default) of fields that differ from the verb's parameters."""
    fields: dict[str, Any] = {}
    for name, parameter in route.parameters.items():
        if name not in route.path_names and name not in omit:
            kind = json_type(parameter.annotation)
            if name in route.bounds:
                kind = Annotated[kind, Field(ge=route.bounds[name][0], le=route.bounds[name][1])]
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[name] = (kind, list(default) if isinstance(default, tuple) else default)
    fields |= types
    base, end = (QueryParams, "Params") if route.method == "GET" else (Body, "Body")
    return create_model(_title(route) + end, __base__=base, **fields) if fields else None


def _title(route: Route) -> str:
    return "".join(word.capitalize() for word in route.operation.split("_"))


def result_schema(route: Route) -> Any:
    """The schema of a verb's response."""
    kind = route.hints["return"]
    kind = SCHEMAS.get(kind, kind)
    if not route.result:
        return EmptySchema if kind is NoneType else kind
    fields: Any = {route.result: (kind, ...)}
    return create_model(_title(route) + "Result", **fields)


def add_verbs(router: APIRouter, group: type, owner: Callable[..., Any], prefix: str = "", **options: Mapping[str, Any]) -> None:
    """Declare the routes of a class of the clients. `owner` gives the object with its verbs, from a Memory and the parameters of
    the `prefix`; `options` are those of `add_verb` by the name of a verb."""
    for name, route in routes_of(group).items():
        add_verb(router, replace(route, path=prefix + route.path), owner=owner, may_be_missing=True, **options.get(name, {}))


def add_verb(
    router: APIRouter,
    route: Route,
    work: Work | None = None,
    *,
    owner: Callable[..., Any] = lambda memory: memory,
    model: type[BaseModel] | None = None,
    schema: Any = None,
    headers: Mapping[str, str] | None = None,
    respond: Callable[[Any], Response] | None = None,
    compute: bool = False,
    may_be_missing: bool = False,
    statuses: Collection[int] = (),
    **options: Any,
) -> None:
    """Declare the route of a verb. `work` is called in a worker thread with the caller and the arguments; without it, the verb
    of the caller's memory is called. `headers` are arguments that come in a header, by their names.
    A body without required fields `may_be_missing`."""

    def call_verb(caller: Caller, **arguments: Any) -> Any:
        others = {name: arguments.pop(name) for name in [*arguments] if name not in route.parameters}
        return getattr(owner(caller.memory, **others), route.verb.__name__)(**arguments)

    model = model or request_model(route, headers or ())
    writes = route.hints["return"] is Receipt

    def respond_value(value: Any) -> Response:
        if respond is not None or isinstance(value, Response):
            return respond(value) if respond is not None else value
        if writes:
            return receipt_response(value)
        return json_response({route.result: value} if route.result else {} if value is None else value)

    async def endpoint(caller: Caller, request: Request, **values: Any) -> Response:
        caller.require(*route.rights, person=route.person or None)
        sent = values.pop("sent", None)
        if model is not None:
            values = dict(sent or model()) | values  # a name in the path counts
        for name, header in (headers or {}).items():
            values[name] = read_header(request, header)  # as UTF-8; the parameter is for the OpenAPI document
        run = caller.compute if compute else caller.run
        return respond_value(await run(partial(work or call_verb, caller, **values)))

    endpoint.__signature__ = _endpoint_signature(route, model, headers or {}, may_be_missing)  # type: ignore[attr-defined]
    ROUTES[route.operation] = route
    if writes and respond is None and route.method != "PATCH":
        options = {"status_code": 201, **options}
        options["responses"] = {200: {"model": Receipt, "description": _EXISTING}} | options.get("responses", {})
    router.add_api_route(
        route.path,
        endpoint,
        methods=[route.method],
        operation_id=route.operation,
        response_model=schema or result_schema(route),
        responses=problems(*statuses) | options.pop("responses", {}),
        description=options.pop("description", None) or describe(route.verb),
        **options,
    )


def operation(
    router: APIRouter,
    method: str,
    path: str,
    name: str,
    *,
    rights: tuple[str, ...] = ("read",),
    person: str = "",
    result: str = "",
    **options: Any,
) -> Callable[[Work], Work]:
    """Declare the route of a function of the caller: its other parameters are in the path, in `headers`, and in the query or the
    body. Its docstring is the description."""

    def register(work: Work) -> Work:
        add_verb(router, Route(work, method, path, name, result, rights, person), work, **options)
        return work

    return register


def _endpoint_signature(
    route: Route, model: type[BaseModel] | None, headers: Mapping[str, str], may_be_missing: bool
) -> Signature:
    parameters: dict[str, tuple[Any, Any]] = {"caller": (CurrentCaller, ...), "request": (Request, ...)}
    for name in route.path_names:
        bounds = route.bounds.get(name)
        kind = Annotated[str, Path()] if bounds is None else Annotated[int, Path(ge=bounds[0], le=bounds[1])]
        parameters[name] = (kind, ...)
    if model is not None and route.method == "GET":
        parameters["sent"] = (Annotated[model, Query()], ...)
    elif model is not None:
        optional = may_be_missing and not any(field.is_required() for field in model.model_fields.values())
        parameters["sent"] = (Optional[model], None) if optional else (model, ...)  # noqa: UP045  # known only now
    for name, header in headers.items():
        parameters[name] = (Annotated[str | None, Header(alias=header)], None)
    return Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=kind, default=Parameter.empty if default is ... else default)
            for name, (kind, default) in parameters.items()
        ]
    )


def describe(verb: Callable[..., Any]) -> str:
    """The first paragraph of a verb's documentation, without the names of Python's errors."""
    text = (inspect.getdoc(verb) or "").split("\n\n")[0]
    return " ".join(text.partition("Raises ")[0].split())


# -- responses ---------------------------------------------------------------------------------------------------------------
def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A keepstone value as JSON."""
    return Response(to_json(outline(value), inf_nan_mode="null", fallback=dict), status, headers, "application/json")


def receipt_response(receipt: Receipt) -> Response:
    """A receipt: 201 for a new record, 200 for any other, a problem for a refused write."""
    require_stored(receipt)
    headers = {}
    if receipt.id is not None:
        status = "quarantined" if receipt.action == "quarantined" else "active"
        headers = {"location": f"/v1/memories/{quote(receipt.id, safe='')}", "etag": etag(receipt.version, status)}
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
