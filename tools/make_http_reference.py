"""Writes docs/reference/http.md from the server's own OpenAPI document, and from what it answers to keys (http_rights.py).

    python tools/make_http_reference.py           # write the file
    python tools/make_http_reference.py --print   # show it

A test compares the file with what this prints.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from http_rights import Needed, example, rights_of

from keepstone import Memory
from keepstone.server.app import make_app
from keepstone.server.problems import STATUS, TITLES, _named
from keepstone.server.service import Service

TARGET = Path(__file__).parent.parent / "docs" / "reference" / "http.md"
GROUPS = {
    "memories": "Memories", "recall": "Recall", "values": "Values", "conversations": "Conversations", "tasks": "Tasks",
    "prompts": "For a model", "review": "Review", "upkeep": "Upkeep", "jobs": "Jobs", "audit": "The audit trail",
    "moving": "Export and import", "keys": "Keys", "stats": "Figures", "store": "The whole store", "health": "Health",
}  # fmt: skip
HEAD = """# The HTTP API

<!-- Made by tools/make_http_reference.py; do not edit. -->

Everything that `Memory` does, over HTTP: the same verbs, the same names, the same values as JSON. `GET /openapi.json` has this
page as an OpenAPI document. The [guide](../guides/server.md) shows how to begin, [identity](../guides/identity.md) what the
rights mean; Python programs use the [client](../guides/client.md).

```sh
curl --fail --silent "$KEEPSTONE_URL/v1/memories" -H "Authorization: Bearer $KEEPSTONE_KEY" \\
  -H "Content-Type: application/json" -d '{"content": "Dana prefers dark mode."}'
```

## Conventions

**Who asks.** `Authorization: Bearer ks_…` in every request, a key or a token. `X-Keepstone-Agent` names the agent where the key
is bound to none; `X-Keepstone-User` names the user where it is a service key. Each may come once, in UTF-8.

**Bodies** are JSON objects in UTF-8 with `Content-Type: application/json`, plain or with `Content-Encoding: gzip`. They are read
strictly: a field that is not known, a number where a text is meant, a key that stands twice, `NaN`, a whole number past 64 bits
and more than 100 levels are refused. Times are ISO 8601; a time without a zone is UTC. Durations are seconds.

**Names in paths** (ids, keys, sessions) may hold slashes, and are percent-encoded; a name of dots alone is written `%2E`.

**Answers** are JSON. A `Receipt` comes with 201 where its action is `added` or `quarantined`, and else with 200. Files
come as `application/jsonl`, a JSON object a line.

**Problems** are `application/problem+json` (RFC 9457). `error` is the name of the error that the library would raise, `detail`
says what was wrong and what to do next, `errors` where in the body. A write that a limit or a policy refused is a problem with
the `receipt`. No problem quotes a memory.

```json
@PROBLEM@
```

@STATUSES@

**Versions.** A record's `ETag` is its version. `If-None-Match` saves its body (304). `If-Match` with PATCH or DELETE acts only if
it still has that version: else 412, or 409 where the body says `expected_version`.

**Once only.** With `Idempotency-Key` (or `idempotency_key` in the body) a write may be sent again: the same key with the same
body gives the first receipt, with another body 409.

**Pages.** Where an answer has a `cursor`, pass it as `cursor` for the next page; null is the end.

**Limits.** A body has `request_bytes` (1 MB) at most and `request_seconds` (20) to arrive, an import `import_bytes` (256 MB) and
half an hour; a key makes `requests_per_minute`, if that is [set](settings.md). 413, 408 and 429 say so. The
[limits of the library](limits.md) hold too.

**Headers of every answer.** `X-Request-Id` is the caller's own if it is up to 64 letters, digits, dots, dashes and underscores,
else a new one; the log has it. Nothing under `/v1` may be kept by a cache.

