"""An endpoint that speaks responses beside the two other formats, and can hold a stream back after its first words."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import httpx2
import pytest

from tests.models.endpoint import Endpoint, Script, Step, _Handler, _pieces


class Speaking(Endpoint):
    """While `gate` is an event that is not set, streams stop after their first words. `left` is closed with it."""

    def __init__(self, script: Script) -> None:
        super().__init__(script)
        self.gate: threading.Event | None = None
        self.left = ExitStack()
        self._server.RequestHandlerClass = _Speaking

    def close(self) -> None:
        if self.gate is not None:
            self.gate.set()
        self.left.close()
        super().close()


@cache
def _context() -> Any:
    return httpx2.create_ssl_context()


@contextmanager
def spoken(script: Script) -> Iterator[Speaking]:
    """An endpoint; clients made meanwhile share one TLS context, which takes long to make and is not used."""
    context = _context()
    with pytest.MonkeyPatch.context() as patch, Speaking(script) as endpoint:
        patch.setattr("httpx2._transports.default.create_ssl_context", lambda **_: context)
        yield endpoint


class _Speaking(_Handler):
    def do_POST(self) -> None:
        self.path = self.path.partition("?")[0]
        if self.path != "/v1/responses":
            super().do_POST()
            return
        request = self.received()
        step = self.server.endpoint.step(request)
        if step.status != 200:
            self.whole(step.status, json.dumps({"error": {**step.error, "code": None}}).encode(), step.headers)
        elif request["body"].get("stream"):
            self._events(step, _events(step, request["body"]["model"]))
        else:
            self.whole(200, json.dumps(_response(step, request["body"]["model"], "completed")).encode())

    def _events(self, step: Step, events: Iterator[tuple[str, object]]) -> None:
        super()._events(step, self._held(events))

    def _held(self, events: Iterator[tuple[str, object]]) -> Iterator[tuple[str, object]]:
        gate, deltas = self.server.endpoint.gate, 0
        for name, data in events:
            text = json.dumps(data)
            deltas += any(mark in text for mark in ("text_delta", "output_text.delta", '"delta": {"content": '))
            if deltas > 1 and gate is not None:
                gate.wait(30)
            yield name, data


def _response(step: Step, model: str, status: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": step.text, "annotations": [], "logprobs": []}]
    said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}
    calls = [
        {"type": "function_call", "id": f"fc_{each.id}", "call_id": each.id, "name": each.name, "arguments": each.arguments}
        for each in step.uses
    ]
    output = [*([said] if step.text else []), *calls] if status == "completed" else []
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": status, "error": None}
    rest = {"incomplete_details": None, "instructions": None, "metadata": {}, "parallel_tool_calls": True, "tools": []}
    return {**head, **rest, "output": output, "temperature": 1.0, "tool_choice": "auto", "top_p": 1.0}


def _events(step: Step, model: str) -> Iterator[tuple[str, object]]:
    for number, event in enumerate(_plain_events(step, model)):
        yield event["type"], {**event, "sequence_number": number}


def _plain_events(step: Step, model: str) -> Iterator[dict[str, Any]]:
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "in_progress", "content": []}
    part = {"type": "output_text", "text": "", "annotations": []}
    at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    whole = _response(step, model, "completed")
    yield {"type": "response.created", "response": _response(step, model, "in_progress")}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.content_part.added", **at, "part": part}
    for piece in _pieces(step.text):
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": []}
    if step.cut:
        return
    yield {"type": "response.output_text.done", **at, "text": step.text, "logprobs": []}
    yield {"type": "response.content_part.done", **at, "part": {**part, "text": step.text}}
    yield {"type": "response.output_item.done", "output_index": 0, "item": whole["output"][0]}
    yield {"type": "response.completed", "response": whole}
