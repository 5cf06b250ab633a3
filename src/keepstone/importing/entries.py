"""Entries of an import: read from rows, cleaned and split, with their outcomes and the summary."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

from keepstone.errors import ValidationError
from keepstone.maintenance.external_exports import UNREADABLE, Part, Rows
from keepstone.maintenance.external_files import Document, Unread
from keepstone.maintenance.health import Item
from keepstone.text.times import parse_time
from keepstone.text.words import has_visible_text
from keepstone.types import MESSAGE, NAME_LIMIT, Metadata
from keepstone.write.request import MAX_METADATA, check_metadata

MAX_TEXT_BYTES = 60_000  # of one entry; longer texts are split
_PROVENANCE_BYTES = 512  # of metadata, for the origin of an entry
Done = Literal[
    "added", "updated", "superseded", "merged", "duplicate", "redacted", "quarantined", "refused", "skipped", "new"
]  # "new": a dry run would write it


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory or message to import. `file` and `where` are its place in the source, `id` its id there, or ""; `owner` is its
    user or agent there. `at` is when it came about, `changed_at` when it was last changed, `until` when it ceased to hold. `note`
    is added to the reason of its outcome."""

    content: str
    file: str
    where: str
    id: str = ""
    kind: str = "fact"
    tag: str = "general"
    key: str | None = None
    metadata: Metadata = field(default_factory=dict)
    at: datetime | None = None
    changed_at: datetime | None = None
    expires_at: datetime | None = None
    until: datetime | None = None
    session: str | None = None
    role: str | None = None
    name: str | None = None
    owner: str = ""
    note: str = ""
    blocks: tuple[Mapping[str, Any], ...] = ()  # of a message that is more than text

    @property
    def final(self) -> str:
        """The text that is stored in the end: it says until when it held."""
        return self.content if self.until is None else f"{self.content} (This held until {self.until:%Y-%m-%d}.)"


Found = Entry | Unread


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one entry: `id` is its record, `theirs` its id in the source."""

    file: str
    where: str
    theirs: str
    action: Done
    id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did, or with `dry_run` would do. `counts` are the entries by action, `problems` the first hundred that were
    refused."""

    format: str
    entries: int
    counts: Mapping[str, int]
    problems: tuple[Outcome, ...] = ()
    dry_run: bool = False
    sample: tuple[str, ...] = ()  # of a dry run: the first texts
    skipped: Mapping[str, int] = field(default_factory=dict)  # why entries were skipped, and how many

    @property
    def refused(self) -> int:
        """The number of refused entries."""
        return self.counts.get("refused", 0)


def clean_text(text: str) -> str:
    """A text that every store can hold: without NUL and lone surrogates."""
    text = text.replace("\0", "")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def valid_name(text: str, fallback: str) -> str:
    """A valid name for any text: itself if possible, else its beginning and a digest.

    >>> valid_name("notes", "general"), valid_name("", "general")
    ('notes', 'general')
    """
    plain = " ".join(unicodedata.normalize("NFC", clean_text(text)).split())
    plain = "".join(each for each in plain if unicodedata.category(each) != "Cc")
    if not has_visible_text(plain):
        return fallback
    if len(plain) <= NAME_LIMIT:
        return plain
    return f"{plain[: NAME_LIMIT - 20]}…{hashlib.blake2b(plain.encode(), digest_size=8).hexdigest()}"


def clean_metadata(given: Any) -> tuple[dict[str, Any], str]:
    """Another system's metadata if it can be stored, and a note if not."""
    if not isinstance(given, Mapping) or not given:
        return {}, ""
    try:
        found = check_metadata(given)
    except ValidationError as error:
        return {}, f"its metadata was left out: {error}"
    if len(str(found).encode("utf-8", "replace")) > MAX_METADATA - _PROVENANCE_BYTES:
        return {}, f"its metadata was left out: it has more than {MAX_METADATA - _PROVENANCE_BYTES} bytes."
    return found, ""


_BREAKS = (re.compile(r"\n\s*\n"), re.compile(r"\n"), re.compile(r"(?<=[.!?。])\s+"), re.compile(r"\s+"))


def split_text(text: str, most: int = MAX_TEXT_BYTES) -> Iterator[str]:
    """Split a text into parts of at most so many bytes, between paragraphs, else lines, sentences, words, characters.

    >>> list(split_text("one two three", 8))
    ['one two', 'three']
    """
    begin = 0
    while begin < len(text):
        ahead = text[begin : begin + most + 1]  # the rest is not encoded yet
        head = ahead.encode("utf-8")[:most].decode("utf-8", "ignore")
        if len(head) == len(ahead):
            yield ahead
            return
        at = next((cut for cut in (_last(head, each) for each in _BREAKS) if cut), len(head))
        if part := head[:at].rstrip():
            yield part
        begin += at
        while begin < len(text) and text[begin].isspace():
            begin += 1


