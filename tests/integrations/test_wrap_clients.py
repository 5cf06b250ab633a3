"""wrap and what surrounds it: the clients it takes, memories that fail, providers that refuse, what is left alone."""

from __future__ import annotations

import asyncio
import functools
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import anthropic
import httpx2
import openai
import pytest

import keepstone
from keepstone import AsyncMemory, Client, Memory
from keepstone.errors import ConfigurationError, StoreClosed, ValidationError
from tests.faults.support import environment
from tests.integrations.speaking import spoken
from tests.integrations.ways import CHAT, MESSAGES, PLAIN, WAYS, client_of
from tests.models.endpoint import say, status
from tests.server.running import running

ASKED = [{"role": "user", "content": "Which mode do I prefer?"}]
both = pytest.mark.parametrize("vendor", PLAIN)


@pytest.fixture
def memory(tmp_path: Path) -> Any:
    with Memory.open(tmp_path / "wrap.db") as memory:
        yield memory


def kept(memory: Memory, session: str = "chat") -> list[tuple[str, Any]]:
    return [(each.role, each.content) for each in memory.conversation(session)]


# -- the clients -----------------------------------------------------------------------------------------------------
CLIENTS = {
    "OpenAI": lambda: openai.OpenAI(api_key="k"),
    "AsyncOpenAI": lambda: openai.AsyncOpenAI(api_key="k"),
    "AzureOpenAI": lambda: openai.AzureOpenAI(api_key="k", api_version="2025-01-01", azure_endpoint="http://127.0.0.1:9"),
    "AsyncAzureOpenAI": lambda: openai.AsyncAzureOpenAI(api_key="k", api_version="1", azure_endpoint="http://127.0.0.1:9"),
    "Anthropic": lambda: anthropic.Anthropic(api_key="k"),
    "AsyncAnthropic": lambda: anthropic.AsyncAnthropic(api_key="k"),
    "AnthropicBedrock": lambda: anthropic.AnthropicBedrock(aws_region="us-east-1", aws_access_key="a", aws_secret_key="s"),
    "AnthropicVertex": lambda: anthropic.AnthropicVertex(region="us", project_id="p", access_token="t"),
    "AsyncAnthropicVertex": lambda: anthropic.AsyncAnthropicVertex(region="us", project_id="p", access_token="t"),
}


@pytest.mark.parametrize("name", CLIENTS)
def test_a_wrapped_client_is_of_its_own_kind(name: str, memory: Memory) -> None:
    with spoken([]):  # for its TLS context
        bare = CLIENTS[name]()
        before = dict(vars(bare))
        wrapped = keepstone.wrap(bare, memory, session="chat")
        assert type(wrapped) is type(bare)
        assert vars(bare) == before
        assert wrapped is not bare
        assert wrapped.memory is memory
        assert wrapped.session == "chat"
        assert (wrapped.api_key if hasattr(wrapped, "api_key") else None) == getattr(bare, "api_key", None)
        assert wrapped.base_url == bare.base_url
        assert wrapped._client is bare._client  # its connections
        other = wrapped.with_options(timeout=7)
        assert type(other) is type(bare)
        assert other.timeout == 7
        assert other.memory is memory
        assert other.post is not wrapped.post


@both
def test_the_client_it_came_from_has_no_memory(vendor: str, memory: Memory) -> None:
    memory.remember("Dana prefers dark mode.")
    with spoken([say("One."), say("Two."), say("Three.")]) as endpoint:
        bare = client_of(vendor, endpoint)
        PLAIN[vendor](bare, ASKED)  # so that its resources are made already
        wrapped = keepstone.wrap(bare, memory, session="chat")
        PLAIN[vendor](wrapped, ASKED)
        PLAIN[vendor](bare, ASKED)
    first, second, third = (request["body"] for request in endpoint.requests)
    assert first == third != second
    assert kept(memory) == [("user", ASKED[0]["content"]), ("assistant", "Two.")]


@both
def test_options_and_attributes_hold_and_the_session_goes_on(vendor: str, memory: Memory) -> None:
    with spoken([say("One."), say("Two."), say("Three.")]) as endpoint:
        with keepstone.wrap(client_of(vendor, endpoint), memory, session="chat") as client:
            client.api_key = "another"
            PLAIN[vendor](client, ASKED)
            other = client.with_options(default_headers={"x-mine": "yes"})
            assert other.session == "chat"
            PLAIN[vendor](other, [{"role": "user", "content": "And now?"}])
            PLAIN[vendor](other.copy(), [{"role": "user", "content": "And then?"}])
        assert client.is_closed()
    assert all(request["headers"]["authorization"] == "Bearer another" for request in endpoint.requests)
    assert [request["headers"].get("x-mine") for request in endpoint.requests] == [None, "yes", "yes"]
    assert [role for role, _ in kept(memory)] == ["user", "assistant"] * 3


@both
def test_wrapping_again_is_wrapping_anew(vendor: str, memory: Memory) -> None:
    with spoken([say("One.")]) as endpoint:
        first = keepstone.wrap(client_of(vendor, endpoint), memory, session="first")
        second = keepstone.wrap(first, memory, session="second")
        PLAIN[vendor](second, ASKED)
    assert kept(memory, "first") == []
    assert len(kept(memory, "second")) == 2


