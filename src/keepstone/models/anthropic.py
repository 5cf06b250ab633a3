"""Claude through the official `anthropic` client."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from keepstone.models.hosted import Completion, HostedModel, StreamInterrupted, StreamParser, UnusableMessage, tool_use
from keepstone.ports.chat import Block, Prompt, Stop

_STOPS: dict[str, Stop] = {
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}
# The fields of a block that are sent, besides its type.
_BLOCK_FIELDS = {
    "text": ("text",),
    "tool_use": ("id", "name", "input"),
    "tool_result": ("tool_use_id", "content", "is_error"),
    "image": ("source",),
    "thinking": ("thinking", "signature"),
    "redacted_thinking": ("data",),
}
_SOURCE_FIELDS = {"url": ("url",), "file": ("file_id",), "base64": ("media_type", "data")}


class AnthropicModel(HostedModel):
    """Claude. The system prompt, with the tools before it, is marked for the provider's cache (`cache_control: ephemeral`), so
    keep it the same from call to call; `Usage.cached_tokens` says what that saved. A schema is sent as `output_config.format`.

    `timeout` is how many seconds it may be silent; `prices` are (input, output) or (input, output, cached) per million tokens. A
    `client` of the official package, for asyncio or not, is used as it is, with its own timeout, retries and key. Thinking stays
    in the blocks of an answer, since the provider requires it when a tool's result is sent.

    Example: `AnthropicModel("claude-sonnet-5-5", api_key=…).ask(Prompt([{"role": "user", "content": "Hello"}])).text`
    """

    package = "anthropic"
    classes = ("Anthropic", "AsyncAnthropic")

    def _method(self, client: Any) -> Any:
        return client.messages.with_raw_response.create

    def _arguments(self, prompt: Prompt, unsupported: frozenset[str]) -> dict[str, Any]:
        sent: dict[str, Any] = {"model": self.name, "max_tokens": prompt.max_tokens, "messages": _messages(prompt)}
        if prompt.system:
            sent["system"] = [{"type": "text", "text": prompt.system, "cache_control": {"type": "ephemeral"}}]
        if prompt.tools:
            fields = ("name", "description", "input_schema")
            sent["tools"] = [{key: tool[key] for key in fields if key in tool} for tool in prompt.tools]
            if not prompt.may_use:
                sent["tool_choice"] = {"type": "none"}
        if prompt.schema is not None:
            sent["output_config"] = {"format": {"type": "json_schema", "schema": _strict_schema(prompt.schema)}}
        return sent

    def _parse(self, body: Mapping[str, Any]) -> Completion:
        blocks = [parsed for block in body["content"] if (parsed := _parse_block(block)) is not None]
        usage = body.get("usage") or {}
        cached = usage.get("cache_read_input_tokens") or 0
        # Tokens read from the cache and written to it are counted apart from the rest of the input.
        whole = (usage.get("input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0) + cached
        tokens = (whole, usage.get("output_tokens") or 0, cached) if usage else None
        return Completion(blocks, _STOPS.get(str(body.get("stop_reason")), "end"), tokens, str(body.get("model") or ""))

    def _stream_parser(self) -> StreamParser:
        return _EventParser(self)


class _EventParser:
    """Assembles the events of a stream into the message."""

    def __init__(self, model: AnthropicModel) -> None:
        self._model = model
        self._message: dict[str, Any] = {}
        self._blocks: dict[int, dict[str, Any]] = {}
        self._ended = False

    def add(self, event: Mapping[str, Any]) -> str:
        match event.get("type"):
            case "message_start":
                self._message = dict(event["message"])
            case "content_block_start":
                block = self._blocks[event["index"]] = dict(event["content_block"])
                return str(block.get("text") or "") if block.get("type") == "text" else ""
            case "content_block_delta":
                return self._add_delta(self._blocks[event["index"]], event["delta"])
            case "message_delta":
                self._message["stop_reason"] = event["delta"].get("stop_reason")
                counted = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                self._message["usage"] = {**(self._message.get("usage") or {}), **counted}
            case "message_stop":
                self._ended = True
        return ""

    def _add_delta(self, block: dict[str, Any], delta: Mapping[str, Any]) -> str:
        match delta.get("type"):
            case "text_delta":
                block["text"] = block.get("text", "") + delta["text"]
                return str(delta["text"])
            case "input_json_delta":
                # Text until the block is complete; the empty input of its start is replaced.
                block["input"] = (block["input"] if isinstance(block.get("input"), str) else "") + delta["partial_json"]
            case "thinking_delta":
                block["thinking"] = block.get("thinking", "") + delta["thinking"]
            case "signature_delta":
                block["signature"] = delta["signature"]
        return ""

    def completion(self) -> Completion:
        if not self._ended:
            raise StreamInterrupted
        return self._model._parse({**self._message, "content": [self._blocks[index] for index in sorted(self._blocks)]})


def _parse_block(block: Mapping[str, Any]) -> Block | None:
    """A block of a response, None for empty text and for blocks of the provider's own tools."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": block["text"]} if block["text"] else None
        case "tool_use":
            return tool_use(block["id"], block["name"], block["input"])
        case "thinking" | "redacted_thinking" as kind:
            return {"type": kind, **{key: block[key] for key in _BLOCK_FIELDS[kind] if key in block}}
    return None


