"""Ordinary work leaves a handful of memories, whatever the model would like; limits and duplicates are the handler's business."""

from __future__ import annotations

from pathlib import Path

import pytest

from keepstone import Memory
from tests.agent.support import agent_on, both, facts, served, system, tool_results
from tests.models.endpoint import Request, Step, said, say, together, use
from tests.surfaces.support import FACTS, Clock, everything, timed

TASKS = [
    ("Convert 42 kilometres to miles", "calculate", {"sum": "42 * 0.621"}, "26.1 miles."),
    ("Add up the invoices of March", "calculate", {"sum": "120 + 80"}, "200 in all."),
    ("Look up the opening hours of the museum", "look_up", {"page": "museum"}, "Open from ten to six."),
    ("Find the capital of Mongolia", "look_up", {"page": "Mongolia"}, "Ulaanbaatar."),
    ("Count the words of the draft", "calculate", {"sum": "400 + 12"}, "412 words."),
    ("Check whether the ferry runs on Sunday", "look_up", {"page": "ferry"}, "It does."),
    ("Translate 'good evening' into Norwegian", "look_up", {"page": "dictionary"}, "God kveld."),
    ("Work out the tip for a bill of 60", "calculate", {"sum": "60 * 0.1"}, "6."),
    ("Find the weather for Molde", "look_up", {"page": "weather"}, "FAILED: the page cannot be reached."),
    ("Sort the guest list by name", "look_up", {"page": "guests"}, "Sorted."),
]
CHATS = [
    "Good morning!", "How are you today?", "What is the boiling point of water at 2000 metres?", "Thanks, that helps.",
    "Can you explain what a monad is?", "Write me a limerick about a crab.", "Ha, nice one.", "What time is it in Lima?",
    "Please shorten this: the crab walked along the beach for a long time.", "See you tomorrow!",
]  # fmt: skip


def calculate(sum: str) -> str:
    """Work something out."""
    return f"{sum} = done"


def look_up(page: str) -> str:
    """Look up a page."""
    return f"all about {page}"


@both
def test_ten_tasks_and_ten_chats_leave_a_handful(memory: Memory, provider: str) -> None:
    def task_script(request: Request) -> Step:
        text = said(request)
        for task, tool, input, _ in TASKS:
            if text.endswith(task):
                return use(tool, input)
        own = max(TASKS, key=lambda each: str(request["body"]["messages"]).rfind(f"{each[0]}"))
        return say(own[3])

    with served(task_script) as endpoint:
        agent = agent_on(memory, provider, endpoint, tools=[calculate, look_up])
        outcomes = [agent.run(task) for task, *_ in TASKS]
    assert [len(outcome.steps) for outcome in outcomes] == [1] * 10
    with served(lambda request: say("Certainly.")) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        for number, text in enumerate(CHATS):
            agent.chat(text, session=f"day {number // 4}")
        instructions = system(endpoint.requests[-1])
    assert len(facts(memory)) <= 5
    episodes = [each for each in everything(memory) if each.kind == "episode"]
    assert 1 <= len(episodes) <= 10
    assert not [record for record in memory.list(tag="step") if record.kind != "message"]
    assert "step" not in instructions.rsplit("Tags in use", 1)[-1].split(".")[0]
    assert len(memory.conversation("day 0")) == 8, "what was said is all there"


@both
def test_an_eager_model_is_stopped(path: Path, provider: str, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    eager = together(*(use("write_memory", {"tag": "people", "content": fact}) for fact in FACTS[:50]))
    later = use("write_memory", {"tag": "people", "content": FACTS[60]})
    with timed(path, clock) as memory, served([eager, say("All written."), later, say("One more.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        reply = agent.chat("Here is the staff list.")
        assert reply.text == "All written."
        assert len(facts(memory)) == 10
        results = tool_results(endpoint.requests[1])
        assert sum('"added"' in each for each in results) == 10
        assert (
            sum('"refused"' in each and "writes from agent:tool" in each and "retry_after_seconds" in each for each in results)
            == 40
        )
        assert "limit of the memory tools" in caplog.text
        clock.forward(seconds=61)
        agent.chat("And one more.")
        assert len(facts(memory)) == 11


@both
def test_the_limit_is_a_setting_and_each_scopes_own(path: Path, provider: str) -> None:
    writes = together(*(use("write_memory", {"tag": "people", "content": fact}) for fact in FACTS[:5]))
    with Memory.open(path, settings={"tool_writes_per_minute": 3}) as memory, served([writes, say("Ok.")] * 2) as endpoint:
        for user in ("dana", "omar"):
            own = memory.with_scope(user=user)
            agent_on(own, provider, endpoint).chat("Go on.")
            assert len(facts(own)) == 3


@both
def test_updates_count_and_duplicates_do_not(memory: Memory, provider: str) -> None:
    id = memory.remember("Dana lives in Rome.", tag="profile").id
    script = [
        together(*(use("write_memory", {"tag": "profile", "content": "Dana lives in Rome."}) for _ in range(20))),
        together(*(use("update_memory", {"id": id, "content": f"Dana lives in house {n}."}) for n in range(15))),
        say("Ok."),
    ]
    with served(script) as endpoint:
        agent_on(memory, provider, endpoint).chat("Go on.")
        results = tool_results(endpoint.requests[-1])
    assert sum('"duplicate"' in each for each in results) == 20
    assert sum('"updated"' in each for each in results) == 10
    assert sum('"refused"' in each for each in results) == 5
    assert [each.content for each in facts(memory)] == ["Dana lives in house 9."]


@both
@pytest.mark.parametrize(
    "texts",
    [
        ["user seems happy", "user is happy today", "The user seems to be happy today."],
        ["Dana prefers dark mode.", "dana prefers the dark mode", "Dana prefers dark mode!"],
        ["The deploy is on Thursday.", "The deploy is on Thursday."],
    ],
)
def test_near_duplicates_collapse_under_whatever_tag(memory: Memory, provider: str, texts: list[str]) -> None:
    script = [*(use("write_memory", {"tag": f"tag{n}", "content": text}) for n, text in enumerate(texts)), say("Ok.")]
    with served(script) as endpoint:
        agent_on(memory, provider, endpoint).chat("Go on.")
        results = tool_results(endpoint.requests[-1])
    assert len(facts(memory)) == 1
    assert '"added"' in results[0]
    assert all('"duplicate"' in each or '"merged"' in each for each in results[1:])


def test_different_facts_do_not_collapse(memory: Memory) -> None:
    pairs = ["Dana lives in Rome.", "Omar lives in Rome.", "Dana lived in Rome in 2019.", "Dana does not live in Rome."]
    for text in pairs:
        assert memory.call_tool("write_memory", {"tag": "profile", "content": text})["action"] == "added"
    assert len(facts(memory)) == 4
