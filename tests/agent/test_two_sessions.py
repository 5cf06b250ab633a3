"""What was said in one session is known in the next, though the process in between was killed: for every strategy and provider.

The endpoint has no wits of its own: it says "dark mode" only where the request shows it, so a right answer came from memory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Memory
from tests.agent.support import agent_on, both, every_strategy, facts, killed_after, served, shown, system, tool_results
from tests.faults.support import healthy
from tests.models.endpoint import Request, Step, said, say, use

FIRST = "My name is Dana and I prefer dark mode."
SECOND = "What UI preference did I mention?"
UNKNOWN = "I do not know."


def answers(request: Request) -> Step:
    """Noted, or what the request itself shows."""
    if SECOND not in said(request):
        return say("Noted.")
    return say("You prefer dark mode." if "dark mode" in shown(request) else UNKNOWN)


@both
@every_strategy
def test_a_preference_outlives_a_killed_process(path: Path, provider: str, strategy: str) -> None:
    with served(answers) as endpoint:
        assert killed_after(path, provider, strategy, endpoint.url, FIRST) == "Noted."
        with Memory.open(path, user="dana") as memory:
            reply = agent_on(memory, provider, endpoint, strategy=strategy).chat(SECOND, session="second")
            stranger = memory.with_scope(user="omar")
            other = agent_on(stranger, provider, endpoint, strategy=strategy).chat(SECOND, session="second")
        requests = endpoint.requests
    assert "dark mode" in shown(requests[1])
    assert reply.text == "You prefer dark mode."
    assert reply.notes == ()
    assert "dark mode" not in shown(requests[2])
    assert other.text == UNKNOWN
    assert healthy(path)


@both
@every_strategy
def test_the_session_before_is_there_as_it_was_said(path: Path, provider: str, strategy: str) -> None:
    """Facts are one thing; with the rules off, what was said still reaches the next session by itself."""
    with served(answers) as endpoint:
        for session, text in (("first", FIRST), ("second", SECOND)):
            with Memory.open(path, user="dana", settings={"extract": False}) as memory:
                reply = agent_on(memory, provider, endpoint, strategy=strategy).chat(text, session=session)
                assert facts(memory) == []
        assert FIRST in shown(endpoint.requests[-1])
    assert reply.text == "You prefer dark mode."


ASKED = "Please keep in mind what we chose for the wall."
FACT = "The team chose the colour amber for the north wall."
QUESTION = "Which colour did the team choose for the north wall?"


def writes(request: Request) -> Step:
    """A model that writes one memory; later it answers from what is shown, and recalls first where nothing is."""
    if "amber" in "".join(tool_results(request)[-1:]):
        return say("Written down." if ASKED in shown(request) else "Amber, as recalled.")
    if said(request).endswith(ASKED):
        return use("write_memory", {"tag": "project", "content": FACT})
    return say("Amber, as shown." if "amber" in shown(request) else "No idea.")


@both
def test_a_fact_the_model_wrote_outlives_a_killed_process(path: Path, provider: str) -> None:
    with served(writes) as endpoint:
        assert killed_after(path, provider, "tools", endpoint.url, ASKED) == "Written down."
        with Memory.open(path, user="dana") as memory:
            assert [each.content for each in facts(memory)] == [FACT]
            reply = agent_on(memory, provider, endpoint).chat(QUESTION, session="second")
        assert len(endpoint.requests) == 3
        assert FACT in shown(endpoint.requests[2])
    assert reply.text == "Amber, as shown."


@both
def test_a_model_that_recalls_by_itself_finds_what_it_wrote(path: Path, provider: str) -> None:
    def recalls(request: Request) -> Step:
        results = tool_results(request)
        if said(request).endswith("And now?"):
            return use("recall_memory", {"query": "colour of the north wall"})
        return say("Amber." if results and "amber" in results[-1] else "No idea.")

    with Memory.open(path, user="dana") as memory:
        memory.call_tool("write_memory", {"tag": "project", "content": FACT})
    with Memory.open(path, user="dana") as memory, served(recalls) as endpoint:
        reply = agent_on(memory, provider, endpoint, memory_tokens=1).chat("And now?")
        assert "amber" not in shown(endpoint.requests[0])
    assert reply.text == "Amber."
    assert [(step.tool, step.failed) for step in reply.steps] == [("recall_memory", False)]
    assert len(reply.recalled) >= 1


@pytest.mark.parametrize("tool", ["write_memory", "update_memory"])
def test_other_strategies_have_no_memory_tools(memory: Memory, tool: str) -> None:
    with served([use(tool, {"tag": "x", "content": "Sneaked in."}), say("Well.")]) as endpoint:
        reply = agent_on(memory, "anthropic", endpoint, strategy="buffer").chat("Hello")
        assert "tools" not in endpoint.requests[0]["body"]
    assert reply.steps[0].failed
    assert facts(memory) == []


@every_strategy
def test_preferences_under_a_key_without_a_tag_are_known_from_the_start(path: Path, strategy: str) -> None:
    with served([say("Hello.")]) as endpoint:
        with Memory.open(path, user="dana") as memory:
            memory.set("user.preferences", {"units": "metric"})
        with Memory.open(path, user="dana") as memory:
            reply = agent_on(memory, "anthropic", endpoint, strategy=strategy).chat("Good morning.", session="second")
            record = memory.get(key="user.preferences")
        assert record is not None
        assert "user.preferences = " in system(endpoint.requests[0])
        assert "metric" in system(endpoint.requests[0])
        assert record.id in reply.recalled
