"""Exports of other memory systems, read as items for the health report and for importing.

Known are mem0 (`get_all` of the platform and of the open source, exports, lines of JSON), Letta (agent files, older exports,
lists of blocks or passages), LangMem (items of a LangGraph store) and keepstone's own export. A field that was renamed between
versions is read under all its names. An item with an empty `id` had none.

Each system has a `*_parts` that finds its memories and leaves reading each to the caller, so that an invalid one does not prevent
the others from being read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, replace
from datetime import UTC, datetime
from functools import partial
from os import PathLike
from typing import Any

from keepstone.distribution import export_format
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.maintenance.external_files import Row, Unread, documents
from keepstone.maintenance.health import Item
from keepstone.maintenance.transfer import FIELDS
from keepstone.text.times import parse_time
from keepstone.types import MESSAGE

Fields = Mapping[str, Any]
Rows = Iterable[Row]
Part = tuple[str, Any, Callable[[], Item]]  # the place of a memory in words; its value; a function that reads it as an item
_MAX_DEPTH = 50  # levels of a value that becomes text
_LETTA_FIELDS = {"agents", "core_memory", "blocks", "archival_memory", "archival_passages", "passages", "memory_blocks"}
_PASSAGE_FIELDS = {"archive_id", "agent_id", "embedding_config", "source_id", "file_id", "organization_id", "is_deleted"}
_MEM0_FIELDS = {"data", "payload", "hash", "user_id", "app_id"}
_OWN_FIELDS = tuple(field.name for field in fields(Item) if field.name in FIELDS and field.name not in ("id", "content"))
UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)  # raised by malformed entries


def read_export(path: str | PathLike[str], format: str = "auto") -> tuple[str, list[Item]]:
    """The format of an export and the memories in it. ValidationError names the line or entry that cannot be read."""
    if format not in ("auto", *FORMATS):
        raise ValidationError(f"the format {format!r:.40} is unknown: use auto, {', '.join(FORMATS)}.")
    name = f"{str(path)!r:.100}"
    rows = _read_rows(path, name)
    found = recognise_rows(rows) if format == "auto" else format
    if found is None:
        raise ValidationError(f"{name} is in no known format: known are exports of {', '.join(FORMATS)}.")
    try:
        items = [read() for _, _, read in _READERS[found](rows)]
    except ValidationError as error:
        raise ValidationError(f"{name}, {error} Correct it, or leave it out of the file.") from None
    except UNREADABLE as error:
        raise ValidationError(f"{name} cannot be read as {found} ({type(error).__name__}): name its `format`.") from None
    return found, list(_with_own_ids(item for item in items if item.content.strip() or found != "letta"))  # blocks begin empty


def _read_rows(path: str | PathLike[str], name: str) -> list[Row]:
    try:
        files = documents(path)
    except ConfigurationError as error:
        raise ValidationError(str(error)) from None
    if not files:
        raise ValidationError(f"{name} holds no JSON file: check the path.")
    rows: list[Row] = []
    for row in (row for file in files for row in file.rows()):
        if isinstance(row, Unread):
            raise ValidationError(f"{name}, {row.where}: {row.reason}")
        rows.append(row)
    return rows


def recognise_rows(rows: Rows) -> str | None:
    """The format of the first entry; None for an unknown one."""
    values = [value for _, value in rows]
    first = next((value for value in values if isinstance(value, Mapping)), None)
    if first is None:
        return None if values else "mem0"
    if export_format(first) is not None:
        return "keepstone"
    listed = None if is_letta(first) else _results(first)
    head = first if listed is None else next((each for each in listed if isinstance(each, Mapping)), {})
    if "value" in head and ("namespace" in head or "prefix" in head):
        return "langmem"
    if listed is not None or isinstance(head.get("memory"), str):
        return "mem0"
    if is_letta(head) or {"label", "value"} <= head.keys() or "in_context_message_ids" in head:
        return "letta"
    if isinstance(head.get("memory"), Mapping) or ("text" in head and not _PASSAGE_FIELDS.isdisjoint(head)):
        return "letta"
    return "mem0" if not _MEM0_FIELDS.isdisjoint(head) else None


def is_letta(fields: Fields) -> bool:
    """Whether an object is an agent file of Letta."""
    return not _LETTA_FIELDS.isdisjoint(fields)


def _with_own_ids(items: Iterable[Item]) -> Iterator[Item]:
    """Each item once, with an id of its own; an item without one gets a digest of its content."""
    seen: dict[str, str] = {}
    for item in items:
        id = item.id or hashlib.blake2b(f"{item.user}\0{item.content}".encode(), digest_size=8).hexdigest()
        if item.id and seen.get(id) == item.content:
            continue  # two pages of one export may overlap
        name, number = id, 2
        while name in seen:
            name, number = f"{id}#{number}", number + 1
        seen[name] = item.content
        yield item if item.id == name else replace(item, id=name)


def _results(document: Fields) -> list[Any] | None:
    """The list in a page of results."""
    return next((list(document[name]) for name in ("results", "memories", "items") if isinstance(document.get(name), list)), None)


def _pages(rows: Rows) -> Iterator[Row]:
    """Entries, and those within pages of results."""
    for where, row in rows:
        inner = _results(row) if isinstance(row, Mapping) else None
        if inner is None:
            yield where, row
        else:
            yield from ((f"entry {number} of {where}", each) for number, each in enumerate(inner, 1))


# -- mem0 ---------------------------------------------------------------------------------------------------------------
def mem0_parts(rows: Rows) -> Iterator[Part]:
    """Memories of mem0, of `get_all` or a dump of its vector store, without the deleted ones."""
    for where, row in _pages(rows):
        both = {**object_at(row, "payload"), **row} if isinstance(row, Mapping) else row
        if not isinstance(both, Mapping) or not (both.get("event") == "DELETE" or both.get("state") == "deleted"):
            yield where, both, partial(_mem0_item, both, where)


def _mem0_item(row: Any, where: str) -> Item:
    both = mapping_of(row, where)
    metadata = object_at(both, "metadata")
    content = next((both[name] for name in ("memory", "data", "text", "content") if both.get(name) is not None), None)
    categories = both.get("categories") or metadata.get("category") or metadata.get("categories")
    return Item(
        id=_name(both, where, "id", "memory_id"),
        content=text_of(content, where, "memory"),
        tag=_tag(categories),
        user=_user(both, "user_id", "userId") or _user(metadata, "user_id") or _user(both, "agent_id", "agentId", "run_id"),
        role=_optional(both.get("role")),
        created_at=time_at(both, where, "created_at", "createdAt"),
        updated_at=time_at(both, where, "updated_at", "updatedAt"),
        expires_at=time_at(both, where, "expiration_date", "expirationDate"),
    )


# -- LangMem ------------------------------------------------------------------------------------------------------------
def langmem_parts(rows: Rows) -> Iterator[Part]:
    """Items of a LangGraph store; their namespace is their user."""
    for where, row in _pages(rows):
        yield where, row, partial(_langmem_item, row, where)


def _langmem_item(row: Any, where: str) -> Item:
    fields = mapping_of(row, where)
    namespace = fields.get("namespace", fields.get("prefix"))
    if isinstance(namespace, str):
        namespace = namespace.split(".")
    if not isinstance(namespace, list) or "value" not in fields:
        raise ValidationError(f"{where} has no namespace and value: an item of a LangGraph store has both.")
    value = fields["value"]
    kind = _optional(value.get("kind")) if isinstance(value, Mapping) else None
    content = value.get("content", value.get("text")) if isinstance(value, Mapping) else value
    if content is None:
        content = value
    if isinstance(content, Mapping) and set(content) == {"content"}:
        content = content["content"]
    path = "/".join(str(each) for each in namespace)
    key = _name(fields, where, "key")
    return Item(
        id=f"{path}/{key}" if path else key,
        content=text_of(content, where, "value"),
        tag=kind if kind not in (None, "Memory") else "general",
        user=path,
        created_at=time_at(fields, where, "created_at", "createdAt"),
        updated_at=time_at(fields, where, "updated_at", "updatedAt"),
    )


# -- Letta --------------------------------------------------------------------------------------------------------------
def letta_parts(rows: Rows) -> Iterator[Part]:
    """Blocks, passages and messages of Letta, the empty ones too; their agent is their user."""
    for where, row in rows:
        fields = mapping_of(row, where)
        if {"label", "value"} <= fields.keys():
            yield where, row, partial(_block, fields, where, "")
        elif "text" in fields:
            yield where, row, partial(_passage, fields, where, "")
        else:
            yield from _agent_file(fields, where)


def _agent_file(fields: Fields, where: str) -> Iterator[Part]:
    """An agent file: agents with blocks that they may share, or one agent."""
    own = _name(fields, where, "id", "name")
    if "agents" not in fields:
        yield from _agent(fields, where, own)
        return
    owners: dict[str, str] = {}
    for at, row in _listed(fields, "agents", where):
        agent = mapping_of(row, at)
        name = _name(agent, at, "id", "name") or at
        owners |= {str(id): name for _, id in _listed(agent, "block_ids", at)}
        yield from _agent(agent, at, name)
    for at, row in _listed(fields, "blocks", where):
        id = str(row.get("id")) if isinstance(row, Mapping) else ""
        yield at, row, partial(_block, row, at, owners.get(id, own))
    yield from _agent({name: part for name, part in fields.items() if name != "blocks"}, where, own)


def _agent(fields: Fields, where: str, owner: str) -> Iterator[Part]:
    memory = object_at(fields, "memory")
    core = {**object_at(memory, "memory"), **memory, **object_at(fields, "core_memory")}
    for held in (core, fields):
        for name in ("blocks", "memory_blocks", "core_memory"):
            if isinstance(held.get(name), list):
                yield from ((at, each, partial(_block, each, at, owner)) for at, each in _listed(held, name, where))
    for label, block in core.items():  # {"human": "…"} or {"human": {"value": "…"}}
        value = {"value": block} if isinstance(block, str) else block
        if isinstance(value, Mapping) and isinstance(value.get("value"), str):
            at = f"{label} of {where}"
            yield at, block, partial(_block, {"label": label, **value}, at, owner)
    for name in ("archival_memory", "archival_passages", "passages"):
        yield from ((at, each, partial(_passage, each, at, owner)) for at, each in _listed(fields, name, where))
    yield from ((at, each, partial(_message, each, at, owner)) for at, each in _listed(fields, "messages", where))


def _block(row: Any, where: str, owner: str) -> Item:
    fields = mapping_of(row, where)
    label = _optional(fields.get("label")) or "block"
    return Item(
        id=_optional(fields.get("id")) or f"{owner or where}/{label}",
        content=text_of(fields.get("value", ""), where, "value"),
        kind="block",
        tag=label,
        user=owner,
        created_at=time_at(fields, where, "created_at"),
        updated_at=time_at(fields, where, "updated_at"),
    )


def _passage(row: Any, where: str, owner: str) -> Item:
    fields = {"text": row} if isinstance(row, str) else mapping_of(row, where)
    return Item(
        id=_optional(fields.get("id")) or "",
        content=text_of(fields.get("text", fields.get("content")), where, "text"),
        tag=_tag(fields.get("tags")),
        user=_user(fields, "agent_id", "archive_id") or owner,
        created_at=time_at(fields, where, "created_at", "timestamp"),
        updated_at=time_at(fields, where, "updated_at"),
        status="archived" if fields.get("is_deleted") is True else "active",
    )


def _message(row: Any, where: str, owner: str) -> Item:
    fields = mapping_of(row, where)
    content = fields.get("content", fields.get("text"))
    if isinstance(content, list):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        content = "\n".join(part for part in parts if isinstance(part, str))
    return Item(
        id=_optional(fields.get("id")) or "",
        content=text_of(content or "", where, "content"),
        kind=MESSAGE,
        user=_user(fields, "agent_id") or owner,
        role=_optional(fields.get("role")),
        created_at=time_at(fields, where, "created_at"),
        updated_at=time_at(fields, where, "updated_at"),
    )


# -- keepstone ----------------------------------------------------------------------------------------------------------
def own_parts(rows: Rows) -> Iterator[Part]:
    """Lines of keepstone's own export."""
    for where, row in rows:
        yield where, row, partial(_own_item, row, where)


