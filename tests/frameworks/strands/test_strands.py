"""Strands agents on keepstone: facts and sessions that outlive the process, with a real Agent and a scripted model."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Any

import pytest
from strands import Agent
from strands.memory import MemoryManager
from strands.memory.types import AddMessagesContext
from strands.models import Model
from strands.session.repository_session_manager import RepositorySessionManager
from strands.types.exceptions import SessionException
from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from keepstone import Memory
from keepstone.errors import StoreClosed
from keepstone.integrations.strands import KeepstoneMemoryStore, KeepstoneSessionRepository

IMAGE = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\0" * 200_000}}}


class Scripted(Model):
    """A model that says the next of its lines, and keeps what it was sent."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)
        self.sent: list[str] = []

    def update_config(self, **config: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}

    async def structured_output(self, *given: Any, **more: Any) -> AsyncIterable[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *given: Any, **more: Any) -> AsyncIterable[Any]:
        self.sent.append(repr(messages))
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": self.lines.pop(0)}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def talked(path: Path, session: str, model: Scripted, *said: str) -> None:
    with Memory.open(path, user="dana") as memory:
        manager = RepositorySessionManager(session_id=session, session_repository=KeepstoneSessionRepository(memory))
        store = KeepstoneMemoryStore(memory, extraction=True)
        agent = Agent(
            model=model, session_manager=manager, agent_id="helper", callback_handler=None,
            memory_manager=MemoryManager(stores=[store], add_tool_config=True),
        )  # fmt: skip
        for each in said:
            agent(each)


def test_a_session_goes_on_where_it_ended(path: Path) -> None:
    talked(path, "s1", Scripted("Noted."), "My dog is called Rex.")
    again = Scripted("Rex.")
    talked(path, "s1", again, "What is my dog called?")
    assert "My dog is called Rex." in again.sent[0]
    assert "Noted." in again.sent[0]


def test_what_was_said_in_one_session_is_known_in_another(path: Path) -> None:
    with Memory.open(path, user="dana") as memory:
        asyncio.run(KeepstoneMemoryStore(memory).add("Dana prefers dark mode."))
    other = Scripted("Dark.")
    talked(path, "s2", other, "Which theme should the editor have for Dana?")
    assert "Dana prefers dark mode." in other.sent[0]


def test_facts_are_found_by_meaning_and_kept_once(memory: Memory) -> None:
    store = KeepstoneMemoryStore(memory, name="facts")

    async def steps() -> None:
        first = await store.add("The user is vegetarian.", {"topic": "food"})
        second = await store.add("The user is vegetarian.", {"topic": "food"})
        assert (first.action, second.action) == ("added", "duplicate")
        await store.add("The user drives a blue van.")
        found = await store.search("Is the user a vegetarian or does the user eat meat?", {"max_search_results": 1})
        assert [each.content for each in found] == ["The user is vegetarian."]
        assert found[0].metadata is not None
        assert found[0].metadata["topic"] == "food"
        assert found[0].metadata["id"] == first.id

    asyncio.run(steps())


def test_messages_that_are_handed_over_again_are_kept_once(memory: Memory) -> None:
    store = KeepstoneMemoryStore(memory)
    said = [{"role": "user", "content": [{"text": text}]} for text in ("I live in Lisbon.", "ok", "ok")]
    numbers = AddMessagesContext(sequence_numbers=[0, 1, 2])
    for _ in range(2):
        asyncio.run(store.add_messages(said, numbers))
    assert [message.content for message in memory.conversation.recent()] == ["I live in Lisbon.", "ok", "ok"]
    anew = [{"role": "user", "content": [{"text": "A new run."}]}]
    asyncio.run(store.add_messages(anew, AddMessagesContext(sequence_numbers=[0])))
    assert memory.conversation.recent()[-1].content == "A new run."
    assert "Lisbon" in memory.recall("Where do I live?", kinds={"fact"})[0].content


def test_messages_that_could_not_be_kept_are_kept_when_they_are_handed_over_again(path: Path) -> None:
    said = [{"role": "user", "content": [{"text": "I live in Lisbon."}]}]
    numbers = AddMessagesContext(sequence_numbers=[0])
    with Memory.open(path) as closed:
        store = KeepstoneMemoryStore(closed)
    with pytest.raises(StoreClosed):
        asyncio.run(store.add_messages(said, numbers))
    with Memory.open(path) as memory:
        store._memory = memory
        asyncio.run(store.add_messages(said, numbers))
        assert [message.content for message in memory.conversation.recent()] == ["I live in Lisbon."]


