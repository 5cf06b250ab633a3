"""The values of an import: an entry, what was passed over, what became of each, the summary."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from keepstone.errors import ValidationError
from keepstone.types import MESSAGE, NAME_LIMIT, Metadata
from keepstone.write.request import MAX_METADATA, check_metadata, has_visible_text

MAX_TEXT_BYTES = 60_000  # bytes of one entry's text: what is longer is split, below the limit of a memory
_PROVENANCE_BYTES = 512  # bytes of metadata that stay free for where it came from
Done = Literal[
    "added", "updated", "superseded", "merged", "duplicate", "redacted", "quarantined", "refused", "skipped", "new"
]  # "new" is a dry run's word: it would be written


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory or message to import. `file` and `where` say where it stands, `id` what it is called there ("" where it has no
    name); `owner` is the user or agent it belongs to there. `at` is when it came about and `changed_at` when it was last changed;
    `until`: it no longer held after that. `note` is something to tell beside what becomes of it."""

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

    @property
    def said(self) -> bool:
        """Whether it is a message of a conversation."""
        return self.kind == MESSAGE

    @property
    def final(self) -> str:
        """What is stored in the end: of what no longer holds, until when it did."""
        return self.content if self.until is None else f"{self.content} (This held until {self.until:%Y-%m-%d}.)"


@dataclass(frozen=True, slots=True)
class Passed:
    """Something in a source that is no entry: what cannot be read is refused, what is of no use is skipped."""

    file: str
    where: str
    reason: str
    action: Literal["refused", "skipped"] = "refused"
    id: str = ""


Found = Entry | Passed


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one entry: `id` is the record that holds it, `theirs` what it was called where it came from."""

    file: str
    where: str
    theirs: str
    action: Done
    id: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What an import did, or with `dry_run` would do. `counts` are the entries by what became of them, `problems` the first
    hundred that were refused."""

    format: str
    entries: int
    counts: Mapping[str, int]
    problems: tuple[Outcome, ...] = ()
    dry_run: bool = False

    @property
    def refused(self) -> int:
        """How many entries could not be taken."""
        return self.counts.get("refused", 0)


def clean_text(text: str) -> str:
    """A text that every store can hold: without NUL, and half a character is none."""
    if "\0" in text:
        text = text.replace("\0", "")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def valid_name(text: str, fallback: str) -> str:
    """A name that a record can have, for any text: itself where possible, else a readable start and a digest.

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
    """Another system's metadata as far as it can be kept, and what there is to say of it."""
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
    """A text in parts of at most so many bytes, split between paragraphs, else lines, sentences, words, characters.

    >>> list(split_text("one two three", 8))
    ['one two', 'three']
    """
    begin = 0
    while begin < len(text):
        ahead = text[begin : begin + most + 1]  # no more than that is looked at: a text may be a thousand times as long
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
    """Where the last break of a kind lies in the second half of a text; 0 if there is none."""
    found = [each.start() for each in between.finditer(head, len(head) // 2)]
    return found[-1] if found else 0