def _own_item(row: Any, where: str) -> Item:
    fields = mapping_of(row, where)
    if export_format(fields) != 1:
        raise ValidationError(f"{where} is not a line of a keepstone export (format 1).")
    content, user = text_of(fields.get("content"), where, "content"), _user(object_at(fields, "scope"), "user")
    try:
        others = {name: FIELDS[name](fields[name], name) for name in _OWN_FIELDS if name in fields}
    except ValidationError as error:
        raise ValidationError(f"{where}: {error}") from None
    return Item(id=_name(fields, where, "id"), content=content, user=user, **others)


_READERS: dict[str, Callable[[Rows], Iterator[Part]]] = {
    "mem0": mem0_parts, "letta": letta_parts, "langmem": langmem_parts, "keepstone": own_parts,
}  # fmt: skip
FORMATS = tuple(_READERS)


# -- fields -------------------------------------------------------------------------------------------------------------
def mapping_of(row: Any, where: str) -> Fields:
    if not isinstance(row, Mapping):
        raise ValidationError(f"{where} is {_named(row)}, not an object with fields.")
    return row


def object_at(fields: Fields, name: str) -> Fields:
    """The object in a field; empty for anything else."""
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def _listed(fields: Fields, name: str, where: str) -> Iterator[Row]:
    rows = fields.get(name)
    if rows is None:
        return
    if not isinstance(rows, list):
        raise ValidationError(f"{where}: {name} is {_named(rows)}, not a list.")
    yield from ((f"entry {number} of {name}, {where}", each) for number, each in enumerate(rows, 1))


