"""An agent works the same over a Memory, an AsyncMemory, a Client and an AsyncClient."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from keepstone import AsyncClient, AsyncMemory, Client, Memory
from keepstone.agent import MemoryAgent
from keepstone.errors import ConfigurationError
from tests.agent.support import every_strategy, facts, model_at, report, served, shown, system, tool_results
from tests.models.endpoint import Endpoint, Request, Step, said, say, use
from tests.server.running import running

FIRST = "My name is Dana and I prefer dark mode."
SECOND = "What UI preference did I mention?"
every_memory = pytest.mark.parametrize("kind", ["memory", "async-memory", "client", "async-client"])


@contextmanager
def opened(kind: str, path: Path) -> Iterator[tuple[Any, Memory]]:
    """A memory of a kind, and the same store as a Memory."""
    if kind == "async-memory":
        memory = AsyncMemory.open(path, user="dana")
        yield memory, memory._target()
        asyncio.run(memory.close())
        return
    with Memory.open(path, user="dana") as local:
        if kind == "memory":
            yield local, local
            return
        with running(local) as server:
            key = server.key("dana", user="dana")
            remote = Client(server.url, key) if kind == "client" else AsyncClient(server.url, key)
            yield remote, local
            if isinstance(remote, AsyncClient):
                asyncio.run(remote.close())
            else:
                remote.close()


def agent_for(memory: Any, endpoint: Endpoint, **options: Any) -> MemoryAgent:
    return MemoryAgent(memory, model_at("anthropic", endpoint.url), **options)


def chat(agent: MemoryAgent, kind: str, text: str, session: str) -> Any:
    return asyncio.run(agent.achat(text, session=session)) if kind.startswith("async") else agent.chat(text, session=session)


def run(agent: MemoryAgent, kind: str, task: str) -> Any:
    return asyncio.run(agent.arun(task)) if kind.startswith("async") else agent.run(task)


@every_memory
@every_strategy
def test_a_preference_is_known_in_the_next_session(path: Path, kind: str, strategy: str) -> None:
    def script(request: Request) -> Step:
        if SECOND not in said(request):
            return say("Noted.")
        return say("You prefer dark mode." if "dark mode" in shown(request) else "I do not know.")

    with served(script) as endpoint, opened(kind, path) as (memory, local):
        agent = agent_for(memory, endpoint, strategy=strategy, instructions="Be brief.")
        first = chat(agent, kind, FIRST, "first")
        second = chat(agent, kind, SECOND, "second")
        assert agent.memory is memory
        assert (str(first), str(second)) == ("Noted.", "You prefer dark mode.")
        assert first.notes == second.notes == ()
        assert second.recalled
        assert {local.get(id).access_count for id in second.recalled} != {0}  # type: ignore[union-attr]
        assert system(endpoint.requests[-1]).startswith("Be brief.")
        assert [message.content for message in local.conversation("first")] == [FIRST, "Noted."]


@every_memory
def test_the_tools_write_and_recall(path: Path, kind: str) -> None:
    steps = [
        use("write_memory", {"tag": "project", "content": "The wall is painted in teal."}),
        say("I will remember it."),
        use("recall_memory", {"query": "Which colour has the wall?"}),
        say("Teal."),
    ]
    with served(steps) as endpoint, opened(kind, path) as (memory, local):
        agent = agent_for(memory, endpoint)
        chat(agent, kind, "Keep in mind that the wall is painted in teal.", "first")
        reply = chat(agent, kind, "Which colour has the wall?", "second")
        assert reply.notes == ()
        assert "painted in teal" in tool_results(endpoint.requests[-1])[-1]
        (fact,) = [fact for fact in facts(local) if fact.tag == "project"]
        assert (fact.source, fact.session) == ("agent:tool", "first")
        assert fact.id in reply.recalled


@every_memory
def test_a_task_is_recorded_and_its_lesson_comes_back(path: Path, kind: str) -> None:
    def read_log(lines: int) -> str:
        """The last lines of the log."""
        return "out of memory"

    steps = [
        use("read_log", {"lines": 5}),
        report("Raising the limit to 2 GB cured it."),
        report("I was unable to complete this task: no access.", done=False),
    ]
    with served(steps) as endpoint, opened(kind, path) as (memory, local):
        agent = agent_for(memory, endpoint, tools=[read_log])
        first = run(agent, kind, "Find out why the queue service answers with error 502")
        second = run(agent, kind, "The queue service answers with error 502 again: mend it")
        assert (first.success, second.success) == (True, False)
        assert first.notes == second.notes == ()
        assert [step.result for step in first.steps] == ["out of memory"]
        assert second.lessons == (first.receipt.id,)
        assert "raising the limit" in shown(endpoint.requests[-1]).lower()
        assert sorted(record.tag for record in local.list(kind="episode")) == ["failure", "success"]


def test_a_server_that_is_gone_costs_memory_and_not_the_answer(path: Path) -> None:
    with served([say("Hello.")]) as endpoint:
        with Memory.open(path, user="dana") as local, running(local) as server:
            client = Client(server.url, server.key("dana", user="dana"), timeout=5)
            agent = agent_for(client, endpoint, strategy="buffer")
        reply = agent.chat("Good morning.")
        client.close()
    assert reply.text == "Hello."
    assert any("could not be read" in note for note in reply.notes)


def test_an_agent_needs_a_memory() -> None:
    with pytest.raises(ConfigurationError, match="pass a Memory, AsyncMemory, Client or AsyncClient"):
        MemoryAgent(object(), lambda prompt: "Hi.")