def test_a_message_of_any_length_and_with_anything_in_it_is_kept(memory: Memory) -> None:
    texts = ("long " * 20_000 + "the end is near Lisbon", "with a \0 in it", "\u200b")
    asyncio.run(KeepstoneMemoryStore(memory).add_messages([{"role": "user", "content": [{"text": text}]} for text in texts]))
    kept = "".join(str(message.content) for message in memory.conversation.recent(50))
    assert kept.endswith("the end is near Lisbonwith a  in it")


def test_sessions_whose_names_run_into_those_of_agents_are_apart(memory: Memory) -> None:
    repository = KeepstoneSessionRepository(memory)
    for session, agent in (("a/b", "c"), ("a", "b/c")):
        repository.create_session(Session(session_id=session, session_type=SessionType.AGENT))
        repository.create_agent(session, SessionAgent(agent_id=agent, state={}, conversation_manager_state={}))
    said: Any = {"role": "user", "content": [{"text": "for a/b alone"}]}
    repository.create_message("a/b", "c", SessionMessage.from_message(said, 0))
    assert repository.list_messages("a", "b/c") == []
    repository.delete_session("a")
    assert [each.message for each in repository.list_messages("a/b", "c")] == [said]


def test_messages_come_back_as_they_were_and_a_redacted_one_is_erased(path: Path) -> None:
    with Memory.open(path) as memory:
        repository = KeepstoneSessionRepository(memory)
        repository.create_session(Session(session_id="s", session_type=SessionType.AGENT))
        repository.create_agent("s", SessionAgent(agent_id="a", state={"n": 1}, conversation_manager_state={}))
        for at, content in enumerate(({"text": "the unwanted words"}, IMAGE, {"text": "last"})):
            repository.create_message("s", "a", SessionMessage.from_message({"role": "user", "content": [content]}, at))
        changed = repository.read_message("s", "a", 0)
        assert changed is not None
        changed.message = {"role": "user", "content": [{"text": "[redacted]"}]}
        repository.update_message("s", "a", changed)
        found = repository.list_messages("s", "a")
        assert [each.message["content"][0] for each in found] == [{"text": "[redacted]"}, IMAGE, {"text": "last"}]
        assert repository.list_messages("s", "a", limit=1, offset=1)[0].message["content"] == [IMAGE]
        assert len(memory.recall("unwanted words")) == 0
    assert b"unwanted" not in path.read_bytes()


def test_a_deleted_session_leaves_nothing_and_another_stays(memory: Memory) -> None:
    repository = KeepstoneSessionRepository(memory)
    for session in ("s1", "s2"):
        repository.create_session(Session(session_id=session, session_type=SessionType.AGENT))
        repository.create_agent(session, SessionAgent(agent_id="a", state={}, conversation_manager_state={}))
        message = SessionMessage.from_message({"role": "user", "content": [{"text": f"said in {session}"}]}, 0)
        repository.create_message(session, "a", message)
    repository.delete_session("s1")
    assert repository.read_session("s1") is None
    assert repository.read_agent("s1", "a") is None
    assert repository.list_messages("s1", "a") == []
    assert len(repository.list_messages("s2", "a")) == 1
    with pytest.raises(SessionException, match="does not exist"):
        repository.delete_session("s1")


def test_two_users_do_not_see_each_others_sessions(path: Path) -> None:
    talked(path, "s1", Scripted("Noted."), "My dog is called Rex.")
    with Memory.open(path, user="bob") as memory:
        assert KeepstoneSessionRepository(memory).read_session("s1") is None
        assert asyncio.run(KeepstoneMemoryStore(memory).search("dog Rex")) == []


def test_nothing_is_imported_that_is_not_there() -> None:
    ran = subprocess.run([sys.executable, "-c", "import keepstone; import sys; print('strands' in sys.modules)"],
                         capture_output=True, text=True, check=True)  # fmt: skip
    assert ran.stdout.strip() == "False"
