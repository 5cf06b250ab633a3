"""Settings with where each comes from, import and export, and the explorer of the API."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from keepstone import __version__
from keepstone.ports.serialize import document
from keepstone.server.dashboard.context import Page, PageRequest
from keepstone.server.files import JSONL, save_body, send_file
from keepstone.server.identity import OPERATOR, READ, WRITE
from keepstone.settings import PREFIX, Settings, setting_origins

_USERINFO = re.compile(r"(?<=://)[^/@\s]+@")
_METHODS = ("get", "post", "put", "patch", "delete")
_ORIGINS = {
    "default": "default", "file": "settings file", "project file": "keepstone.toml", "environment": "environment",
    "argument": "given at start",
}  # fmt: skip


# -- settings ------------------------------------------------------------------------------------------------------------
def show_settings(request: PageRequest) -> Response:
    """The settings in force. Secrets are not shown."""
    origins = setting_origins(request.service.settings)
    rows = [_row(field, request.service.settings, origins[field.name]) for field in fields(Settings)]
    model = request.backend.model
    about = {
        "Version": __version__,
        "Address": request.service.address,
        "Store": request.service.backend.store_kind,
        "Model": "none" if model is None else model.id,
    }
    return request.page("settings.html", rows=sorted(rows, key=lambda row: row["is_default"]), about=about)


def _row(field: Any, settings: Settings, origin: str) -> dict[str, Any]:
    value, default = getattr(settings, field.name), getattr(Settings(), field.name)
    shown = _show(value) if field.repr else "set, not shown" if value else "not set"
    return {
        "name": field.name, "text": field.metadata["text"], "value": shown, "default": _show(default),
        "origin": _ORIGINS[origin], "variable": PREFIX + field.name.upper(), "is_default": value == default,
    }  # fmt: skip


def _show(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        value = ", ".join(f"{name}={item}" for name, item in value.items())
    if isinstance(value, (int, float)):
        return f"{value:,}" if isinstance(value, int) else f"{value:,g}"
    return _USERINFO.sub("…@", str(value)) if value not in (None, "") else "not set"


# -- import and export ---------------------------------------------------------------------------------------------------
def show_transfer(request: PageRequest) -> Response:
    count = request.backend.count(request.caller.scope)
    return request.page("transfer.html", count=count, may_import=request.may(WRITE), address=request.service.address)


async def export(request: PageRequest, _: Request) -> Response:
    """The scope as a file."""
    request.caller.require(READ, person="an export")
    return await send_file(request.caller, request.memory.export, JSONL, "memories.jsonl")


async def import_(request: PageRequest, body: Request) -> Response:
    """Import the body, the lines of an export: all or, if one is invalid, none."""
    request.caller.require(WRITE, person="an import")
    memory = request.memory
    async with save_body(request.caller, body) as path:
        return JSONResponse(document(await request.caller.run(lambda: memory.import_(path))))


# -- API explorer --------------------------------------------------------------------------------------------------------
def show_api(request: PageRequest) -> Response:
    """Every operation of the API with a form that sends it. The key is typed in and stays in the page."""
    openapi = request.dashboard.openapi()
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in openapi["paths"].items():
        for method, operation in operations.items():
            if method in _METHODS:
                groups.setdefault(operation.get("tags", ["other"])[0], []).append(_operation(openapi, path, method, operation))
    return request.page("api.html", groups=groups, address=request.service.address)


def _operation(openapi: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any]) -> dict[str, Any]:
    """What the explorer shows of an operation: its fields with where each goes and whether it must be there, and an example."""
    parameters = [
        (one["name"], one["in"], one.get("required", False), _type(one.get("schema", {})))
        for one in operation.get("parameters", ())
    ]
    content = operation.get("requestBody", {}).get("content", {})
    body = None
    if "application/json" in content:
        body = json.dumps(_example(openapi, content["application/json"]["schema"]), indent=2)
    elif content:
        body = ""
    text = operation.get("description") or operation.get("summary", "")
    name = operation["operationId"]
    return {"method": method.upper(), "path": path, "name": name, "text": text, "fields": parameters, "body": body}


def _type(schema: Mapping[str, Any]) -> str:
    kinds = [one.get("type", "") for one in schema.get("anyOf", (schema,))]
    return ", ".join(kind for kind in kinds if kind and kind != "null")


def _example(openapi: Mapping[str, Any], schema: Mapping[str, Any], depth: int = 0) -> Any:
    """A value that a schema accepts, with the fields that must be there."""
    if "$ref" in schema:
        schema = openapi["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for one in ("anyOf", "oneOf", "allOf"):
        if one in schema:
            return _example(openapi, next((part for part in schema[one] if part.get("type") != "null"), {}), depth)
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object" or "properties" in schema:
        wanted = schema.get("required", ())
        properties = schema.get("properties", {})
        return (
            {} if depth > 3 else {name: _example(openapi, properties[name], depth + 1) for name in wanted if name in properties}
        )
    if kind == "array":
        return [] if depth > 3 else [_example(openapi, schema.get("items", {}), depth + 1)]
    return {"integer": 1, "number": 1.0, "boolean": True, "string": "text"}.get(str(kind), "text")


PAGES = (
    Page("/settings", get=show_settings, rights=(OPERATOR,)),
    Page("/transfer", get=show_transfer, person="imports and exports"),
    Page("/docs", get=show_api, rights=()),
)
FILES = (("/transfer/export", "GET", export), ("/transfer/import", "POST", import_))
