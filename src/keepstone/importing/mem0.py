"""Memories of mem0: `get_all`, exports of the platform, dumps of its vector store."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from keepstone.importing.entries import Found
from keepstone.importing.reading import Document
from keepstone.importing.shapes import of_parts
from keepstone.maintenance.external_formats import mem0_parts


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Each memory as a fact, with its metadata; its first category is the tag, an expiry is kept."""
    return of_parts("mem0", documents, mem0_parts)
