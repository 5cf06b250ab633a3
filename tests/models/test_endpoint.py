"""The endpoint that other tests stand on: it does what its script says, and not more."""

from __future__ import annotations

import http.client
import json
from typing import Any

import pytest

from tests.models.endpoint import Endpoint, said, say, slow, status

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": [{"type": "text", "text": "tea"}]}]}


def post(endpoint: Endpoint, path: str = "/v1/messages", **more: Any) -> tuple[int, str]:
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"), timeout=10)
    try:
        connection.request("POST", path, json.dumps({**BODY, **more}), {"X-Mine": "yes"})
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()


def test_steps_come_in_order_and_requests_are_kept() -> None:
    with Endpoint([say("one"), status(429, retry_after=0)]) as endpoint:
        code, text = post(endpoint)
        assert (code, json.loads(text)["content"][0]["text"]) == (200, "one")
        assert post(endpoint, "/v1/chat/completions")[0] == 429
        assert post(endpoint)[0] == 418
        assert endpoint.unexpected == 1
        assert post(endpoint, "/elsewhere")[0] == 404
    first, second, _ = endpoint.requests
    assert (first["path"], second["path"]) == ("/v1/messages", "/v1/chat/completions")
    assert first["headers"]["x-mine"] == "yes"
    assert first["body"] == BODY


def test_a_function_answers_from_the_request() -> None:
    with Endpoint(lambda request: say(f"you said {said(request)}")) as endpoint:
        assert json.loads(post(endpoint)[1])["content"][0]["text"] == "you said tea"
    result = {
        "role": "user",
        "content": [{"type": "tool_result", "tool_use_id": "u", "content": [{"type": "text", "text": "x"}]}],
    }
    assert said({"body": {"messages": [result]}}) == "x"
    assert said({"body": {"messages": [{"role": "tool", "content": "y"}]}}) == "y"


def test_the_events_of_a_streamed_message() -> None:
    with Endpoint([say("green tea"), say("green tea")]) as endpoint:
        lines = post(endpoint, stream=True)[1].splitlines()
        names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
        assert names == [
            "message_start",
            "ping",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
        chunks = post(endpoint, "/v1/chat/completions", stream=True, stream_options={"include_usage": True})[1].split("\n\n")
    assert chunks[-2:] == ["data: [DONE]", ""]
    assert json.loads(chunks[-3].removeprefix("data: "))["usage"]["total_tokens"] == 15


def test_slow_answers_wait_until_they_are_let_go() -> None:
    with Endpoint([slow(say("late"))]) as endpoint:
        endpoint.release()
        assert "late" in post(endpoint)[1]


def test_what_a_script_raises_is_raised_in_the_end() -> None:
    def script(request: dict[str, Any]) -> Any:
        raise LookupError("no such question")

    with pytest.raises(LookupError, match="no such question"), Endpoint(script) as endpoint:
        assert post(endpoint)[0] == 500
