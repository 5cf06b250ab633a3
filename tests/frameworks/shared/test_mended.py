"""Sessions and memories of several frameworks: what went wrong once. Each of these failed before it was mended."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from autogen_core import Image
from autogen_core.memory import MemoryContent, MemoryMimeType
from claude_agent_sdk import SessionKey
from langchain_core.messages import ChatMessage, HumanMessage
from PIL import Image as Picture
from pydantic_ai import Agent, ToolReturn
from pydantic_ai.models.test import TestModel

from keepstone import Memory
from keepstone.errors import ValidationError
from keepstone.integrations.autogen import KeepstoneMemory
from keepstone.integrations.claude_agent_sdk import KeepstoneSessionStore
from keepstone.integrations.langchain import KeepstoneChatMessageHistory
from keepstone.integrations.message_items import SessionItem, SessionItems
from keepstone.integrations.pydantic_ai import KeepstoneHistory

CARD = "My card is 4111 1111 1111 1111."


def facts(memory: Memory) -> set[str]:
    return {record.content for record in memory.list(kind="fact", limit=100)}


def test_nothing_is_learned_from_a_role_that_is_not_the_users(memory: Memory) -> None:
    others = [ChatMessage(role=role, content=f"My name is {role.title()}.") for role in ("critic", "model", "assistant")]
    messages = [HumanMessage("I live in Lisbon."), ChatMessage(role="user", content="My name is Dana."), *others]
    history = KeepstoneChatMessageHistory(memory, "chat")
    history.add_messages(messages)
    assert history.messages == messages
    assert facts(memory) == {"The user lives in Lisbon.", "The user's name is Dana."}


def test_what_another_framework_did_in_a_session_is_no_empty_message(memory: Memory) -> None:
    SessionItems(memory, "chat", of="other").add(
        [SessionItem("user", "Said there.", {"n": 1}), SessionItem("assistant", "", {"type": "tool_call"})]
    )
    assert KeepstoneChatMessageHistory(memory, "chat").messages == [HumanMessage("Said there.")]


def test_what_a_tool_gives_beside_its_result_is_not_the_users_word(memory: Memory) -> None:
    agent = Agent(TestModel())

    @agent.tool_plain
    def page() -> ToolReturn[str]:
        return ToolReturn(return_value="done", content=["My name is Mallory.", "I live in Kabul."])

    result = agent.run_sync("I live in Lisbon.")
    history = KeepstoneHistory(memory, "chat")
    history.save(result.new_messages())
    assert history.load() == result.new_messages()
    assert facts(memory) == {"The user lives in Lisbon."}
    found = [record for record in memory.list(kind="message") if "Mallory" in record.content]
    assert [record.role for record in found] == ["tool"]


def test_a_transcript_in_which_somebody_else_spoke_can_be_read_and_written(memory: Memory) -> None:
    store, key = KeepstoneSessionStore(memory), SessionKey(project_key="p", session_id="s")
    entries: list[Any] = [
        {"type": "user", "uuid": str(at), "message": {"role": "user", "content": text}} for at, text in enumerate(("one", "two"))
    ]
    asyncio.run(store.append(key, entries[:1]))
    memory.conversation("claude-agent-sdk/p/s").add("user", "said by other means")
    asyncio.run(store.append(key, entries))
    assert asyncio.run(store.load(key)) == entries


@pytest.mark.parametrize("content", [CARD, {"card": CARD}], ids=["text", "json"])
def test_a_memory_that_is_refused_is_an_error(tmp_path: Path, content: Any) -> None:
    mime = MemoryMimeType.TEXT if isinstance(content, str) else MemoryMimeType.JSON
    with Memory.open(tmp_path / "strict.db", settings={"sensitive": {"card": "refuse"}}) as strict:
        with pytest.raises(ValidationError, match="was refused") as caught:
            asyncio.run(KeepstoneMemory(strict).add(MemoryContent(content=content, mime_type=mime)))
        assert "4111" not in str(caught.value)
        assert list(strict.list()) == []


def test_the_newest_memories_are_found_behind_a_long_talk_and_in_a_thread(
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
