"""KeepstoneMemory as AutoGen's Memory: what is added is known in the next process, and only what fits reaches a model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from autogen_core import ComponentModel, Image
from autogen_core.memory import Memory as AutoGenMemory
from autogen_core.memory import MemoryContent, MemoryMimeType
from autogen_core.model_context import BufferedChatCompletionContext
from autogen_core.models import UserMessage
from PIL import Image as Picture

from keepstone import Memory
from keepstone.errors import ConfigurationError, ValidationError
from keepstone.integrations.autogen import KeepstoneMemory, KeepstoneMemoryConfig

TEXT = MemoryMimeType.TEXT
CARD = "My card is 4111 1111 1111 1111."
SAYS = """
import asyncio, sys
from autogen_core.memory import MemoryContent
from keepstone import Memory
from keepstone.integrations.autogen import KeepstoneMemory
with Memory.open(sys.argv[1], user="dana") as memory:
    asyncio.run(KeepstoneMemory(memory).add(MemoryContent(content="Dana prefers dark mode.", mime_type="text/plain")))
"""


def test_what_one_process_adds_is_put_into_another_ones_context(path: Path) -> None:
    subprocess.run([sys.executable, "-c", SAYS, str(path)], check=True)

    async def asked(memory: Memory, words: str) -> list[str]:
        context = BufferedChatCompletionContext(buffer_size=5, initial_messages=[UserMessage(content=words, source="user")])
        await KeepstoneMemory(memory).update_context(context)
        return [str(message.content) for message in await context.get_messages()]

    with Memory.open(path, user="dana") as memory:
        memory.remember("The office has a new coffee machine.")
        known = asyncio.run(asked(memory, "Which theme should the editor have for me?"))
        assert len(known) == 2
        assert "Dana prefers dark mode." in known[1]
        assert "coffee" not in known[1]
        assert "<memory" in known[1]
        assert asyncio.run(asked(memory, "What is the boiling point of tungsten?")) == ["What is the boiling point of tungsten?"]
        bob = memory.with_scope(user="bob")
        assert asyncio.run(asked(bob, "Which theme should the editor have for me?"))[1:] == []


def test_what_is_no_text_comes_back_as_it_was(memory: Memory) -> None:
    ours = KeepstoneMemory(memory, min_similarity=0)
    image = Image(Picture.new("RGB", (3, 2), "red"))
    given = [{"city": "Rome", "nested": [1, None]}, b"\0\1\2" * 100_000, "Plain words about Rome."]

    async def there() -> list[MemoryContent]:
        for content, mime in zip(given, ("application/json", "application/octet-stream", TEXT), strict=True):
            await ours.add(MemoryContent(content=content, mime_type=mime, metadata={"about": "travel"}))
        await ours.add(MemoryContent(content=image, mime_type="image/*"))
        return (await ours.query("Rome")).results

    found = asyncio.run(there())
    assert [each.content for each in found[:3]] == given
    assert isinstance(found[3].content, Image)
    assert found[3].content.to_base64() == image.to_base64()
    assert all(each.metadata and each.metadata["about"] == "travel" for each in found[:3])
    assert all(each.metadata and "score" in each.metadata for each in found)


def test_clearing_takes_back_what_was_added_here_and_nothing_else(memory: Memory) -> None:
    ours, other = KeepstoneMemory(memory, name="scout"), KeepstoneMemory(memory, name="writer")

    async def steps() -> None:
        await ours.add(MemoryContent(content="The scout found a path.", mime_type=TEXT))
        await ours.add(MemoryContent(content={"path": [1, 2]}, mime_type="application/json"))
        await other.add(MemoryContent(content="The writer has a title.", mime_type=TEXT))
        await ours.clear()
        await ours.clear()

    memory.remember("Said by the user.")
    asyncio.run(steps())
    assert {record.content for record in memory.list()} == {"Said by the user.", "The writer has a title."}


def test_it_is_described_and_loaded_as_a_component(path: Path) -> None:
    config = KeepstoneMemoryConfig(target=str(path), user="dana", limit=3)
    loaded = AutoGenMemory.load_component(
        ComponentModel(provider="keepstone.integrations.autogen.KeepstoneMemory", config=config.model_dump())
    )
    assert isinstance(loaded, KeepstoneMemory)
    asyncio.run(loaded.add(MemoryContent(content="Dana has a boat.", mime_type=TEXT)))
    assert loaded.dump_component().config["limit"] == 3
    asyncio.run(loaded.close())
    with Memory.open(path, user="dana") as memory:
        assert [record.content for record in memory.list()] == ["Dana has a boat."]
        with pytest.raises(ConfigurationError, match="given open"):
            KeepstoneMemory(memory).dump_component()


@pytest.mark.parametrize("content", [CARD, {"card": CARD}], ids=["text", "json"])
def test_a_memory_that_is_refused_is_an_error(tmp_path: Path, content: Any) -> None:
    mime = MemoryMimeType.TEXT if isinstance(content, str) else MemoryMimeType.JSON
    with Memory.open(tmp_path / "strict.db", settings={"sensitive": {"card": "refuse"}}) as strict:
        with pytest.raises(ValidationError, match="was refused") as caught:
            asyncio.run(KeepstoneMemory(strict).add(MemoryContent(content=content, mime_type=mime)))
        assert "4111" not in str(caught.value)
        assert list(strict.list()) == []


def test_the_newest_memories_are_found_after_a_long_session_and_in_a_thread(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KeepstoneMemory(memory, limit=2)
    picture = MemoryContent(content=Image(Picture.new("RGB", (2, 2))), mime_type=MemoryMimeType.IMAGE)
    texts = [MemoryContent(content=text, mime_type=MemoryMimeType.TEXT) for text in ("Oldest.", "Dana likes tea.")]
    for content in (*texts, picture):
        asyncio.run(known.add(content))
    memory.ingest([{"role": "assistant", "content": f"hello number {n}"} for n in range(130)], session="talk")
    verbs = ("get", "list", "recall")
    asked = {name: getattr(memory, name) for name in verbs}

    def watched(name: str) -> Any:
        def called(*given: Any, **more: Any) -> Any:
            assert threading.current_thread() is not threading.main_thread()
            return asked[name](*given, **more)

        return called

    for name in verbs:
        monkeypatch.setattr(memory, name, watched(name))
    found = asyncio.run(known.query("")).results
    assert [each.content if isinstance(each.content, str) else type(each.content) for each in found] == ["Dana likes tea.", Image]
