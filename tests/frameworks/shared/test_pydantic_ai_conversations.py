"""Conversations of Pydantic AI: ours compared with the store that comes with it; no message is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.conversation import Conversation
from pydantic_ai.conversation_store import ConversationConflict, ConversationStore, InMemoryConversationStore
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelRequest, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RunUsage

from keepstone import Client, Memory
from keepstone.errors import Conflict
from keepstone.integrations.pydantic_ai import KeepstoneConversationStore
from tests.frameworks.shared.pydantic_ai_support import echo, rich, said


def request(text: str) -> ModelRequest:
    return ModelRequest.user_text_prompt(text)


async def told(store: ConversationStore, id: str, **how: Any) -> list[str] | None:
    conversation = await store.load(id, **how)
    return None if conversation is None else [said(message) for message in conversation.messages]


async def saving(store: ConversationStore) -> list[Any]:
    agent = Agent(FunctionModel(echo))
    conversation = Conversation(conversation_id="c")
    seen: list[Any] = [await store.load("c")]
    for text in ("one", "two", "three"):
        result = await agent.run(text, conversation=conversation)
        seen.append(len(await store.save(result, scope="dana")))
        conversation = await store.load("c", scope="dana")
    seen += [
        await told(store, "c"),
        await told(store, "c", limit=3),
        await told(store, "c", limit=0),
        await told(store, "c", scope="eve"),
    ]
    seen.append((conversation.usage.requests, conversation.messages[0].conversation_id))
    seen.append([(each.conversation_id, each.scope) for each in await store.list_conversations(scope="dana")])
    seen.append(await store.list_conversations(scope="eve"))
    with pytest.raises(UserError):
        await store.load("c", limit=-1)
    windowed = await store.load("c", limit=2)
    await store.save(await agent.run("four", conversation=windowed))
    seen.append((await told(store, "c"))[-2])
    return seen


async def branching(store: ConversationStore) -> list[Any]:
    conversation = Conversation(conversation_id="c", messages=[request(text) for text in "abcd"])
    await store.save(conversation)
    entries = await store.load_entries("c")
    seen: list[Any] = [
        [said(entry.message) for entry in entries],
        [entry.parent_id for entry in entries][1:] == [e.id for e in entries][:-1],
    ]
    branched = await store.branch("c", at=2, expected_revision=conversation.revision)
    branched.messages.append(request("C"))
    await store.save(branched)
    seen.append(await told(store, "c"))
    back = await store.branch("c", from_entry=entries[-1].id, expected_revision=branched.revision)
    seen.append([said(message) for message in back.messages])
    fork = await store.fork("c", at=3, new_conversation_id="f", scope="eve")
    fork.messages.append(request("fork"))
    await store.save(fork)
    again = await store.fork("f", from_entry=entries[0].id, new_conversation_id="g")
    again.messages.append(request("far"))
    await store.save(again)
    seen += [await told(store, "c"), await told(store, "f"), await told(store, "g"), await told(store, "f", limit=2)]
    seen.append([(each.conversation_id, each.forked_from, each.scope) for each in await store.list_conversations(limit=2)])
    with pytest.raises(ConversationConflict):
        await store.fork("c", new_conversation_id="f")
    await store.delete("c", scope="eve")
    seen.append(await told(store, "c"))
    await store.delete("c")
    seen += [await told(store, "c"), await told(store, "f"), await told(store, "g")]
    await store.delete("f")
    seen += [await told(store, "f"), await told(store, "g")]
    await store.save(Conversation(conversation_id="c", messages=[request("anew")]))
    seen.append(await told(store, "c"))
    return seen


async def rewriting(store: ConversationStore) -> list[Any]:
    conversation = Conversation(conversation_id="c", messages=[request(text) for text in "abc"])
    await store.save(conversation)
    rewritten = Conversation(conversation_id="c", messages=[request("a"), request("B")], revision=conversation.revision)
    rewritten.messages[0] = conversation.messages[0]
    await store.save(rewritten)
    record = await store.read_record("c")
    stale = Conversation(conversation_id="c", messages=[request("z")], revision=conversation.revision)
    with pytest.raises(ConversationConflict):
        await store.save(stale)
    with pytest.raises(ConversationConflict):
        await store.save(Conversation(conversation_id="c"))
    with pytest.raises(ConversationConflict):
        await store.delete_record("c", expected_revision=conversation.revision)
    with pytest.raises(ConversationConflict):
        await store.delete_record("never", expected_revision="x")
    with pytest.raises(LookupError):
        await store.read_entry("never")
    return [await told(store, "c"), len(record.branches), said((await store.read_history(record.branches[0]))[-1].message),
            said((await store.read_entry(record.head_id)).message), await store.read_history(None)]  # fmt: skip


@pytest.mark.parametrize("act", [saving, branching, rewriting])
def test_conversations_do_as_the_store_that_comes_with_it(
    given: Memory | Client, act: Callable[[ConversationStore], Any]
) -> None:
    ours = asyncio.run(act(KeepstoneConversationStore(given)))
    assert ours == asyncio.run(act(InMemoryConversationStore()))


def test_a_conversation_comes_back_exactly(given: Memory | Client) -> None:
    store = KeepstoneConversationStore(given)
    usage = RunUsage(requests=2, tool_calls=1, input_tokens=5, details={"cached": 1})
    waiting = DeferredToolRequests(approvals=[ToolCallPart("paint", {"n": None}, "c9")], metadata={"c9": {"why": ["x", None]}})
    conversation = Conversation(conversation_id="c\n" * 200, messages=rich(), usage=usage, deferred_tool_requests=waiting)

    async def through() -> Conversation | None:
        await store.save(conversation)
        return await KeepstoneConversationStore(given).load(conversation.conversation_id)

    assert asyncio.run(through()) == conversation
    found = given.recall("a fine garden", kinds={"message"}, min_similarity=0)
    assert {hit.content for hit in found} == {"Look at this garden,\nplease.", "A fine garden."}


def test_two_writers_lose_nothing(memory: Memory, path: Path) -> None:
    """Two stores of the same file, as two processes have them: every turn whose save was not refused is in the history."""
    kept: list[str] = []

    def write(name: str) -> None:
        with Memory.open(path) as own:
            store = KeepstoneConversationStore(own, extract=False)

            async def go() -> None:
                for at in range(6):
                    while True:
                        conversation = await store.load("c") or Conversation(conversation_id="c")
                        conversation.messages.append(request(f"{name}{at}"))
                        try:
                            await store.save(conversation)
                        except ConversationConflict:
                            continue
                        kept.append(f"{name}{at}")
                        break

            asyncio.run(go())

    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    assert len(kept) == 12
    assert sorted(asyncio.run(told(KeepstoneConversationStore(memory), "c")) or []) == sorted(kept)
    assert len(list(memory.conversation("c"))) == 12  # what was refused is not there either


def test_one_of_several_that_are_first_is_first(given: Memory | Client) -> None:
    store = KeepstoneConversationStore(given)

    async def race() -> list[Any]:
        each = [Conversation(conversation_id="c", messages=[request(f"n{at}")]) for at in range(6)]
        return await asyncio.gather(*(store.save(conversation) for conversation in each), return_exceptions=True)

    done = asyncio.run(race())
    assert sum(isinstance(each, ConversationConflict) for each in done) == 5
    [kept] = [said(each[0].message) for each in done if isinstance(each, list)]
    assert asyncio.run(told(store, "c")) == [kept]


def test_a_record_that_was_deleted_and_made_anew_is_another(memory: Memory) -> None:
    """Both are at version 1: a writer that has read the first must not write over the second."""
    store = KeepstoneConversationStore(memory)

    async def again() -> None:
        conversation = Conversation(conversation_id="c", messages=[request("first")])
        await store.save(conversation)
        found = store._documents.get(("conversation", "c"))
        await store.delete("c")
        await store.save(Conversation(conversation_id="c", messages=[request("second")]))
        with pytest.raises(Conflict):
            store._put("c", found.value, found)
        with pytest.raises(ConversationConflict):
            await store.save(conversation)
        assert await told(store, "c") == ["second"]

    asyncio.run(again())


def test_what_came_too_late_leaves_nothing_behind(memory: Memory) -> None:
    store = KeepstoneConversationStore(memory)

    def late(*given: Any) -> None:
        raise Conflict("another came first")

    store._put = late  # type: ignore[method-assign]
    with pytest.raises(ConversationConflict):
        asyncio.run(store.save(Conversation(conversation_id="c", messages=rich())))
    assert memory.conversation("c").last(100) == []  # nor a piece of its files


def test_a_deletion_that_was_cut_off_is_finished(memory: Memory, path: Path) -> None:
    store = KeepstoneConversationStore(memory)

    async def cut_off() -> list[str] | None:
        conversation = Conversation(conversation_id="c", messages=[request("quuxzanzibar")])
        await store.save(conversation)
        broken = KeepstoneConversationStore(memory)
        broken._erase = lambda found: (_ for _ in ()).throw(OSError())  # type: ignore[method-assign]
        with pytest.raises(OSError):
            await broken.delete("c")
        assert await told(store, "c") is None
        assert await store.list_conversations() == []
        with pytest.raises(ConversationConflict):
            await store.save(conversation)
        with pytest.raises(ConversationConflict):
            await store.delete_record("c", expected_revision=conversation.revision or "")
        await store.save(Conversation(conversation_id="c", messages=[request("anew")]))
        return await told(store, "c")

    assert asyncio.run(cut_off()) == ["anew"]
    memory.close()
    assert b"quuxzanzibar" not in b"".join(each.read_bytes() for each in path.parent.iterdir() if each.is_file())


def test_a_fork_of_what_is_being_deleted_is_refused(memory: Memory) -> None:
    store, deleting = KeepstoneConversationStore(memory), KeepstoneConversationStore(memory)

    async def race() -> None:
        await store.save(Conversation(conversation_id="c", messages=[request("a"), request("b")]))
        fork = store.write_record

        async def late(record: Any, **options: Any) -> None:
            if record.forked_from:
                deleting._erase = lambda found: None  # type: ignore[method-assign]
                await deleting.delete("c")
            await fork(record, **options)

        store.write_record = late  # type: ignore[method-assign]
        with pytest.raises(ConversationConflict):
            await store.fork("c", new_conversation_id="f")
        assert await store.load("f") is None

    asyncio.run(race())


def test_a_message_that_is_forgotten_leaves_the_others(memory: Memory) -> None:
    store = KeepstoneConversationStore(memory)

    async def forget() -> list[Any]:
        conversation = Conversation(
            conversation_id="c", messages=[request(text) for text in ("one", "the word is plum", "three")]
        )
        await store.save(conversation)
        memory.forget(memory.recall("the word plum", kinds={"message"})[0].id)
        seen = [await told(store, "c")]
        entries = await store.load_entries("c")
        assert entries[1].parent_id == entries[0].id
        memory.forget(next(message.id for message in memory.conversation("c") if "three" in str(message.content)))
        seen.append(await told(store, "c"))
        loaded = await store.load("c")
        loaded.messages.append(request("four"))
        await store.save(loaded)
        return [*seen, await told(store, "c")]

    assert asyncio.run(forget()) == [["one", "three"], ["one"], ["one", "four"]]


def test_conversations_of_two_users_are_apart(memory: Memory) -> None:
    mine, theirs = (KeepstoneConversationStore(memory.with_scope(user=user)) for user in ("dana", "eve"))

    async def keep() -> None:
        await mine.save(Conversation(conversation_id="c", messages=[request("The key is under the mat.")]))
        assert await theirs.load("c") is None
        assert await theirs.list_conversations() == []

    asyncio.run(keep())
    assert not memory.with_scope(user="eve").recall("key mat", min_similarity=0)