**Rights** stand beside each operation, as the server enforces them. "A person" means: not a key that is bound to an agent, unless
it has `admin` too.
"""


def page() -> str:
    """The whole page."""
    with Memory.open(":memory:", embedder="none") as memory:
        service = Service(memory)
        app = make_app(service)
        document = app.openapi()
        needed = rights_of(app, service, document)
        problem = example(app, service, "/v1/memories/m_nothing")
    operations = [
        (operation["tags"][0], f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    missing = {tag for tag, _, _ in operations} - set(GROUPS)
    if missing:
        raise SystemExit(f"GROUPS has no heading for {missing}")
    schemas = Schemas(document["components"]["schemas"])
    head = HEAD.replace("@STATUSES@", "\n".join(_statuses())).replace("@PROBLEM@", json.dumps(problem, indent=2))
    lines = [head]
    for tag, title in GROUPS.items():
        lines += [f"## {title}", ""]
        own = [(place, operation) for group, place, operation in operations if group == tag]
        for place, operation in own:
            lines += _operation(place, operation, needed[operation["operationId"]], schemas)
    return "\n".join([*lines, *_values(schemas)]) + "\n"


def _statuses() -> Iterator[str]:
    """Every status of a problem, with the errors that have it."""
    errors: dict[int, list[str]] = {500: ["Error"]}
    for kind, status in STATUS.items():
        errors.setdefault(status, []).append(kind.__name__)
    yield "| status | what it means | `error` |"
    yield "|---|---|---|"
    for status, title in sorted(TITLES.items()):
        yield f"| {status} | {title} | {', '.join(f'`{name}`' for name in errors.get(status) or [_named(status)])} |"


def _operation(place: str, operation: Mapping[str, Any], needed: Needed, schemas: Schemas) -> Iterator[str]:
    yield f"### `{place}`"
    yield ""
    yield f"{' '.join(operation['description'].split())} Right: **{needed}**."
    yield ""
    rows = list(_parameters(operation, schemas))
    if rows:
        yield "| name | in | type | default |"
        yield "|---|---|---|---|"
        yield from rows
        yield ""
    for status, answer in sorted(operation["responses"].items()):
        if status.startswith(("2", "3")):
            yield f"{status}: {_answer(answer, schemas)}"
            yield ""


def _parameters(operation: Mapping[str, Any], schemas: Schemas) -> Iterator[str]:
    for each in operation.get("parameters", ()):
        name = each["name"] if each["in"] != "header" else "-".join(word.capitalize() for word in each["name"].split("-"))
        yield _row(name, each["in"], each["schema"], each["required"], schemas)
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        if media != "application/json":
            yield f"| (the body) | body | {media} | required |"
            continue
        shape = schemas.object_of(content["schema"])
        for name, schema in shape.get("properties", {}).items():
            yield _row(name, "body", schema, name in shape.get("required", ()), schemas)


def _row(name: str, place: str, schema: Mapping[str, Any], required: bool, schemas: Schemas) -> str:
    default = "required" if required else f"`{json.dumps(schema['default'])}`" if schema.get("default") is not None else ""
    return f"| `{name}` | {place} | {schemas.told(schema, bare=True)} | {default} |".replace("  |", " |")


def _answer(answer: Mapping[str, Any], schemas: Schemas) -> str:
    said = answer["description"].strip().rstrip(".")
    said = "" if said == "Successful Response" else said
    shown = [
        schemas.spread(content["schema"]) if media == "application/json" else media
        for media, content in answer.get("content", {}).items()
    ]
    return ". ".join(part for part in (*shown, said) if part) + "."


def _values(schemas: Schemas) -> Iterator[str]:
    """What the answers name."""
    yield "## Values"
    yield ""
    yield "What the answers above are made of, field by field."
    yield ""
    while waiting := sorted(schemas.named - schemas.shown, key=str.lower):
        for name in waiting:
            schemas.shown.add(name)
            schemas.bodies[name] = list(_value(name, schemas))
    for name in sorted(schemas.bodies, key=lambda each: schemas.title(each).lower()):
        yield from schemas.bodies[name]


def _value(name: str, schemas: Schemas) -> Iterator[str]:
    shape = schemas.all[name]
    yield f"### {schemas.title(name)}"
    yield ""
    if text := " ".join(shape.get("description", "").split()):
        yield text
        yield ""
    for field, schema in shape.get("properties", {}).items():
        about = f": {text}" if (text := " ".join(schema.get("description", "").split())) else ""
        yield f"- `{field}` {schemas.told(schema)}{about}"
    yield ""


class Schemas:
    """The schemas of the document, as people say them; `named` are those that something shown has named."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        self.all = found
        self.named: set[str] = set()
        self.shown: set[str] = set()
        self.bodies: dict[str, list[str]] = {}

    def title(self, name: str) -> str:
        """A schema's name as the page has it; two never have the same."""
        short = re.sub(r"(Shape|-Input|-Output)$", "", name.rpartition("__")[2])
        return name if short in self.all and short != name else short

    def object_of(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        """The object that a body is, null or not."""
        for each in schema.get("anyOf", [schema]):
            if "$ref" in each:
                return dict(self.all[each["$ref"].rpartition("/")[2]])
        return schema

    def spread(self, schema: Mapping[str, Any]) -> str:
        """An answer: a wrapper by its fields, anything else by its name."""
        name = schema.get("$ref", "").rpartition("/")[2]
        if name.endswith("Shape") and "properties" in self.all[name]:
            fields = (f'"{field}": {self.told(each)}' for field, each in self.all[name]["properties"].items())
            return "{" + ", ".join(fields) + "}"
        return self.told(schema)

    def told(self, schema: Mapping[str, Any], bare: bool = False) -> str:
        """A type in words; `bare`: null is left out, as whatever may be left out may be null."""
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name == "JsonValue":
                return "any JSON"
            self.named.add(name)
            title = self.title(name)
            return f"[{title}](#{title.lower()})"
        if "anyOf" in schema:
            parts = [self.told(each) for each in schema["anyOf"] if each.get("type") != "null"]
            null = [] if bare or len(parts) == len(schema["anyOf"]) else ["null"]
            return " or ".join([*parts, *null])
        if "enum" in schema or "const" in schema:
            return ", ".join(f"`{each}`" for each in schema.get("enum", [schema.get("const")]))
        kind = schema.get("type", "any JSON")
        if kind == "array":
            if "prefixItems" in schema:
                return f"[{', '.join(self.told(each) for each in schema['prefixItems'])}]"
            return f"list of {self.told(schema['items'])}{_bounds(schema, 'minItems', 'maxItems')}"
        if kind == "object":
            inner = schema.get("additionalProperties")
            return f"object of {self.told(inner)}" if isinstance(inner, dict) and "type" in inner else "object"
        word = {"string": "time" if schema.get("format") == "date-time" else "text", "boolean": "true or false"}.get(kind, kind)
        return str(word) + _bounds(schema, "minimum", "maximum")


def _bounds(schema: Mapping[str, Any], least: str, most: str) -> str:
    low, high = schema.get(least), schema.get(most)
    if high is None:
        return "" if low is None else f" (from {low:g} on)"
    if low is None or 0 < low < 0.001:
        return f" ({'' if low is None else 'more than 0, '}up to {high:,.0f})"
    return f" ({low:g} to {high:,.0f})"


if __name__ == "__main__":
    if "--print" in sys.argv:
        print(page(), end="")
    else:
        TARGET.parent.mkdir(parents=True, exist_ok=True)
        TARGET.write_text(page(), encoding="utf-8")
