"""Memories of mem0: `get_all`, exports of the platform, dumps of its vector store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keepstone.importing.entries import Found
from keepstone.importing.json_files import Document
from keepstone.importing.row_readers import read_memories
from keepstone.maintenance.external_formats import mem0_parts


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Each memory as a fact, with its metadata; its first category is the tag, an expiry is kept."""
    return read_memories("mem0", documents, mem0_parts)