def test_headers_of_a_call_are_sent_as_they_are(memory: Memory) -> None:
    extra = {"x-mine": "yes"}
    with spoken([say("One."), say("One.")]) as endpoint:
        for client in (client_of("openai", endpoint), keepstone.wrap(client_of("openai", endpoint), memory)):
            client.chat.completions.create(messages=ASKED, extra_headers=extra, metadata={"a": "b"}, user="u", **CHAT)
    bare, wrapped = endpoint.requests
    assert extra == {"x-mine": "yes"}
    assert wrapped["headers"]["x-mine"] == "yes"
    assert {**wrapped["headers"], "content-length": 0} == {**bare["headers"], "content-length": 0}
    assert wrapped["body"] == bare["body"]


@pytest.mark.parametrize(
    "other",
    [object(), openai, anthropic, "OpenAI", None, keepstone, functools.partial(print)],
    ids=lambda each: type(each).__name__,
)
def test_what_is_no_such_client_is_refused(other: Any, memory: Memory) -> None:
    with pytest.raises(ConfigurationError, match=r"give a client of the packages openai or anthropic, such as OpenAI\(\)"):
        keepstone.wrap(other, memory)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"session": ""}, ValidationError, "session"),
        ({"max_tokens": -1}, ConfigurationError, "max_tokens is -1"),
        ({"save": "no"}, ConfigurationError, "save is 'no'"),
        ({"place": "front"}, ConfigurationError, "use system or user"),
        ({"memory": "dana.db"}, ConfigurationError, "memory is a str"),
    ],
)
def test_options_that_cannot_be_are_refused(options: Any, error: Any, words: str, memory: Memory) -> None:
    with spoken([]) as endpoint, pytest.raises(error, match=words):
        keepstone.wrap(client_of("openai", endpoint), options.pop("memory", memory), **options)


def test_a_client_that_posts_another_way_is_refused(memory: Memory) -> None:
    class Own(openai.OpenAI):
        @functools.cached_property
        def chat(self) -> Any:
            class Chat:
                completions = object()

            return Chat()

    with spoken([]), pytest.raises(ConfigurationError, match=r"does not post through client\.post"):
        keepstone.wrap(Own(api_key="k"), memory)


def test_importing_it_needs_no_vendor() -> None:
    program = (
        "import sys, keepstone; assert 'asyncio' not in sys.modules; keepstone.wrap; "
        "assert not {'openai', 'anthropic'} & set(sys.modules); print('well')"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "well\n", done.stderr


# -- sessions and memories -------------------------------------------------------------------------------------------
def test_without_a_name_every_wrapped_client_has_a_session_of_its_own(memory: Memory) -> None:
    with spoken([say("One."), say("Two.")]) as endpoint:
        clients = [keepstone.wrap(client_of("openai", endpoint), memory) for _ in range(2)]
        for client in clients:
            PLAIN["openai"](client, ASKED)
    assert len({client.session for client in clients}) == 2
    assert {each.name for each in memory.conversation.list()} == {client.session for client in clients}


def test_users_are_kept_apart(memory: Memory) -> None:
    told = [{"role": "user", "content": "My name is Dana and I prefer dark mode."}]
    dana, eli = (memory.with_scope(user=name) for name in ("dana", "eli"))
    with spoken(lambda request: say("Well.")) as endpoint:
        client = client_of("anthropic", endpoint)
        PLAIN["anthropic"](keepstone.wrap(client, dana, session="a"), told)
        for each in (dana, eli):
            PLAIN["anthropic"](keepstone.wrap(client, each, session="b"), ASKED)
    assert ["system" in request["body"] for request in endpoint.requests] == [False, True, False]


@pytest.mark.parametrize("name", ["chat", "achat_stream"])
def test_a_memory_for_asyncio_does_as_well(name: str, tmp_path: Path) -> None:
    vendor, way = WAYS[name]
    with spoken([say("Dark.")]) as endpoint:
        asynchronous = AsyncMemory.open(tmp_path / "wrap.db")
        client = keepstone.wrap(client_of(vendor, endpoint), asynchronous, session="chat")
        assert client.memory is asynchronous
        way(client, ASKED)
        asyncio.run(asynchronous.close())
    with Memory.open(tmp_path / "wrap.db") as memory:
        assert kept(memory) == [("user", ASKED[0]["content"]), ("assistant", "Dark.")]


def test_a_memory_on_a_server_does_as_well(tmp_path: Path) -> None:
    told = [{"role": "user", "content": "My name is Dana and I prefer dark mode."}]
    with (
        Memory.open(tmp_path / "wrap.db") as store,
        running(store) as server,
        spoken([say("Well."), say("Dark.")]) as endpoint,
        Client(server.url, server.key("dana", user="dana")) as memory,
    ):
        PLAIN["anthropic"](keepstone.wrap(client_of("anthropic", endpoint), memory, session="monday"), told)
        PLAIN["anthropic"](keepstone.wrap(client_of("anthropic", endpoint), memory, session="tuesday"), ASKED)
        assert [each.role for each in memory.conversation("tuesday").last(5)] == ["user", "assistant"]
    assert "dark mode" in endpoint.requests[1]["body"]["system"][-1]["text"]


@pytest.mark.parametrize("name", ["AzureOpenAI", "AnthropicVertex"])
def test_other_clouds_are_sent_what_is_known(name: str, memory: Memory) -> None:
    sent: list[httpx2.Request] = []

    def answered(request: httpx2.Request) -> httpx2.Response:
        sent.append(request)
        message = {"role": "assistant", "content": "Dark."}
        chat = {"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "message": message}]}
        claude = {"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Dark."}]}
        return httpx2.Response(200, json=chat if name == "AzureOpenAI" else claude)

    memory.remember("Dana prefers dark mode.")
    with httpx2.Client(transport=httpx2.MockTransport(answered)) as http, spoken([]):
        client = keepstone.wrap(CLIENTS[name]().with_options(http_client=http), memory, session="chat")
        way = PLAIN["openai" if name == "AzureOpenAI" else "anthropic"]
        assert way(client, ASKED) == "Dark."
    path = sent[0].url.path
    assert path.startswith("/openai/deployments/gpt-test/" if name == "AzureOpenAI" else "/v1/projects/p/locations/us/")
    assert "Dana prefers dark mode." in sent[0].content.decode()
    assert kept(memory) == [("user", ASKED[0]["content"]), ("assistant", "Dark.")]


