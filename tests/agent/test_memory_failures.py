"""Memory must never cost the answer: whatever of it fails, the reply comes, the notes say what was lost, nothing is raised."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.agent.turns import TurnState
from keepstone.errors import EmbedderError, ModelError, StorageFull, StoreError
from keepstone.tasks.flow import Tasks
from tests.agent.support import Way, agent_on, all_ways, both, every_strategy, served, shown, tool_results
from tests.faults.support import healthy, run
from tests.models.endpoint import say, use
from tests.surfaces.support import everything


def failing(error: Exception) -> Any:
    def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail


FULL = StorageFull("no space is left for the store: free some and try again.")
GONE = StoreError("the store cannot be reached: mount it again.")


@both
@every_strategy
@all_ways
def test_a_closed_store(path: Path, provider: str, strategy: str, way: Way) -> None:
    memory = Memory.open(path)
    with served([say("Hello, whoever you are.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint, strategy=strategy, instructions="Be kind.")
        memory.close()
        said, reply = way(agent, "My name is Dana.")
        assert "My name is Dana." in shown(endpoint.requests[0])
    assert said == reply.text == "Hello, whoever you are."
    assert [note.split(":")[0] for note in reply.notes] == [
        "the message was not saved",
        "memory could not be read",
        "what was said was not saved",
    ]
    assert all("closed" in note for note in reply.notes)


@both
@every_strategy
def test_a_task_with_a_closed_store(path: Path, provider: str, strategy: str) -> None:
    memory = Memory.open(path)
    with served([use("clock", {}), say("It is noon.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint, strategy=strategy, tools=[clock])
        memory.close()
        outcome = agent.run("Tell the time")
    assert (outcome.success, outcome.text, outcome.task_id, outcome.receipt) == (True, "It is noon.", None, None)
    assert [step.result for step in outcome.steps] == ["12:00"]
    assert outcome.notes[0].startswith("the task was not saved")


def clock() -> str:
    """The time."""
    return "12:00"


@both
@every_strategy
def test_nothing_can_be_written(memory: Memory, provider: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.remember("Dana prefers metric units.", tag="preference")
    with served([say("In metres."), say("Metres.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint, strategy=strategy)
        with monkeypatch.context() as patch:
            patch.setattr(memory._engine.store, "write", failing(FULL))
            reply = agent.chat("Which units?", session="s")
        assert "metric units" in shown(endpoint.requests[0]), "reading goes on"
        assert "Which units?" in shown(endpoint.requests[0]), "what could not be saved is said all the same"
        assert reply.text == "In metres."
        assert [note.split(":")[0] for note in reply.notes] == ["the message was not saved", "what was said was not saved"]
        again = agent.chat("Once more?", session="s")
    assert (again.text, again.notes) == ("Metres.", ())
    assert len(memory.conversation("s")) == 2


@both
@every_strategy
def test_nothing_can_be_read(memory: Memory, provider: str, strategy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory._engine.store.message_log, "page", failing(GONE))
    with served([say("Hello.")]) as endpoint:
        reply = agent_on(memory, provider, endpoint, strategy=strategy).chat("Anyone there?")
        assert "Anyone there?" in shown(endpoint.requests[0])
    assert reply.text == "Hello."
    assert reply.notes == (f"memory could not be read: {GONE}",)
    assert [each.content for each in everything(memory)] == ["Hello.", "Anyone there?"]


@both
@pytest.mark.parametrize("strategy", ["tools", "vector"])
@pytest.mark.parametrize("error", [GONE, EmbedderError("the embedder is down."), RuntimeError("a fault of ours")])
def test_nothing_can_be_recalled(
    memory: Memory, provider: str, strategy: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory._engine.recalling, "search", failing(error))
    monkeypatch.setattr(memory._engine.recalling, "recall", failing(error))
    with served([say("Hello."), say("Done.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint, strategy=strategy)
        assert agent.chat("Anyone there?").notes[0].startswith("memory could not be read")
        outcome = agent.run("Tell the time")
    assert outcome.success
    assert outcome.notes


@both
def test_the_tools_cannot_reach_the_store(memory: Memory, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_recall", "_write", "_update", "_forget"):
        monkeypatch.setattr(memory._engine.toolbox, name, failing(GONE))
    uses = [
        use("recall_memory", {"query": "x"}),
        use("write_memory", {"tag": "a", "content": "A fact."}),
        use("update_memory", {"id": "m_1", "content": "A fact."}),
    ]
    with served([*uses, say("Without memory, then.")]) as endpoint:
        reply = agent_on(memory, provider, endpoint).chat("Hello")
        results = tool_results(endpoint.requests[-1])
    assert reply.text == "Without memory, then."
    assert all("memory cannot be reached just now" in each for each in results)
    assert [step.failed for step in reply.steps] == [True] * 3
    assert [note.split(":")[0] for note in reply.notes] == [
        "recall_memory failed", "write_memory failed", "update_memory failed",
    ]  # fmt: skip


@both
@pytest.mark.parametrize("verb", ["get", "put"])
def test_a_summary_cannot_be_read_or_kept(memory: Memory, provider: str, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with served(lambda request: say("Yes.")) as endpoint:
        agent = agent_on(memory, provider, endpoint, strategy="summary", max_messages=4)
        for number in range(4):
            agent.chat(f"Remark {number}")
        monkeypatch.setattr(memory._engine.store.states, verb, failing(GONE))
        replies = [agent.chat(f"Remark {number}") for number in range(4, 8)]
        assert all("Remark" in shown(request) for request in endpoint.requests)
    assert [reply.text for reply in replies] == ["Yes."] * 4
    if verb == "get":
        assert all("memory could not be read" in reply.notes[0] for reply in replies)


@both
def test_a_summarising_model_that_fails_is_replaced_by_picked_sentences(memory: Memory, provider: str) -> None:
    with served(lambda request: say("Yes.")) as endpoint:
        cheap = failing(ModelError("the cheap one is down."))
        agent = agent_on(memory, provider, endpoint, strategy="summary", max_messages=4, cheap_model=cheap)
        for number in range(6):
            reply = agent.chat(f"Account {number} is 4471-{number}.")
    assert (reply.text, reply.notes) == ("Yes.", ())
    assert "summary" in shown(endpoint.requests[-1])
    assert "4471-0" in shown(endpoint.requests[-1])


@both
def test_steps_that_cannot_be_kept_do_not_stop_the_task(memory: Memory, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tasks, "record", failing(FULL))
    monkeypatch.setattr(Tasks, "end", failing(FULL))
    with served([use("clock", {}), use("clock", {}), say("It is noon.")]) as endpoint:
        outcome = agent_on(memory, provider, endpoint, tools=[clock]).run("Tell the time")
    assert (outcome.success, len(outcome.steps), outcome.receipt) == (True, 2, None)
    assert [note.split(":")[0] for note in outcome.notes] == ["a step was not saved"] * 2 + ["the outcome was not saved"]


LIMITED = """
import json, resource, signal, sys
from keepstone import Memory
from keepstone.agent import MemoryAgent
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
memory = Memory.open(sys.argv[1])
agent = MemoryAgent(memory, lambda prompt: "Noted. " * 400)
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
replies = [agent.chat(f"Crate {number} went to dock {number}. " * 60, session="s") for number in range(60)]
full = [number for number, reply in enumerate(replies) if reply.notes]
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
last = agent.chat("Is there room again?", session="s")
memory.close()
print(json.dumps({"texts": len({reply.text for reply in replies}), "full": len(full), "notes": sorted({note.split(":")[0]
                  for reply in replies for note in reply.notes}), "last": list(last.notes), "kept": 60 - len(full)}))
