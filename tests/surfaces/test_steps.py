"""What was done with tools is a step, not something said."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.ports.chat import Prompt
from tests.conversation.test_window import refused

SECRET = "quokkamarmalade"


# a tag of the caller's own
def test_a_fact_tagged_step_is_recalled(memory: Memory) -> None:
    memory.remember("Preheat the oven to 200 degrees for the sourdough bread.", tag="step")
    assert memory.recall("how hot must the oven be for the sourdough bread").hits


def test_a_fact_that_a_model_tagged_step_is_recalled(memory: Memory) -> None:
    memory.call_tool("write_memory", {"content": "The billing service deploys from branch release/7.", "tag": "step"})
    assert memory.call_tool("recall_memory", {"query": "where does the billing service deploy from"})["memories"]


# large scopes: steps fill the candidates
def test_steps_do_not_crowd_out_a_large_scope(path: Path) -> None:
    with Memory.open(path, settings={"durable": False}) as memory:
        memory._engine.recalling._cache._limit = 1
        memory.remember("The zebra report is due on Friday.")
        assert memory.recall("zebra report").hits  # before there are steps
        memory.tasks.start("Find the zebra report")
        for at in range(700):
            memory.tasks.record("", f"search zebra report {at}", "zebra report zebra report")
        assert memory.recall("zebra report").hits


# export and import of a conversation with tools
def test_steps_are_still_steps_after_a_round_trip(path: Path, tmp_path: Path) -> None:
    def model(prompt: Prompt) -> Any:
        if not any(
            isinstance(each["content"], list) and any(b["type"] == "tool_result" for b in each["content"])
            for each in prompt.messages
        ):
            return {"type": "tool_use", "name": "look", "input": {"q": "zebra"}}
        return "It is found."

    def look(q: str) -> str:
        """Look."""
        return f"{SECRET} is where the zebra lives"

    with Memory.open(path) as memory, Memory.open(tmp_path / "other.db") as other:
        MemoryAgent(memory, model, tools=[look], strategy="vector").chat("Where is the zebra?", session="s")
        assert SECRET not in str(memory.recall("where does the zebra live").hits)
        other.conversation("s").import_(memory.conversation("s").export())
        assert SECRET not in str(other.recall("where does the zebra live").hits)


# training data in the Messages format
def test_a_use_that_nobody_answered_is_not_in_the_training_data(memory: Memory, tmp_path: Path) -> None:
    talk = memory.conversation("s")
    talk.add("system", "Be kind.")
    talk.add("user", "Where is the zebra?")
    talk.add(
        "assistant", [{"type": "text", "text": "Let me see."}, {"type": "tool_use", "id": "t1", "name": "look", "input": {}}]
    )
    talk.add("user", "Well?")
    talk.add("assistant", "Here.")
    memory.conversation.export_chats(tmp_path / "out.jsonl", format="anthropic")
    messages = json.loads((tmp_path / "out.jsonl").read_text())["messages"]
    assert refused(messages) is None
