"""Memories of Letta: agent files, lists of blocks or passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from keepstone.importing.entries import Entry, Found, Passed
from keepstone.importing.json_files import Document
from keepstone.importing.row_readers import read_memories, text_at
from keepstone.maintenance.external_formats import letta_parts
from keepstone.maintenance.health import Item
from keepstone.types import MESSAGE


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Blocks as notes under their label, passages as facts, messages as a conversation of their agent; its system prompts are
    left out."""
    for found in read_memories("letta", documents, letta_parts, _made):
        if isinstance(found, Entry) and found.said and found.role == "system":
            yield Passed(found.file, found.where, "it is the agent's system prompt.", "skipped", found.id)
        else:
            yield found


def _made(item: Item, raw: Any, entry: Entry) -> Entry:
    if item.kind == MESSAGE:
        return replace(entry, name=text_at(raw, "name") or None, role=entry.role or "user", metadata={})
    return replace(entry, kind="note") if item.kind == "block" else entry