# -- what fails ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", WAYS)
def test_a_memory_that_is_closed_costs_no_answer(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    vendor, way = WAYS[name]
    memory = Memory.open(tmp_path / "wrap.db")
    with spoken([say("Dark.")]) as endpoint, caplog.at_level(logging.WARNING, "keepstone"):
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        memory.close()
        with pytest.raises(StoreClosed):
            memory.recall("anything")
        assert way(client, ASKED) == "Dark."
    said = [record.message.partition(":")[0] for record in caplog.records if record.name == "keepstone.wrap"]
    assert said == ["memory could not be read", "the message was not saved", "the answer was not saved"]
    assert ASKED[0]["content"] not in caplog.text


def test_a_server_that_is_gone_costs_no_answer(caplog: pytest.LogCaptureFixture) -> None:
    with spoken([say("Dark.")]) as endpoint, Client("http://127.0.0.1:9", "ks_none", timeout=1.0) as memory:
        client = keepstone.wrap(client_of("anthropic", endpoint), memory, session="chat")
        assert PLAIN["anthropic"](client, ASKED) == "Dark."
    assert "memory could not be read" in caplog.text


def test_a_fault_that_is_not_ours_costs_no_answer(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Memory):
        def context(self, query: str, *, max_tokens: int = 1500) -> str:
            raise RuntimeError("out of order")

    with Broken.open(tmp_path / "wrap.db") as memory, spoken([say("Dark.")]) as endpoint:
        assert PLAIN["openai"](keepstone.wrap(client_of("openai", endpoint), memory, session="chat"), ASKED) == "Dark."
        assert [role for role, _ in kept(memory)] == ["user", "assistant"]
    assert [(each.name, each.message) for each in caplog.records] == [("keepstone.wrap", "memory could not be read")]


@both
def test_errors_of_the_provider_pass_and_the_message_is_kept_once(vendor: str, memory: Memory) -> None:
    kind = {"openai": openai.RateLimitError, "anthropic": anthropic.RateLimitError}[vendor]
    with spoken([status(429), status(429), say("At last.")]) as endpoint:
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        for _ in range(2):
            with pytest.raises(kind) as raised:
                PLAIN[vendor](client, ASKED)
            assert raised.value.status_code == 429
        assert kept(memory) == [("user", ASKED[0]["content"])]
        PLAIN[vendor](client, ASKED)
    assert kept(memory) == [("user", ASKED[0]["content"]), ("assistant", "At last.")]


@both
def test_a_call_that_is_wrong_fails_as_it_would(vendor: str, memory: Memory) -> None:
    with spoken([]) as endpoint:
        client = keepstone.wrap(client_of(vendor, endpoint), memory, session="chat")
        with pytest.raises(TypeError, match="messages"):
            (client.chat.completions if vendor == "openai" else client.messages).create(model="any")
    assert endpoint.requests == []
    assert kept(memory) == []


def test_messages_that_cannot_be_read_are_sent_as_they_are(memory: Memory) -> None:
    with spoken([status(400), say("Fine.")]) as endpoint:
        client = keepstone.wrap(client_of("anthropic", endpoint), memory, session="chat")
        with pytest.raises(anthropic.BadRequestError):
            client.messages.create(messages=3, **MESSAGES)
        assert client.messages.create(messages=[{"role": "user", "content": 3}, 4], **MESSAGES).content[0].text == "Fine."
    assert [request["body"]["messages"] for request in endpoint.requests] == [3, [{"role": "user", "content": 3}, 4]]
    assert kept(memory) == [("assistant", "Fine.")]
