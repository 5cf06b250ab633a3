"""Google's ADK: its own Runner and agents, users apart, and its memory."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.events.event import Event
from google.adk.memory import InMemoryMemoryService
from google.adk.memory.memory_entry import MemoryEntry
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import Session
from google.adk.tools import preload_memory
from google.genai import types

from keepstone import Client, Memory
from keepstone.integrations.adk import KeepstoneMemoryService, KeepstoneSessionService
from tests.frameworks.shared.adk_support import DANA, EVE, text_event


class Scripted(BaseLlm):
    """A model that calls a tool when asked for the weather, and else says what it was asked last."""

    model: str = "scripted"
    heard: list[Any] = []

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        self.heard.append(llm_request)
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None:
            part = types.Part(text=f"It is {last.function_response.response['result']}.")
        elif "weather" in (last.text or ""):
            part = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Oslo"}))
        else:
            part = types.Part(text=f"You said: {last.text}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def weather(city: str, tool_context: Any) -> str:
    """The weather of a city."""
    tool_context.state["asked"] = city
    tool_context.state["user:home"] = city
    tool_context.state["app:asked"] = tool_context.state.get("app:asked", 0) + 1
    tool_context.state["temp:note"] = "gone with the run"
    return f"cold in {city}"


def runner(memory: Memory | Client, model: Scripted | None = None) -> Runner:
    agent = LlmAgent(name="clerk", model=model or Scripted(), instruction="Help.", tools=[weather, preload_memory])
    return Runner(
        app_name="helpdesk",
        agent=agent,
        session_service=KeepstoneSessionService(memory),
        memory_service=KeepstoneMemoryService(memory),
    )


async def say(on: Runner, user: str, session: str, text: str) -> list[Event]:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    return [event async for event in on.run_async(user_id=user, session_id=session, new_message=message)]


# -- agents -------------------------------------------------------------------------------------------------------
def test_a_runner_talks_calls_tools_and_goes_on_in_another_process(memory: Memory, path: Path) -> None:
    async def talk() -> Session:
        on = runner(memory)
        await on.session_service.create_session(**DANA, session_id="s1", state={"app:name": "desk", "lang": "en"})
        await say(on, "dana", "s1", "My dog is called Bello.")
        events = await say(on, "dana", "s1", "How is the weather?")
        assert events[-1].content.parts[0].text == "It is cold in Oslo."
        return await on.session_service.get_session(**DANA, session_id="s1")

    session = asyncio.run(talk())
    assert [event.author for event in session.events] == ["user", "clerk", "user", "clerk", "clerk", "clerk"]
    assert session.events[3].content.parts[0].function_call.args == {"city": "Oslo"}
    assert session.state == {"lang": "en", "asked": "Oslo", "app:name": "desk", "app:asked": 1, "user:home": "Oslo"}
    memory.close()
    again = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, str(path)], capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == "6 Oslo My dog is called Bello."


ELSEWHERE = """
import asyncio, sys
from keepstone import Client, Memory
from keepstone.integrations.adk import KeepstoneSessionService
with Memory.open(sys.argv[1]) as memory:
    service = KeepstoneSessionService(memory)
    session = asyncio.run(service.get_session(app_name="helpdesk", user_id="dana", session_id="s1"))
    found = memory.with_scope(agent="helpdesk", user="dana").recall("the dog's name", kinds={"message"})
    print(len(session.events), session.state["user:home"], found[0].content)
