"""LlamaIndex: its Memory and its buffers over a keepstone store, beside its own stores, with what is said found by recall."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from llama_index.core.base.llms.types import (
    ChatMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    ToolCallBlock,
)
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms import MockLLM
from llama_index.core.memory import ChatMemoryBuffer
from llama_index.core.memory import Memory as ShortTerm
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore

from keepstone import Client, Memory
from keepstone.integrations.llama_index import KeepstoneChatStore, KeepstoneMemoryBlock, KeepstoneMemoryStore

ACTIVE, ARCHIVED = MessageStatus.ACTIVE, MessageStatus.ARCHIVED


def user(text: str, **kwargs: Any) -> ChatMessage:
    return ChatMessage(text, role="user", additional_kwargs=kwargs)


def answer(text: str) -> ChatMessage:
    return ChatMessage(text, role="assistant")


def rich() -> list[ChatMessage]:
    picture = ImageBlock(image=os.urandom(300_000), image_mimetype="image/png")
    return [
        ChatMessage("You are a painter.", role="system"),
        ChatMessage(role="user", blocks=[TextBlock(text="Look at this garden,"), picture, TextBlock(text="please.")]),
        ChatMessage(
            role="assistant",
            blocks=[
                ThinkingBlock(content="Hm, a garden.", additional_information={"signature": "EqoB-_" * 40}),
                TextBlock(text="A fine garden."),
                ToolCallBlock(tool_call_id="c1", tool_name="paint", tool_kwargs={"n": None, "colours": ["green"]}),
            ],
            additional_kwargs={"refusal": None, "session_id": "mine"},
        ),
        ChatMessage("painted", role="tool", additional_kwargs={"tool_call_id": "c1"}),
        ChatMessage(
            role="user", blocks=[DocumentBlock(data=b"%PDF\xff\xfe", title="plan"), ImageBlock(url="https://e.org/a.png")]
        ),
    ]


# -- the block ----------------------------------------------------------------------------------------------------
def short_term(memory: Memory | Client, **how: Any) -> ShortTerm:
    how = {"session_id": "chat", "token_limit": 120, "token_flush_size": 20, "chat_history_token_ratio": 0.5} | how
    return ShortTerm.from_defaults(memory_blocks=[KeepstoneMemoryBlock(memory=memory)], **how)


def test_what_the_short_term_memory_lets_go_of_is_known_later(given: Memory | Client) -> None:
    lasting = short_term(given, async_database_uri="sqlite+aiosqlite:///:memory:")
    lasting.put_messages([user("My boat is called Albatross."), answer("A fine name.")])
    for at in range(8):
        lasting.put_messages([user(f"Tell me something about the number {at}."), answer(f"The number {at} is a number.")])
    assert "Albatross" not in str([message.content for message in lasting.get_all(status=ACTIVE)])
    lasting.put(user("What is my boat called?"))
    first = lasting.get()[0]
    assert first.role == "system"
    assert "My boat is called Albatross." in first.content
    assert "<keepstone>" in first.content
    assert given.recall("boat", kinds={"message"})[0].content == "My boat is called Albatross."
    assert given.conversation("chat").last(1)


def test_an_agent_of_llama_index_is_told(memory: Memory) -> None:
    memory.remember("Dana is allergic to walnuts.")
    seen: list[Any] = []

    class Listening(MockLLM):
        def chat(self, messages: Any, **kwargs: Any) -> Any:
            seen.append(messages)
            return super().chat(messages, **kwargs)

    lasting = short_term(memory, token_limit=4000)
    engine = SimpleChatEngine.from_defaults(llm=Listening(), memory=lasting)
    engine.chat("Is Dana allergic to something?")
    assert "allergic to walnuts" in str([message.content for message in seen[0]])


def test_a_block_is_cut_where_it_has_to_be(memory: Memory) -> None:
    for at in range(12):
        memory.remember(f"Dana's cat number {at} is called Whiskers the {at}th.")
    block = KeepstoneMemoryBlock(memory=memory, name="known", priority=2, max_tokens=400)

    async def cut() -> list[str | None]:
        whole = await block.aget([user("What are Dana's cats called?")])
        return [whole, await block.atruncate(whole, 60), await block.atruncate(whole, 100_000)]

    whole, part, none = asyncio.run(cut())
    assert whole.count("Whiskers") > part.count("Whiskers") > 0
    assert (part.splitlines()[0], part.splitlines()[-1]) == (whole.splitlines()[0], whole.splitlines()[-1])
    assert none is None
    assert asyncio.run(block.aget([])) == asyncio.run(block.aget([answer("hm")])) == ""
    assert "memory" not in block.model_dump()


def test_a_block_takes_messages_as_they_are_and_once(memory: Memory) -> None:
    block = KeepstoneMemoryBlock(memory=memory)
    store = KeepstoneMemoryStore(memory=memory)

    async def put() -> None:
        messages = rich()
        await store.add_messages("chat", messages)
        await block.aput([each.model_copy(deep=True) for each in messages], from_short_term_memory=True, session_id="chat")
        await block.aput([user("said to nobody")])

    asyncio.run(put())
    assert len(memory.conversation("chat").last(100)) >= 5
    assert len(KeepstoneChatStore(memory=memory).get_messages("chat")) == 6  # the one with a session of its own is another
    assert memory.recall("said to nobody", kinds={"message"})[0].content == "said to nobody"


# -- the stores ---------------------------------------------------------------------------------------------------
def test_messages_come_back_exactly(given: Memory | Client) -> None:
    messages = rich()
    store, other = KeepstoneChatStore(memory=given), KeepstoneMemoryStore(memory=given)
    store.set_messages("a\n" * 200, messages)
    assert store.get_messages("a\n" * 200) == messages
    asyncio.run(other.add_messages("b", messages))
    assert asyncio.run(other.get_messages("b")) == messages
    found = given.recall("a fine garden", kinds={"message"}, min_similarity=0)
    assert {hit.content for hit in found} == {"Look at this garden,\nplease.", "A fine garden."}  # neither thoughts nor tools


def test_a_buffer_does_as_with_the_store_that_comes_with_it(given: Memory | Client) -> None:
    def through(store: Any) -> list[Any]:
        buffer = ChatMemoryBuffer.from_defaults(chat_store=store, chat_store_key="k", token_limit=3000)
        engine = SimpleChatEngine.from_defaults(llm=MockLLM(), memory=buffer)
        seen: list[Any] = [
            store.get_keys(),
            store.delete_messages("k"),
            store.delete_last_message("k"),
            store.delete_message("k", 0),
        ]
        seen.append(engine.chat("hello").response)
        seen.append(engine.chat("again").response)
        seen.append([str(message) for message in buffer.get_all()])
        buffer.set([user("one"), answer("two"), user("three")])
        buffer.set([user("one"), answer("TWO"), user("three"), answer("four")])
        seen.append([str(message) for message in store.get_messages("k")])
        store.add_message("l", user("other"))
        seen += [str(store.delete_message("k", 1)), store.delete_message("k", 9), str(store.delete_last_message("k"))]
        seen += [[str(message) for message in store.get_messages("k")], store.get_keys(), store.get_messages("none")]
        seen.append([str(message) for message in store.delete_messages("k")])
        buffer.reset()
        return [*seen, store.get_keys(), store.get_messages("k")]

    assert through(KeepstoneChatStore(memory=given)) == through(SimpleChatStore())


def test_a_store_does_as_the_one_that_comes_with_it(given: Memory | Client) -> None:
    async def through(store: Any) -> list[Any]:
        async def texts(key: str, *how: Any, **more: Any) -> list[str | None]:
            return [message.content for message in await store.get_messages(key, *how, **more)]

        seen: list[Any] = [await store.get_keys(), await texts("k"), await store.archive_oldest_messages("k", 2)]
        await store.add_messages("k", [user(f"n{at}") for at in range(6)])
        await store.add_message("k", user("old"), status=ARCHIVED)
        await store.add_message("l", user("other"))
        seen.append([message.content for message in await store.archive_oldest_messages("k", 2)])
        seen += [await texts("k"), await texts("k", ARCHIVED), await texts("k", None), await texts("k", limit=2, offset=1)]
        seen.append(
            [await store.count_messages("k"), await store.count_messages("k", ARCHIVED), await store.count_messages("k", None)]
        )
        seen.append([message.content for message in await store.delete_oldest_messages("k", 1)])
        seen += [await texts("k"), await store.delete_message("k", 99), sorted(await store.get_keys())]
        await store.delete_messages("k", status=ARCHIVED)
        seen.append(await texts("k", None))
        await store.set_messages("k", [user("a"), user("b")])
        seen.append(await texts("k", None))
        await store.delete_messages("k")
        return [*seen, await texts("k", None), await store.get_keys()]

    ours = asyncio.run(through(KeepstoneMemoryStore(memory=given)))
    assert ours == asyncio.run(through(SQLAlchemyChatStore(table_name="t", async_database_uri="sqlite+aiosqlite:///:memory:")))


def test_a_memory_goes_on_in_another_process(memory: Memory, path: Path) -> None:
    lasting = short_term(memory, chat_store=KeepstoneMemoryStore(memory=memory))
    lasting.put_messages([user("My boat is called Albatross."), answer("A fine name.")])
    for at in range(6):
        lasting.put_messages([user(f"Tell me something about the number {at}."), answer(f"The number {at} is a number.")])
    archived = lasting.get_all(status=ARCHIVED)
    assert archived[0].content == "My boat is called Albatross."
    assert len(memory.conversation("chat").last(100)) == 14  # what the block was given is what the store has
    memory.close()
    again = subprocess.run([sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == f"14 {len(archived)} True"


ELSEWHERE = """
import sys
from llama_index.core.memory import Memory as ShortTerm
from llama_index.core.storage.chat_store.base_db import MessageStatus
from keepstone import Client, Memory
from keepstone.integrations.llama_index import KeepstoneMemoryBlock, KeepstoneMemoryStore
with Memory.open(sys.argv[1]) as memory:
    block = KeepstoneMemoryBlock(memory=memory)
    lasting = ShortTerm.from_defaults(session_id="chat", chat_store=KeepstoneMemoryStore(memory=memory), memory_blocks=[block])
    given = lasting.get(input="What is my boat called?")
    print(len(lasting.get_all()), len(lasting.get_all(status=MessageStatus.ARCHIVED)), "Albatross" in given[0].content)
"""


def test_two_users_are_apart(memory: Memory) -> None:
    mine, theirs = (KeepstoneChatStore(memory=memory.with_scope(user=name)) for name in ("dana", "eve"))
    mine.add_message("k", user("The key is under the mat."))
    assert (theirs.get_messages("k"), theirs.get_keys()) == ([], [])
    block = KeepstoneMemoryBlock(memory=memory.with_scope(user="eve"))
    assert asyncio.run(block.aget([user("Where is the key?")])) == ""


def test_what_was_said_by_other_means_is_in_the_history(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}], session="k")
    assert [str(each) for each in KeepstoneChatStore(memory=memory).get_messages("k")] == ["user: Hello.", "assistant: Good day."]
