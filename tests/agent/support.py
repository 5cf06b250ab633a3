"""What the tests of agents share: a served script, a model on it, the four ways to chat, what a request shows; and an agent in a
process of its own (`python -m tests.agent.support`)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("openai")

import httpx2

from keepstone import Memory, Record
from keepstone.agent import MemoryAgent, Reply
from keepstone.agent.tools import RULES
from keepstone.models.anthropic import AnthropicModel
from keepstone.models.openai import OpenAIModel
from tests.faults.support import start
from tests.models.endpoint import Endpoint, Request, Script, Step, say
from tests.surfaces.support import everything

STRATEGIES = ("tools", "buffer", "summary", "vector")
both = pytest.mark.parametrize("provider", ["anthropic", "openai"])
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES)


@cache
def _context() -> Any:
    return httpx2.create_ssl_context()


@contextmanager
def served(script: Script) -> Iterator[Endpoint]:
    """An endpoint; clients made meanwhile share one TLS context, which nothing here uses and which takes long to make."""
    context = _context()
    with pytest.MonkeyPatch.context() as patch, Endpoint(script) as endpoint:
        patch.setattr("httpx2._transports.default.create_ssl_context", lambda **_: context)
        yield endpoint


def model_at(provider: str, url: str, **options: Any) -> Any:
    """A provider's model at an endpoint's address."""
    given = {"api_key": "sk-test", "retries": 0, **options}
    if provider == "anthropic":
        return AnthropicModel("claude-test", base_url=url, **given)
    return OpenAIModel("gpt-test", base_url=f"{url}/v1", **given)


def report(account: str, *, done: bool = True, **options: Any) -> Step:
    """The end of a task in the form that a model is asked for."""
    return say(json.dumps({"done": done, "account": account}), **options)


def agent_on(memory: Memory, provider: str, endpoint: Endpoint, **options: Any) -> MemoryAgent:
    """An agent whose model is the endpoint."""
    return MemoryAgent(memory, model_at(provider, endpoint.url), **options)


def shown(request: Request) -> str:
    """What a request shows of the conversation and of memory, wherever it stands; the rules with their examples are left out."""
    said = json.dumps([each for each in request["body"]["messages"] if each["role"] != "system"], ensure_ascii=False)
    return system(request).replace(RULES, "") + said


def system(request: Request) -> str:
    """The instructions in a request, in either format."""
    body = request["body"]
    if "system" in body:
        return str(body["system"][0]["text"])
    return "".join(str(each["content"]) for each in body["messages"] if each["role"] == "system")


def tool_results(request: Request) -> list[str]:
    """The tool results in a request, in either format, in order."""
    found = []
    for message in request["body"]["messages"]:
        if message["role"] == "tool":
            found.append(str(message["content"]))
        elif isinstance(message["content"], list):
            found += [str(each["content"]) for each in message["content"] if each["type"] == "tool_result"]
    return found


def problems(request: Request) -> list[str]:
    """What a provider would refuse in a request's messages: tool uses and results that do not belong together."""
    found, asked = [], set[str]()
    for at, message in enumerate(request["body"]["messages"]):
        blocks = message["content"] if isinstance(message["content"], list) else []
        uses = {each["id"] for each in message.get("tool_calls", ())} | {
            each["id"] for each in blocks if each["type"] == "tool_use"
        }
        results = {each["tool_use_id"] for each in blocks if each["type"] == "tool_result"}
        results |= {message["tool_call_id"]} if message["role"] == "tool" else set()
        if results - asked:
            found.append(f"message {at} answers what was not asked")
        asked -= results
        if asked and message["role"] != "tool":
            found.append(f"message {at} leaves a use unanswered")
        asked = asked | uses if message["role"] == "tool" else uses
    return found + (["a use at the end"] if asked else [])


def tool_names(request: Request) -> list[str]:
    """The tools a request offers."""
    return [each.get("name") or each["function"]["name"] for each in request["body"].get("tools", ())]


def facts(memory: Memory) -> list[Record]:
    """Everything remembered that is neither a message nor an episode."""
    return [each for each in everything(memory) if each.kind not in ("message", "episode")]


# -- four ways to chat --------------------------------------------------------------------------------------------
Chatted = tuple[str, Reply]
Way = Callable[..., Chatted]


def asked(agent: MemoryAgent, text: str, **options: Any) -> Chatted:
    reply = agent.chat(text, **options)
    return reply.text, reply


def awaited(agent: MemoryAgent, text: str, **options: Any) -> Chatted:
    reply = asyncio.run(agent.achat(text, **options))
    return reply.text, reply


def streamed(agent: MemoryAgent, text: str, **options: Any) -> Chatted:
    stream = agent.stream(text, **options)
    said = "".join(stream)
    assert stream.reply is not None
    return said, stream.reply


def streamed_async(agent: MemoryAgent, text: str, **options: Any) -> Chatted:
    async def collected() -> Chatted:
        stream = agent.astream(text, **options)
        said = "".join([piece async for piece in stream])
        assert stream.reply is not None
        return said, stream.reply

    return asyncio.run(collected())


WAYS = [asked, awaited, streamed, streamed_async]
all_ways = pytest.mark.parametrize("way", WAYS)


# -- an agent in a process of its own -----------------------------------------------------------------------------
def killed_after(path: Path, provider: str, strategy: str, url: str, text: str) -> str:
    """The reply that an agent in another process printed before it was killed with SIGKILL."""
    process = start("-m", "tests.agent.support", str(path), provider, strategy, url, text, stderr=subprocess.PIPE)
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = process.stdout.readline()
        process.kill()
        problem = process.stderr.read()
        process.wait()
    assert line, problem
    assert process.returncode == -9
    return str(json.loads(line))


def _serve(path: str, provider: str, strategy: str, url: str, text: str) -> None:
    memory = Memory.open(path, user="dana")
    reply = MemoryAgent(memory, model_at(provider, url), strategy=strategy).chat(text, session="first")
    print(json.dumps(reply.text), flush=True)
    sys.stdin.read()  # until the kill: nothing is closed in good order


if __name__ == "__main__":
    _serve(*sys.argv[1:])
