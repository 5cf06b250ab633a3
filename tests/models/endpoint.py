"""A local HTTP server that speaks the Messages API and chat completions, and says what a script tells it to.

    with Endpoint([use("recall", {"query": "tea"}), say("You drink tea.")]) as endpoint:
        model = OpenAIModel("any", base_url=endpoint.openai_url)  # or AnthropicModel("any", base_url=endpoint.url, api_key="k")
        …
    endpoint.requests[0]["body"]["messages"]

A script is a list of steps, one a request in the order they come, or a function from a request to a step. A request is
`{"path", "headers" (names in lower case), "body"}`; `said(request)` is the text of its last message in either format. A request
the list has no step for is answered with 418 and counted in `endpoint.unexpected`. Whether an answer is streamed is the request's
wish; every step works either way. What a function raises is raised again when the endpoint is left.
"""

from __future__ import annotations

import itertools
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.models.server import NO_SUCH_PATH, Handler, Server

Request = dict[str, Any]


@dataclass(frozen=True)
class Use:
    """One tool use; an `input` that is text is sent as it is, whether JSON or not."""

    name: str
    input: Mapping[str, Any] | str
    id: str

    @property
    def arguments(self) -> str:
        return self.input if isinstance(self.input, str) else json.dumps(self.input)


@dataclass(frozen=True)
class Step:
    """What the endpoint does with a request; made by the functions below."""

    text: str = ""
    uses: tuple[Use, ...] = ()
    stop: str = "end"
    thinking: str = ""
    usage: tuple[int, int, int] | None = (10, 5, 0)
    status: int = 200
    error: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False
    quietly: bool = False
    garbage: bool = False
    waits: bool = False


Script = Sequence[Step] | Callable[[Request], Step]
_numbers = itertools.count(1)


def say(text: str, *, stop: str = "end", usage: tuple[int, int, int] | None = (10, 5, 0), thinking: str = "") -> Step:
    """An answer in text. `stop` is end, length or refusal; `usage` is input (all of it), output and cached tokens, or None."""
    return Step(text=text, stop=stop, usage=usage, thinking=thinking)


def use(name: str, input: Mapping[str, Any] | str, text: str = "", *, id: str = "") -> Step:
    """A tool use, after some text if given."""
    return Step(text=text, uses=(Use(name, input, id or f"use_{next(_numbers)}"),), stop="tools")


def together(*steps: Step) -> Step:
    """Several uses in one answer: `together(use(…), use(…))`."""
    return replace(steps[0], uses=tuple(each for step in steps for each in step.uses))


def status(
    code: int, *, retry_after: float | None = None, message: str = "refused", kind: str = "", param: str | None = None
) -> Step:
    """An error. `retry_after=0` asks for a retry after a millisecond; `kind` is the error's type, `param` what it is about."""
    headers = {} if retry_after is None else {"retry-after-ms": str(max(1, int(retry_after * 1000)))}
    return Step(status=code, headers=headers, error={"message": message, "type": kind or "some_error", "param": param})


def cut(after: str = "", *, error: str = "", quietly: bool = False) -> Step:
    """The connection breaks after some text; with `error`, an error event of that type comes in the stream instead;
    `quietly`, the stream is closed in good order, only too early."""
    return Step(text=after, cut=True, quietly=quietly, error={"type": error, "message": "broke off"} if error else {})


def garbage() -> Step:
    """Status 200 with a body that is not JSON."""
    return Step(garbage=True)


def empty(stop: str = "end") -> Step:
    """An answer without any content."""
    return Step(stop=stop)


def slow(step: Step | None = None) -> Step:
    """Nothing until `endpoint.release()` or `close()`, then the step."""
    return replace(step or say("late"), waits=True)


def said(request: Request) -> str:
    """The text of the last message, its tool results included."""
    return _text(request["body"]["messages"][-1]["content"])


