"""Pydantic AI: agents with the memory tools and instructions, and histories that go on elsewhere, exactly."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from pydantic_ai import Agent, BinaryContent, ImageUrl, ToolReturn
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from keepstone import Client, Memory
from keepstone.integrations.pydantic_ai import KeepstoneHistory, KeepstoneToolset, memory_instructions
from tests.frameworks.shared.pydantic_ai_support import echo, rich, said


# -- tools and instructions ---------------------------------------------------------------------------------------
def test_an_agent_remembers_and_recalls_with_the_tools(given: Memory | Client) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        assert "recall_memory" in str(messages[0].instructions)
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(str(last.content))])
        if "remember" in str(last.content):
            call = ToolCallPart("write_memory", {"tag": "pets", "content": "Dana's dog is called Bello."})
        else:
            call = ToolCallPart("recall_memory", '{"query": "name of the dog"}')
        return ModelResponse(parts=[call])

    agent = Agent(FunctionModel(model), toolsets=[KeepstoneToolset(given)])
    agent.run_sync("Please remember that Dana's dog is called Bello.")
    assert given.recall("Dana's dog")[0].content == "Dana's dog is called Bello."
    assert "Bello" in agent.run_sync("What is Dana's dog called?").output


def test_forgetting_is_offered_where_it_is_allowed(memory: Memory) -> None:
    id = memory.remember("Dana's locker is number 9.").id

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart(f"{[tool.name for tool in info.function_tools]} {last.content}")])
        return ModelResponse(
            parts=[ToolCallPart("forget_memory" if "forget" in said(messages[-1]) else "update_memory", {"id": id})]
        )

    offered = Agent(FunctionModel(model), toolsets=[KeepstoneToolset(memory, allow_forget=True, id="m")]).run_sync("forget it")
    assert "forget_memory" in offered.output
    assert memory.get(id) is None
    refused = Agent(FunctionModel(model), toolsets=[KeepstoneToolset(memory)]).run_sync("look")
    assert "forget_memory" not in refused.output
    assert "error" in refused.output  # update_memory needs a content


def test_every_tool_can_be_called_as_it_is_described(memory: Memory) -> None:
    result = Agent(TestModel(), toolsets=[KeepstoneToolset(memory, allow_forget=True)]).run_sync("go")
    returned = [part for each in result.all_messages() for part in each.parts if isinstance(part, ToolReturnPart)]
    assert {part.tool_name for part in returned} == {"recall_memory", "write_memory", "update_memory", "forget_memory"}


def test_what_is_known_stands_in_the_instructions(given: Memory | Client) -> None:
    given.remember("Dana is allergic to walnuts.")
    seen: list[str] = []

    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(messages[-1].instructions or "")
        return ModelResponse(parts=[TextPart("ok")])

    agent = Agent(FunctionModel(model), instructions=["Cook.", memory_instructions(given)])
    agent.run_sync(["Is Dana", ImageUrl("https://example.org/x.png"), "allergic to anything?"])
    assert seen[0].startswith("Cook.")
    assert "allergic to walnuts" in seen[0]


# -- histories ----------------------------------------------------------------------------------------------------
def test_a_history_goes_on_in_another_process(memory: Memory, path: Path) -> None:
    agent = Agent(FunctionModel(echo), system_prompt="Be brief.")
    history = KeepstoneHistory(memory, "chat")
    for text in ("My boat is called Albatross.", "And it is blue."):
        result = agent.run_sync(text, message_history=history.load())
        history.save(result.new_messages())
    assert result.output == "heard 2: And it is blue."
    assert history.load() == result.all_messages()
    assert memory.recall("boat's name", kinds={"message"})[0].content == "My boat is called Albatross."
    memory.close()
    again = subprocess.run([sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, text=True, timeout=120, check=False)
    assert again.returncode == 0, again.stderr
    assert again.stdout.split() == ["4", "2"]


ELSEWHERE = """
import sys
from keepstone import Memory
from keepstone.integrations.pydantic_ai import KeepstoneHistory
with Memory.open(sys.argv[1]) as memory:
    history = KeepstoneHistory(memory, "chat")
    print(len(history.load()), len(history.load(last=2)))
"""


def test_messages_come_back_exactly(given: Memory | Client) -> None:
    history, messages = KeepstoneHistory(given, "s"), rich()
    history.save(messages)
    assert history.load() == messages
    assert [message.parts for message in asyncio.run(history.aload(1))] == [messages[-1].parts]
    found = given.recall("a fine garden", kinds={"message"}, min_similarity=0)
    assert {hit.content for hit in found} == {"Look at this garden,\nplease.", "A fine garden."}  # neither thoughts nor tools
    asyncio.run(history.aclear())
    assert history.load() == []


def test_histories_of_two_users_are_apart(memory: Memory) -> None:
    mine, theirs = (KeepstoneHistory(memory.with_scope(user=user), "s") for user in ("dana", "eve"))
    asyncio.run(mine.asave([ModelRequest.user_text_prompt("The key is under the mat.")]))
    assert len(mine.load()) == 1
    assert theirs.load() == []
    assert not memory.with_scope(user="eve").recall("key mat", min_similarity=0)


def test_what_was_said_by_other_means_is_in_the_history(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Good day."}], session="s")
    loaded = KeepstoneHistory(memory, "s").load()
    assert [type(each) for each in loaded] == [ModelRequest, ModelResponse]
    assert Agent(FunctionModel(echo)).run_sync("Still there?", message_history=loaded).output == "heard 2: Still there?"


def test_files_survive_in_binary_content(memory: Memory) -> None:
    """Plain base64 and that of the web are read alike, and nothing in a file is taken for a secret."""
    data = b"".join(bytes([0xFA, 0xC9, 0x3E]) + os.urandom(64) for _ in range(50))  # "-sk-" and the like
    history = KeepstoneHistory(memory, "s")
    history.save([ModelRequest(parts=[UserPromptPart([BinaryContent(data=data, media_type="audio/wav")])])])
    assert history.load()[0].parts[0].content[0].data == data


def test_what_a_tool_returns_with_its_result_is_not_the_users_word(memory: Memory) -> None:
    agent = Agent(TestModel())

    @agent.tool_plain
    def page() -> ToolReturn[str]:
        return ToolReturn(return_value="done", content=["My name is Mallory.", "I live in Kabul."])

    result = agent.run_sync("I live in Lisbon.")
    history = KeepstoneHistory(memory, "chat")
    history.save(result.new_messages())
    assert history.load() == result.new_messages()
    assert {record.content for record in memory.list(kind="fact", limit=100)} == {"The user lives in Lisbon."}
    found = [record for record in memory.list(kind="message") if "Mallory" in record.content]
    assert [record.role for record in found] == ["tool"]