"""


def test_memory_of_one_session_reaches_the_model_in_the_next(memory: Memory) -> None:
    async def talk() -> list[Any]:
        model = Scripted(heard=[])
        on = runner(memory, model)
        for name in ("one", "two"):
            await on.session_service.create_session(**DANA, session_id=name)
        await say(on, "dana", "one", "Please note that my shoe size is 43.")
        first = await on.session_service.get_session(**DANA, session_id="one")
        await on.memory_service.add_session_to_memory(first)
        model.heard.clear()
        await say(on, "dana", "two", "What is my shoe size?")
        return model.heard

    contents = asyncio.run(talk())[0].contents
    [told] = [part.text for each in contents for part in each.parts if "PAST_CONVERSATIONS" in (part.text or "")]
    assert "my shoe size is 43" in told
    assert "What is my shoe size?" not in told  # what is only in a session is no memory


def test_users_and_apps_are_apart(given: Memory | Client) -> None:
    service, remembered = KeepstoneSessionService(given), KeepstoneMemoryService(given)

    async def talk() -> None:
        mine = await service.create_session(**DANA, session_id="s", state={"user:colour": "green", "app:motto": "calm", "x": 1})
        await service.append_event(mine, text_event("The password of the cellar is owl."))
        await remembered.add_session_to_memory(mine)
        theirs = await service.create_session(**EVE, session_id="s")
        assert (theirs.state, theirs.events) == ({"app:motto": "calm"}, [])
        assert await service.get_user_state(**EVE) == {}
        assert await service.get_user_state(**DANA) == {"colour": "green"}
        assert (await remembered.search_memory(**DANA, query="cellar password")).memories
        assert not (await remembered.search_memory(**EVE, query="cellar password")).memories
        assert not (await remembered.search_memory(app_name="other", user_id="dana", query="cellar password")).memories
        assert await service.get_session(app_name="other", user_id="dana", session_id="s") is None
        assert [each.user_id for each in (await service.list_sessions(app_name="helpdesk")).sessions] == ["dana", "eve"]
        assert [each.user_id for each in (await service.list_sessions(**EVE)).sessions] == ["eve"]
        assert (await service.list_sessions(app_name="other")).sessions == []

    asyncio.run(talk())
    assert not given.with_scope(agent="helpdesk", user="eve").recall("cellar password", min_similarity=0)


# -- memory -------------------------------------------------------------------------------------------------------
def test_a_session_may_be_added_again_and_again(memory: Memory) -> None:
    service = KeepstoneMemoryService(memory)

    async def add() -> list[MemoryEntry]:
        session = Session(id="s\n" * 200, **DANA, events=[text_event("My bicycle is a blue Peugeot.")])
        await service.add_session_to_memory(session)
        session.events += [Event(author="clerk"), text_event("Noted: a blue Peugeot bicycle it is.", "clerk")]
        await service.add_session_to_memory(session)
        await service.add_events_to_memory(**DANA, events=session.events, session_id=session.id)
        found = (await service.search_memory(**DANA, query="Which bicycle?")).memories
        events = [entry for entry in found if entry.id in {event.id for event in session.events}]
        assert sorted(entry.author for entry in events) == ["clerk", "user"]
        assert [entry.content for entry in events if entry.author == "user"] == [session.events[0].content]
        assert len({entry.id for entry in found}) == len(found)
        return events

    assert all(entry.timestamp.endswith("+00:00") for entry in asyncio.run(add()))


def test_memories_that_are_written_directly(memory: Memory) -> None:
    service = KeepstoneMemoryService(memory)
    content = types.Content(role="user", parts=[types.Part(text="Dana is allergic to walnuts."), types.Part(text="Seriously.")])
    entry = MemoryEntry(content=content, id="a1", author="doctor", timestamp="2026-01-02", custom_metadata={"sure": 1.0})

    async def add() -> None:
        await service.add_memory(**DANA, memories=[entry], custom_metadata={"ward": 7})
        found = (await service.search_memory(**DANA, query="walnuts allergy")).memories
        assert found == [entry.model_copy(update={"custom_metadata": {"ward": 7, "sure": 1.0}})]
        with pytest.raises(ValueError, match="no text"):
            await service.add_memory(**DANA, memories=[MemoryEntry(content=types.Content(parts=[]))])
        await service.delete_memory(**DANA, memory_id="a1")
        assert (await service.search_memory(**DANA, query="walnuts allergy")).memories == []
        assert (await service.search_memory(**DANA, query="  ")).memories == []

    asyncio.run(add())


def test_what_is_deleted_stays_deleted(given: Memory | Client) -> None:
    """As the kit's own service has it: by the id that a search gave, and not brought back by the session."""

    async def through(service: Any) -> list[list[str]]:
        session = Session(id="s", **DANA, events=[text_event("the harbour bell"), text_event("the harbour lamp")])
        await service.add_session_to_memory(session)
        bell = session.events[0].id
        await service.delete_memory(**EVE, memory_id=bell)
        seen = [await texts(service)]
        await service.delete_memory(**DANA, memory_id=bell)
        for unknown in ("unknown", "un\nknown" * 99, " "):
            await service.delete_memory(**DANA, memory_id=unknown)
        await service.delete_memory(**DANA)
        seen.append(await texts(service))
        await service.add_session_to_memory(session)
        seen.append(await texts(service))
        return seen

    async def texts(service: Any) -> list[str]:
        found = (await service.search_memory(**DANA, query="harbour")).memories
        return sorted(entry.content.parts[0].text for entry in found)

    ours = asyncio.run(through(KeepstoneMemoryService(given, extract=False)))
    assert ours == asyncio.run(through(InMemoryMemoryService()))
    assert ours[-1] == ["the harbour lamp"]


def test_a_search_knows_what_is_remembered_otherwise(memory: Memory) -> None:
    service = KeepstoneMemoryService(memory)
    memory.with_scope(agent="helpdesk", user="dana").remember("Dana plays the cello.")

    async def search() -> list[MemoryEntry]:
        found = (await service.search_memory(**DANA, query="Which instrument does Dana play?")).memories
        await service.delete_memory(**DANA, memory_id=found[0].id)
        assert (await service.search_memory(**DANA, query="Which instrument does Dana play?")).memories == []
        return found

    assert [entry.content.parts[0].text for entry in asyncio.run(search())] == ["Dana plays the cello."]