def _messages(prompt: Prompt) -> list[dict[str, Any]]:
    messages = []
    for message in prompt.messages:
        role, content = message["role"], message["content"]
        if role not in ("user", "assistant"):
            raise UnusableMessage("accepts messages of the user and the assistant only", "put instructions into system")
        sent = content if isinstance(content, str) else _block_params(content)
        if sent:  # the provider refuses empty texts
            messages.append({"role": role, "content": sent})
    return messages


def _block_params(blocks: Any) -> list[dict[str, Any]]:
    params = []
    for block in blocks:
        kind = block.get("type")
        if kind not in _BLOCK_FIELDS:
            raise UnusableMessage("was given a block of an unknown type", f"use one of {', '.join(sorted(_BLOCK_FIELDS))}")
        param = {"type": kind, **{key: block[key] for key in _BLOCK_FIELDS[kind] if key in block}}
        if kind == "image":
            param["source"] = _source_param(block["source"])
        elif kind == "tool_result" and not isinstance(param.get("content", ""), str):
            param["content"] = _block_params(param["content"])
        if not (kind == "text" and not param["text"]) and not (kind == "thinking" and not param.get("signature")):
            params.append(param)
    return params


def _source_param(source: Mapping[str, Any]) -> dict[str, Any]:
    kind = str(source.get("type"))
    if kind not in _SOURCE_FIELDS:
        raise UnusableMessage("was given an image without a usable source", "give its source as a url, a file or base64")
    return {"type": kind, **{key: source[key] for key in _SOURCE_FIELDS[kind]}}


def _strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as the provider requires it, with closed objects; unchanged where that is not possible."""
    single_typed: dict[str, Any] = _single_types(schema)
    try:
        strict: dict[str, Any] = importlib.import_module("anthropic").transform_schema(single_typed)
    except (ValueError, AssertionError, AttributeError, TypeError):
        return dict(schema)
    return strict


def _single_types(schema: Any) -> Any:
    """The schema with `"type": [a, b]` written as `anyOf`, which `transform_schema` understands."""
    if isinstance(schema, list):
        return [_single_types(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {key: value if key in ("enum", "const", "default") else _single_types(value) for key, value in schema.items()}
    kinds = inner.get("type")
    if not isinstance(kinds, list) or not all(isinstance(kind, str) for kind in kinds):
        return inner
    labels = {key: inner.pop(key) for key in ("title", "description") if key in inner}
    return {**labels, "anyOf": [{**(inner if kind != "null" else {}), "type": kind} for kind in kinds]}
