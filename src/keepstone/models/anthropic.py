"""Claude through the official `anthropic` client."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from keepstone.models.hosted import Cut, Hosted, Pieces, Prices, Reading, Unusable, tool_use
from keepstone.ports.chat import Block, Prompt, Stop

_STOPS: dict[str, Stop] = {
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
# What is sent of a block, besides its type; anything else in it is ours.
_KEPT = {
    "text": ("text",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id", "content", "is_error"),
    "image": ("source",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
_SOURCES = {"url": ("url",), "file": ("file_id",), "base64": ("media_type", "data")}


class AnthropicModel(Hosted):
    """Claude. The system prompt, with the tools before it, is marked for the provider's cache (`cache_control: ephemeral`), so
    keep it the same from call to call; `Usage.cached_tokens` says what that saved. A schema goes as `output_config.format`.

    `timeout` is how many seconds it may be silent; `prices` are (input, output) or (input, output, cached) a million tokens; a
    `client` of the official package, for asyncio or not, is used as it is, with its own timeout, retries and key. Thinking that
    comes with an answer stays in its blocks, since the provider wants it back when a tool's result is sent.

    Example: `AnthropicModel("claude-sonnet-5-5", api_key=…).ask(Prompt([{"role": "user", "content": "Hello"}])).text`
    """

    package = "anthropic"
    classes = ("Anthropic", "AsyncAnthropic")

    def __init__(
        self,
        name: str,
        *,
        timeout: float = 60.0,
        retries: int = 2,
        prices: Prices | None = None,
        client: Any = None,
        base_url: str | None = None,
        api_key: str | None = None,
    ) -> None:
        super().__init__(name, base_url=base_url, api_key=api_key, timeout=timeout, retries=retries, prices=prices, client=client)

    def _method(self, client: Any) -> Any:
        return client.messages.with_raw_response.create

    def _arguments(self, prompt: Prompt, without: frozenset[str]) -> dict[str, Any]:
        sent: dict[str, Any] = {"model": self.name, "max_tokens": prompt.max_tokens, "messages": _messages(prompt)}
        if prompt.system:
            sent["system"] = [{"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}]
        if prompt.tools:
            kept = ("name", "description", "input_schema")
            sent["tools"] = [{key: tool[key] for key in kept if key in tool} for tool in prompt.tools]
            if not prompt.may_use:
                sent["tool_choice"] = {"type": "none"}
        if prompt.schema is not None:
            sent["output_config"] = {"format": {"type": "json_schema", "schema": _closed(prompt.schema)}}
        return sent

    def _read(self, body: Mapping[str, Any]) -> Reading:
        blocks = [kept for block in body["content"] if (kept := _said(block)) is not None]
        usage = body.get("usage") or {}
        cached = usage.get("cache_read_input_tokens") or 0
        # The provider counts what it read from its cache and what it wrote there apart from the rest of the input.
        whole = (usage.get("input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0) + cached
        tokens = (whole, usage.get("output_tokens") or 0, cached) if usage else None
        return Reading(blocks, _STOPS.get(str(body.get("stop_reason")), "end"), tokens, str(body.get("model") or ""))

    def _pieces(self) -> Pieces:
        return _Events(self)


class _Events:
    """A stream of events, put together to the message it would have been."""

    def __init__(self, model: AnthropicModel) -> None:
        self._model = model
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._ended = False

    def take(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start":
                block = self._blocks[event["index"]] = dict(event["content_block"])
                return str(block.get("text") or "") if block.get("type") == "text" else ""
            case "content_block_delta":
                return self._grow(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._message["stop_reason"] = event["delta"].get("stop_reason")
                counted = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                self._message["usage"] = {**(self._message.get("usage") or {}), **counted}
            case "message_stop":
                self._ended = True
        return ""

    def _grow(self, block: dict[str, Any], delta: Mapping[str, Any]) -> str:
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                return str(delta["text"])
            case "input_json_delta":
                # Text until the block is whole; the empty input of its start is replaced.
                block["input"] = (block["input"] if isinstance(block.get("input"), str) else "") + delta["partial_json"]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
        return ""

    def reading(self) -> Reading:
        if not self._ended:
            raise Cut
        return self._model._read({**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]})


def _said(block: Mapping[str, Any]) -> Block | None:
    """A block of an answer, None for what is not kept: empty text, and what the provider's own tools did."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": block["text"]} if block["text"] else None
        case "tool_use":
            return tool_use(block["id"], block["name"], block["input"])
        case "thinking" | "redacted_thinking" as kind:
            return {"type": kind, **{key: block[key] for key in _KEPT[kind] if key in block}}
    return None


def _messages(prompt: Prompt) -> list[dict[str, Any]]:
    messages = []
    for message in prompt.messages:
        role, content = message["role"], message["content"]
        if role not in ("user", "assistant"):
            raise Unusable("takes messages of the user and the assistant only", "put instructions into system")
        cleaned = content if isinstance(content, str) else _cleaned(content)
        if cleaned:  # the provider refuses empty texts
            messages.append({"role": role, "content": cleaned})
    return messages


def _cleaned(blocks: Any) -> list[dict[str, Any]]:
    cleaned = []
    for block in blocks:
        kind = block.get("type")
        if kind not in _KEPT:
            raise Unusable("was given a block it does not know", f"use blocks of type {', '.join(sorted(_KEPT))}")
        kept = {"type": kind, **{key: block[key] for key in _KEPT[kind] if key in block}}
        if kind == "image":
            kept["source"] = _source(block["source"])
        elif kind == "tool_result" and not isinstance(kept.get("content", ""), str):
            kept["content"] = _cleaned(kept["content"])
        if not (kind == "text" and not kept["text"]) and not (kind == "thinking" and not kept.get("signature")):
            cleaned.append(kept)
    return cleaned


def _source(source: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(source.get("type"))
    if kind not in _SOURCES:
        raise Unusable("was given an image it cannot fetch", "give its source as a url, a file or base64")
    return {"type": kind, **{key: source[key] for key in _SOURCES[kind]}}


def _closed(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as the provider wants it, objects closed and limits said in words; as it is where that cannot be."""
    single: dict[str, Any] = _single(schema)
    try:
        closed: dict[str, Any] = importlib.import_module("anthropic").transform_schema(single)
    except (ValueError, AssertionError, AttributeError, TypeError):
        return dict(schema)
    return closed


def _single(schema: Any) -> Any:
    """The schema with `"type": [a, b]` written as `anyOf`, which `transform_schema` understands."""
    if isinstance(schema, list):
        return [_single(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: value if key in ("enum", "const", "default") else _single(value) for key, value in schema.items()}
    kinds = inner.get("type")
    if not isinstance(kinds, list) or not all(isinstance(each, str) for each in kinds):
        return inner
    said = {key: inner.pop(key) for key in ("title", "description") if key in inner}
    return {**said, "anyOf": [{**(inner if kind != "null" else {}), "type": kind} for kind in kinds]}
