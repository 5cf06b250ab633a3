"""chat, achat, stream, astream: the same text, the same records; streams that break or are left; retries; what it cost."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.errors import ModelError, ValidationError
from keepstone.types import Usage
from tests.agent.support import (
    STRATEGIES,
    WAYS,
    Way,
    agent_on,
    all_ways,
    asked,
    both,
    model_at,
    problems,
    served,
    shown,
    streamed,
    streamed_async,
    tool_results,
)
from tests.faults.support import healthy
from tests.models.endpoint import cut, say, slow, status, together, use
from tests.surfaces.support import everything

streams = pytest.mark.parametrize("way", [streamed, streamed_async])


def tide(port: str) -> str:
    """The tide at a port."""
    return f"{port}: 2.4 m"


@both
@all_ways
def test_text_records_and_usage_are_the_same_every_way(memory: Memory, provider: str, way: Way) -> None:
    script = [
        together(use("tide", {"port": "Molde"}), use("recall_memory", {"query": "boats"})),
        say("It is 2.4 m today.", usage=(40, 8, 30)),
    ]
    with served(script) as endpoint:
        said, reply = way(agent_on(memory, provider, endpoint, tools=[tide]), "How high is the tide?", session="sea")
        assert [bool(each["body"].get("stream")) for each in endpoint.requests] == [way in (streamed, streamed_async)] * 2
        assert tool_results(endpoint.requests[1])[0] == "Molde: 2.4 m"
    assert said == reply.text == str(reply) == "It is 2.4 m today."
    assert (reply.session, reply.complete, reply.notes) == ("sea", True, ())
    assert reply.usage == Usage(50, 13, 30, calls=2, retries=0, cost=reply.usage.cost)
    assert [(step.tool, step.failed) for step in reply.steps] == [("tide", False), ("recall_memory", False)]
    records = everything(memory)[::-1]
    assert [(each.kind, each.role, each.source) for each in records] == [
        ("message", "user", "user"),
        ("message", "assistant", "agent"),
        ("message", "user", "tool"),
        ("message", "assistant", "agent"),
    ]
    assert records[-1].content == said
    assert {each.session for each in records} == {"sea"}


@both
def test_what_the_model_sees_does_not_depend_on_the_way(tmp_path: Path, provider: str) -> None:
    bodies = []  # as sorted lines: of facts from one instant, the ids decide which comes first
    for number, way in enumerate(WAYS):
        with Memory.open(tmp_path / f"{number}.db") as memory, served([say("Yes."), say("Yes.")]) as endpoint:
            agent = agent_on(memory, provider, endpoint)
            way(agent, "My name is Dana and I prefer dark mode.", session="one")
            way(agent, "What do I prefer?", session="two")
            bodies.append([sorted(shown(each).replace("\\n", "\n").splitlines()) for each in endpoint.requests])
    assert all(body == bodies[0] for body in bodies)


@both
@streams
def test_a_stream_comes_in_pieces(memory: Memory, provider: str, way: Way) -> None:
    with served([say("one two three")]) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        if way is streamed:
            pieces = list(agent.stream("Count"))
        else:

            async def collect() -> list[str]:
                return [piece async for piece in agent.astream("Count")]

            pieces = asyncio.run(collect())
    assert pieces == ["one ", "two ", "three"]


@both
@streams
@pytest.mark.parametrize("quietly", [False, True])
def test_a_stream_that_is_cut_is_an_error_and_the_users_words_are_kept(
    memory: Memory, provider: str, way: Way, quietly: bool
) -> None:
    with served([cut("The tide is", quietly=quietly), say("2.4 m.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        with pytest.raises(ModelError, match="broke off"):
            way(agent, "How high is the tide?", session="sea")
        assert [each.content for each in everything(memory)] == ["How high is the tide?"]
        assert way(agent, "Once more?", session="sea")[0] == "2.4 m."
        assert "How high is the tide?" in shown(endpoint.requests[1])


@both
@all_ways
def test_a_model_that_cannot_answer_is_an_error_and_the_users_words_are_kept(memory: Memory, provider: str, way: Way) -> None:
    with served([status(401)]) as endpoint:
        with pytest.raises(ModelError, match="API key"):
            way(agent_on(memory, provider, endpoint), "My name is Dana.", session="s")
        assert memory.recall("What is my name?")[0].content
        assert [message.content for message in memory.conversation("s")] == ["My name is Dana."]


@both
@all_ways
def test_a_busy_service_is_asked_again(memory: Memory, provider: str, way: Way) -> None:
    script = [status(429, retry_after=0), status(503, retry_after=0), say("At last.")]
    with served(script) as endpoint:
        agent = MemoryAgent(memory, model_at(provider, endpoint.url, retries=2, prices=(1_000_000, 2_000_000)))
        said, reply = way(agent, "Hello?")
    assert said == "At last."
    assert (reply.usage.calls, reply.usage.retries, reply.usage.cost) == (1, 2, 20.0)
    assert len(everything(memory)) == 2


@both
def test_a_stream_left_half_way_leaves_everything_usable(path: Path, provider: str) -> None:
    with Memory.open(path) as memory, served([say("one two three"), say("Still here.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        stream = agent.stream("Count", session="s")
        assert next(iter(stream)) == "one "
        assert stream.reply is None
        del stream
        assert agent.chat("And now?", session="s").text == "Still here."
        assert [message.content for message in memory.conversation("s")] == ["Count", "And now?", "Still here."]
    assert healthy(path)


@both
def test_an_async_stream_left_half_way_leaves_everything_usable(path: Path, provider: str) -> None:
    async def leaving(agent: MemoryAgent) -> str:
        pieces = aiter(agent.astream("Count", session="s"))
        first = await anext(pieces)
        await pieces.aclose()  # type: ignore[attr-defined]
        return first + (await agent.achat("And now?", session="s")).text

    with Memory.open(path) as memory, served([say("one two three"), say("Still here.")]) as endpoint:
        assert asyncio.run(leaving(agent_on(memory, provider, endpoint))) == "one Still here."
        assert len(memory.conversation("s")) == 3
    assert healthy(path)


@both
def test_a_chat_that_is_cancelled_keeps_what_was_said(path: Path, provider: str) -> None:
    arrived = threading.Event()

    def script(request: Any) -> Any:
        if arrived.is_set():
            return say("Yes.")
        arrived.set()
        return slow()

    async def cancelled(agent: MemoryAgent) -> None:
        chat = asyncio.ensure_future(agent.achat("Are you there?", session="s"))
        await asyncio.to_thread(arrived.wait)
        chat.cancel()
        with pytest.raises(asyncio.CancelledError):
            await chat

    with Memory.open(path) as memory, served(script) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        asyncio.run(cancelled(agent))
        endpoint.release()
        assert [message.content for message in memory.conversation("s")] == ["Are you there?"]
        assert agent.chat("Hello?", session="s").text == "Yes."


@both
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_session_that_broke_off_in_the_middle_of_a_tool_goes_on(memory: Memory, provider: str, strategy: str) -> None:
    talk = memory.conversation("s")
    talk.add("user", "How high is the tide?")
    talk.add("assistant", [{"type": "tool_use", "id": "u1", "name": "tide", "input": {"port": "Molde"}}])
    with served([status(400), use("tide", {"port": "Oslo"}), status(400), say("0.3 m.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint, tools=[tide], strategy=strategy)
        for text in ("Hello?", "And in Oslo?"):
            with pytest.raises(ModelError):
                agent.chat(text, session="s")
        assert agent.chat("Well?", session="s").text == "0.3 m."
        assert [problems(request) for request in endpoint.requests] == [[]] * 4
        assert "How high is the tide?" in shown(endpoint.requests[-1])


@both
def test_several_async_chats_share_one_agent(memory: Memory, provider: str) -> None:
    async def all_of_them(agent: MemoryAgent) -> list[str]:
        replies = await asyncio.gather(*(agent.achat(f"word {n}", session=f"s{n}") for n in range(12)))
        return [reply.text for reply in replies]

    def script(request: Any) -> Any:
        words = request["body"]["messages"][-1]["content"]
        text = words if isinstance(words, str) else words[-1]["text"]
        return say(text.splitlines()[-1].upper())

    with served(script) as endpoint:
        assert asyncio.run(all_of_them(agent_on(memory, provider, endpoint))) == [f"WORD {n}" for n in range(12)]
    assert len(everything(memory)) == 24


@both
def test_thinking_goes_back_to_its_provider_and_not_into_the_reply(memory: Memory, provider: str) -> None:
    with served([say("Yes.", thinking="hmm, a sailor"), say("Aye.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        assert agent.chat("Ready?", session="s").text == "Yes."
        agent.chat("Sure?", session="s")
    assert endpoint.unexpected == 0
    assert ("a sailor" in shown(endpoint.requests[1])) == (provider == "anthropic")


@all_ways
def test_nothing_said_is_refused(memory: Memory, way: Way) -> None:
    agent = MemoryAgent(memory, lambda prompt: "Hi.")
    for text in ("", " \n", None, 5):
        with pytest.raises(ValidationError, match="say something"):
            way(agent, text)
    with pytest.raises(ValidationError, match="session"):
        way(agent, "Hello", session="")
    assert everything(memory) == []


def test_the_default_session_and_a_session_that_is_consolidated(memory: Memory) -> None:
    with served(lambda request: say("We decided to sail on Friday. The user's boat is called Heron.")) as endpoint:
        agent = agent_on(memory, "anthropic", endpoint)
        assert agent.consolidate() is None, "nothing was said"
        for number in range(4):
            asked(agent, f"Let us plan leg {number} of the voyage to Molde, we leave on Friday at noon.")
        receipt = agent.consolidate()
    assert receipt is not None
    assert receipt.id is not None
    record = memory.get(receipt.id)
    assert record is not None
    assert record.kind == "summary"
    assert len(record.parents) == 8
