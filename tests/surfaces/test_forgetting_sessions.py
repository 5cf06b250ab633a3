"""A session that is forgotten is undone, and what was made from it goes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.ports.chat import Prompt
from tests.surfaces.support import Clock, timed
from tests.surfaces.test_learning_by_model import user

SECRET = "quokkamarmalade"


# forget(session) and facts merged from several sessions
def test_a_rewording_of_a_session_goes_with_it(memory: Memory) -> None:
    memory.remember("Dana likes tea", session="a")
    receipt = memory.remember("Dana likes tea very much", session="b")
    assert receipt.action == "merged"
    memory.forget(session="b")
    record = memory.get(receipt.id or "")
    assert record is not None
    assert "very much" not in record.content


def test_a_rewording_of_another_session_stays(memory: Memory) -> None:
    memory.remember("Dana likes tea", session="a")
    receipt = memory.remember("Dana likes tea very much", session="b")
    assert receipt.action == "merged"
    memory.forget(session="a")
    record = memory.get(receipt.id or "")
    assert record is not None
    assert "tea" in record.content


def test_what_a_tool_wrote_in_a_session_goes_with_it(memory: Memory) -> None:
    def model(prompt: Prompt) -> Any:
        if len(prompt.messages) == 1:
            return {
                "type": "tool_use",
                "name": "write_memory",
                "input": {"content": f"The project is called {SECRET}.", "tag": "project"},
            }
        return "Noted."

    MemoryAgent(memory, model).chat(f"what shall we do about {SECRET} then", session="s")
    memory.forget(session="s")
    assert SECRET not in str([each.content for each in memory.list(limit=100)])


def test_a_restored_record_names_no_forgotten_parents(memory: Memory) -> None:
    memory.ingest([user("I live in Lisbon.")], session="a")
    memory.ingest([user("I live in Porto now.")], session="b")
    memory.forget(session="b")
    for record in memory.list(limit=100):
        assert all(memory.get(each) is not None for each in record.parents), record


def test_an_undone_write_can_be_sent_again(memory: Memory) -> None:
    memory.remember("Lisbon", key="home", session="a")
    memory.remember("Porto", key="home", session="b", idempotency_key="k")
    memory.forget(session="b")
    memory.remember("Porto", key="home", session="b", idempotency_key="k")
    assert [each.content for each in memory.list()] == ["Porto"]


# consolidation is refused by its own earlier self
def test_a_session_is_consolidated_again_after_its_last_message_was_forgotten(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        talk = memory.conversation("s")
        for text in ("I decided to use Postgres.", "We agreed on Tuesday.", "My name is Dana.", "I prefer tea."):
            talk.add("user", text)
            clock.forward(minutes=1)
        last = talk.add("user", f"My code word is {SECRET}, remember that I need to call them.")
        assert SECRET in memory.get((talk.consolidate() or last).id or "").content
        memory.forget(last.id)
        receipt = talk.consolidate()
        assert receipt is not None
        assert receipt.action != "refused", receipt
        assert SECRET not in memory.get(receipt.id or "").content


def test_a_session_with_imported_turns_is_consolidated_again(memory: Memory) -> None:
    talk = memory.conversation("s")
    for text in ("I decided to use Postgres.", "We agreed on Tuesday.", "My name is Dana.", "I prefer tea."):
        talk.add("user", text)
    talk.consolidate()
    for text in ("I decided to take the job at Acme.", "I will move to Oslo."):
        talk.add("user", text, at="2024-01-01T10:00:00Z")
    receipt = talk.consolidate()
    assert receipt is not None
    assert receipt.action == "superseded", receipt


def test_what_was_reworded_during_consolidation_is_not_kept(path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        memory.update(receipt.id or "", "Never mind.")
        return {"facts": [{"text": f"The user's code word is {SECRET}.", "turns": [1]}], "decisions": [], "open_tasks": []}

    with Memory.open(path, settings={"extract": False}) as memory:
        talk = memory.conversation("s", model=model)
        receipt = talk.add("user", f"My code word is {SECRET}.")
        for at in range(5):
            talk.add("user", f"turn {at}")
        talk.consolidate()
        assert SECRET not in str([each.content for each in memory.list(limit=100)])


# merging between sources: the same root as 2
def test_a_rewording_of_a_source_goes_with_it(memory: Memory) -> None:
    memory.remember("Dana likes tea", source="user:a")
    receipt = memory.remember("Dana likes tea very much", source="user:b")
    assert receipt.action == "merged"
    memory.forget(source="user:b")
    record = memory.get(receipt.id or "")
    assert record is not None
    assert "very much" not in record.content
