"""The HTTP reference as Markdown: operations and schemas from the server's OpenAPI document, rights from the server's answers.

Every operation is called with keys that lack one right. A key that is refused shows that the right is needed, and an agent's
key that is refused where a person's is not shows that the operation takes a person. No table of rights is kept by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

import anyio
import httpx2

from keepstone import Memory
from keepstone.backend import backend_of
from keepstone.server.app import make_app
from keepstone.server.identity import ADMIN, RIGHTS
from keepstone.server.keys import KeyDraft
from keepstone.server.problems import STATUS, TITLES
from keepstone.server.service import Service

Json = Mapping[str, Any]
ADDRESS = "http://127.0.0.1:8700"
TOOLS = ("recall_memory", "write_memory", "forget_memory")  # one tool for each right that a tool may need
PARAMETERS = {"since": "2026-01-01", "name": TOOLS[0], "number": "1"}  # path and query values that parse


@cache
def probe_server() -> tuple[Json, dict[str, str], Json]:
    """The OpenAPI document, the right each operation needs by operation id, and one problem document."""
    with Memory.open(":memory:", embedder="none") as memory:
        service = Service(backend_of(memory))
        app = make_app(service)
        document = app.openapi()
        rights, problem = anyio.run(probe_rights, httpx2.ASGITransport(app=app, raise_app_exceptions=False), service, document)
    return document, rights, problem


async def probe_rights(transport: httpx2.ASGITransport, service: Service, document: Json) -> tuple[dict[str, str], Json]:
    def create_key(without: str = "", agent: str | None = None) -> str:
        return service.keys.create(KeyDraft("probe", rights=[right for right in RIGHTS if right != without], agent=agent))[0]

    whole, agent_key = create_key(), create_key(without=ADMIN, agent="probe")
    reduced = {right: create_key(without=right) for right in RIGHTS}
    rights: dict[str, str] = {}
    async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS, timeout=60) as http:

        async def is_refused(call: dict[str, Any], key: str) -> bool:
            kind = {"content-type": "application/jsonl"} if "content" in call else {}
            response = await http.request(**call, headers={"authorization": f"Bearer {key}", **kind})
            return response.status_code == 403

        for method, path, operation in operations(document):
            name = operation["operationId"]
            if "security" in operation:
                rights[name] = "none, and no key"
                continue
            tools = TOOLS if name == "call_tool" else TOOLS[:1]
            calls = [minimal_call(document, path, method, operation, tool) for tool in tools]
            if await is_refused(calls[0], whole):
                raise RuntimeError(f"{name} is refused to a key with every right")
            needed = [right for right in RIGHTS for call in calls if await is_refused(call, reduced[right])]
            words = f"{' or '.join(needed)}, as the tool needs" if len(calls) > 1 else " and ".join(needed) or "any key"
            person = ADMIN not in needed and await is_refused(calls[0], agent_key)
            rights[name] = f"{words}; a person" if person else words
        problem = await http.get("/v1/memories/m_nothing", headers={"authorization": f"Bearer {whole}"})
    return rights, problem.json()


def operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def minimal_call(document: Json, path: str, method: str, operation: Json, tool: str) -> dict[str, Any]:
    """A well-formed request: a malformed one is refused before rights are checked."""
    values, query = {**PARAMETERS, "name": tool}, {}
    for parameter in operation.get("parameters", ()):
        value = values.get(parameter["name"], "x")
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", value)
        elif parameter["required"]:
            query[parameter["name"]] = value
    call: dict[str, Any] = {"method": method.upper(), "url": path, "params": query}
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        call["json"] = minimal_value(document, content["application/json"]["schema"])
    elif content:
        call["content"] = b""
    return call


def minimal_value(document: Json, schema: Json) -> Any:
    """The smallest value that fits a schema."""
    schema = resolve(document, schema)
    if "anyOf" in schema:
        return minimal_value(document, schema["anyOf"][0])
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        return {name: minimal_value(document, schema["properties"][name]) for name in schema.get("required", ())}
    if kind == "array":
        return [minimal_value(document, schema["items"]) for _ in range(schema.get("minItems", 0))]
    return {"string": "x", "integer": 1, "number": 1.0, "boolean": True}.get(kind or "", "x")


def resolve(document: Json, schema: Json) -> Json:
    name = schema.get("$ref", "").rpartition("/")[2]
    found: Json = document["components"]["schemas"][name] if name else schema
    return found


# -- Markdown -----------------------------------------------------------------------------------------------------------
def render_operations() -> Iterator[str]:
    document, rights, _ = probe_server()
    tags = dict.fromkeys(operation["tags"][0] for _, _, operation in operations(document))
    for tag in tags:
        yield from ["", f"## {tag.capitalize()}"]
        for method, path, operation in operations(document):
            if operation["tags"][0] == tag:
                yield from ["", f"### `{method.upper()} {path}`", ""]
                yield f"{' '.join(operation['description'].split())} Right: **{rights[operation['operationId']]}**."
                yield from render_request(document, operation)
                yield from render_responses(operation)


def render_request(document: Json, operation: Json) -> Iterator[str]:
    rows = [
        (parameter["name"], parameter["in"], parameter["schema"], parameter["required"])
        for parameter in operation.get("parameters", ())
    ]
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        body = content.get("schema", {})
        body = resolve(document, next((option for option in body.get("anyOf", ()) if "$ref" in option), body))
        if media != "application/json":
            rows.append(("(the body)", media, {"type": "text"}, True))
        for name, schema in body.get("properties", {}).items():
            rows.append((name, "body", schema, name in body.get("required", ())))
    if rows:
        yield from ["", "| name | in | type | default |", "|---|---|---|---|"]
    for name, place, schema, required in rows:
        default = "required" if required else f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""
        yield f"| `{name}` | {place} | {describe(schema)} | {default} |"


def render_responses(operation: Json) -> Iterator[str]:
    for status, response in sorted(operation["responses"].items()):
        if status.startswith(("2", "3")):
            text = response["description"].strip().rstrip(".").replace("Successful Response", "")
            contents = response.get("content", {}).items()
            shown = [describe(content["schema"]) if media == "application/json" else media for media, content in contents]
            yield from ["", f"{status}: {'. '.join(part for part in (*shown, text) if part)}."]


def render_schemas() -> Iterator[str]:
    document, _, _ = probe_server()
    schemas = document["components"]["schemas"]
    for name in sorted(schemas, key=str.lower):
        if schemas[name].get("properties"):
            yield from ["", f"### {title(name)}", "", " ".join(schemas[name].get("description", "").split()), ""]
            for field, schema in schemas[name]["properties"].items():
                text = " ".join(schema.get("description", "").split())
                yield f"- `{field}` {describe(schema)}{': ' + text if text else ''}"


def title(name: str) -> str:
    return name.rpartition("__")[2]


def describe(schema: Json) -> str:
    """A JSON schema in words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        has_section = bool(resolve(probe_server()[0], schema).get("properties"))
        return f"[{title(name)}](#{title(name).lower()})" if has_section else "any JSON"
    if "anyOf" in schema:
        return " or ".join(describe(option) for option in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type", "any JSON")
    if kind == "array" and "prefixItems" in schema:
        return f"[{', '.join(describe(item) for item in schema['prefixItems'])}]"
    bounds = [f"{key} {schema[key]:g}" for key in ("minimum", "maximum", "minItems", "maxItems") if key in schema]
    limits = f" ({re.sub('Items', ' items', ', '.join(bounds))})" if bounds else ""
    if kind == "array":
        return f"list of {describe(schema['items'])}{limits}"
    names = {"string": "time" if schema.get("format") == "date-time" else "text", "boolean": "true or false"}
    return f"{names.get(kind, kind)}{limits}"


def render_statuses() -> Iterator[str]:
    errors: dict[int, list[str]] = {}
    for kind, status in STATUS.items():
        errors.setdefault(status, []).append(f"`{kind.__name__}`")
    yield from ["| status | meaning | `error` |", "|---|---|---|"]
    yield from (f"| {status} | {text} | {', '.join(errors.get(status, ()))} |" for status, text in sorted(TITLES.items()))


def render_problem() -> Iterator[str]:
    yield from ["```json", json.dumps(probe_server()[2], indent=2), "```"]


SECTIONS: dict[str, Callable[[], Iterator[str]]] = {
    "operations": render_operations,
    "schemas": render_schemas,
    "statuses": render_statuses,
    "problem": render_problem,
}
