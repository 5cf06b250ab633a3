"""What an earlier import has brought already, asked of the memory itself.

Nothing is kept beside the store: where each record came from is in its metadata, so whoever was stopped half-way, or comes with a
newer export, finds out what is there and goes on from that.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from keepstone.importing.entries import Entry
from keepstone.types import Metadata

if TYPE_CHECKING:
    from keepstone.client.client import Client
    from keepstone.memory import Memory

    Target = Memory | Client

IMPORTED = "imported"
_PAGE = 100


def provenance(system: str, entry: Entry) -> dict[str, Any]:
    """An entry's metadata with where it came from. Only what is the same in the next export is in it: else nothing could be told
    to be there already."""
    origin: dict[str, Any] = {"from": system}
    if entry.id:
        origin["id"] = entry.id[:400]
    if system == "markdown":
        origin["file"] = entry.file[:400]
    return {**entry.metadata, IMPORTED: origin}


def digest(text: str) -> bytes:
    """What tells one content from another; held in memory only, as it could be tried out for what was taken out of a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


class KnownMemories:
    """The memories of one scope that came from a system: by what they were called there, else by what they say under which key;
    and the versions of their records."""

    def __init__(self, memory: Target, system: str) -> None:
        self.named: dict[str, tuple[str, bytes]] = {}
        self.records: dict[str, int] = {}
        self.said: dict[tuple[str | None, bytes], str] = {}
        cursor: str | None = None
        while True:
            page = memory.list(filter={f"{IMPORTED}.from": system}, limit=_PAGE, cursor=cursor)
            for record in page:
                self.records[record.id] = record.version
                id = _id(record.metadata, system)
                if id:
                    self.named[id] = (record.id, digest(record.content))
                else:
                    self.said[record.key, digest(record.content)] = record.id
            cursor = page.cursor
            if cursor is None:
                return


class KnownMessages:
    """The messages of one session that came from a system. Of those without an id, or whose id the guard took out, what they say
    is held instead."""

    def __init__(self, memory: Target, session: str, system: str) -> None:
        self._ids: set[str] = set()
        self._said: set[tuple[str, bytes]] = set()
        for message in memory.conversation(session):
            id = _id(message.metadata, system)
            if id is None:
                continue
            if id and "[redacted:" not in id:
                self._ids.add(id)
            elif isinstance(message.content, str):
                self._said.add((message.role, digest(message.content)))

    def holds(self, entry: Entry) -> bool:
        """Whether a message is there."""
        if entry.id and entry.id[:400] in self._ids:
            return True
        return bool(self._said) and (entry.role or "user", digest(entry.content)) in self._said

    def add(self, entries: Iterable[Entry]) -> None:
        """Messages that have been stored."""
        for entry in entries:
            if entry.id:
                self._ids.add(entry.id[:400])


def _id(metadata: Metadata, system: str) -> str | None:
    """What a record was called where it came from; "" if nothing, None if it came from elsewhere."""
    origin = metadata.get(IMPORTED)
    if not isinstance(origin, dict) or origin.get("from") != system:
        return None
    id = origin.get("id")
    return id if isinstance(id, str) else ""
