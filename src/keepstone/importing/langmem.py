"""Memories of LangMem: items of a LangGraph store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keepstone.importing.entries import Found
from keepstone.importing.reading import Document
from keepstone.importing.shapes import of_parts
from keepstone.maintenance.external_formats import langmem_parts


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Each item as a fact; its namespace is whose it is, the schema it was made by the tag."""
    return of_parts("langmem", documents, langmem_parts)
