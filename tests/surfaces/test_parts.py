"""Every part of an agent's memory by its name: reached from the public API, there again after a restart.

What each part must do in detail is tested in its own file; here is the list."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.errors import ConfigurationError
from keepstone.ports.chat import Answer, Prompt
from keepstone.testing import StoreContract
from tests.surfaces.support import Clock, contents, timed


class Scripted:
    """A model function that says what it is told to, and remembers what it was asked."""

    def __init__(self, *said: Any) -> None:
        self.said = list(said)
        self.asked: list[Prompt] = []

    def __call__(self, prompt: Prompt) -> Any:
        self.asked.append(prompt)
        return self.said.pop(0) if self.said else "Good."

    @property
    def last(self) -> str:
        """Everything that was in the last request."""
        return json.dumps([self.asked[-1].system, self.asked[-1].messages], ensure_ascii=False)


def use(name: str, **input: Any) -> Answer:
    return Answer(({"type": "tool_use", "id": f"use-{name}", "name": name, "input": input},), "tools")


# -- a unified memory system ----------------------------------------------------------------------------------------
def test_memory_item(path: Path) -> None:
    with Memory.open(path) as memory:
        id = memory.remember("Dana plays the cello.", importance=0.8, metadata={"since": 2019}).id or ""
        assert memory.recall("Who plays the cello?")[0].id == id
    with Memory.open(path) as memory:
        item = memory.get(id)
        assert item is not None
        assert (item.content, item.metadata, item.importance, item.access_count) == (
            "Dana plays the cello.", {"since": 2019}, 0.8, 1,
        )  # fmt: skip
        assert item.created_at <= (item.last_accessed_at or item.created_at)


def test_memory_store_is_a_small_interface_with_a_contract() -> None:
    names = {name for name in dir(StoreContract) if name.startswith("test_")}
    assert len(names) > 120


def test_working_memory(path: Path) -> None:
    with Memory.open(path) as memory:
        hand = memory.working
        hand.start("Plan the trip", goal="A booked trip")
        hand.push("Find a flight")
        hand.result("price", 129)
        hand.think("Trains are too slow.")
        hand.set("currency", "EUR")
        hand.save()
        shown = hand.context()
        assert all(part in shown for part in ("Plan the trip", "A booked trip", "Find a flight", "129", "too slow", "EUR"))
    with Memory.open(path) as memory:
        assert memory.working.context() == ""
        assert memory.working.restore()
        assert memory.working.context() == shown
        memory.working.start("Another task")
        assert memory.working.results == {}
        memory.working.clear()
        assert memory.working.context() == ""


def test_conversation_memory(path: Path) -> None:
    with Memory.open(path) as memory:
        talk = memory.conversation("s", max_messages=6)
        for number in range(20):
            talk.add("user", f"We agreed on offer {number}.", channel="mail")
            talk.add("assistant", "Noted.")
        given, data = talk.messages(), talk.export()
        assert given[0]["content"].startswith("<summary")
        assert given[-2]["content"] == "We agreed on offer 19."
        assert len(given) <= 7
    with Memory.open(path) as memory:
        talk = memory.conversation("s", max_messages=6)
        assert talk.messages() == given
        assert [message.content for message in talk.search("offer 13")] == ["We agreed on offer 13."]
        assert [message.content for message in talk.last(2)] == ["We agreed on offer 19.", "Noted."]
        other = memory.conversation("other")
        other.import_(data)
        assert {**other.export(), "session": "s"} == data
        talk.clear()
        assert len(talk) == 0


def test_semantic_memory(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        trifle = memory.remember("The bus was late.", importance=0.1, metadata={"day": "Monday"}).id or ""
        matter = memory.remember("Dana is allergic to peanuts.", importance=0.9).id or ""
        assert contents(memory.recall("Which nuts must Dana avoid?", min_similarity=0.2)) == ["Dana is allergic to peanuts."]
        assert memory.recall("the late bus", min_importance=0.5, kinds={"fact"}, min_similarity=0)[0].id == matter
        memory.update(matter, importance=1.0)
        clock.forward(days=40)
        assert memory.upkeep.fade(dry_run=True).ids == (trifle,)
        assert memory.upkeep.fade().ids == (trifle,)
    with timed(path, clock) as memory:
        assert contents(memory.list()) == ["Dana is allergic to peanuts."]
        assert memory.upkeep.restore([trifle]) == 1
        memory.forget(trifle)
        assert contents(memory.list()) == ["Dana is allergic to peanuts."]
        assert memory.get(matter).importance == 1.0  # type: ignore[union-attr]


def test_what_is_important_or_read_does_not_fade(path: Path) -> None:
    clock = Clock()
    with timed(path, clock) as memory:
        memory.remember("The kettle is in the kitchen.", importance=0.1)
        for _ in range(2):
            memory.recall("Where is the kettle?")
        clock.forward(days=40)
        memory.remember("It rained today.", importance=0.1)
        assert memory.upkeep.fade().ids == ()
        assert memory.upkeep.fade(reads=2, older_than=timedelta(days=1)).ids != ()


def test_episodic_memory(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.tasks.start("Deploy the billing service")
        memory.tasks.record("The tests first", "run the tests", "2 failed")
        memory.tasks.end(False, "The migration was missing.")
    with Memory.open(path) as memory:
        lesson = memory.tasks.start("Deploy the shipping service").lessons[0]
        assert (lesson.record.kind, lesson.record.tag) == ("episode", "failure")
        assert "run the tests -> 2 failed" in lesson.content
        assert "The migration was missing." in lesson.content


def test_embedding_service(path: Path) -> None:
    def embed(texts: list[str]) -> Any:
        return np.array([[1.0 + text.count(letter) for letter in "aeiou"] for text in texts])

    with Memory.open(path, embedder=embed) as memory:
        memory.remember("one text")
        memory.remember_many(["a batch", "of texts"])
        assert len(memory.recall("texts", min_similarity=0)) == 3
    with pytest.raises(ConfigurationError, match="unheard-of"):
        Memory.open(path, embedder="unheard-of")


def test_unified_system(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.tasks.start("Migrate the billing database")
        memory.tasks.end(True, "Done at night, in ten minutes.")
        memory.learn("Remember that migrations need Priya's consent.")
    with Memory.open(path) as memory:
        memory.tasks.start("Migrate the shipping database", goal="No downtime")
        memory.tasks.record("Ask first", "mail Priya", "she agrees")
        shown = memory.context("Migrate the shipping database")
        assert "No downtime" in shown, "working"
        assert "Priya's consent" in shown, "knowledge"
        assert "Done at night" in shown, "episodes"


def test_agent_with_memory(path: Path) -> None:
    def read_log(lines: int) -> str:
        """The last lines of the log."""
        return f"{lines} lines: out of memory"

    model = Scripted(use("read_log", lines=20), "It ran out of memory; I raised the limit.")
    with Memory.open(path) as memory:
        outcome = MemoryAgent(memory, model, tools=[read_log]).run("Find out why the queue answers with error 502")
        assert outcome.success
        assert [step.tool for step in outcome.steps] == ["read_log"]
    again = Scripted("As before: memory.")
    with Memory.open(path) as memory:
        MemoryAgent(memory, again).run("The queue answers with error 502 again")
        assert "I raised the limit" in again.last


def test_memory_aware_prompt(memory: Memory) -> None:
    memory.remember("Porto has two airports in reach.", tag="travel")
    memory.tasks.start("Plan the trip to Porto", goal="A booked trip")
    memory.tasks.record("Prices first", "search flights", "129 euros")
    prompt = memory.system_prompt()
    for part in ("Plan the trip to Porto", "A booked trip", "search flights", "two airports", "Tags in use: travel."):
        assert part in prompt


# -- two tiers with consolidation -----------------------------------------------------------------------------------
def test_sliding_window(memory: Memory) -> None:
    talk = memory.conversation("s", max_messages=4, summarise=False)
    for number in range(10):
        talk.add("user", f"turn {number}")
    assert [message["content"] for message in talk.messages()] == [f"turn {number}" for number in range(6, 10)]
    assert 0 < talk.tokens() < 60


def test_vector_long_term_memory(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember_many(["Dana plays the cello.", "Omar commutes by tram."])
    with Memory.open(path) as memory:
        assert contents(memory.recall("Who makes music?", limit=50))[:1] == ["Dana plays the cello."]
        assert len(memory.recall("Who makes music?", limit=50, min_similarity=0)) == 2, "no more than exist"
        assert len(memory.recall("the boiling point of tungsten")) == 0


def test_recalled_memories_in_the_prompt_stand_apart_from_instructions(memory: Memory) -> None:
    model = Scripted()
    memory.remember("The locker code is 4471.")
    MemoryAgent(memory, model, strategy="tools", instructions="Be brief.").chat("What is the locker code?")
    assert model.asked[0].system.startswith("Be brief.")
    first, second = model.asked[0].messages[-1]["content"]
    assert first["text"].startswith("<memory ")
    assert "4471" in first["text"]
    assert second["text"] == "What is the locker code?"


def test_consolidation_of_a_session(path: Path) -> None:
    with Memory.open(path) as memory:
        talk = memory.conversation("s")
        assert talk.consolidate() is None, "too short a session is left alone"
        for text in ("I'm Dana, I run the bakery.", "We decided to open on Sundays from 4 May."):
            talk.add("user", text)
            talk.add("assistant", "Good to know.")
        receipt = talk.consolidate()
        assert receipt is not None
    with Memory.open(path) as memory:
        summary = memory.get(receipt.id or "")
        assert summary is not None
        assert (summary.kind, len(summary.parents)) == ("summary", 4)
        assert "open on Sundays from 4 May" in summary.content


def test_key_value_tier(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.set("theme", "light", tag="settings")
        memory.set("theme", "dark", tag="settings")
    with Memory.open(path) as memory:
        assert memory.value("theme") == "dark"
        assert [version.content for version in memory.history(memory.list(tag="settings")[0].id)] == ["light", "dark"]


def test_episodic_log(path: Path, tmp_path: Path) -> None:
    with Memory.open(path) as memory:
        memory.conversation("s").add("user", "What is two and two?")
        memory.conversation("s").add("assistant", "Four.")
        memory.tasks.start("Count")
        memory.tasks.record("Use fingers", "count", "four")
        memory.tasks.end(True, "Four.")
    with Memory.open(path) as memory:
        assert memory.conversation.export_chats(tmp_path / "out.jsonl") == 2
        lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
        assert lines[0]["messages"] == [
            {"role": "user", "content": "What is two and two?"}, {"role": "assistant", "content": "Four."},
        ]  # fmt: skip
        assert [row.verb for row in memory.audit()].count("remember") == 6


# -- memory as tools, with governance -------------------------------------------------------------------------------
def test_tools_and_handlers(path: Path) -> None:
    with Memory.open(path, user="dana") as memory:
        assert [tool["name"] for tool in memory.tools()] == ["recall_memory", "write_memory", "update_memory"]
        id = memory.call_tool("write_memory", {"tag": "preference", "content": "Dana prefers tea."})["id"]
        memory.call_tool("update_memory", {"id": id, "content": "Dana prefers green tea."})
    with Memory.open(path, user="dana") as memory:
        (found,) = memory.call_tool("recall_memory", {"tag": "preference"})["memories"]
        assert (found["id"], found["tag"], found["content"]) == (id, "preference", "Dana prefers green tea.")
        assert found["updated_at"] >= "2026"
        assert memory.tools(allow_forget=True)[-1]["name"] == "forget_memory"


def test_owner_from_identity(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Memory.open(path, user="dana") as dana:
        dana.call_tool("write_memory", {"tag": "a", "content": "Dana's own.", "user_id": "erik", "agent_id": "x"})
        erik = dana.with_scope(user="erik")
        assert erik.call_tool("recall_memory", {"query": "own", "user_id": "dana"})["memories"] == []
        assert contents(dana.list()) == ["Dana's own."]
    assert caplog.text.count("it was ignored") == 2


def test_write_limits(path: Path) -> None:
    with Memory.open(path, settings={"tool_writes_per_minute": 3}) as memory:

        def write(content: str) -> str:
            action: str = memory.call_tool("write_memory", {"tag": "mood", "content": content})["action"]
            return action

        assert [write("User seems happy"), write("The user is happy today")] == ["added", "duplicate"]
        assert write("Today user appeared pleased") == "duplicate"
        assert [write(f"Fact number {number} is new.") for number in range(4)] == ["added", "added", "refused", "refused"]


def test_system_prompt(memory: Memory) -> None:
    memory.remember("Deploys are on Thursdays.", tag="decision")
    prompt = memory.system_prompt()
    assert "Good\n" in prompt
    assert "Bad\n" in prompt
    assert prompt.endswith("Tags in use: decision.")


def test_visible_writes(memory: Memory) -> None:
    memory.call_tool("write_memory", {"tag": "a", "content": "A fact."})
    (row,) = memory.audit()
    assert (row.verb, row.action, row.source) == ("remember", "added", "agent:tool")


# -- three patterns across sessions ---------------------------------------------------------------------------------
@pytest.mark.parametrize("pattern", ["buffer", "summary", "vector", "tools"])
def test_two_session_check(path: Path, pattern: str) -> None:
    with Memory.open(path, user="dana") as memory:
        MemoryAgent(memory, Scripted(), strategy=pattern).chat("My name is Dana and I prefer dark mode.", session="one")
    model = Scripted()
    with Memory.open(path, user="dana") as memory:
        MemoryAgent(memory, model, strategy=pattern).chat("What UI preference did I mention?", session="two")
    assert "dark mode" in model.last


def test_buffer_pattern(path: Path) -> None:
    with Memory.open(path) as memory:
        for session in ("one", "two"):
            memory.conversation(session).add("user", f"said in {session}")
    with Memory.open(path) as memory:
        assert [message.content for message in memory.conversation.recent(2)] == ["said in one", "said in two"]


def test_summary_pattern_is_made_only_when_it_must_be(path: Path) -> None:
    with Memory.open(path) as memory:
        for number in range(12):
            memory.conversation(f"session {number % 3}").add("user", f"We decided to buy machine number {number}.")
    counted = Scripted(*["They buy machines."] * 9)
    with Memory.open(path) as memory:
        agent = MemoryAgent(memory, Scripted(), strategy="summary", max_messages=6, cheap_model=counted)
        for _ in range(3):
            agent.chat("Go on.", session="last")
        assert len(counted.asked) <= 2


def test_vector_pattern_names_the_session(path: Path) -> None:
    model = Scripted()
    with Memory.open(path) as memory:
        memory.conversation("in march").add("user", "Which wine goes with trout?")
        memory.conversation("in march").add("assistant", "A dry Riesling.")
        MemoryAgent(memory, model, strategy="vector").chat("Which wine did you recommend with the trout?", session="now")
    assert "session in march" in model.last
    assert "A dry Riesling." in model.last


def test_exact_recall(path: Path) -> None:
    with Memory.open(path) as memory:
        talk = memory.conversation("s", max_messages=4)
        talk.add("user", "My account number is KX-20417-883.")
        for number in range(40):
            talk.add("user", f"Small talk number {number}, nothing else.")
        talk.messages()
    with Memory.open(path) as memory:
        assert "KX-20417-883" in memory.recall("What is my account number?")[0].content
        assert memory.conversation("s").search("KX-20417-883")
