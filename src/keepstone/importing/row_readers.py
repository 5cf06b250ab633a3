"""What the readers of all systems share: rows to entries, one bad row at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from keepstone.errors import ValidationError
from keepstone.importing.entries import Entry, Found, Passed, clean_metadata, clean_text, split_text, valid_name
from keepstone.importing.json_files import Document
from keepstone.maintenance.external_formats import Part, Rows, time_of
from keepstone.maintenance.health import Item
from keepstone.types import MESSAGE
from keepstone.write.request import has_visible_text

_UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
Made = Callable[[Item, Any, Entry], Entry]


def read_memories(
    system: str, documents: Iterable[Document], find: Callable[[Rows], Iterator[Part]], made: Made | None = None
) -> Iterator[Found]:
    """The entries that a reader of the health report finds. `made` gives an entry what that report does not ask for."""
    for document in documents:
        for row in document.rows():
            if isinstance(row, Passed):
                yield row
                continue
            found = (
                one
                for at, raw, read in find([row])
                for one in collect_safely(_of_item(system, document.name, at, raw, read, made), document.name, at)
            )
            yield from stream_safely(found, document.name, row[0])


def _of_item(system: str, file: str, where: str, raw: Any, read: Callable[[], Item], made: Made | None) -> Iterator[Found]:
    item = read()
    if item.status != "active":
        yield Passed(file, where, "it was deleted there.", "skipped", item.id)
        return
    metadata, note = clean_metadata(raw.get("metadata") if isinstance(raw, Mapping) else None)
    entry = Entry(
        item.content, file, where,
        id=item.id, kind=item.kind, tag=item.tag, metadata=metadata, at=item.created_at or item.updated_at,
        changed_at=item.updated_at, expires_at=item.expires_at, role=item.role, owner=item.user, note=note,
    )  # fmt: skip
    if item.kind == MESSAGE:
        entry = replace(entry, session=f"{system}:{item.user or file}")
    yield from split_entry(entry if made is None else made(item, raw, entry))


def read_rows(documents: Iterable[Document], read: Callable[[Any, str, str], Iterator[Found]]) -> Iterator[Found]:
    """What a system's own reader finds in each row."""
    for document in documents:
        for row in document.rows():
            if isinstance(row, Passed):
                yield row
            else:
                yield from stream_safely(read(row[1], document.name, row[0]), document.name, row[0])


def split_entry(entry: Entry, most: int | None = None) -> Iterator[Found]:
    """An entry as it can be stored: in parts where it is long, passed over where it says nothing."""
    content = clean_text(entry.content)
    if not has_visible_text(content):
        yield Passed(entry.file, entry.where, "it is empty.", "skipped", entry.id)
        return
    id = clean_text(entry.id)
    names = {"tag": "general", "kind": "fact", "session": "imported", "role": "user", "key": "imported"}
    given = {name: getattr(entry, name) for name in names}
    usable: dict[str, Any] = {name: valid_name(value, names[name]) for name, value in given.items() if value is not None}
    speaker = valid_name(entry.name or "", "") or None
    entry = replace(entry, content=content, id=id, owner=clean_text(entry.owner), name=speaker, **usable)
    parts = list(split_text(content)) if most is None else list(split_text(content, most))
    for number, part in enumerate(parts, 1):
        if number == 1:
            yield replace(entry, content=part)
        else:
            key = None if entry.key is None else valid_name(f"{entry.key}~{number}", "imported")
            yield replace(entry, content=part, id=f"{id}~{number}" if id else "", key=key, where=f"{entry.where}, part {number}")


def collect_safely(reading: Iterator[Found], file: str, where: str, id: str = "") -> Iterator[Found]:
    """What a reader finds in one place, or why it finds nothing there."""
    try:
        found = list(reading)
    except ValidationError as error:
        yield Passed(file, where, str(error).removeprefix(f"{where}: "), id=id)
    except _UNREADABLE as error:
        yield Passed(file, where, f"this cannot be read ({type(error).__name__}): it is not as the system writes it.", id=id)
    else:
        yield from found


def stream_safely(found: Iterator[Found], file: str, where: str) -> Iterator[Found]:
    """The same for what may go on for long: what was found before it failed stays found."""
    try:
        yield from found
    except ValidationError as error:
        yield Passed(file, where, str(error).removeprefix(f"{where}: "))
    except _UNREADABLE as error:
        yield Passed(file, where, f"this cannot be read ({type(error).__name__}): it is not as the system writes it.")


# -- fields -------------------------------------------------------------------------------------------------------------
def text_at(fields: Any, *names: str) -> str:
    """The first of some fields that holds text, or a number as text; "" where none does."""
    if not isinstance(fields, Mapping):
        return ""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def list_at(fields: Any, *names: str) -> list[Any]:
    """The first of some fields that is a list; an empty one where none is."""
    if not isinstance(fields, Mapping):
        return []
    return next((fields[name] for name in names if isinstance(fields.get(name), list)), [])


def time_at(fields: Mapping[str, Any], where: str, *names: str) -> datetime | None:
    """A time under one of some names; ValidationError says if it is none."""
    return time_of(fields, where, *names)
