"""Plain files as memories: lines of text, bullets of Markdown, rows of CSV, objects of JSON, and folders of these.

A table needs a column for the text. `fields` maps what a memory has to the names of columns: {"content": "note", "tag": "topic"};
without it the usual names are tried.
"""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keepstone.errors import ConfigurationError, ValidationError
from keepstone.importing.entries import Entry, Found, clean_metadata, read_safely, split_entry, text_at, time_of
from keepstone.maintenance.external_files import PathOrText, Unread, documents
from keepstone.types import MESSAGE

FORMATS = ("lines", "bullets", "csv", "json", "files")
SUFFIXES = {
    ".txt": "lines", ".text": "lines", ".csv": "csv", ".tsv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json",
    ".md": "bullets", ".markdown": "bullets",
}  # fmt: skip
MAX_FILE_BYTES = 64 * 1024 * 1024
_PIECE_BYTES = 1 << 18
Fields = Mapping[str, str]
_NAMES: dict[str, tuple[str, ...]] = {  # of columns, for each field of a memory; the first that a file has is taken
    "content": ("content", "text", "memory", "fact", "note", "body", "message", "value"),
    "tag": ("tag", "category", "topic"),
    "key": ("key",),
    "kind": ("kind",),
    "id": ("id", "uuid"),
    "at": ("occurred_at", "created_at", "date", "time", "timestamp"),
    "session": ("session", "session_id"),
    "owner": ("user", "user_id"),
}
_ARGUMENTS = {"occurred_at": "at", "user": "owner"}  # names of fields as callers give them
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?(.*)$")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s")


def check_fields(given: Fields | None) -> dict[str, str]:
    """The mapping of fields to columns; ValidationError for a field that no memory has."""
    fields = {_ARGUMENTS.get(name, name): column for name, column in (given or {}).items()}
    unknown = sorted(fields.keys() - _NAMES.keys())
    if unknown:
        known = ", ".join("occurred_at" if name == "at" else "user" if name == "owner" else name for name in _NAMES)
        raise ValidationError(f"fields has {unknown[0]!r:.40}, which no memory has: use {known}.")
    return fields


def recognise(path: PathOrText) -> str | None:
    """The format of a plain file by its suffix, or of a folder with such files; None for others. A Markdown file is read by its
    bullets if it has nothing else but headings."""
    source = Path(path)
    if source.is_dir():
        return "files" if any(_files(source)) else None
    format = SUFFIXES.get(source.suffix.lower())
    if format == "bullets":
        lines = [line for line in _read(source).splitlines() if line.strip() and not _HEADING.match(line)]
        return format if lines and all(_BULLET.match(line) or line.startswith(("  ", "\t")) for line in lines) else None
    return None if format == "json" and not _holds_objects(source) else format


def _holds_objects(path: Path) -> bool:
    """Whether a JSON file has a text or an object among its first entries."""
    rows = (row for document in documents(path) for row in document.rows())
    return any(
        not isinstance(row, Unread) and isinstance(row[1], (str, Mapping)) for row, _ in zip(rows, range(20), strict=False)
    )


def entries(format: str, path: PathOrText, fields: dict[str, str]) -> Iterator[Found]:
    """The memories of a file, or with the format "files" of every plain file in a folder."""
    source = Path(path)
    if format != "files":
        yield from _file(format, source, source.name, fields)
        return
    if not source.is_dir():
        raise ConfigurationError(f"{str(path)!r:.100} is not a folder: name a folder, or the format of the file.")
    for each in _files(source):
        yield from _file(SUFFIXES[each.suffix.lower()], each, each.relative_to(source).as_posix(), fields)


