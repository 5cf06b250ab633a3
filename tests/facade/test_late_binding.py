"""A memory that meets the store's embedder only after it was opened."""

from __future__ import annotations

from pathlib import Path

from keepstone import Memory


def sizes(texts: list[str]) -> list[list[float]]:
    """An embedder that is not known to be local, so that it is not called before the first write."""
    return [[float(len(text)), 1.0, 2.0] for text in texts]


def test_the_first_write_of_such_an_embedder_binds_the_store(path: Path) -> None:
    with Memory.open(path, embedder=sizes) as memory:
        id = memory.remember("Dana drinks tea.").id
        assert id is not None
        record = memory.get(id)
        assert record is not None
        assert record.embedded
        assert memory.recall("tea")[0].signals["semantic"] > 0


def test_a_memory_opened_before_another_bound_the_store_gets_vectors_too(path: Path) -> None:
    with Memory.open(path, embedder=sizes) as late, Memory.open(path, embedder=sizes) as early:
        early.remember("Erik drinks milk.")
        id = late.remember("Dana drinks tea.").id
        assert id is not None
        record = late.get(id)
        assert record is not None
        assert record.embedded
        assert late.recall("tea")[0].signals["semantic"] > 0


def test_naming_the_stores_own_embedder_brings_its_vectors_back(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("Dana drinks tea.")
    with Memory.open(path, embedder="none") as memory:
        assert memory.recall("tea")[0].signals["semantic"] == 0
        memory.upkeep.reembed(embedder="static")
        assert memory.recall("tea")[0].signals["semantic"] > 0