def _text(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "\n".join(_text(block.get("text", block.get("content", ""))) for block in blocks)


class Endpoint:
    """The server; a context manager. `url` is Anthropic's base URL, `openai_url` OpenAI's."""

    def __init__(self, script: Script) -> None:
        self.requests: list[Request] = []
        self.unexpected = 0
        self._failures: list[Exception] = []
        self._script = script
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._server = Server(self, _Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.openai_url = f"{self.url}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.002,), daemon=True)
        self._thread.start()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        if self._failures:
            raise self._failures[0]

    def release(self) -> None:
        """Lets slow answers go."""
        self._released.set()

    def close(self) -> None:
        """Stops at once; connections that are open are dropped."""
        self._released.set()
        self._server.shutdown()
        self._server.drop()
        self._server.server_close()
        self._thread.join()

    def step(self, request: Request) -> Step:
        """What is done with a request; called by the handler, in its thread."""
        with self._lock:
            place = len(self.requests)
            self.requests.append(request)
        if callable(self._script):
            try:
                step = self._script(request)
            except Exception as error:
                self._failures.append(error)
                return replace(status(500, message="the script failed"), headers={"x-should-retry": "false"})
        elif place < len(self._script):
            step = self._script[place]
        else:
            self.unexpected += 1
            step = status(418, message="the script has no step for this request")
        if step.waits:
            self._released.wait()
        return step


class _Handler(Handler):
    def do_POST(self) -> None:
        request = self.received()
        body = request["body"]
        wires: dict[str, type[_Messages | _Completions]] = {"/v1/messages": _Messages, "/v1/chat/completions": _Completions}
        wire = wires.get(self.path.partition("?")[0])
        if wire is None:
            self.whole(404, NO_SUCH_PATH)
            return
        step = self.server.endpoint.step(request)
        spoken = wire(step, body)
        if step.status != 200:
            self.whole(step.status, json.dumps(spoken.refusal()).encode(), step.headers)
        elif body.get("stream"):
            self._events(step, spoken.events())
        elif step.garbage:
            self.whole(200, b'{"id": "broken", "content": [')
        else:
            self.whole(200, json.dumps(spoken.answer()).encode(), cut=step.cut)

    def _events(self, step: Step, events: Iterator[tuple[str, object]]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        if step.garbage:
            events = iter([("message_start", '{"type": ')])
        for name, data in events:
            text = data if isinstance(data, str) else json.dumps(data)
            line = (f"event: {name}\n" if name else "") + f"data: {text}\n\n"
            self.wfile.write(f"{len(line.encode()):x}\r\n{line}\r\n".encode())
        if step.cut and not step.error and not step.quietly:
            self.close_connection = True  # without the last chunk, so that the client sees it was not the end
        else:
            self.wfile.write(b"0\r\n\r\n")


def _pieces(text: str) -> list[str]:
    return re.findall(r"\S+\s*|\s+", text)


def _halves(text: str) -> list[str]:
    return [text[: len(text) // 2], text[len(text) // 2 :]]


class _Messages:
    """Anthropic's Messages API."""

    STOPS = {"end": "end_turn", "tools": "tool_use", "length": "max_tokens", "refusal": "refusal"}

    def __init__(self, step: Step, body: Mapping[str, Any]) -> None:
        self.step, self.model = step, body["model"]
        whole, output, cached = step.usage or (0, 0, 0)
        self.usage = {"input_tokens": whole - cached, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}
        self.output = output

    def refusal(self) -> dict[str, Any]:
        error = {"type": self.step.error["type"], "message": self.step.error["message"]}
        return {"type": "error", "error": error, "request_id": "req_1"}

    def blocks(self) -> list[dict[str, Any]]:
        step = self.step
        thinking = [{"type": "thinking", "thinking": step.thinking, "signature": "c2ln"}] if step.thinking else []
        text = [{"type": "text", "text": step.text, "citations": None}] if step.text else []
        uses = [{"type": "tool_use", "id": each.id, "name": each.name, "input": each.input} for each in step.uses]
        return [*thinking, *text, *uses]

    def _message(self, content: list[dict[str, Any]], stop: str | None, output: int) -> dict[str, Any]:
        usage = {**self.usage, "output_tokens": output}
        head = {"id": "msg_1", "type": "message", "role": "assistant", "model": self.model}
        return {**head, "content": content, "stop_reason": stop, "stop_sequence": None, "usage": usage}

    def answer(self) -> dict[str, Any]:
        return self._message(self.blocks(), self.STOPS[self.step.stop], self.output)

    def events(self) -> Iterator[tuple[str, object]]:
        yield from ((each["type"], each) for each in self._events())

    def _events(self) -> Iterator[dict[str, Any]]:
        yield {"type": "message_start", "message": self._message([], None, 1)}
        yield {"type": "ping"}
        for index, block in enumerate(self.blocks()):
            start, deltas = self._parts(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            if not self.step.cut:
                yield {"type": "content_block_stop", "index": index}
        if self.step.cut:
            if self.step.error:
                yield {"type": "error", "error": dict(self.step.error)}
            return
        delta = {"stop_reason": self.STOPS[self.step.stop], "stop_sequence": None}
        yield {"type": "message_delta", "delta": delta, "usage": {"output_tokens": self.output}}
        yield {"type": "message_stop"}

    def _parts(self, block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        if block["type"] == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            return {"type": "text", "text": ""}, deltas
        if block["type"] == "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signature = {"type": "signature_delta", "signature": block["signature"]}
            return {"type": "thinking", "thinking": "", "signature": ""}, [thought, signature]
        arguments = next(each.arguments for each in self.step.uses if each.id == block["id"])
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_halves(arguments)]]
        return {**block, "input": {}}, deltas


class _Completions:
    """OpenAI's chat completions, which other servers speak too."""

    STOPS = {"end": "stop", "tools": "tool_calls", "length": "length", "refusal": "content_filter"}

    def __init__(self, step: Step, body: Mapping[str, Any]) -> None:
        self.step, self.model = step, body["model"]
        self.counted = bool((body.get("stream_options") or {}).get("include_usage"))

    def refusal(self) -> dict[str, Any]:
        return {"error": {**self.step.error, "code": None}}

    def _usage(self) -> dict[str, Any] | None:
        if self.step.usage is None:
            return None
        whole, output, cached = self.step.usage
        counts = {"prompt_tokens": whole, "completion_tokens": output, "total_tokens": whole + output}
        return {**counts, "prompt_tokens_details": {"cached_tokens": cached}}

    def _calls(self) -> list[dict[str, Any]]:
        functions = [{"name": each.name, "arguments": each.arguments} for each in self.step.uses]
        return [{"id": u.id, "type": "function", "function": f} for u, f in zip(self.step.uses, functions, strict=True)]

    def answer(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self.step.text or None, "refusal": None}
        if self.step.uses:
            message["tool_calls"] = self._calls()
        if self.step.thinking:
            message["reasoning_content"] = self.step.thinking
        choice = {"index": 0, "message": message, "finish_reason": self.STOPS[self.step.stop], "logprobs": None}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": self.model}
        return {**head, "choices": [choice], **({"usage": self._usage()} if self.step.usage else {})}

    def events(self) -> Iterator[tuple[str, object]]:
        yield from (("", each) for each in self._chunks())
        if not self.step.cut:
            yield "", "[DONE]"

    def _chunks(self) -> Iterator[dict[str, Any]]:
        yield self._chunk({"role": "assistant", "content": "", "refusal": None})
        if self.step.thinking:
            yield self._chunk({"reasoning_content": self.step.thinking})
        for piece in _pieces(self.step.text):
            yield self._chunk({"content": piece})
        for index, call in enumerate(self._calls()):
            arguments = call["function"]["arguments"]
            opening = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
            yield self._chunk({"tool_calls": [opening]})
            for piece in _halves(arguments):
                yield self._chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
        if self.step.cut:
            if self.step.error:
                yield {"error": dict(self.step.error)}
            return
        yield self._chunk({}, self.STOPS[self.step.stop])
        if self.counted and self.step.usage:
            yield {**self._chunk({}), "choices": [], "usage": self._usage()}

    def _chunk(self, delta: dict[str, Any], stop: str | None = None) -> dict[str, Any]:
        head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": self.model}
        choice = {"index": 0, "delta": delta, "finish_reason": stop, "logprobs": None}
        return {**head, "choices": [choice], **({"usage": None} if self.counted else {})}