def _files(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = Path(folder, name)
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES and path.is_file() and not path.is_symlink():
                yield path


def _file(format: str, path: Path, name: str, fields: dict[str, str]) -> Iterator[Found]:
    if format == "json":
        for document in documents(path):
            for row in document.rows():
                if isinstance(row, Unread):
                    yield row
                else:
                    yield from read_safely(_object(row[1], name, row[0], fields), name, row[0])
        return
    reader = {"lines": _lines, "bullets": _bullets, "csv": _table}[format]
    try:
        text = _read(path)
    except ConfigurationError as error:
        yield Unread(name, "the file", str(error))
        return
    yield from read_safely(reader(text, name, fields), name, "the file")


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = bytearray()  # a piece at a time: one large read would take all of the limit for a small file
            while len(data) <= MAX_FILE_BYTES and (piece := file.read(_PIECE_BYTES)):
                data += piece
    except OSError as error:
        raise ConfigurationError(f"{str(path)!r:.100} cannot be read ({error.strerror}): check the path.") from None
    if len(data) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{str(path)!r:.100} has more than {MAX_FILE_BYTES} bytes: split it.")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(10) + 1
        raise ConfigurationError(f"{str(path)!r:.100} is not UTF-8 (line {line}): save it as UTF-8 text.") from None


# -- formats ------------------------------------------------------------------------------------------------------------
def _lines(text: str, name: str, fields: dict[str, str]) -> Iterator[Found]:
    """Each line that is not blank."""
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield from split_entry(Entry(line.strip(), name, f"line {number}"))


def _bullets(text: str, name: str, fields: dict[str, str]) -> Iterator[Found]:
    """Each bullet, with the lines that are indented below it; the heading above it is its tag."""
    tag, began, lines = "general", 0, list[str]()
    for number, line in enumerate([*text.split("\n"), "# "], 1):
        bullet, heading = _BULLET.match(line), _HEADING.match(line)
        if bullet is None and heading is None and lines and line.startswith((" ", "\t")):
            lines.append(line.strip())
            continue
        if lines and (bullet or heading or not line.strip()):
            yield from split_entry(Entry(" ".join(lines), name, f"line {began}", tag=tag))
            lines = []
        if heading is not None:
            tag = line.strip().strip("#").strip().lower() or "general"
        elif bullet is not None and bullet[1].strip():
            began, lines = number, [bullet[1].strip()]


def _table(text: str, name: str, fields: dict[str, str]) -> Iterator[Found]:
    """Each row of a table with a heading."""
    try:
        dialect: Any = csv.Sniffer().sniff(text[:8192], ",;\t|")
    except csv.Error:
        dialect = csv.excel
    rows = csv.DictReader(io.StringIO(text), dialect=dialect)
    try:
        columns = [column.strip() for column in rows.fieldnames or ()]
        _column("content", columns, fields, name)
        for row in rows:
            values = {column.strip(): value for column, value in row.items() if column is not None and isinstance(value, str)}
            where = f"line {rows.line_num}"
            yield from read_safely(_object(values, name, where, fields), name, where)
    except csv.Error as error:
        raise ValidationError(f"line {rows.line_num} is no CSV ({error}): check its quotes.") from None


def _column(field: str, columns: list[str], fields: dict[str, str], name: str) -> str | None:
    """The column of a field. The text needs one; other fields need one only if the mapping names it."""
    if field in fields:
        if fields[field] not in columns:
            raise ValidationError(f"{name} has no column {fields[field]!r:.60}: it has {', '.join(columns)[:200]}.")
        return fields[field]
    lower = {column.lower(): column for column in reversed(columns)}
    found = next((lower[each] for each in _NAMES[field] if each in lower), None)
    if found is None and field == "content":
        raise ValidationError(
            f"{name} has no column of the text ({', '.join(_NAMES['content'])}): name it, content=COLUMN. "
            f"It has {', '.join(columns)[:200] or 'no columns'}."
        )
    return found


def _object(value: Any, name: str, where: str, fields: dict[str, str]) -> Iterator[Found]:
    """One row or object; what is not mapped to a field is kept as metadata."""
    if isinstance(value, str):
        yield from split_entry(Entry(value, name, where))
        return
    if not isinstance(value, Mapping):
        raise ValidationError(f"{where} is neither text nor an object: use lines of JSON objects, or a list of them.")
    columns = {field: _column(field, list(value), fields, where) for field in _NAMES}
    taken = {field: text_at(value, column) for field, column in columns.items() if column is not None}
    rest = {str(each): value[each] for each in value if each not in columns.values() and value[each] not in (None, "")}
    metadata = rest.pop("metadata") if isinstance(rest.get("metadata"), Mapping) else {}
    kept, note = clean_metadata({**metadata, **rest})
    yield from split_entry(
        Entry(
            taken["content"], name, where, id=taken.get("id", ""), kind=_kind(taken.get("kind", "")),
            tag=taken.get("tag") or "general", key=taken.get("key") or None, session=taken.get("session") or None,
            owner=taken.get("owner", ""), at=time_of(taken.get("at")), metadata=kept, note=note,
        )
    )  # fmt: skip


def _kind(text: str) -> str:
    return "note" if text == MESSAGE else text or "fact"  # a message needs a conversation
