"""wrap and streams: events arrive as they come, and what was said is kept however a stream ends."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import keepstone
from keepstone import Memory
from tests.integrations.speaking import spoken
from tests.integrations.ways import CHAT, MESSAGES, client_of
from tests.models.endpoint import cut, say

TEXT = "One two three four five six seven."
ASKED = [{"role": "user", "content": "Count, please."}]
BROKEN = (openai.APIError, anthropic.APIError, httpx2.HTTPError)


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory.open(tmp_path / "wrap.db") as memory:
        yield memory


def answers(memory: Memory) -> list[Any]:
    return [each.content for each in memory.conversation("chat") if each.role == "assistant"]


def until(done: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)
    return done()


def words(event: Any) -> str:
    """The text in an event of any format."""
    choices = getattr(event, "choices", None)
    if choices:
        return choices[0].delta.content or ""
    delta = getattr(event, "delta", None)
    return delta if isinstance(delta, str) else getattr(delta, "text", None) or ""


def open_stream(client: Any, name: str) -> Any:
    """A stream of one of the three formats."""
    if name == "chat":
        return client.chat.completions.create(messages=ASKED, stream=True, **CHAT)
    if name == "responses":
        return client.responses.create(input=ASKED, stream=True, **CHAT)
    return client.messages.create(messages=ASKED, stream=True, **MESSAGES)


VENDOR = {"chat": "openai", "responses": "openai", "claude": "anthropic"}
every = pytest.mark.parametrize("name", VENDOR)


@every
def test_events_are_the_clients_own_and_come_before_the_end(name: str, memory: Memory) -> None:
    with spoken([say(TEXT), say(TEXT)]) as endpoint:
        bare = list(open_stream(client_of(VENDOR[name], endpoint), name))
        endpoint.gate = threading.Event()
        stream = open_stream(keepstone.wrap(client_of(VENDOR[name], endpoint), memory, session="chat"), name)
        assert type(stream).__name__ == "Stream"
        seen = []
        for event in stream:
            seen.append(event)
            if words(event):
                break
        assert not endpoint.gate.is_set()  # the endpoint still holds the rest back
        endpoint.gate.set()
        seen += list(stream)
    assert seen == bare
    assert answers(memory) == [TEXT]


@every
@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_what_was_said_until_a_stream_is_left_is_kept(name: str, end: str, memory: Memory) -> None:
    with spoken([say(TEXT)]) as endpoint:
        stream = open_stream(keepstone.wrap(client_of(VENDOR[name], endpoint), memory, session="chat"), name)
        heard = ""
        for event in stream:
            heard += words(event)
            if heard.startswith("One two"):
                break
        del event
        if end == "close":
            stream.close()
        elif end == "with":
            with stream:
                pass
        del stream  # nothing else holds it, so it is cleared away at once
    assert answers(memory) == [heard.strip()] == ["One two"]


@every
def test_a_stream_that_breaks_off_is_kept_as_far_as_it_came(name: str, memory: Memory) -> None:
    with spoken([cut("One two three")]) as endpoint:
        stream = open_stream(keepstone.wrap(client_of(VENDOR[name], endpoint), memory, session="chat"), name)
        heard: list[str] = []
        with pytest.raises(BROKEN):
            heard.extend(map(words, stream))
    assert "".join(heard) == "One two three"
    assert answers(memory) == ["One two three"]


@every
@pytest.mark.parametrize("end", ["close", "with", "drop"])
def test_what_was_said_until_an_asynchronous_stream_is_left_is_kept(name: str, end: str, memory: Memory) -> None:
    async def listen(endpoint: Any) -> None:
        async with keepstone.wrap(client_of(f"async-{VENDOR[name]}", endpoint), memory, session="chat") as client:
            stream = await open_stream(client, name)
            heard = ""
            async for event in stream:
                heard += words(event)
                if heard.startswith("One two"):
                    break
            if end == "close":
                await stream.close()
            elif end == "with":
                async with stream:
                    pass
            if end != "drop":
                assert answers(memory) == ["One two"]

    with spoken([say(TEXT)]) as endpoint:
        asyncio.run(listen(endpoint))
        assert until(lambda: bool(answers(memory)))
    assert answers(memory) == ["One two"]


@pytest.mark.parametrize("name", ["chat", "claude"])
def test_helpers_that_are_left_early(name: str, memory: Memory) -> None:
    with spoken([say(TEXT)]) as endpoint:
        client = keepstone.wrap(client_of(VENDOR[name], endpoint), memory, session="chat")
        if name == "chat":
            manager, kind, field = client.chat.completions.stream(messages=ASKED, **CHAT), "content.delta", "delta"
        else:
            manager, kind, field = client.messages.stream(messages=ASKED, **MESSAGES), "text", "text"
        with manager as stream:
            for event in stream:
                if event.type == kind and getattr(event, field):
                    break
        assert answers(memory) == ["One"]


@every
def test_a_task_that_is_cancelled_keeps_what_it_heard(name: str, memory: Memory) -> None:
    async def listen(endpoint: Any) -> None:
        client = keepstone.wrap(client_of(f"async-{VENDOR[name]}", endpoint), memory, session="chat")
        heard = asyncio.Event()

        async def reading() -> None:
            async for event in await open_stream(client, name):
                if words(event):
                    heard.set()

        task = asyncio.create_task(reading())
        await asyncio.wait_for(heard.wait(), 20)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.close()

    with spoken([say(TEXT)]) as endpoint:
        endpoint.gate = threading.Event()
        asyncio.run(listen(endpoint))
        assert until(lambda: bool(answers(memory)))
    assert answers(memory) == ["One"]


@every
def test_a_stream_nobody_reads_keeps_no_answer(name: str, memory: Memory) -> None:
    with spoken([say(TEXT)]) as endpoint:
        open_stream(keepstone.wrap(client_of(VENDOR[name], endpoint), memory, session="chat"), name).close()
    assert answers(memory) == []
    assert len(memory.conversation("chat")) == 1


def test_many_streams_at_once_are_kept_apart(memory: Memory) -> None:
    async def ask(endpoint: Any) -> None:
        client = client_of("async-openai", endpoint)
        every = keepstone.wrap(client, memory)

        async def one(number: int) -> None:
            mine = keepstone.wrap(every, memory, session=f"chat-{number}")
            asked = [{"role": "user", "content": f"Number {number}"}]
            async for _ in await mine.chat.completions.create(messages=asked, stream=True, **CHAT):
                pass

        async with every:
            await asyncio.gather(*(one(number) for number in range(8)))

    with spoken(lambda request: say(f"You said: {request['body']['messages'][-1]['content']}")) as endpoint:
        asyncio.run(ask(endpoint))
    for number in range(8):
        said = [each.content for each in memory.conversation(f"chat-{number}")]
        assert said == [f"Number {number}", f"You said: Number {number}"]
