"""Memories of LangMem: items of a LangGraph store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keepstone.importing.entries import Found
from keepstone.importing.json_files import Document
from keepstone.importing.row_readers import read_memories
from keepstone.maintenance.external_formats import langmem_parts


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Each item as a fact; its namespace is whose it is, the schema it was made by the tag."""
    return read_memories("langmem", documents, langmem_parts)
