"""run: tools in a loop until the model ends its turn, every step on disk, the outcome as an episode that similar tasks see."""

from __future__ import annotations

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from keepstone import Memory, Record
from keepstone.agent import MemoryAgent, Outcome
from keepstone.agent.turns import MAX_RESULT_BYTES
from keepstone.errors import ModelError, ValidationError
from tests.agent.support import agent_on, both, facts, model_at, report, served, shown, system, tool_names, tool_results
from tests.models.endpoint import Request, Step, said, say, status, together, use
from tests.surfaces.support import everything

TASK = "Find out why the queue service answers with error 502"


def read_log(lines: int) -> str:
    """The last lines of the log."""
    return f"{lines} lines: out of memory"


def restart(service: str) -> str:
    """Restart a service."""
    raise RuntimeError(f"{service} will not start")


def kinds(memory: Memory, kind: str) -> list[Record]:
    return [each for each in everything(memory) if each.kind == kind]


def run_async(agent: MemoryAgent, task: str, **options: Any) -> Outcome:
    return asyncio.run(agent.arun(task, **options))


both_runs = pytest.mark.parametrize("run", [MemoryAgent.run, run_async])
WORK = [
    use("read_log", {"lines": 20}, "I look at the log."),
    together(use("restart", {"service": "queue"}, "Restarting may help."), use("read_log", {"lines": 5})),
    report("The queue ran out of memory; raising its limit to 2 GB cured it.", usage=(50, 20, 0)),
]
ACCOUNT = "The queue ran out of memory; raising its limit to 2 GB cured it."


@both
@both_runs
def test_a_task_is_worked_on_until_the_model_ends(memory: Memory, provider: str, run: Any) -> None:
    with served(WORK) as endpoint:
        outcome = run(agent_on(memory, provider, endpoint, tools=[read_log, restart]), TASK, goal="no more 502")
        requests = endpoint.requests
    assert outcome.success
    assert str(outcome) == outcome.text == ACCOUNT
    assert [(step.tool, step.failed) for step in outcome.steps] == [("read_log", False), ("restart", True), ("read_log", False)]
    assert outcome.steps[0].thought == "I look at the log."
    assert outcome.steps[1].result == "restart failed with RuntimeError: queue will not start"
    assert (outcome.usage.calls, outcome.usage.input_tokens, outcome.usage.output_tokens) == (3, 70, 30)
    assert outcome.notes == ()
    assert said(requests[0]).endswith(TASK)
    assert tool_names(requests[0]) == ["recall_memory", "write_memory", "update_memory", "read_log", "restart"]
    assert "working on a task" in system(requests[0])
    assert [len(tool_results(each)) for each in requests] == [0, 1, 3]
    assert "will not start" in tool_results(requests[2])[1]


@both
@both_runs
def test_every_step_is_on_disk_and_the_outcome_is_an_episode(memory: Memory, provider: str, run: Any) -> None:
    with served(WORK) as endpoint:
        outcome = run(agent_on(memory, provider, endpoint, tools=[read_log, restart]), TASK)
    messages = kinds(memory, "message")[::-1]
    assert {(each.tag, each.session) for each in messages} == {("step", f"task:{outcome.task_id}")}
    assert [each.role for each in messages] == ["user", "assistant", "assistant", "assistant", "assistant"]
    assert messages[0].content == TASK
    assert "read_log" in messages[1].content
    assert "out of memory" in messages[1].content
    assert "failed: restart failed" in messages[2].content
    [episode] = kinds(memory, "episode")
    assert outcome.receipt is not None
    assert (outcome.receipt.id, outcome.receipt.action) == (episode.id, "added")
    assert (episode.tag, episode.metadata["steps"], episode.metadata["success"]) == ("success", 3, True)
    assert episode.parents == tuple(each.id for each in messages[1:4])
    assert facts(memory) == []
    assert not [record for record in memory.list(tag="step") if record.kind != "message"]
    assert not memory.conversation.list()


