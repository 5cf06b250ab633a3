"""KeepstoneChatMessageHistory and memory_tools as LangChain uses them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables.history import RunnableWithMessageHistory
from langchain_core.utils.function_calling import convert_to_openai_tool

from keepstone import Client, Memory
from keepstone.errors import ValidationError
from keepstone.integrations.langchain import KeepstoneChatMessageHistory, memory_tools
from keepstone.integrations.message_items import SessionItem, SessionItems
from tests.server.running import running

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 60_000, "detail": "low"}}
CALL = {"name": "weather", "args": {"city": "Lisbon", "days": [1, 2.5, None]}, "id": "call-1", "type": "tool_call"}
WRONG: Any = {"name": "weather", "args": "{", "id": "call-2", "error": "not JSON", "type": "invalid_tool_call"}
USED: Any = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7, "input_token_details": {"cache_read": 1}}
MESSAGES: dict[str, BaseMessage] = {
    "system": SystemMessage("Answer shortly."),
    "human": HumanMessage("I moved to Lisbon.", id="m-1", name="Dana", additional_kwargs={"seen": {"by": ["a", 1, None, True]}}),
    "odd name": HumanMessage("It is sunny.", name="Dana\nand a second line"),
    "image": HumanMessage([{"type": "text", "text": "What is on this picture?"}, IMAGE]),
    "call": AIMessage("", tool_calls=[CALL], invalid_tool_calls=[WRONG], usage_metadata=USED, id="run-1"),
    "thinking": AIMessage([{"type": "thinking", "thinking": "hm", "signature": "sig"}, {"type": "text", "text": "A fox."}]),
    "tool": ToolMessage("22 degrees", tool_call_id="call-1", artifact={"raw": [22]}, status="error", name="weather"),
    "answer": AIMessage("It is 22 degrees.", response_metadata={"model_name": "m", "finish_reason": "stop"}),
    "function": FunctionMessage(content="done", name="do"),
    "chat": ChatMessage(content="I doubt it.", role="critic"),
    "chunk": AIMessageChunk("A piece"),
    "remove": RemoveMessage(id="m-1"),
    "empty": HumanMessage(""),
    "odd text": HumanMessage("NUL \0, half \ud800, \u202eleft", additional_kwargs={"": 10**40}),
}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory.open(tmp_path / "memory.db") as opened:
        yield opened


def same(found: list[BaseMessage], given: list[BaseMessage]) -> bool:
    return [type(each) for each in found] == [type(each) for each in given] and found == given


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_comes_back_as_it_was(memory: Memory, name: str) -> None:
    history = KeepstoneChatMessageHistory(memory, "thread")
    history.add_message(MESSAGES[name])
    assert same(history.messages, [MESSAGES[name]])


def test_messages_keep_their_order_and_are_cleared(memory: Memory) -> None:
    given = [*MESSAGES.values(), *(HumanMessage(f"line {at}") for at in range(150))]
    history, other = (KeepstoneChatMessageHistory(memory, session) for session in ("one", "two"))
    history.add_messages(given[:9])
    history.add_messages(given[9:])
    other.add_ai_message("Here is another session.")
    assert same(KeepstoneChatMessageHistory(memory, "one").messages, given)
    history.clear()
    assert history.messages == []
    assert [message.content for message in other.messages] == ["Here is another session."]
    assert not any("line" in hit.content for hit in memory.recall("line 7", limit=20, min_similarity=0))


def test_recall_finds_what_was_said_and_learns_from_it(memory: Memory) -> None:
    KeepstoneChatMessageHistory(memory, "thread").add_messages([MESSAGES["human"], MESSAGES["call"], MESSAGES["tool"]])
    found = memory.recall("Where does Dana live?", limit=10, min_similarity=0)
    assert "Dana moved to Lisbon." in {hit.content for hit in found if hit.record.kind == "fact"}
    assert {hit.record.role for hit in found if hit.record.kind == "message"} == {"user", "tool"}  # a call says nothing
    quiet = KeepstoneChatMessageHistory(memory.with_scope(user="bob"), "thread", extract=False)
    quiet.add_messages([MESSAGES["human"]])
    assert [hit.record.kind for hit in memory.with_scope(user="bob").recall("Lisbon", min_similarity=0)] == ["message"]


def test_scopes_do_not_see_each_other(memory: Memory) -> None:
    histories = {user: KeepstoneChatMessageHistory(memory.with_scope(user=user), "thread") for user in ("dana", "bob")}
    for user, history in histories.items():
        history.add_user_message(f"I am {user}.")
    assert {user: [each.content for each in history.messages] for user, history in histories.items()} == {
        "dana": ["I am dana."],
        "bob": ["I am bob."],
    }


def test_a_message_that_is_not_json_is_refused_and_none_is_stored(memory: Memory) -> None:
    history = KeepstoneChatMessageHistory(memory, "thread")
    with pytest.raises(ValidationError, match="not JSON"):
        history.add_messages([HumanMessage("fine"), ToolMessage("x", tool_call_id="1", artifact=object())])

    class Strange(BaseMessage):
        type: str = "strange"

    with pytest.raises(ValidationError, match="Strange cannot be read back"):
        history.add_messages([Strange(content="x")])
    assert history.messages == []


def test_messages_that_came_another_way(memory: Memory) -> None:
    memory.ingest([{"role": role, "content": f"said by {role}"} for role in ("system", "user", "assistant", "tool")], session="t")
    assert KeepstoneChatMessageHistory(memory, "t").messages == [
        SystemMessage("said by system"),
        HumanMessage("said by user"),
        AIMessage("said by assistant"),
        ChatMessage(content="said by tool", role="tool"),
    ]


WRITER = """
import sys
from langchain_core.messages import AIMessage, HumanMessage
from keepstone import Memory
from keepstone.integrations.langchain import KeepstoneChatMessageHistory
with Memory.open(sys.argv[1]) as memory:
    history = KeepstoneChatMessageHistory(memory, "shared")
    for at in range(10):
        call = {"name": "t", "args": {}, "id": str(at)}
        history.add_messages([HumanMessage(f"{sys.argv[2]} {at}"), AIMessage("", tool_calls=[call])])