def text_of(value: Any, where: str, name: str, depth: int = 0) -> str:
    """A value as text: the parts of an object with their names."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")  # no lone surrogates
    if value is None and depth == 0:
        raise ValidationError(f"{where}: the field {name} is missing or null, and it holds the text of a memory.")
    if depth > _MAX_DEPTH:
        raise ValidationError(f"{where}: {name} is nested deeper than {_MAX_DEPTH} levels.")
    if isinstance(value, Mapping):
        said = [(part, text_of(each, where, name, depth + 1)) for part, each in value.items() if each is not None]
        return "; ".join(f"{part}: {text}" for part, text in said if text)
    if isinstance(value, list):
        return ", ".join(text_of(each, where, name, depth + 1) for each in value if each is not None)
    return json.dumps(value)


def _name(fields: Fields, where: str, *names: str) -> str:
    """An identifier; empty without one."""
    for name in names:
        value = fields.get(name)
        if isinstance(value, (str, int)) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            raise ValidationError(f"{where}: {name} is {_named(value)}, not text.")
    return ""


def _optional(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _user(fields: Fields, *names: str) -> str:
    return next((str(fields[name]) for name in names if isinstance(fields.get(name), (str, int)) and fields[name] != ""), "")


def _tag(value: Any) -> str:
    """The first of some categories."""
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, str) and first else "general"


def time_at(fields: Fields, where: str, *names: str) -> datetime | None:
    for name in names:
        value = fields.get(name)
        if value is None or value == "":
            continue
        try:
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return parse_time(datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC), name)
            return parse_time(value, name)
        except ValidationError as error:
            raise ValidationError(f"{where}: {error}") from None
        except (ValueError, OverflowError, OSError):
            raise ValidationError(f"{where}: {name} {value!r:.40} is not a time.") from None
    return None


def _named(value: Any) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
