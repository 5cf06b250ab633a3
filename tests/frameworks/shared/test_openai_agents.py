"""KeepstoneSession, the memory tools and the instructions in runs of the OpenAI Agents SDK: its real Runner and its real client
against a local endpoint."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agents import Agent, OpenAIChatCompletionsModel, Runner, Session, SessionSettings, set_tracing_disabled
from openai import AsyncOpenAI

from keepstone import AsyncMemory, Client, Memory
from keepstone.errors import ConfigurationError, StoreClosed, ValidationError
from keepstone.integrations.openai_agents import KeepstoneSession, memory_instructions, memory_tools
from tests.models.endpoint import Endpoint, say, use
from tests.server.running import running

ITEMS: list[Any] = [
    {"role": "user", "content": "Which of the two flats is nearer to the harbour?"},
    {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "Look them up."}],
        "encrypted_content": "zz",
    },
    {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "flats", "arguments": '{"city": "Århus"}'},
    {"type": "function_call_output", "call_id": "call_1", "output": "flat 🏠 " * 60_000},
    {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "This is the first one."},
            {"type": "input_image", "image_url": "data:image/png;base64," + "iVBORw0KGgo" * 400, "detail": "auto"},
        ],
    },
    {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "The flat in Havnegade is 200 metres away.", "annotations": []}],
    },
    {"role": "system", "content": ""},
    {"role": "user", "content": ""},
]


@pytest.fixture(autouse=True)
def untraced() -> Iterator[None]:
    set_tracing_disabled(True)
    yield
    set_tracing_disabled(False)


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def agent(endpoint: Endpoint, **parts: Any) -> Agent[Any]:
    client = AsyncOpenAI(base_url=endpoint.openai_url, api_key="k", max_retries=0)
    return Agent(name="assistant", model=OpenAIChatCompletionsModel("any", client), **parts)


def sent(endpoint: Endpoint, place: int = -1) -> list[tuple[str, Any]]:
    return [(each["role"], each.get("content")) for each in endpoint.requests[place]["body"]["messages"]]


def test_items_come_back_exactly_and_in_order_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"

    async def written() -> list[Any]:
        session = KeepstoneSession("chat-1", path)
        assert isinstance(session, Session)
        await session.add_items(ITEMS[:3])
        await session.add_items(ITEMS[3:])
        items = await session.get_items()
        session.close()
        return items

    assert asyncio.run(written()) == ITEMS
    program = (
        "import asyncio, json, sys\n"
        "from keepstone.integrations.openai_agents import KeepstoneSession\n"
        "print(json.dumps(asyncio.run(KeepstoneSession('chat-1', sys.argv[1]).get_items())))\n"
    )
    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(ran.stdout) == ITEMS


def test_limits_are_the_latest_items_oldest_first() -> None:
    async def read() -> None:
        session = KeepstoneSession("limits", session_settings={"limit": 2})
        await session.add_items([user(str(number)) for number in range(5)])
        assert session.session_settings == SessionSettings(limit=2)
        assert await session.get_items() == [user("3"), user("4")]
        assert await session.get_items(3) == [user("2"), user("3"), user("4")]
        assert await session.get_items(0) == []
        assert len(await session.get_items(-1)) == len(await session.get_items(2_147_483_647)) == 5

    asyncio.run(read())


def test_sessions_are_apart_and_pop_and_clear_touch_one(tmp_path: Path) -> None:
    async def work() -> None:
        first, second = KeepstoneSession("a", tmp_path / "s.db"), KeepstoneSession("b", tmp_path / "s.db")
        await first.add_items([user("one"), user("two")])
        await second.add_items([user("three")])
        assert await first.pop_item() == user("two")
        assert await first.get_items() == [user("one")]
        await first.clear_session()
        assert await first.pop_item() is None
        assert await second.get_items() == [user("three")]
        one, other = KeepstoneSession("a"), KeepstoneSession("a")
        await one.add_items([user("one")])
        assert await other.get_items() == []

    asyncio.run(work())


def test_the_last_session_of_a_path_closes_its_store(tmp_path: Path) -> None:
    async def work() -> None:
        first, second = KeepstoneSession("a", tmp_path / "s.db"), KeepstoneSession("b", str(tmp_path / "s.db"))
        assert first.memory is second.memory
        first.close()
        first.close()
        await second.add_items([user("still open")])
        with pytest.raises(RuntimeError, match="KeepstoneSession is closed"):
            await first.add_items([])
        memory = second.memory
        second.close()
        with pytest.raises(StoreClosed):
            memory.recall("open")
        assert await KeepstoneSession("b", tmp_path / "s.db").get_items() == [user("still open")]

    asyncio.run(work())


def test_a_memory_that_is_given_is_used_in_its_scope_and_left_open(tmp_path: Path) -> None:
    async def work(memory: Memory) -> None:
        session = KeepstoneSession("chat", memory=memory.with_scope(user="dana"))
        await session.add_items([user("I moved to Aarhus in May.")])
        assert await KeepstoneSession("chat", memory=memory).get_items() == []
        session.close()
        memory.with_scope(user="dana").conversation("chat").add("assistant", "Noted.")
        again = KeepstoneSession("chat", memory=memory.with_scope(user="dana"))
        assert await again.get_items() == [user("I moved to Aarhus in May."), {"role": "assistant", "content": "Noted."}]
        with pytest.raises(ConfigurationError, match="the one or the other"):
            KeepstoneSession("chat", tmp_path / "other.db", memory=memory)
        async with await AsyncMemory.open(":memory:") as other:
            await KeepstoneSession("chat", memory=other).add_items([user("hello")])
            assert len(await other.conversation("chat").last(5)) == 1

    with Memory.open(":memory:") as memory:
        asyncio.run(work(memory))


def test_a_session_on_a_server(tmp_path: Path) -> None:
    async def work(client: Client) -> None:
        session = KeepstoneSession("chat", memory=client)
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS
        assert await session.pop_item() == ITEMS[-1]
        assert await session.get_items(2) == ITEMS[-3:-1]

    with (
        Memory.open(tmp_path / "served.db") as memory,
        running(memory) as server,
        Client(server.url, server.key("dana", rights=("read", "write", "forget"))) as client,
    ):
        asyncio.run(work(client))


def test_tasks_at_once_lose_nothing_and_take_nothing_twice(tmp_path: Path) -> None:
    async def work() -> None:
        sessions = [KeepstoneSession("busy", tmp_path / "s.db") for _ in range(2)]
        await asyncio.gather(*(sessions[n % 2].add_items([user(f"{n} a"), user(f"{n} b")]) for n in range(12)))
        held = [item["content"] for item in await sessions[0].get_items()]
        assert sorted(held) == sorted(f"{n} {half}" for n in range(12) for half in "ab")
        assert all(held[held.index(f"{n} a") + 1] == f"{n} b" for n in range(12))
        popped = await asyncio.gather(*(sessions[n % 2].pop_item() for n in range(26)))
        assert sorted(item["content"] for item in popped if item is not None) == sorted(held)

    asyncio.run(work())


def test_a_cancelled_write_is_known_to_be_there() -> None:
    async def work() -> None:
        session = KeepstoneSession("cancelled")
        task = asyncio.create_task(session.add_items([user("kept")]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await session.get_items() == [user("kept")]

    asyncio.run(work())


def test_what_is_not_json_is_refused_whole() -> None:
    async def work() -> None:
        session = KeepstoneSession("refused")
        with pytest.raises(ValidationError, match="not JSON"):
            await session.add_items([user("fine"), {"role": "user", "content": object()}])  # type: ignore[list-item]
        assert await session.get_items() == []

    asyncio.run(work())


def test_what_was_said_is_recalled_and_what_was_done_is_not() -> None:
    async def work() -> None:
        session = KeepstoneSession("said")
        await session.add_items([*ITEMS[:6], {"type": "function_call_output", "call_id": "c", "output": "The boiler is broken."}])
        found = session.memory.recall("How far is the flat in Havnegade?")
        assert found[0].content == "The flat in Havnegade is 200 metres away."
        assert not [hit for hit in session.memory.recall("boiler broken", min_similarity=0, limit=50) if "boiler" in hit.content]

    asyncio.run(work())


def test_runs_go_on_where_the_session_ended(tmp_path: Path) -> None:
    with Endpoint([say("Nice to meet you, Ada."), say("Your name is Ada.")]) as endpoint:
        asyncio.run(Runner.run(agent(endpoint), "My name is Ada.", session=KeepstoneSession("chat", tmp_path / "s.db")))
        result = asyncio.run(Runner.run(agent(endpoint), "Who am I?", session=KeepstoneSession("chat", tmp_path / "s.db")))
        assert result.final_output == "Your name is Ada."
        assert [role for role, _ in sent(endpoint)] == ["user", "assistant", "user"]
        assert sent(endpoint)[0] == ("user", "My name is Ada.")


def test_a_streamed_run_is_kept_with_its_tool_calls(tmp_path: Path) -> None:
    async def work(endpoint: Endpoint, session: KeepstoneSession) -> list[Any]:
        run = Runner.run_streamed(
            agent(endpoint, tools=memory_tools(session.memory)), "Remember that I am vegan.", session=session
        )
        async for _ in run.stream_events():
            pass
        return await session.get_items()

    with Endpoint([use("write_memory", {"tag": "food", "content": "The user is vegan."}), say("I will.")]) as endpoint:
        session = KeepstoneSession("chat", tmp_path / "s.db")
        items = asyncio.run(work(endpoint, session))
        assert [item.get("type", item.get("role")) for item in items] == [
            "user",
            "function_call",
            "function_call_output",
            "message",
        ]
        assert "error" not in json.loads(items[2]["output"]), items[2]
        assert "vegan" in session.memory.recall("What does the user eat?", kinds={"fact"})[0].content


def test_a_model_uses_the_tools_in_a_later_session() -> None:
    with Memory.open(":memory:") as memory, Memory.open(":memory:") as other:
        memory.remember("The user's boat is called Sif.", tag="boat")
        with Endpoint([use("recall_memory", {"query": "name of the boat"}), say("Sif.")]) as endpoint:
            result = asyncio.run(Runner.run(agent(endpoint, tools=memory_tools(memory)), "What is my boat called?"))
            assert result.final_output == "Sif."
            assert "called Sif" in sent(endpoint)[-1][1]
            assert [tool["function"]["name"] for tool in endpoint.requests[0]["body"]["tools"]] == [
                "recall_memory",
                "write_memory",
                "update_memory",
            ]
        id = memory.list(tag="boat")[0].id
        with Endpoint([use("forget_memory", {"id": id}), use("recall_memory", "not json"), say("No.")]) as endpoint:
            tools = memory_tools(memory, allow_forget=True)
            asyncio.run(Runner.run(agent(endpoint, tools=tools), "Forget the boat."))
            assert memory.get(id) is None
            assert "not JSON" in sent(endpoint)[-1][1]
        assert not other.list()


def test_instructions_say_what_is_known_about_the_question() -> None:
    with Memory.open(":memory:") as memory:
        memory.remember("The user is allergic to peanuts.", tag="health")
        with Endpoint([say("No peanuts."), say("No peanuts."), say("Hello.")]) as endpoint:
            plain = agent(endpoint, instructions=memory_instructions(memory, "You plan meals."))
            asyncio.run(Runner.run(plain, "Any allergies to think of?", session=KeepstoneSession("a", memory=memory)))
            role, text = sent(endpoint)[0]
            assert role == "system"
            assert text.startswith("You plan meals.")
            assert "allergic to peanuts" in text
            assert "recall_memory" not in text

            async def base(context: Any, agent: Any) -> str:
                return f"You are {agent.name}."

            tools = memory_tools(memory)
            asyncio.run(Runner.run(agent(endpoint, instructions=memory_instructions(memory, base), tools=tools), "Allergies?"))
            _, text = sent(endpoint)[0]
            assert text.startswith("You are assistant.")
            assert "recall_memory" in text
            assert "allergic to peanuts" in text

            asyncio.run(Runner.run(agent(endpoint, instructions=memory_instructions(memory)), "zzz qqq"))
            assert "peanuts" not in str(sent(endpoint)[0])