@both
def test_similar_tasks_begin_with_the_lessons(memory: Memory, provider: str) -> None:
    with served([*WORK, report("Raised the limit, as before.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint, tools=[read_log, restart])
        first = agent.run(TASK)
        second = agent.run("The queue service answers with error 502 again: mend it")
        text = shown(endpoint.requests[-1])
    assert first.lessons == ()
    assert first.receipt is not None
    assert second.lessons == (first.receipt.id,)
    assert "raising its limit to 2 GB cured it" in text
    assert "queue will not start" in text, "what was tried in vain"


@both
@both_runs
def test_a_task_that_cannot_be_done(memory: Memory, provider: str, run: Any) -> None:
    with served([say("failed: there is no such service.")]) as endpoint:
        outcome = run(agent_on(memory, provider, endpoint), TASK)
    assert not outcome.success
    [episode] = kinds(memory, "episode")
    assert (episode.tag, episode.metadata["success"]) == ("failure", False)
    assert "It failed: there is no such service." in episode.content


@both
@both_runs
def test_a_model_that_never_ends_is_stopped(memory: Memory, provider: str, run: Any) -> None:
    def script(request: Request) -> Step:
        unbidden = request["body"].get("tool_choice") in ("none", {"type": "none"})
        return say("I have seen four lines.") if unbidden else use("read_log", {"lines": 1})

    with served(script) as endpoint:
        outcome = run(agent_on(memory, provider, endpoint, tools=[read_log], max_steps=4), TASK)
        assert len(endpoint.requests) == 5
        assert "read_log" in tool_names(endpoint.requests[-1]), "the messages before speak of it"
    assert not outcome.success
    assert len(outcome.steps) == 4
    assert "stopped after 4 steps: I have seen four lines." in kinds(memory, "episode")[0].content


@both
@both_runs
def test_a_model_that_fails_in_the_middle(memory: Memory, provider: str, run: Any) -> None:
    with served([WORK[0], status(400)]) as endpoint, pytest.raises(ModelError, match="refused"):
        run(agent_on(memory, provider, endpoint, tools=[read_log]), TASK)
    [episode] = kinds(memory, "episode")
    assert episode.tag == "failure"
    assert "cut off by ModelError" in episode.content
    assert "read_log" in episode.content, "what was done before stays known"
    assert memory.working.task is None


@both
def test_uses_that_go_wrong_are_told_to_the_model(memory: Memory, provider: str) -> None:
    wrong = [
        use("sing", {}),
        use("read_log", {"lines": "many"}),
        use("read_log", {}),
        use("read_log", {"lines": 1, "colour": "red"}),
        use("read_log", "{broken"),
        use("forget_memory", {"id": "m_1"}),
        use("recall_memory", {"limit": -1}),
    ]
    with served([*wrong, say("I give up.")]) as endpoint:
        outcome = agent_on(memory, provider, endpoint, tools=[read_log]).run(TASK)
        results = tool_results(endpoint.requests[-1])
    expected = [
        "there is no tool 'sing'",
        "a whole number",
        "is missing",
        "is unknown",
        "could not be read",
        "no tool",
        "limit is -1",
    ]
    assert len(results) == len(expected)
    for text, result, step in zip(expected, results, outcome.steps, strict=True):
        assert text in result
        assert text in step.result
        assert step.failed
    assert len(kinds(memory, "message")) == len(wrong) + 2


@both
def test_a_long_result_is_cut_and_says_so(memory: Memory, provider: str) -> None:
    def novel() -> str:
        """All of it."""
        return "whale " * 10_000

    with served([use("novel", {}), report("Long.")]) as endpoint:
        outcome = agent_on(memory, provider, endpoint, tools=[novel]).run("Read the novel")
        [result] = tool_results(endpoint.requests[1])
    assert result == outcome.steps[0].result
    assert re.search(r"… \[cut: 4\d{4} more characters\]$", result)
    assert len(result) < MAX_RESULT_BYTES + 100
    assert outcome.notes == ()


@both
def test_results_of_every_sort_reach_the_model_as_text(memory: Memory, provider: str) -> None:
    values: dict[str, Any] = {"none": None, "list": [1, {"a": "ü"}], "number": 1.5, "nothing": ""}

    def give(name: str) -> Any:
        """A value."""
        return values[name]

    with served([*(use("give", {"name": name}) for name in values), say("Thanks.")]) as endpoint:
        agent_on(memory, provider, endpoint, tools=[give]).run("Fetch the values")
        assert tool_results(endpoint.requests[-1]) == ["null", '[1, {"a": "ü"}]', "1.5", ""]


@both
def test_async_tools_are_awaited_together_with_plain_ones(memory: Memory, provider: str) -> None:
    loops = []

    async def fetch(page: int) -> str:
        """Fetch a page."""
        loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0)
        return f"page {page}"

    async def working() -> tuple[Outcome, Any]:
        outcome = await agent_on(memory, provider, endpoint, tools=[fetch, read_log]).arun("Fetch page 7")
        return outcome, asyncio.get_running_loop()

    with served([use("fetch", {"page": 7}), use("read_log", {"lines": 2}), say("Done.")]) as endpoint:
        outcome, loop = asyncio.run(working())
    assert [step.result for step in outcome.steps] == ["page 7", "2 lines: out of memory"]
    assert loops == [loop]


@both
def test_runs_at_once_keep_apart(memory: Memory, provider: str) -> None:
    def note(word: str) -> str:
        """Note a word."""
        return f"noted {word}"

    def script(request: Request) -> Step:
        number = shown(request).rsplit("Write down the number ", 1)[1][:2]
        results = tool_results(request)
        return say(f"Wrote {number}.") if len(results) == 2 else use("note", {"word": f"{number}-{len(results)}"})

    with served(script) as endpoint:
        agent = agent_on(memory, provider, endpoint, tools=[note], strategy="buffer")
        with ThreadPoolExecutor(6) as pool:
            outcomes = list(pool.map(lambda n: agent.run(f"Write down the number {n}"), range(10, 22)))
    for number, outcome in enumerate(outcomes, 10):
        assert outcome.text == f"Wrote {number}."
        assert [step.result for step in outcome.steps] == [f"noted {number}-0", f"noted {number}-1"]
        trail = list(memory.conversation(f"task:{outcome.task_id}"))
        assert len(trail) == 4
        assert all(str(number) in json.dumps(message.content) for message in trail)
    episodes = kinds(memory, "episode")
    assert len({outcome.task_id for outcome in outcomes}) == len(episodes) == 12


def test_tasks_do_not_become_conversation(memory: Memory) -> None:
    with served([*WORK, say("Hello.")]) as endpoint:
        agent = agent_on(memory, "anthropic", endpoint, tools=[read_log, restart], strategy="buffer")
        agent.run(TASK)
        agent.chat("Good morning")
    assert TASK not in shown(endpoint.requests[-1])
    assert [message.content for message in memory.conversation.recent()] == ["Good morning", "Hello."]


def test_a_retry_counts_and_the_task_goes_on(memory: Memory) -> None:
    with served([status(429, retry_after=0), *WORK]) as endpoint:
        model = model_at("anthropic", endpoint.url, retries=2)
        outcome = MemoryAgent(memory, model, tools=[read_log, restart]).run(TASK)
    assert outcome.success
    assert (outcome.usage.calls, outcome.usage.retries) == (3, 1)


@pytest.mark.parametrize("task", ["", "  ", None, 7])
def test_a_task_must_say_something(memory: Memory, task: Any) -> None:
    with pytest.raises(ValidationError, match="say in words"):
        MemoryAgent(memory, lambda prompt: "Done.").run(task)
    assert everything(memory) == []


# -- whether it was done ------------------------------------------------------------------------------------------
UNABLE = "I was unable to complete this task: the log server did not answer."


@both
@both_runs
@pytest.mark.parametrize(
    "script",
    [
        [report(UNABLE, done=False)],
        [say(f'Sorry. {{"done": false, "account": "{UNABLE}"}}')],
        [say(UNABLE), report("No.", done=False)],  # asked once more, in prose it said so itself
        [say(UNABLE), say("No, I was not able to.")],
        [say(UNABLE), status(400)],
        [say(f"FAILED: {UNABLE}"), status(400)],
    ],
)
def test_a_task_that_the_model_reports_as_not_done_failed(memory: Memory, provider: str, run: Any, script: list[Step]) -> None:
    with served(script) as endpoint:
        outcome = run(agent_on(memory, provider, endpoint), TASK)
    assert not outcome.success
    assert outcome.text == UNABLE
    [episode] = kinds(memory, "episode")
    assert (episode.tag, episode.metadata["success"]) == ("failure", False)
    assert f"It failed: {UNABLE}" in episode.content


@both
def test_an_account_in_prose_counts_as_the_model_says_when_asked(memory: Memory, provider: str) -> None:
    with served([say("The log is empty."), report("Done.")]) as endpoint:
        done = agent_on(memory, provider, endpoint).run("Look at the log")
        asked_for = endpoint.requests[1]["body"]
    with served([say("The log is empty."), report("It was not found.", done=False)]) as endpoint:
        missed = agent_on(memory, provider, endpoint).run("Find the error")
    assert (done.success, done.text, done.usage.calls) == (True, "The log is empty.", 2)
    assert (missed.success, missed.text) == (False, "The log is empty.")
    assert "done" in json.dumps(asked_for.get("output_config") or asked_for["response_format"])


def refuse(account: str) -> str:
    return "" if "2 GB" in account else "the limit was not raised"


def check_limit(account: str) -> None:
    assert "2 GB" in account, "the limit was not raised"


@both_runs
@pytest.mark.parametrize("check", [refuse, check_limit, lambda account: "2 GB" in account])
def test_the_check_of_the_caller_decides(memory: Memory, run: Any, check: Any) -> None:
    with served([*WORK, report("I think it is fine now.")]) as endpoint:
        agent = agent_on(memory, "anthropic", endpoint, tools=[read_log, restart])
        assert run(agent, TASK, check=check).success
        second = run(agent, "Mend the printer", check=check)
    assert not second.success
    [episode] = [each for each in kinds(memory, "episode") if "printer" in each.content]
    assert episode.tag == "failure"
    assert "It failed: the check" in episode.content
    assert "the model had said: I think it is fine now." in episode.content


def test_a_check_is_a_plain_function(memory: Memory) -> None:
    async def check(account: str) -> bool:
        return True

    with pytest.raises(ValidationError, match="plain function"):
        MemoryAgent(memory, lambda prompt: "Done.").run(TASK, check=check)
    assert everything(memory) == []
