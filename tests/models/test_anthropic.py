"""Claude: what goes over the wire, and what only Claude does."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("openai")

from keepstone.errors import ModelError
from keepstone.models.anthropic import AnthropicModel
from keepstone.ports.chat import Prompt
from tests.models.endpoint import Endpoint, say, use
from tests.models.test_hosted import KEY, PROMPT, Way, all_ways, anthropic_model, asked, one_context

__all__ = ["one_context"]
TOOL = {"name": "recall", "description": "Looks it up.", "input_schema": {"type": "object", "properties": {}}}


def sent(prompt: Prompt, way: Way = asked) -> Any:
    """The body of the request that a prompt becomes."""
    with Endpoint([say('{"a": 1}')]) as endpoint:
        way(anthropic_model(endpoint), prompt)
    assert endpoint.requests[0]["path"] == "/v1/messages"
    return endpoint.requests[0]["body"]


@all_ways
def test_a_request_in_full(way: Way) -> None:
    body = sent(
        Prompt([{"role": "user", "content": "Hello"}], system="Be kind.", tools=[{**TOOL, "ours": 1}], max_tokens=77), way
    )
    assert body.pop("stream", False) is ("stream" in way.__name__)
    assert body == {
        "model": "claude-test",
        "max_tokens": 77,
        "messages": [{"role": "user", "content": "Hello"}],
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "tools": [TOOL],
    }


def test_what_is_ours_in_a_block_is_not_sent() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png", "ours": 1}, "ours": 1}
    by_file = {"type": "image", "source": {"type": "file", "file_id": "file_1", "ours": 1}}
    result = [{"type": "text", "text": "tea", "ours": 1}, image]
    body = sent(
        Prompt(
            [
                {"role": "user", "content": [{"type": "text", "text": "What is it?", "id": "m_1"}, image, by_file], "id": "m_1"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": "hm", "signature": "c2ln", "ours": 1},
                        {"type": "thinking", "thinking": "not signed"},
                        {"type": "text", "text": ""},
                        {"type": "tool_use", "id": "u1", "name": "recall", "input": {}, "error": "not JSON"},
                    ],
                },
                {"role": "assistant", "content": ""},
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "u1", "content": result, "is_error": False, "x": 1}],
                },
            ]
        )
    )
    clean = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}}
    assert body["messages"] == [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is it?"},
                clean,
                {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
                {"type": "tool_use", "id": "u1", "name": "recall", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "u1",
                    "content": [{"type": "text", "text": "tea"}, clean],
                    "is_error": False,
                }
            ],
        },
    ]


def test_a_schema_is_sent_closed() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": 1},
            "b": {"type": ["string", "null"], "description": "a name", "minLength": 2},
        },
        "required": ["a"],
    }
    found = sent(Prompt(PROMPT.messages, schema=schema))["output_config"]["format"]
    assert found["type"] == "json_schema"
    assert found["schema"]["additionalProperties"] is False
    assert found["schema"]["required"] == ["a"]
    assert found["schema"]["properties"]["a"] == {"type": "integer", "description": "{minimum: 1}"}
    assert [each["type"] for each in found["schema"]["properties"]["b"]["anyOf"]] == ["string", "null"]
    assert found["schema"]["properties"]["b"]["description"] == "a name"


def test_a_schema_the_client_cannot_close_is_sent_as_it_is() -> None:
    schema = {"type": "object", "properties": {"any": {}}}
    assert sent(Prompt(PROMPT.messages, schema=schema))["output_config"]["format"]["schema"] == schema


@all_ways
def test_thinking_stays_in_the_answer_and_out_of_its_text(way: Way) -> None:
    with Endpoint([say("tea", thinking="what do they drink?")]) as endpoint:
        pieces, answer = way(anthropic_model(endpoint), PROMPT)
    assert answer.blocks == (
        {"type": "thinking", "thinking": "what do they drink?", "signature": "c2ln"},
        {"type": "text", "text": "tea"},
    )
    assert "".join(pieces) == answer.text == "tea"


@all_ways
def test_thinking_alone_is_no_answer(way: Way) -> None:
    with Endpoint([say("", thinking="hm")]) as endpoint, pytest.raises(ModelError, match="with nothing"):
        way(anthropic_model(endpoint), PROMPT)


def test_all_of_the_input_is_counted_however_it_was_cached() -> None:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3000, "output_tokens": 4}
    read = AnthropicModel("m", api_key=KEY)._parse
    assert read({"content": [], "usage": usage}).tokens == (3210, 4, 3000)
    assert read({"content": [], "usage": {"input_tokens": 10, "cache_read_input_tokens": None}}).tokens == (10, 0, 0)


def test_an_answer_can_be_sent_back() -> None:
    with Endpoint([use("recall", "{broken", "Let me see."), say("Tea.")]) as endpoint:
        model = anthropic_model(endpoint)
        first = model.ask(PROMPT)
        result = {"type": "tool_result", "tool_use_id": first.tool_uses[0]["id"], "content": first.tool_uses[0]["error"]}
        back = [*PROMPT.messages, {"role": "assistant", "content": first.blocks}, {"role": "user", "content": [result]}]
        assert model.ask(Prompt(back)).text == "Tea."
        assert [each["type"] for each in endpoint.requests[1]["body"]["messages"][1]["content"]] == ["text", "tool_use"]


def test_without_any_key_it_says_which_to_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_CONFIG_DIR", str(tmp_path))
    with Endpoint([]) as endpoint:
        with pytest.raises(ModelError, match="has no API key: set ANTHROPIC_API_KEY, or pass api_key"):
            AnthropicModel("m", base_url=endpoint.url).ask(PROMPT)
        assert endpoint.requests == []


def test_the_clients_own_key_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with Endpoint([say("hi")]) as endpoint:
        AnthropicModel("m", base_url=endpoint.url).ask(PROMPT)
        assert endpoint.requests[0]["headers"]["authorization"] == f"Bearer {KEY}"