"""


def test_two_processes_write_one_session_and_a_third_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    Memory.open(path).close()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in ("one", "two")]
    assert [writer.wait(120) for writer in writers] == [0, 0]
    with Memory.open(path) as memory:
        messages = KeepstoneChatMessageHistory(memory, "shared").messages
    said = [message.content for message in messages if isinstance(message, HumanMessage)]
    for name in ("one", "two"):
        assert [text for text in said if text.startswith(name)] == [f"{name} {at}" for at in range(10)]
    assert len(messages) == 40
    assert all(isinstance(after, AIMessage) for before, after in zip(messages[::2], messages[1::2], strict=True))


def test_a_chain_with_message_history(memory: Memory) -> None:
    model = GenericFakeChatModel(messages=iter([AIMessage("Hello Dana."), AIMessage("You are Dana.")]))
    prompt = ChatPromptTemplate.from_messages([MessagesPlaceholder("history"), ("human", "{input}")])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chain = RunnableWithMessageHistory(
            prompt | model,
            lambda session_id: KeepstoneChatMessageHistory(memory, session_id),
            input_messages_key="input",
            history_messages_key="history",
        )
    config: Any = {"configurable": {"session_id": "chain"}}
    assert chain.invoke({"input": "I am Dana."}, config).content == "Hello Dana."
    assert asyncio.run(chain.ainvoke({"input": "Who am I?"}, config)).content == "You are Dana."
    assert [message.content for message in KeepstoneChatMessageHistory(memory, "chain").messages] == [
        "I am Dana.", "Hello Dana.", "Who am I?", "You are Dana.",
    ]  # fmt: skip


def test_the_async_methods(memory: Memory) -> None:
    async def run() -> tuple[list[BaseMessage], list[BaseMessage]]:
        history = KeepstoneChatMessageHistory(memory, "thread")
        await history.aadd_messages(list(MESSAGES.values())[:3])
        held = await history.aget_messages()
        await history.aclear()
        return held, await history.aget_messages()

    held, after = asyncio.run(run())
    assert same(held, list(MESSAGES.values())[:3])
    assert after == []


def test_over_a_server(memory: Memory) -> None:
    with running(memory) as server, Client(server.url, server.key("dana")) as client:
        history = KeepstoneChatMessageHistory(client, "thread")
        history.add_messages(list(MESSAGES.values()))
        assert same(history.messages, list(MESSAGES.values()))
        assert "recall_memory" in {tool.name for tool in memory_tools(client)}


def test_the_memory_tools(memory: Memory) -> None:
    tools = {tool.name: tool for tool in memory_tools(memory)}
    assert set(tools) == {"recall_memory", "write_memory", "update_memory"}
    made = tools["write_memory"].invoke({"tag": "home", "content": "Dana lives in Rome."})
    tools["update_memory"].invoke({"id": made["id"], "content": "Dana lives in Oslo."})
    call = {"type": "tool_call", "name": "recall_memory", "id": "call-1", "args": {"query": "Where does Dana live?"}}
    answer = asyncio.run(tools["recall_memory"].ainvoke(call))
    assert isinstance(answer, ToolMessage)
    assert [each["content"] for each in json.loads(str(answer.content))["memories"]] == ["Dana lives in Oslo."]
    assert "error" in tools["update_memory"].invoke({"id": "m_none", "content": "x"})
    forgetting = {tool.name: tool for tool in memory_tools(memory, allow_forget=True)}
    forgetting["forget_memory"].invoke({"id": made["id"]})
    assert memory.get(made["id"]) is None
    shown = convert_to_openai_tool(tools["recall_memory"])["function"]
    assert shown["parameters"]["properties"].keys() == {"query", "tag", "limit", "contains", "not_contains"}


def test_nothing_is_learned_from_a_role_that_is_not_the_users(memory: Memory) -> None:
    others = [ChatMessage(role=role, content=f"My name is {role.title()}.") for role in ("critic", "model", "assistant")]
    messages = [HumanMessage("I live in Lisbon."), ChatMessage(role="user", content="My name is Dana."), *others]
    history = KeepstoneChatMessageHistory(memory, "chat")
    history.add_messages(messages)
    assert history.messages == messages
    assert {record.content for record in memory.list(kind="fact", limit=100)} == {
        "The user lives in Lisbon.",
        "The user's name is Dana.",
    }


def test_what_another_framework_did_in_a_session_is_no_empty_message(memory: Memory) -> None:
    SessionItems(memory, "chat", of="other").add(
        [SessionItem("user", "Said there.", {"n": 1}), SessionItem("assistant", "", {"type": "tool_call"})]
    )
    assert KeepstoneChatMessageHistory(memory, "chat").messages == [HumanMessage("Said there.")]
