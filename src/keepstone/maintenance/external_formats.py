"""How other memory systems write their memories, read as items.

Fields that have been named differently over the versions are taken under all of their names. An item with an empty `id` had none.
Each system has a `*_parts` that finds where its memories stand and leaves reading each to the caller, so that a bad one need not
keep the others from being read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any

from keepstone.distribution import export_format
from keepstone.errors import ValidationError
from keepstone.maintenance.health import Item
from keepstone.text.times import parse_time
from keepstone.types import MESSAGE

Fields = Mapping[str, Any]
Row = tuple[str, Any]  # where it stands, in words; what stands there
Rows = Iterable[Row]
Part = tuple[str, Any, Callable[[], Item]]  # where one memory stands, in words; what stands there; what reads it as an item
_DEEPEST = 50  # levels of a value that are turned into text
LETTA_PARTS = frozenset({"agents", "core_memory", "blocks", "archival_memory", "archival_passages", "passages", "memory_blocks"})


def entries(document: Fields) -> list[Any] | None:
    """The list that a page of results holds."""
    for name in ("results", "memories", "items"):
        if isinstance(document.get(name), list):
            return list(document[name])
    return None


def pages(rows: Rows) -> Iterator[Row]:
    """Entries, and those within pages of results."""
    for where, row in rows:
        inner = entries(row) if isinstance(row, Mapping) else None
        if inner is None:
            yield where, row
        else:
            yield from ((f"entry {number} of {where}", each) for number, each in enumerate(inner, 1))


# -- mem0 ---------------------------------------------------------------------------------------------------------------
def mem0(rows: Rows) -> Iterator[Item]:
    """Memories of mem0, of `get_all` or a dump of its vector store; one without a user belongs to its agent or run."""
    return (read() for _, _, read in mem0_parts(rows))


def mem0_parts(rows: Rows) -> Iterator[Part]:
    """Where the memories stand; those that were deleted are left out."""
    for where, row in pages(rows):
        both = {**_inner(row, "payload"), **row} if isinstance(row, Mapping) else row
        if not isinstance(both, Mapping) or not (both.get("event") == "DELETE" or both.get("state") == "deleted"):
            yield where, both, partial(_memory, both, where)


def _memory(row: Any, where: str) -> Item:
    both = mapping_of(row, where)
    metadata = _inner(both, "metadata")
    content = next((both[name] for name in ("memory", "data", "text", "content") if both.get(name) is not None), None)
    categories = both.get("categories") or metadata.get("category") or metadata.get("categories")
    return Item(
        id=_name(both, where, "id", "memory_id"),
        content=text_of(content, where, "memory"),
        tag=_tag(categories),
        user=_user(both, "user_id", "userId") or _user(metadata, "user_id") or _user(both, "agent_id", "agentId", "run_id"),
        role=_optional(both.get("role")),
        created_at=time_of(both, where, "created_at", "createdAt"),
        updated_at=time_of(both, where, "updated_at", "updatedAt"),
        expires_at=time_of(both, where, "expiration_date", "expirationDate"),
    )


# -- LangMem ------------------------------------------------------------------------------------------------------------
def langmem(rows: Rows) -> Iterator[Item]:
    """Items of a LangGraph store; a namespace is a place of its own, as a user is. Their keys are ids, not ours."""
    return (read() for _, _, read in langmem_parts(rows))


def langmem_parts(rows: Rows) -> Iterator[Part]:
    """Where the items stand."""
    for where, row in pages(rows):
        yield where, row, partial(_kept, row, where)


def _kept(row: Any, where: str) -> Item:
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
        created_at=time_of(fields, where, "created_at", "createdAt"),
        updated_at=time_of(fields, where, "updated_at", "updatedAt"),
    )


# -- Letta --------------------------------------------------------------------------------------------------------------
def letta(rows: Rows) -> Iterator[Item]:
    """Blocks, passages and messages of Letta; each agent is a place of its own. What is empty is left out: blocks begin so."""
    read = (each() for _, _, each in letta_parts(rows))
    return (item for item in read if item.content.strip())


def letta_parts(rows: Rows) -> Iterator[Part]:
    """Where the blocks, passages and messages stand, the empty ones too."""
    for where, row in rows:
        fields = mapping_of(row, where)
        if {"label", "value"} <= fields.keys():
            yield where, row, partial(_block, fields, where, "")
        elif "text" in fields:
            yield where, row, partial(_passage, fields, where, "")
        else:
            yield from _agent_file(fields, where)


def _agent_file(fields: Fields, where: str) -> Iterator[Part]:
    """An agent file: of agents with blocks that they may share, or of one agent that has everything itself."""
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
    memory = _inner(fields, "memory")
    core = {**_inner(memory, "memory"), **memory, **_inner(fields, "core_memory")}
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
        created_at=time_of(fields, where, "created_at"),
        updated_at=time_of(fields, where, "updated_at"),
    )


def _passage(row: Any, where: str, owner: str) -> Item:
    fields = {"text": row} if isinstance(row, str) else mapping_of(row, where)
    return Item(
        id=_optional(fields.get("id")) or "",
        content=text_of(fields.get("text", fields.get("content")), where, "text"),
        tag=_tag(fields.get("tags")),
        user=_user(fields, "agent_id", "archive_id") or owner,
        created_at=time_of(fields, where, "created_at", "timestamp"),
        updated_at=time_of(fields, where, "updated_at"),
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
        created_at=time_of(fields, where, "created_at"),
        updated_at=time_of(fields, where, "updated_at"),
    )


# -- our own ------------------------------------------------------------------------------------------------------------
def own(rows: Rows) -> Iterator[Item]:
    """Lines of our own export."""
    for where, row in rows:
        fields = mapping_of(row, where)
        if export_format(fields) != 1:
            raise ValidationError(f"{where} is not a line of a keepstone export (format 1).")
        count, parents = fields.get("access_count"), fields.get("parents") or []
        if not isinstance(parents, list):
            raise ValidationError(f"{where}: parents is {type(parents).__name__}, not a list of ids.")
        yield Item(
            id=_name(fields, where, "id"),
            content=text_of(fields.get("content"), where, "content"),
            kind=_optional(fields.get("kind")) or "fact",
            tag=_optional(fields.get("tag")) or "general",
            key=_optional(fields.get("key")),
            user=_user(_inner(fields, "scope"), "user"),
            source=_optional(fields.get("source")) or "user",
            trust=_share(fields, where, "trust", 1.0),
            importance=_share(fields, where, "importance", 0.5),
            role=_optional(fields.get("role")),
            **_times(fields, where),
            access_count=count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else None,
            parents=tuple(str(each) for each in parents),
            status=_optional(fields.get("status")) or "active",
        )


_TIMES = ("created_at", "updated_at", "last_accessed_at", "expires_at", "valid_from")


# -- fields -------------------------------------------------------------------------------------------------------------
def mapping_of(row: Any, where: str) -> Fields:
    if not isinstance(row, Mapping):
        raise ValidationError(f"{where} is {_named(row)}, not an object with fields.")
    return row


def _inner(fields: Fields, name: str) -> Fields:
    """An object within an object; empty where it is anything else."""
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
    """A value as text: parts of an object one after the other, each with its name."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")  # half a character is none
    if value is None and depth == 0:
        raise ValidationError(f"{where}: the field {name} is missing or null, and it holds the text of a memory.")
    if depth > _DEEPEST:
        raise ValidationError(f"{where}: {name} is nested deeper than {_DEEPEST} levels.")
    if isinstance(value, Mapping):
        said = [(part, text_of(each, where, name, depth + 1)) for part, each in value.items() if each is not None]
        return "; ".join(f"{part}: {text}" for part, text in said if text)
    if isinstance(value, list):
        return ", ".join(text_of(each, where, name, depth + 1) for each in value if each is not None)
    return json.dumps(value)


def _name(fields: Fields, where: str, *names: str) -> str:
    """An identifier; empty where there is none, which is made good for later."""
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


def time_of(fields: Fields, where: str, *names: str) -> datetime | None:
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
            raise ValidationError(f"{where}: {name} {value!r:.40} is no time.") from None
    return None


def _times(fields: Mapping[str, Any], where: str) -> dict[str, Any]:
    return {name: time_of(fields, where, name) for name in _TIMES}


def _share(fields: Fields, where: str, name: str, default: float) -> float:
    value = fields.get(name, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ValidationError(f"{where}: {name} is {value!r:.40}, not a number from 0 to 1.")
    return float(value)


def _named(value: Any) -> str:
    names = {str: "text", bool: "true or false", int: "a number", float: "a number", list: "a list", dict: "an object"}
    return names.get(type(value), "null")
