"""Chat completions: translation to and from, and servers that do not take everything."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("anthropic")
pytest.importorskip("openai")

from keepstone.errors import ModelError
from keepstone.models.openai import ChunkParser, OpenAIModel, parse_completion, response_format
from keepstone.ports.chat import Prompt
from tests.models.endpoint import Endpoint, Step, say, status, use
from tests.models.test_hosted import KEY, PROMPT, STREAMS, Way, all_ways, asked, one_context, openai_model, streamed

__all__ = ["one_context"]
SCHEMA = {"type": "object", "properties": {"drink": {"type": "string"}}, "required": ["drink"], "additionalProperties": False}
ASKED = Prompt(PROMPT.messages, system="Be kind.", schema=SCHEMA)
JSON = '{"drink": "tea"}'


def sent(prompt: Prompt, way: Way = asked) -> Any:
    """The body of the request that a prompt becomes."""
    with Endpoint([say(JSON)]) as endpoint:
        way(openai_model(endpoint), prompt)
    assert endpoint.requests[0]["path"] == "/v1/chat/completions"
    return endpoint.requests[0]["body"]


def refusing(name: str, *, says: str | None = None, code: int = 400, text: str = JSON) -> Callable[[dict[str, Any]], Step]:
    """A server that does not take a parameter."""

    def script(request: dict[str, Any]) -> Step:
        if name not in request["body"]:
            return say(text)
        return status(code, message=says or f"Unsupported parameter: '{name}'", param=None if says else name)

    return script


@all_ways
def test_a_request_in_full(way: Way) -> None:
    parameters = {"type": "object", "properties": {"query": {"type": "string"}}}
    tools: list[Any] = [{"name": "recall", "description": "Looks it up.", "input_schema": parameters, "ours": 1}, {"name": "now"}]
    body = sent(Prompt([{"role": "user", "content": "Hello"}], system="Be kind.", tools=tools, max_tokens=77), way)
    if "stream" in way.__name__:
        assert (body.pop("stream"), body.pop("stream_options")) == (True, {"include_usage": True})
    nothing = {"type": "object", "properties": {}}
    assert body == {
        "model": "gpt-test",
        "max_tokens": 77,
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
        "tools": [
            {"type": "function", "function": {"name": "recall", "description": "Looks it up.", "parameters": parameters}},
            {"type": "function", "function": {"name": "now", "description": "", "parameters": nothing}},
        ],
    }


def test_a_conversation_with_tools_and_images() -> None:
    image = {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}, "ours": 1}
    messages: list[Any] = [
        {"role": "user", "content": [{"type": "text", "text": "What is it?", "ours": 1}, image]},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": "x"},
                {"type": "text", "text": "Let me see."},
                {"type": "tool_use", "id": "u1", "name": "recall", "input": {"q": "ü"}, "error": "ours"},
                {"type": "tool_use", "id": "u2", "name": "now", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "u1", "content": [{"type": "text", "text": "tea"}, image]},
                {"type": "tool_result", "tool_use_id": "u2", "content": "no clock", "is_error": True},
                {"type": "text", "text": "And?"},
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": ""}]},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
    ]
    shown = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    found = sent(Prompt(messages))["messages"]
    calls = found[1].pop("tool_calls")
    assert [(each["id"], each["type"], each["function"]["name"]) for each in calls] == [
        ("u1", "function", "recall"),
        ("u2", "function", "now"),
    ]
    assert [json.loads(each["function"]["arguments"]) for each in calls] == [{"q": "ü"}, {}]
    assert found == [
        {"role": "user", "content": [{"type": "text", "text": "What is it?"}, shown]},
        {"role": "assistant", "content": "Let me see."},
        {"role": "tool", "tool_call_id": "u1", "content": "tea"},
        {"role": "tool", "tool_call_id": "u2", "content": "Error: no clock"},
        {"role": "user", "content": [shown, {"type": "text", "text": "And?"}]},
        {"role": "user", "content": "one\ntwo"},
    ]


def test_an_image_by_file_cannot_be_sent() -> None:
    image = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    with Endpoint([]) as endpoint, pytest.raises(ModelError, match="give its source as a url"):
        openai_model(endpoint).ask(Prompt([{"role": "user", "content": [image]}]))


@all_ways
def test_a_schema_goes_as_response_format(way: Way) -> None:
    body = sent(ASKED, way)
    expected = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    assert body["response_format"] == expected
    assert body["messages"][0]["content"] == "Be kind."


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (SCHEMA, True),
        ({**SCHEMA, "required": []}, False),
        ({key: value for key, value in SCHEMA.items() if key != "additionalProperties"}, False),
        ({**SCHEMA, "properties": {"drink": {"type": ["object", "null"]}}}, False),
        ({**SCHEMA, "properties": {"drink": {"type": "array", "items": SCHEMA}}}, True),
        ({**SCHEMA, "properties": {"drink": {"anyOf": [{"type": "object"}, {"type": "null"}]}}}, False),
        ({**SCHEMA, "$defs": {"inner": {"type": "object"}}}, False),
    ],
)
def test_a_schema_is_strict_only_where_it_may_be(schema: dict[str, Any], strict: bool) -> None:
    assert response_format(schema)["json_schema"]["strict"] is strict


@all_ways
@pytest.mark.parametrize(
    "script",
    [
        refusing("response_format"),
        refusing("response_format", says="'response_format.type' must be 'text'"),
        refusing("response_format", says="bad request"),
        refusing("response_format", says="json_schema is not supported", code=422),
        refusing("response_format", text=f"Here you are:\n```json\n{JSON}\n```"),
    ],
)
def test_a_server_without_schemas_is_told_in_words_and_remembered(way: Way, script: Any) -> None:
    with Endpoint(script) as endpoint:
        model = openai_model(endpoint)
        first, second = way(model, ASKED)[1], way(model, ASKED)[1]
        bodies = [request["body"] for request in endpoint.requests]
    assert json.loads(first.text) == json.loads(second.text) == {"drink": "tea"}
    assert ["response_format" in body for body in bodies] == [True, False, False]
    assert bodies[1]["messages"][0]["content"].startswith("Be kind.\n\nAnswer with one JSON object")
    assert json.dumps(SCHEMA) in bodies[1]["messages"][0]["content"]
    assert (first.usage.calls, first.usage.retries, second.usage.retries) == (1, 1, 0)


def test_a_request_refused_for_another_reason_is_not_remembered_against_schemas() -> None:
    with Endpoint([status(400, message="too long"), status(400, message="too long"), say(JSON)]) as endpoint:
        model = openai_model(endpoint)
        with pytest.raises(ModelError, match="refused"):
            model.ask(ASKED)
        model.ask(ASKED)
        assert ["response_format" in each["body"] for each in endpoint.requests] == [True, False, True]


@all_ways
def test_text_where_json_was_asked_for_is_an_error(way: Way) -> None:
    with Endpoint([say("I would rather not.")]) as endpoint, pytest.raises(ModelError, match="JSON was requested"):
        way(openai_model(endpoint), ASKED)


@pytest.mark.parametrize("way", STREAMS)
def test_a_server_that_counts_no_streams(way: Way) -> None:
    with Endpoint(refusing("stream_options", text="tea")) as endpoint:
        model = openai_model(endpoint, prices=(1, 1))
        answers = [way(model, PROMPT)[1] for _ in range(2)]
        assert ["stream_options" in each["body"] for each in endpoint.requests] == [True, False, False]
    assert [(each.text, each.usage.input_tokens, each.usage.cost) for each in answers] == [("tea", 0, None)] * 2


@all_ways
def test_a_server_that_counts_nothing(way: Way) -> None:
    with Endpoint([say("tea", usage=None)]) as endpoint:
        usage = way(openai_model(endpoint), PROMPT)[1].usage
    assert (usage.input_tokens, usage.output_tokens, usage.calls) == (0, 0, 1)


@all_ways
def test_the_limits_other_name_is_tried_once_and_remembered(way: Way) -> None:
    says = "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    with Endpoint(refusing("max_tokens", says=says, text="tea")) as endpoint:
        model = openai_model(endpoint)
        for _ in range(2):
            assert way(model, PROMPT)[1].text == "tea"
        found = [[each["body"].get("max_tokens"), each["body"].get("max_completion_tokens")] for each in endpoint.requests]
    assert found == [[4096, None], [None, 4096], [None, 4096]]


def test_a_limit_refused_under_both_names_is_an_error() -> None:
    with Endpoint(
        lambda request: status(400, message="max_tokens or max_completion_tokens too large", param="max_tokens")
    ) as endpoint:
        with pytest.raises(ModelError, match=r"400, some_error, max_tokens"):
            openai_model(endpoint).ask(PROMPT)
        assert len(endpoint.requests) == 2


def test_openais_own_models_get_the_newer_name_first() -> None:
    assert "max_completion_tokens" in OpenAIModel("gpt-test")._arguments(PROMPT, frozenset())
    assert "max_tokens" in OpenAIModel("m", base_url="http://localhost:1/v1")._arguments(PROMPT, frozenset())


@all_ways
def test_several_things_refused_are_all_left_out(way: Way) -> None:
    def script(request: dict[str, Any]) -> Step:
        for name in ("max_tokens", "stream_options", "response_format"):
            if name in request["body"]:
                return status(400, message=f"unknown field {name}", param=name)
        return say(JSON)

    with Endpoint(script) as endpoint:
        assert way(openai_model(endpoint), ASKED)[1].text == JSON
        assert len(endpoint.requests) == (4 if "stream" in way.__name__ else 3)


def test_servers_that_want_no_key_get_a_placeholder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_ADMIN_KEY", raising=False)
    with Endpoint([say("tea"), say("tea")]) as endpoint:
        assert openai_model(endpoint, api_key=None).ask(PROMPT).text == "tea"
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        assert openai_model(endpoint, api_key=None).ask(PROMPT).text == "tea"
        assert [each["headers"]["authorization"] for each in endpoint.requests] == ["Bearer none", f"Bearer {KEY}"]
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(ModelError, match="has no API key: set OPENAI_API_KEY"):
        OpenAIModel("m").ask(PROMPT)


def test_a_refusals_words_are_its_text() -> None:
    message = {"role": "assistant", "content": None, "refusal": "I cannot."}
    reading = parse_completion({"choices": [{"message": message, "finish_reason": "stop"}]})
    assert (reading.stop, reading.blocks, reading.tokens) == ("refusal", [{"type": "text", "text": "I cannot."}], None)


def test_calls_as_other_servers_write_them() -> None:
    calls = [{"function": {"name": "a", "arguments": {"x": 1}}}, {"id": "", "function": {"name": "b", "arguments": ""}}]
    reading = parse_completion({"choices": [{"message": {"content": "", "tool_calls": calls}, "finish_reason": "stop"}]})
    assert reading.stop == "tools"
    assert [(each["name"], each["input"]) for each in reading.blocks] == [("a", {"x": 1}), ("b", {})]
    assert len({each["id"] for each in reading.blocks}) == 2
    assert all(each["id"].startswith("call_") for each in reading.blocks)


@pytest.mark.parametrize("index", [{}, {"index": 0}])
def test_streamed_calls_that_share_an_index(index: dict[str, int]) -> None:
    chunks = ChunkParser()
    for call in (
        {"id": "u1", "function": {"name": "a", "arguments": '{"x"'}},
        {"function": {"arguments": ": 1}"}},
        {"id": "u2", "function": {"name": "b", "arguments": ""}},
        {"function": {"arguments": '{"y": 2}'}},
    ):
        chunks.add({"choices": [{"delta": {"tool_calls": [{**index, **call}]}}]})
    chunks.add({"choices": [{"delta": {}, "finish_reason": "tool_calls"}]})
    assert [(each["id"], each["input"]) for each in chunks.completion().blocks] == [("u1", {"x": 1}), ("u2", {"y": 2})]


def test_an_answer_can_be_sent_back() -> None:
    with Endpoint([use("recall", "{broken", "Let me see."), say("Tea.")]) as endpoint:
        model = openai_model(endpoint)
        first = streamed(model, PROMPT)[1]
        result = {"type": "tool_result", "tool_use_id": first.tool_uses[0]["id"], "content": first.tool_uses[0]["error"]}
        back = [*PROMPT.messages, {"role": "assistant", "content": first.blocks}, {"role": "user", "content": [result]}]
        assert model.ask(Prompt(back)).text == "Tea."
        said, answered = endpoint.requests[1]["body"]["messages"][1:]
        assert said["tool_calls"][0]["function"]["arguments"] == "{}"
        assert answered["tool_call_id"] == said["tool_calls"][0]["id"]
