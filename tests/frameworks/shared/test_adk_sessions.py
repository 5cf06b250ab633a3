"""Sessions of Google's ADK: events exactly, state as the kit keeps it, writers side by side, crashes and deletions."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from datetime import date
from math import nan
from pathlib import Path
from typing import Any

import pytest
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions import InMemorySessionService, Session
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from keepstone import Client, Memory
from keepstone.integrations.adk import KeepstoneSessionService
from tests.frameworks.shared.adk_support import DANA, text_event


def rich_event() -> Event:
    parts = [
        types.Part(text="Let me think.", thought=True, thought_signature=bytes(range(256)) * 2),
        types.Part(text="Here is the plan, drawn and spoken."),
        types.Part(inline_data=types.Blob(data=os.urandom(300_000), mime_type="image/png")),
        types.Part(file_data=types.FileData(file_uri="gs://bucket/plan.pdf", mime_type="application/pdf")),
        types.Part(
            function_call=types.FunctionCall(id="c1", name="find", args={"none": None, "deep": [{"x": 1.5}], "": "é\u2028"})
        ),
        types.Part(function_response=types.FunctionResponse(id="c1", name="find", response={"found": None, "n": [1, 2]})),
    ]
    actions = EventActions(state_delta={"plan": {"steps": ["one", None]}, "user:seen": True}, artifact_delta={"plan.pdf": 3})
    return Event(
        author="planner", content=types.Content(role="model", parts=parts), actions=actions, invocation_id="i1", branch="a.b",
        long_running_tool_ids={"c1"}, custom_metadata={"k": [1, {"v": None}]},
    )  # fmt: skip


def test_events_come_back_exactly(given: Memory | Client) -> None:
    service = KeepstoneSessionService(given)
    event, plain = rich_event(), text_event("and then?", error_code="7", turn_complete=True)

    async def keep() -> Session:
        session = await service.create_session(**DANA, session_id="s")
        for each in (event, plain):
            assert await service.append_event(session, each) is each
        return await service.get_session(**DANA, session_id="s")

    session = asyncio.run(keep())
    assert session.events == [event, plain]
    assert session.state == {"plan": {"steps": ["one", None]}, "user:seen": True}
    assert session.last_update_time == plain.timestamp


def both(memory: Memory | Client) -> list[Any]:
    return [InMemorySessionService(), KeepstoneSessionService(memory)]


def test_state_is_kept_as_the_kit_keeps_it(given: Memory | Client) -> None:
    async def through(service: Any) -> list[Any]:
        seen: list[Any] = []
        session = await service.create_session(**DANA, session_id=" s ", state={"a": 1, "user:u": 1, "app:p": 1, "temp:t": 1})
        seen.append((session.id, dict(session.state)))
        delta = {"a": 2, "b": {"c": [1]}, "user:u": None, "app:p": 3, "temp:t": 9}
        event = text_event("x", actions=EventActions(state_delta=delta))
        await service.append_event(session, event)
        seen.append((dict(session.state), dict(event.actions.state_delta)))
        await service.append_event(session, text_event("half", partial=True))
        other = await service.create_session(**DANA, session_id="t")
        seen.append(other.state)
        stored = await service.get_session(**DANA, session_id="s ")
        seen.append((stored.state, len(stored.events), stored.events == session.events))
        listed = (await service.list_sessions(**DANA)).sessions
        seen.append(sorted((each.id, str(each.state), len(each.events)) for each in listed))
        seen.append(await service.get_user_state(**DANA))
        await service.delete_session(**DANA, session_id="s")
        await service.delete_session(**DANA, session_id="never")
        seen.append([each.id for each in (await service.list_sessions(**DANA)).sessions])
        seen.append(await service.get_session(**DANA, session_id="s"))
        with pytest.raises(SessionNotFoundError):
            await service.append_event(session, text_event("late"))
        with pytest.raises(AlreadyExistsError):
            await service.create_session(**DANA, session_id="t")
        seen.append((await service.create_session(**DANA, session_id="s")).events)
        return seen

    theirs, ours = (asyncio.run(through(service)) for service in both(given))
    assert ours == theirs


@pytest.mark.parametrize(
    ("count", "after"), [(None, None), (0, None), (2, None), (99, None), (None, 103.0), (2, 101.0), (2, 500.0)]
)
def test_recent_events_alone(memory: Memory, count: int | None, after: float | None) -> None:
    service = KeepstoneSessionService(memory)

    async def keep() -> list[str]:
        session = await service.create_session(**DANA, session_id="s")
        for at in range(5):
            await service.append_event(session, text_event(f"number {at}", timestamp=100.0 + at))
        config = GetSessionConfig(num_recent_events=count, after_timestamp=after)
        found = await service.get_session(**DANA, session_id="s", config=config)
        assert found.last_update_time == 104.0
        return [event.content.parts[0].text for event in found.events]

    wanted = [f"number {at}" for at in range(5) if after is None or 100.0 + at >= after]
    assert asyncio.run(keep()) == (wanted if count is None else wanted[len(wanted) - min(count, len(wanted)) :])


def test_events_stand_in_the_order_they_came_whatever_their_times(memory: Memory) -> None:
    service = KeepstoneSessionService(memory)
    times = [time.time() + 3600, 5.0, 0.0, 1e15, time.time()]

    async def keep() -> Session:
        session = await service.create_session(**DANA, session_id="s")
        for at in times:
            await service.append_event(session, text_event(f"at {at}", timestamp=at))
        recent = await service.get_session(**DANA, session_id="s", config=GetSessionConfig(num_recent_events=2))
        assert [event.timestamp for event in recent.events] == times[-2:]
        return await service.get_session(**DANA, session_id="s")

    assert [event.timestamp for event in asyncio.run(keep()).events] == times


def test_what_is_not_json_becomes_its_text(memory: Memory) -> None:
    service = KeepstoneSessionService(memory)

    async def keep() -> dict[str, Any]:
        await service.create_session(**DANA, session_id="s", state={"when": date(2026, 5, 1), "call": len, "set": {1}, "no": nan})
        return (await service.get_session(**DANA, session_id="s")).state

    assert asyncio.run(keep()) == {"when": "2026-05-01", "call": repr(len), "set": [1], "no": None}


def test_a_session_that_changed_elsewhere_is_stale(given: Memory | Client) -> None:
    service = KeepstoneSessionService(given)

    async def race() -> Session:
        first = await service.create_session(**DANA, session_id="s")
        second = await service.get_session(**DANA, session_id="s")
        await service.append_event(first, text_event("first"))
        with pytest.raises(StaleSessionError):
            await service.append_event(second, text_event("second", actions=EventActions(state_delta={"lost": 1})))
        fresh = await service.get_session(**DANA, session_id="s")
        await service.append_event(fresh, text_event("third"))
        by_hand = Session(id="s", app_name="helpdesk", user_id="dana", events=fresh.events[:1], last_update_time=1.0)
        with pytest.raises(StaleSessionError):
            await service.append_event(by_hand, text_event("fourth"))
        by_hand.events = list(fresh.events)
        await service.append_event(by_hand, text_event("fifth"))
        return await service.get_session(**DANA, session_id="s")

    session = asyncio.run(race())
    assert [event.content.parts[0].text for event in session.events] == ["first", "third", "fifth"]
    assert "lost" not in session.state
    found = given.with_scope(agent="helpdesk", user="dana").recall("second", kinds={"message"}, min_similarity=0)
    assert "second" not in [hit.content for hit in found]


def test_an_event_that_is_sent_again_is_there_once(memory: Memory) -> None:
    service = KeepstoneSessionService(memory)

    async def twice() -> Session:
        session = await service.create_session(**DANA, session_id="s")
        stale = await service.get_session(**DANA, session_id="s")
        event = text_event("once", actions=EventActions(state_delta={"n": 1}))
        await service.append_event(session, event)
        await service.append_event(session, event.model_copy(deep=True))
        await service.append_event(stale, event.model_copy(deep=True))  # its answer was lost
        assert len(session.events) == len(stale.events) == 1
        await service.append_event(stale, text_event("on we go"))
        return await service.get_session(**DANA, session_id="s")

    assert len(asyncio.run(twice()).events) == 2


def test_branches_of_one_run_append_side_by_side(memory: Memory) -> None:
    service = KeepstoneSessionService(memory)

    async def together() -> Session:
        session = await service.create_session(**DANA, session_id="s")
        deltas = [EventActions(state_delta={f"k{at}": at, f"app:k{at}": at}) for at in range(12)]
        await asyncio.gather(
            *(service.append_event(session, text_event(f"e{at}", actions=each)) for at, each in enumerate(deltas))
        )
        found = await service.get_session(**DANA, session_id="s")
        assert found.events == session.events
        return found

    session = asyncio.run(together())
    assert session.state == {f"{prefix}k{at}": at for at in range(12) for prefix in ("", "app:")}


def test_two_writers_lose_nothing(memory: Memory, path: Path) -> None:
    """Two stores of the same file, as two processes have them: each event of a writer that was not told otherwise is there."""
    kept: list[str] = []

    def write(name: str) -> None:
        with Memory.open(path) as own:
            service = KeepstoneSessionService(own)

            async def go() -> None:
                done = 0
                while done < 8:
                    session = await service.get_session(**DANA, session_id="s")
                    actions = EventActions(state_delta={f"{name}{done}": done, f"user:{name}{done}": done})
                    try:
                        await service.append_event(session, text_event(f"{name}{done}", actions=actions))
                    except StaleSessionError:
                        continue
                    kept.append(f"{name}{done}")
                    done += 1

            asyncio.run(go())

    service = KeepstoneSessionService(memory)
    asyncio.run(service.create_session(**DANA, session_id="s"))
    writers = [threading.Thread(target=write, args=(name,)) for name in "ab"]
    for each in writers:
        each.start()
    for each in writers:
        each.join(120)
    session = asyncio.run(service.get_session(**DANA, session_id="s"))
    assert sorted(event.content.parts[0].text for event in session.events) == sorted(kept)
    assert len(kept) == 16
    assert session.state == {f"{prefix}{name}": int(name[1:]) for name in kept for prefix in ("", "user:")}


def test_what_a_crash_leaves_belongs_to_no_session(memory: Memory) -> None:
    service = KeepstoneSessionService(memory)

    async def crash() -> Session:
        session = await service.create_session(**DANA, session_id="s")
        await service.append_event(session, text_event("kept"))
        real = service._documents("helpdesk", "dana")
        service._documents = lambda app, user: Broken(real)  # type: ignore[method-assign]
        with pytest.raises(OSError):
            await service.append_event(session, text_event("cut off"))
        again = KeepstoneSessionService(memory)
        session = await again.get_session(**DANA, session_id="s")
        await again.append_event(session, text_event("after"))
        one = await again.get_session(**DANA, session_id="s", config=GetSessionConfig(num_recent_events=2))
        assert [event.content.parts[0].text for event in one.events] == ["kept", "after"]
        return await again.get_session(**DANA, session_id="s")

    assert [event.content.parts[0].text for event in asyncio.run(crash()).events] == ["kept", "after"]


class Broken:
    """Documents of a process that ends before it can write."""

    def __init__(self, documents: Any) -> None:
        self._real = documents

    def get(self, path: Any) -> Any:
        return self._real.get(path)

    def put(self, *given: Any, **named: Any) -> Any:
        raise OSError


def test_a_message_that_is_forgotten_leaves_the_others(memory: Memory) -> None:
    service = KeepstoneSessionService(memory)

    async def keep() -> Session:
        session = await service.create_session(**DANA, session_id="s")
        for text in ("one", "the secret word is plum", "three"):
            await service.append_event(session, text_event(text))
        scope = memory.with_scope(agent="helpdesk", user="dana")
        scope.forget(scope.recall("secret word plum", kinds={"message"})[0].id)
        return await service.get_session(**DANA, session_id="s")

    assert [event.content.parts[0].text for event in asyncio.run(keep()).events] == ["one", "three"]


def test_deleting_a_session_erases_what_was_said_in_it(memory: Memory, path: Path) -> None:
    service = KeepstoneSessionService(memory)

    async def keep() -> None:
        session = await service.create_session(**DANA, session_id="s", state={"word": "zanzibarquux"})
        await service.append_event(session, text_event("It rained on quuxzanzibar."))
        await service.delete_session(**DANA, session_id="s")

    asyncio.run(keep())
    memory.close()
    held = b"".join(each.read_bytes() for each in path.parent.iterdir() if each.is_file())
    assert b"quuxzanzibar" not in held
    assert b"zanzibarquux" not in held