def _last(head: str, between: re.Pattern[str]) -> int:
    """The position of the last break of a kind in the second half of a text; 0 without one."""
    found = [each.start() for each in between.finditer(head, len(head) // 2)]
    return found[-1] if found else 0


# -- readers ------------------------------------------------------------------------------------------------------------
def read_memories(system: str, find: Callable[[Rows], Iterator[Part]], documents: Iterable[Document]) -> Iterator[Found]:
    """The memories of mem0, Letta or LangMem. Metadata is kept; the first category is the tag."""

    def read(value: Any, file: str, where: str) -> Iterator[Found]:
        for at, raw, read_item in find([(where, value)]):
            yield from read_safely(_read_item(system, file, at, raw, read_item), file, at)

    return read_rows(documents, read)


def _read_item(system: str, file: str, where: str, raw: Any, read: Callable[[], Item]) -> Iterator[Found]:
    item = read()
    if item.status != "active":
        yield Unread(file, where, "it was deleted there.", "skipped", item.id)
        return
    metadata, note = clean_metadata(raw.get("metadata") if isinstance(raw, Mapping) else None)
    entry = Entry(
        item.content, file, where,
        id=item.id, kind="note" if item.kind == "block" else item.kind, tag=item.tag, metadata=metadata,
        at=item.created_at or item.updated_at, changed_at=item.updated_at, expires_at=item.expires_at, role=item.role,
        owner=item.user, note=note,
    )  # fmt: skip
    if item.kind != MESSAGE:
        yield from split_entry(entry)
    elif item.role == "system" and has_visible_text(clean_text(item.content)):
        yield Unread(file, where, "it is the agent's system prompt.", "skipped", item.id)
    else:
        session, name = f"{system}:{item.user or file}", text_at(raw, "name") or None
        yield from split_entry(replace(entry, session=session, name=name, role=item.role or "user", metadata={}))


def read_rows(documents: Iterable[Document], read: Callable[[Any, str, str], Iterator[Found]]) -> Iterator[Found]:
    """What `read` finds in each row."""
    for document in documents:
        for row in document.rows():
            if isinstance(row, Unread):
                yield row
            else:
                yield from read_safely(read(row[1], document.name, row[0]), document.name, row[0])


def split_entry(entry: Entry, most: int = MAX_TEXT_BYTES) -> Iterator[Found]:
    """An entry as it can be stored: in parts if it is long; an empty one is skipped."""
    content = clean_text(entry.content)
    if not has_visible_text(content):
        yield Unread(entry.file, entry.where, "it is empty.", "skipped", entry.id)
        return
    id = clean_text(entry.id)
    names = {"tag": "general", "kind": "fact", "session": "imported", "role": "user", "key": "imported"}
    given = {name: getattr(entry, name) for name in names}
    usable: dict[str, Any] = {name: valid_name(value, names[name]) for name, value in given.items() if value is not None}
    speaker = valid_name(entry.name or "", "") or None
    entry = replace(entry, content=content, id=id, owner=clean_text(entry.owner), name=speaker, **usable)
    for number, part in enumerate(split_text(content, most), 1):
        if number == 1:
            yield replace(entry, content=part)
        else:
            key = None if entry.key is None else valid_name(f"{entry.key}~{number}", "imported")
            yield replace(entry, content=part, id=f"{id}~{number}" if id else "", key=key, where=f"{entry.where}, part {number}")


def read_safely(reading: Iterator[Found], file: str, where: str, id: str = "") -> Iterator[Found]:
    """What a reader finds, and if it fails the reason."""
    try:
        yield from reading
    except ValidationError as error:
        yield Unread(file, where, str(error).removeprefix(f"{where}: "), id=id)
    except UNREADABLE as error:
        yield Unread(file, where, f"this cannot be read ({type(error).__name__}): it is not as the system writes it.", id=id)


# -- fields -------------------------------------------------------------------------------------------------------------
def text_at(fields: Any, *names: str) -> str:
    """The first of some fields that holds text, or a number as text; "" if none does."""
    if not isinstance(fields, Mapping):
        return ""
    for name in names:
        value = fields.get(name)
        if isinstance(value, str) and value:
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return ""


def time_of(value: Any) -> datetime | None:
    """A time in ISO 8601 or in seconds since 1970; None for anything else."""
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = datetime.fromtimestamp(value, UTC)
        return parse_time(value, "the time") if value and isinstance(value, (str, datetime)) else None
    except (OverflowError, OSError, ValueError):
        return None


def list_at(fields: Any, *names: str) -> list[Any]:
    """The first of some fields that is a list; empty if none is."""
    if not isinstance(fields, Mapping):
        return []
    return next((fields[name] for name in names if isinstance(fields.get(name), list)), [])