"""


def test_a_disk_that_fills_up(path: Path) -> None:
    result = run(LIMITED, path)
    assert result["texts"] == 1
    assert result["full"] > 5
    assert result["kept"] > 2
    assert "the message was not saved" in result["notes"]
    assert result["last"] == []
    assert healthy(path)


@both
def test_a_message_too_large_to_keep_is_answered(memory: Memory, provider: str) -> None:
    long = "whale " * (8 * 1024 * 1024 // 6 + 1)
    with served([say("A long one."), say("Yes.")]) as endpoint:
        agent = agent_on(memory, provider, endpoint)
        reply = agent.chat(long)
        assert long.strip() in shown(endpoint.requests[0])
        assert reply.text == "A long one."
        assert "the limit is" in reply.notes[0]
        assert agent.chat("Still there?").notes == ()


def test_what_failed_is_logged_and_noted(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    doing = TurnState(memory, MemoryAgent(memory, lambda prompt: "Yes.")._setup)
    assert doing.safely(failing(GONE), "instead", "reading") == "instead"
    assert doing.safely(lambda: "read", "instead", "reading") == "read"
    assert doing.notes == [f"reading: {GONE}"]
    assert str(GONE) in caplog.text


def test_interrupts_are_not_swallowed(memory: Memory) -> None:
    def interrupted(prompt: Any) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        MemoryAgent(memory, interrupted).chat("Hello")
    assert [each.content for each in everything(memory)] == ["Hello"]
