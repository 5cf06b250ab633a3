"""What each operation of the server asks of a key, found out by asking: every operation is called with keys that lack one right.

A key with all rights but one that is refused says that this right is needed; an agent's key that is refused where a person's
with the same rights is not says that it takes a person. So no table can say what the server does not do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
from fastapi import FastAPI

from keepstone.server.identity import ADMIN, RIGHTS
from keepstone.server.keys import KeyDraft
from keepstone.server.service import Service

ADDRESS = "http://127.0.0.1:8700"
TOOLS = ("recall_memory", "write_memory", "forget_memory")  # one tool for each right that a tool may take
TEXTS = {"since": "2026-01-01", "name": TOOLS[0], "number": "1"}


@dataclass(frozen=True)
class Needed:
    """What a key must have: all of `rights`, or where there are several kinds of calls any of them; `person`: not an agent's."""

    rights: tuple[str, ...]
    person: bool = False
    open: bool = False
    by_kind: bool = False

    def __str__(self) -> str:
        if self.open:
            return "none, and no key"
        if self.by_kind:
            return f"{', '.join(self.rights[:-1])} or {self.rights[-1]}, as the tool does"
        said = " and ".join(self.rights) or "any key"
        return f"{said}; a person" if self.person else said


def rights_of(app: FastAPI, service: Service, document: Mapping[str, Any]) -> dict[str, Needed]:
    """By operation id."""
    return anyio.run(_asked, app, service, document)


def example(app: FastAPI, service: Service, path: str) -> Any:
    """What the server answers at an address."""

    async def asked() -> Any:
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url=ADDRESS) as http:
            return (await http.get(path, headers={"authorization": f"Bearer {_key(service)}"})).json()

    return anyio.run(asked)


async def _asked(app: FastAPI, service: Service, document: Mapping[str, Any]) -> dict[str, Needed]:
    without = {right: _key(service, rights=[each for each in RIGHTS if each != right]) for right in RIGHTS}
    whole, agent = _key(service, rights=RIGHTS), _key(service, rights=[each for each in RIGHTS if each != ADMIN], agent="probe")
    found: dict[str, Needed] = {}
    transport = httpx2.ASGITransport(app=app)
    async with httpx2.AsyncClient(transport=transport, base_url=ADDRESS, timeout=60) as http:

        async def refused(call: Mapping[str, Any], key: str) -> bool:
            answer = await http.request(**call, headers={"authorization": f"Bearer {key}", **call_headers(call)})
            return answer.status_code == 403

        for operation, calls in _calls(document):
            name = operation["operationId"]
            if "security" in operation:
                found[name] = Needed((), open=True)
                continue
            needed: list[str] = []
            for call in calls:
                if await refused(call, whole):
                    raise RuntimeError(f"{name} is refused to a key with every right")
                needed += [right for right in RIGHTS if await refused(call, without[right]) and right not in needed]
            person = ADMIN not in needed and await refused(calls[0], agent)
            found[name] = Needed(tuple(needed), person, by_kind=len(calls) > 1)
    return found


def call_headers(call: Mapping[str, Any]) -> dict[str, str]:
    return {"content-type": "application/jsonl"} if "content" in call else {}


def _key(service: Service, **given: Any) -> str:
    return service.keys.create(KeyDraft("probe", **given))[0]


def _calls(document: Mapping[str, Any]) -> Iterator[tuple[Mapping[str, Any], list[dict[str, Any]]]]:
    """Every operation with calls that are well formed: what is not is refused before anybody looks at the rights."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            names = TOOLS if operation["operationId"] == "call_tool" else [TEXTS["name"]]
            yield operation, [_call(document, path, method, operation, name) for name in names]


def _call(document: Mapping[str, Any], path: str, method: str, operation: Mapping[str, Any], name: str) -> dict[str, Any]:
    texts = {**TEXTS, "name": name}
    query: dict[str, str] = {}
    for each in operation.get("parameters", ()):
        value = texts.get(each["name"], "x")
        if each["in"] == "path":
            path = path.replace("{" + each["name"] + "}", value)
        elif each["required"]:
            query[each["name"]] = value
    call: dict[str, Any] = {"method": method.upper(), "url": path, "params": query}
    content = operation.get("requestBody", {}).get("content", {})
    if "application/json" in content:
        call["json"] = least(document, content["application/json"]["schema"])
    elif content:
        call["content"] = b""
    return call


def least(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    """The smallest value that fits a schema."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "anyOf" in schema:
        return least(document, schema["anyOf"][0])
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    if kind == "object":
        fields = schema.get("properties", {})
        return {name: least(document, fields[name]) for name in schema.get("required", ())}
    if kind == "array":
        return [least(document, schema["items"]) for _ in range(schema.get("minItems", 0))]
    return {"string": "x", "integer": 1, "number": 1.0, "boolean": True}.get(kind or "", "x")
