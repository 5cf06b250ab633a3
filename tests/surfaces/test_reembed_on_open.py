"""Opening a store with another embedder: refused with both names and what to do, or moved when told to."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from keepstone import AsyncMemory, Memory
from keepstone.embedders.function import FunctionEmbedder
from keepstone.errors import EmbedderError, EmbedderMismatch
from tests.cli.support import Cli

FACTS = ("Dana drinks tea.", "Omar rows on Sundays.")


def letters(texts: list[str]) -> list[list[float]]:
    return [[float(text.lower().count(letter)) + 0.1 for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]


def other() -> FunctionEmbedder:
    return FunctionEmbedder(letters, id="letters-1")


@pytest.fixture
def filled(path: Path) -> Path:
    with Memory.open(path, embedder="static") as memory:
        for fact in FACTS:
            memory.remember(fact)
    return path


def test_another_embedder_is_refused_with_both_names_and_the_way_on(filled: Path) -> None:
    with pytest.raises(EmbedderMismatch) as caught:
        Memory.open(filled, embedder=other())
    said = str(caught.value)
    assert "'letters-1'" in said
    assert "static" in said
    assert "reembed=True" in said
    assert f"keepstone upkeep reembed --db {filled}" in said


def test_reembed_moves_the_store_on_opening(filled: Path) -> None:
    with Memory.open(filled, embedder=other(), reembed=True) as memory:
        assert memory.recall("What does Dana drink?")[0].content == FACTS[0]
        assert memory.upkeep.reembed().embedded == 0, "none is without a vector"
    with Memory.open(filled, embedder=other()) as memory:
        assert len(memory.list()) == 2
    with pytest.raises(EmbedderMismatch):
        Memory.open(filled, embedder="static")


def test_reembed_is_for_async_memory_too_and_harmless_on_the_same_and_on_a_new_store(filled: Path, tmp_path: Path) -> None:
    async def work() -> None:
        for target in (filled, filled, tmp_path / "new.db"):
            async with AsyncMemory.open(target, embedder=other(), reembed=True) as memory:
                await memory.remember("Mei sings.")

    asyncio.run(work())


def test_a_service_that_is_down_leaves_the_store_as_it_was(filled: Path) -> None:
    calls = []

    def failing(texts: list[str]) -> list[list[float]]:
        calls.append(texts)
        if len(calls) > 1:
            raise TimeoutError("down")
        return letters(texts)

    with pytest.raises(EmbedderError, match=r"could not be moved from .*static.* to 'failing-1'"):
        Memory.open(filled, embedder=FunctionEmbedder(failing, id="failing-1"), reembed=True)
    with Memory.open(filled, embedder="static") as memory:
        assert len(memory.recall("What does Dana drink?")) == 1


def test_every_command_has_the_option(filled: Path, cli: Cli) -> None:
    with Memory.open(filled, embedder=other(), reembed=True):
        pass
    refused = cli("recall", "What does Dana drink?", "--db", str(filled), "--embedder", "static")
    assert refused.code == 5
    assert "--reembed" in refused.err
    found = cli("recall", "What does Dana drink?", "--db", str(filled), "--embedder", "static", "--reembed", "--json")
    assert found.json["hits"][0]["content"] == FACTS[0]
    assert cli("recall", "What does Dana drink?", "--db", str(filled), "--embedder", "static").code == 0


def test_a_store_of_the_english_model_keeps_it_until_it_is_moved(path: Path) -> None:
    with Memory.open(path, embedder="static-256-v2") as memory:
        memory.remember("Ich wohne in Lissabon.")
    with Memory.open(path) as memory:
        assert memory.remember("Dana drinks tea.").action == "added"
        assert memory.recall("What does Dana drink?")[0].content == "Dana drinks tea."
        assert not memory.recall("Where do I live?")
    with Memory.open(path, reembed=True) as memory:
        assert memory.recall("Where do I live?")[0].content == "Ich wohne in Lissabon."
    with Memory.open(path) as memory:
        assert memory.recall("Where do I live?")[0].content == "Ich wohne in Lissabon."
