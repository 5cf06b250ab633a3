"""The history and the context provider in runs of the Microsoft Agent Framework's real Agent, with a chat client that is told
what to answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
)

from keepstone import Client, Memory
from keepstone.errors import ValidationError
from keepstone.integrations.agent_framework import KeepstoneContextProvider, KeepstoneHistoryProvider, memory_tools
from tests.server.running import running

MESSAGES = [
    Message("user", ["What does the lighthouse cost?"], author_name="Ada\n", additional_properties={"page": 3}),
    Message("assistant", [Content.from_function_call("call_1", "price", arguments={"of": "lighthouse"})], message_id="m1"),
    Message("tool", [Content.from_function_result("call_1", result="🗼 " * 120_000)]),
    Message("user", ["Like this one:", Content.from_uri("data:image/png;base64,iVBORw0KGgo=", media_type="image/png")]),
    Message("assistant", ["The lighthouse costs 12 crowns."], message_id="m2"),
]


class Told(FunctionInvocationLayer[Any], BaseChatClient[Any]):
    """A chat client that gives the answers it was told, and keeps what it was asked."""

    def __init__(self, *answers: Any) -> None:
        super().__init__()
        self.answers = list(answers)
        self.asked: list[list[Message]] = []
        self.options: list[Mapping[str, Any]] = []

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        self.asked.append(list(messages))
        self.options.append(options)
        answer = self.answers.pop(0)

        async def whole() -> ChatResponse:
            return ChatResponse(messages=[Message("assistant", [answer])])

        async def parts() -> Any:
            yield ChatResponseUpdate(role="assistant", contents=[Content.from_text(answer)])

        return self._build_response_stream(parts()) if stream else whole()


def texts(messages: Sequence[Message]) -> list[tuple[str, str]]:
    return [(str(message.role), message.text) for message in messages]


def same(messages: Sequence[Message]) -> list[dict[str, Any]]:
    return [message.to_dict() for message in messages]


def test_messages_come_back_exactly_in_another_process(tmp_path: Path) -> None:
    async def written(memory: Memory) -> list[Message]:
        history = KeepstoneHistoryProvider(memory)
        await history.save_messages("s", MESSAGES[:2])
        await history.save_messages("s", MESSAGES[2:])
        assert await history.get_messages("other") == []
        return await history.get_messages("s")

    with Memory.open(tmp_path / "m.db") as memory:
        assert same(asyncio.run(written(memory))) == same(MESSAGES)
    program = (
        "import asyncio, sys\n"
        "from keepstone import Memory\n"
        "from keepstone.integrations.agent_framework import KeepstoneHistoryProvider\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    found = asyncio.run(KeepstoneHistoryProvider(memory).get_messages('s'))\n"
        "print([message.text for message in found][-1])\n"
    )
    path = str(tmp_path / "m.db")
    ran = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, timeout=120, check=True)
    assert ran.stdout.strip() == "The lighthouse costs 12 crowns."


def test_an_agent_goes_on_where_its_session_ended(tmp_path: Path) -> None:
    async def turn(said: str, answer: str) -> Told:
        with Memory.open(tmp_path / "m.db") as memory:
            client = Told(answer)
            agent = Agent(client, context_providers=[KeepstoneHistoryProvider(memory)])
            await agent.run(said, session=AgentSession(session_id="chat"))
            return client

    asyncio.run(turn("My name is Ada.", "Hello Ada."))
    client = asyncio.run(turn("Who am I?", "You are Ada."))
    assert texts(client.asked[0]) == [("user", "My name is Ada."), ("assistant", "Hello Ada."), ("user", "Who am I?")]


def test_a_streamed_run_is_kept_as_well() -> None:
    async def run(memory: Memory) -> list[Message]:
        history = KeepstoneHistoryProvider(memory)
        agent = Agent(Told("Streamed."), context_providers=[history])
        async for _ in agent.run("Go on.", session=AgentSession(session_id="chat"), stream=True):
            pass
        return await history.get_messages("chat")

    with Memory.open(":memory:") as memory:
        assert texts(asyncio.run(run(memory))) == [("user", "Go on."), ("assistant", "Streamed.")]


def test_what_is_sent_again_is_not_kept_twice() -> None:
    async def work(history: KeepstoneHistoryProvider) -> None:
        await history.save_messages("s", MESSAGES)
        await history.save_messages("s", [*MESSAGES, Message("user", ["And now?"])])
        await history.save_messages("s", [Message("user", ["And now?"])])
        found = await history.get_messages("s")
        assert same(found[:5]) == same(MESSAGES)
        assert texts(found[5:]) == [("user", "And now?"), ("user", "And now?")]

    with Memory.open(":memory:") as memory:
        asyncio.run(work(KeepstoneHistoryProvider(memory)))


def test_the_last_messages_begin_with_a_question() -> None:
    async def work(memory: Memory) -> None:
        await KeepstoneHistoryProvider(memory).save_messages("s", MESSAGES)
        assert same(await KeepstoneHistoryProvider(memory, last=3).get_messages("s")) == same(MESSAGES[3:])
        assert same(await KeepstoneHistoryProvider(memory, last=50).get_messages("s")) == same(MESSAGES)

    with Memory.open(":memory:") as memory:
        asyncio.run(work(memory))


def test_what_is_not_json_is_refused() -> None:
    with Memory.open(":memory:") as memory:
        history = KeepstoneHistoryProvider(memory)
        with pytest.raises(ValidationError, match="not JSON"):
            asyncio.run(history.save_messages("s", [Message("user", ["hi"], additional_properties={"n": float("nan")})]))


def test_the_context_of_another_session_comes_before_the_question() -> None:
    async def work(memory: Memory) -> None:
        first = Agent(Told("Noted."), context_providers=[KeepstoneContextProvider(memory)])
        await first.run("I am allergic to peanuts.", session=AgentSession(session_id="monday"))
        client = Told("No peanuts.", "Hello.")
        second = Agent(client, instructions="You cook.", context_providers=[KeepstoneContextProvider(memory)])
        await second.run("Which allergies do I have?", session=AgentSession(session_id="tuesday"))
        roles = [message.role for message in client.asked[0]]
        assert roles[-2:] == ["user", "user"]
        assert "allergic to peanuts" in client.asked[0][-2].text
        assert client.asked[0][-1].text == "Which allergies do I have?"

    with Memory.open(":memory:") as memory:
        asyncio.run(work(memory))
        said = [message.content for message in memory.conversation("tuesday")]
        assert len(said) == 2, "what was asked and answered, without the context that was put in"


def test_both_providers_keep_each_message_once() -> None:
    async def work(memory: Memory) -> None:
        providers = [KeepstoneHistoryProvider(memory), KeepstoneContextProvider(memory)]
        await Agent(Told("Hello."), context_providers=providers).run("Hi there.", session=AgentSession(session_id="chat"))

    with Memory.open(":memory:") as memory:
        asyncio.run(work(memory))
        assert len(memory.conversation("chat")) == 2


def test_nothing_is_kept_where_that_is_not_wanted() -> None:
    async def work(memory: Memory) -> None:
        provider = KeepstoneContextProvider(memory, store=False)
        await Agent(Told("Hello."), context_providers=[provider]).run("Hi there.", session=AgentSession(session_id="chat"))

    with Memory.open(":memory:") as memory:
        asyncio.run(work(memory))
        assert len(memory.conversation("chat")) == 0


def test_a_model_uses_the_memory_tools() -> None:
    async def work(memory: Memory) -> Told:
        call = Content.from_function_call("c1", "recall_memory", arguments={"query": "name of the boat"})
        client = Told(call, "Sif.")
        agent = Agent(client, context_providers=[KeepstoneContextProvider(memory, tools=True)])
        answer = await agent.run("zzz", session=AgentSession(session_id="chat"))
        assert answer.text == "Sif."
        return client

    with Memory.open(":memory:") as memory:
        memory.remember("The user's boat is called Sif.", tag="boat")
        client = asyncio.run(work(memory))
        assert "recall_memory" in str(client.options[0].get("instructions")) or "recall_memory" in client.asked[0][0].text
        results = [content for message in client.asked[-1] for content in message.contents if content.type == "function_result"]
        assert "called Sif" in str(results[0].result)
        assert [tool.name for tool in memory_tools(memory)] == ["recall_memory", "write_memory", "update_memory"]
        assert "forget_memory" in [tool.name for tool in memory_tools(memory, allow_forget=True)]


def test_a_history_on_a_server(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        history = KeepstoneHistoryProvider(client)
        await history.save_messages("s", MESSAGES)
        assert same(await history.get_messages("s")) == same(MESSAGES)

    with (
        Memory.open(tmp_path / "served.db") as memory,
        running(memory) as server,
        Client(server.url, server.key("dana")) as client,
    ):
        asyncio.run(work(client))
