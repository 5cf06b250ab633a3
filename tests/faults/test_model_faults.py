"""A model's service that fails, over HTTP with the official clients: what was said is kept, the job waits, no caller sees an
exception, and nothing is lost once the service is well again."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.agent import MemoryAgent
from keepstone.errors import ModelError
from keepstone.models.anthropic import AnthropicModel
from keepstone.models.openai import OpenAIModel
from keepstone.ports.chat import ChatModel
from tests.faults.support import everything
from tests.models.endpoint import Endpoint, Request, Step, cut, empty, garbage, said, say, slow, status

SECRET = "The locker code is 4471."
GOOD = {"turns": [1], "content": "The user lives in Porto.", "type": "profile", "key": "home.city", "confidence": 0.9}
ANSWER = json.dumps({"facts": [GOOD]})
Adapter = Callable[..., ChatModel]


def anthropic(endpoint: Endpoint, **options: Any) -> ChatModel:
    return AnthropicModel("any", base_url=endpoint.url, api_key="k", **{"timeout": 20.0, "retries": 0, **options})


def openai(endpoint: Endpoint, **options: Any) -> ChatModel:
    return OpenAIModel("any", base_url=endpoint.openai_url, api_key="k", **{"timeout": 20.0, "retries": 0, **options})


adapters = pytest.mark.parametrize("adapter", [anthropic, openai])


def at_rest(path: Path, model: ChatModel) -> Memory:
    return Memory.open(path, model=model, settings={"worker": False})


def told(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": "I live in Porto."}, {"role": "user", "content": SECRET}], session="s")


def facts(memory: Memory) -> list[str]:
    return [record.content for record in everything(memory) if record.kind == "fact"]


FAULTS: dict[str, Step] = {
    "429": status(429, message=SECRET),
    "500": status(500, message=SECRET),
    "529": status(529, message=SECRET),
    "401": status(401, message=SECRET),
    "403": status(403, message=SECRET),
    "cut": cut(ANSWER),
    "garbage": garbage(),
    "empty": empty(),
    "refusal": empty("refusal"),
    "no JSON": say(f"I will not. {SECRET}"),
    "JSON of another shape": say('{"weather": "fine"}'),
    "half a JSON": say('{"facts": [{"turns": [1], "content": "The us', stop="length"),
}


@adapters
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_costs_time_and_nothing_else(path: Path, adapter: Adapter, fault: Step, caplog: pytest.LogCaptureFixture) -> None:
    with Endpoint([fault, say(ANSWER)]) as endpoint, at_rest(path, adapter(endpoint)) as memory:
        with caplog.at_level(logging.DEBUG, "keepstone"):
            told(memory)
            report = memory.jobs.run()
        assert [message.content for message in memory.conversation.recent()] == ["I live in Porto.", SECRET]
        assert memory.recall("What is the locker code?", limit=1)[0].content == SECRET
        assert facts(memory) == []
        assert (report.done, report.failed, len(report.problems)) == (0, 1, 1)
        (job,) = memory.jobs.list()
        assert job.state == "waiting"
        assert job.due > job.created_at
        assert job.problem == report.problems[0]
        assert "locker" not in f"{job} {report} {caplog.text}"
        assert memory.jobs.run().done == 1
        assert facts(memory) == ["The user lives in Porto."]
        assert list(memory.jobs.list()) == []


@adapters
def test_a_service_that_does_not_answer_in_time(path: Path, adapter: Adapter) -> None:
    with Endpoint([slow(), say(ANSWER)]) as endpoint, at_rest(path, adapter(endpoint, timeout=0.3)) as memory:
        told(memory)
        report = memory.jobs.run()
        assert (report.done, report.failed) == (0, 1)
        assert "did not answer within 0.3 seconds" in report.problems[0]
        assert len(memory.conversation.recent()) == 2
        endpoint.release()


@adapters
def test_a_service_that_is_not_there(path: Path, adapter: Adapter) -> None:
    with Endpoint([]) as endpoint:
        model = adapter(endpoint)
    with at_rest(path, model) as memory:
        told(memory)
        assert "cannot be reached" in memory.jobs.run().problems[0]
        assert len(memory.conversation.recent()) == 2


@adapters
def test_a_busy_service_is_asked_again_at_once_and_the_retries_are_counted(path: Path, adapter: Adapter) -> None:
    script = [status(429, retry_after=0), status(500, retry_after=0), say(ANSWER, usage=(1000, 50, 200))]
    prices = (3.0, 15.0, 0.3)
    with Endpoint(script) as endpoint, at_rest(path, adapter(endpoint, retries=2, prices=prices)) as memory:
        told(memory)
        report = memory.jobs.run()
        assert (report.done, report.failed, len(report.learned)) == (1, 0, 1)
        usage = report.usage
        assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.calls, usage.retries) == (1000, 50, 200, 1, 2)
        assert usage.cost == pytest.approx((800 * 3.0 + 200 * 0.3 + 50 * 15.0) / 1e6)


@adapters
def test_prose_thoughts_and_orders_around_the_facts(path: Path, adapter: Adapter) -> None:
    orders = [{"op": "delete_all"}, {**GOOD, "turns": [44]}, {**GOOD, "id": "m_0000000000000000"}, {**GOOD, "user": "omar"}]
    text = f"<thought>Delete {{all}}?</thought>Here you are:\n```json\n{json.dumps({'facts': [*orders, GOOD]})}\n```\nDone."
    with Endpoint([say(text)]) as endpoint, at_rest(path, adapter(endpoint)) as memory:
        memory.with_scope(user="omar").remember("Omar lives in Oslo.", key="user.home.city")
        told(memory)
        report = memory.jobs.run()
        assert (report.done, len(report.learned), len(report.refused)) == (1, 1, 4)
        assert facts(memory) == ["The user lives in Porto."]
        assert memory.with_scope(user="omar").value("user.home.city") == "Omar lives in Oslo."
        assert len(memory.conversation.recent()) == 2


@adapters
def test_nothing_of_another_scope_is_sent(path: Path, adapter: Adapter) -> None:
    with Endpoint(lambda request: say('{"facts": []}')) as endpoint, at_rest(path, adapter(endpoint)) as memory:
        users = [memory.with_scope(user=name) for name in ("dana", "omar")]
        for number in range(12):
            who = number % 2
            users[who].remember(f"The user's parcel {number} belongs to owner{who}.")
            users[who].conversation("s").add("user", f"Where is parcel {number} of owner{who}?")
        assert memory.upkeep.run().done == 2
        asked = [said(request) for request in endpoint.requests]
    assert [("owner0" in text, "owner1" in text) for text in asked] == [(True, False), (False, True)]


@adapters
@pytest.mark.parametrize(
    "fault", [status(500), garbage(), empty(), say("No JSON here.")], ids=["500", "garbage", "empty", "no JSON"]
)
def test_a_session_is_consolidated_though_the_service_fails(path: Path, adapter: Adapter, fault: Step) -> None:
    with Endpoint([fault]) as endpoint, at_rest(path, adapter(endpoint)) as memory:
        for number in range(4):
            memory.conversation("s").add("user", f"We decided to ship order {number} by rail.")
        receipt = memory.conversation("s").consolidate()
        assert receipt is not None
        assert "by rail" in memory.get(receipt.id or "").content  # type: ignore[union-attr]


@adapters
def test_an_agent_answers_while_learning_fails(path: Path, adapter: Adapter) -> None:
    """The extractor's service is down, the agent's is well: every answer comes, every word is kept."""

    def script(request: Request) -> Step:
        return status(500) if "You keep the memory" in json.dumps(request["body"]) else say("Noted.")

    with Endpoint(script) as endpoint, at_rest(path, adapter(endpoint)) as memory:
        agent = MemoryAgent(memory, adapter(endpoint), strategy="buffer")
        for number in range(5):
            reply = agent.chat(f"Parcel {number} is on shelf {number}.", session="s")
            assert (reply.text, reply.notes) == ("Noted.", ())
            assert memory.jobs.run().done == 0
        assert len(memory.conversation.recent()) == 10
        assert len(memory.jobs.list()) >= 1


@adapters
def test_an_agents_user_message_is_kept_when_its_own_model_fails(path: Path, adapter: Adapter) -> None:
    with Endpoint([status(500)]) as endpoint, Memory.open(path) as memory:
        with pytest.raises(ModelError):
            MemoryAgent(memory, adapter(endpoint), strategy="buffer").chat("I live in Porto.", session="s")
        assert [message.content for message in memory.conversation.recent()] == ["I live in Porto."]
        assert memory.value("user.home") == "The user lives in Porto."
