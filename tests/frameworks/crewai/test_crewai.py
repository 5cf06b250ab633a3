"""CrewAI's memory on keepstone: what a crew has learned is there in the next process, found by CrewAI and by keepstone alike."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from crewai.memory.storage.backend import EmbeddingDimensionMismatchError, StorageBackend
from crewai.memory.types import MemoryRecord
from crewai.memory.unified_memory import Memory as CrewMemory

from keepstone import Memory
from keepstone.integrations.crewai import KeepstoneStorage, embedder

SAVES = """
import sys
from crewai.memory.types import MemoryRecord
from keepstone import Memory
from keepstone.integrations.crewai import KeepstoneStorage, embedder
content = "The client in Lisbon wants weekly reports."
with Memory.open(sys.argv[1], user="dana") as memory:
    KeepstoneStorage(memory).save([MemoryRecord(id="r1", content=content, scope="/sales/lisbon", categories=["clients"],
                                                metadata={"n": 1}, embedding=embedder()([content])[0])])
"""


def record(id: str, content: str, vector: list[float] | None = None, **more: object) -> MemoryRecord:
    return MemoryRecord(id=id, content=content, embedding=vector, **more)  # type: ignore[arg-type]


def test_it_is_a_storage_backend(memory: Memory) -> None:
    assert isinstance(KeepstoneStorage(memory), StorageBackend)


def test_what_one_process_saves_another_finds(path: Path) -> None:
    subprocess.run([sys.executable, "-c", SAVES, str(path)], check=True)
    with Memory.open(path, user="dana") as memory:
        storage = KeepstoneStorage(memory)
        found = storage.search(embedder()(["What does the client in Lisbon want?"])[0], scope_prefix="/sales")
        assert [(each.id, each.metadata) for each, _ in found] == [("r1", {"n": 1})]
        assert 0 < found[0][1] <= 1
        assert memory.recall("How often does the client in Lisbon want reports?")[0].content.startswith("The client in Lisbon")
        assert KeepstoneStorage(memory.with_scope(user="bob")).count() == 0


def test_the_memory_of_crewai_works_on_it_without_a_key(path: Path) -> None:
    with Memory.open(path) as memory:
        crew = CrewMemory(storage=KeepstoneStorage(memory), embedder=embedder(), llm=None)
        crew.remember("Invoices go out on Fridays.", scope="/office", categories=["billing"], importance=0.8)
        crew.remember("The kitchen has a new kettle.", scope="/office", categories=["kitchen"], importance=0.2)
        crew.drain_writes()
        found = crew.recall("When do invoices go out?", scope="/office", depth="shallow")
        assert found[0].record.content == "Invoices go out on Fridays."
        crew.close()


def test_large_vectors_of_other_models_are_kept_whole_and_never_mixed(memory: Memory) -> None:
    storage = KeepstoneStorage(memory)
    vector = [at / 3072 for at in range(3072)]
    storage.save([record("a", "with the vector of a large model", vector)])
    kept = KeepstoneStorage(memory).get_record("a")
    assert kept is not None
    assert kept.embedding == pytest.approx(vector, rel=1e-6)
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.save([record("b", "another model's", [1.0, 0.0])])
    with pytest.raises(EmbeddingDimensionMismatchError):
        storage.search([1.0, 0.0])


def test_changes_are_kept_as_versions_and_reading_is_none(memory: Memory) -> None:
    storage = KeepstoneStorage(memory)
    storage.save([record("a", "The rate is 3 %.", [1.0, 0.0])])
    storage.update(record("a", "The rate is 4 %.", [0.0, 1.0]))
    assert [each.content for each, _ in storage.search([0.0, 1.0], min_score=0.9)] == ["The rate is 4 %."]
    before = storage.get_record("a")
    storage.touch_records(["a", "unknown"])
    after = storage.get_record("a")
    assert before is not None
    assert after is not None
    assert after.last_accessed >= before.last_accessed
    id = memory.list(kind="crewai")[0].id
    assert [version.content for version in memory.history(id)] == ["The rate is 3 %.", "The rate is 4 %."]


def test_scopes_categories_and_deleting(memory: Memory) -> None:
    storage = KeepstoneStorage(memory)
    storage.save([
        record("a", "one", [1.0, 0.0], scope="/x/y", categories=["red"], metadata={"k": 1}),
        record("b", "two", [1.0, 0.0], scope="/x", categories=["red", "blue"]),
        record("c", "three", [1.0, 0.0], scope="/xy"),
    ])  # fmt: skip
    assert storage.list_scopes() == ["/x", "/xy"]
    assert storage.get_scope_info("/x").child_scopes == ["/x/y"]
    assert storage.list_categories("/x") == {"red": 2, "blue": 1}
    assert storage.count("/x") == 2
    assert {each.id for each, _ in storage.search([1.0, 0.0], categories=["blue"])} == {"b"}
    assert storage.delete(record_ids=[]) == 0
    assert storage.delete(metadata_filter={"k": 1}) == 1
    assert storage.delete(record_ids=["c", "unknown"]) == 1
    storage.reset("/x")
    assert storage.count() == 0
    assert len(memory.list(kind="message")) == 0
