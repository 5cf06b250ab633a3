"""Models behind the chat completions API, through the official `openai` client: OpenAI's own, Ollama, vLLM and others."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from keepstone.models.hosted import Completion, HostedModel, StreamInterrupted, StreamParser, UnusableMessage, tool_use
from keepstone.ports.chat import Block, Prompt, Stop

PLACEHOLDER_KEY = "none"  # for servers without keys, since the client requires one
_OPENAI_URL = "https://api.openai.com"
_FORMAT, _USAGE = "response_format", "stream_options"
# Words by which a server names the argument it does not support.
_ARGUMENT_WORDS = {_FORMAT: (_FORMAT, "json_schema"), _USAGE: (_USAGE, "include_usage")}

_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refusal", "tool_calls": "tools", "function_call": "tools"}
_SCHEMA_PROMPT = "Answer with one JSON object and nothing else. It must fit this JSON Schema:\n"


class OpenAIModel(HostedModel):
    """A model behind the chat completions API.

    Servers differ in what they support. Where one refuses `response_format`, `stream_options` or the name of the token limit, the
    request is sent again without it (the schema then goes into the system prompt), and so are later ones. Where a server counts
    no tokens, usage is 0. With a `base_url` and no key a placeholder is sent; the client itself reads OPENAI_API_KEY.

    `timeout` is how many seconds it may be silent; `prices` are (input, output) or (input, output, cached) per million tokens. A
    `client` of the official package, for asyncio or not, is used as it is, with its own timeout, retries and key.

    Example: `OpenAIModel("llama3.3", base_url="http://localhost:11434/v1").ask(Prompt([{"role": "user", "content": "Hi"}])).text`
    """

    package = "openai"
    classes = ("OpenAI", "AsyncOpenAI")

    @cached_property
    def _limit_names(self) -> Sequence[str]:
        """The names of the token limit: OpenAI's newer models accept the second only, older servers the first only."""
        url = str(self._own_client.base_url) if self._own_client is not None else self.base_url or _OPENAI_URL
        names = ("max_tokens", "max_completion_tokens")
        return names[::-1] if url.startswith(_OPENAI_URL) else names

    def _make_client(self, kind: str) -> Any:
        try:
            return super()._make_client(kind)
        except Exception:
            if self.base_url is None or self._api_key is not None:
                raise
            self._api_key = PLACEHOLDER_KEY
            return super()._make_client(kind)

    def _method(self, client: Any) -> Any:
        return client.chat.completions.with_raw_response.create

    def _arguments(self, prompt: Prompt, unsupported: frozenset[str]) -> dict[str, Any]:
        limit = next(name for name in self._limit_names if name not in unsupported)
        sent: dict[str, Any] = {
            "model": self.name,
            "messages": _message_params(prompt, _system_text(prompt, with_schema=_FORMAT in unsupported)),
            limit: prompt.max_tokens,
        }
        if prompt.tools:
            sent["tools"] = _tool_params(prompt)
            if not prompt.may_use:
                sent["tool_choice"] = "none"
        if prompt.schema is not None and _FORMAT not in unsupported:
            sent[_FORMAT] = response_format(prompt.schema)
        return sent

    def _stream_arguments(self, unsupported: frozenset[str]) -> dict[str, Any]:
        return {"stream": True, **({} if _USAGE in unsupported else {_USAGE: {"include_usage": True}})}

    def _refused_arguments(self, error: Exception, sent: Mapping[str, Any], unsupported: frozenset[str]) -> frozenset[str] | None:
        status = getattr(error, "status_code", None)
        if status not in (400, 422, 500, 501):
            return None
        param = getattr(error, "param", None)
        text = f"{param} {getattr(error, 'message', '')}".lower()
        for name in (_FORMAT, _USAGE):
            if name in sent and any(word in text for word in _ARGUMENT_WORDS[name]):
                return unsupported | {name}
        for name in self._limit_names:
            if name in sent and name in text and not unsupported & set(self._limit_names):
                return unsupported | {name}
        if status == 400 and _FORMAT in sent and not param:  # it gives no reason; this is the likeliest
            return unsupported | {_FORMAT}
        return None

    def _parse(self, body: Mapping[str, Any]) -> Completion:
        return parse_completion(body)

    def _stream_parser(self) -> StreamParser:
        return ChunkParser()


def _system_text(prompt: Prompt, with_schema: bool) -> str:
    """The system prompt; `with_schema`, for a server without `response_format`, it asks for JSON."""
    if prompt.schema is None or not with_schema:
        return prompt.system
    return "\n\n".join(part for part in (prompt.system, _SCHEMA_PROMPT + json.dumps(prompt.schema)) if part)


def _message_params(prompt: Prompt, system: str) -> list[dict[str, Any]]:
    """The messages. One with tool results becomes one message per result, and one for the rest."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in prompt.messages:
        role, content = message["role"], message["content"]
        if role not in ("user", "assistant"):
            raise UnusableMessage("accepts messages of the user and the assistant only", "put instructions into system")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        messages.extend(_user_params(blocks) if role == "user" else _assistant_params(blocks))
    return messages


def _user_params(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    results, parts = [], []
    for block in blocks:
        if block.get("type") == "tool_result":
            text, images = _tool_result(block)
            results.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
            parts.extend(images)  # a tool's message can hold text only
        else:
            parts.extend(_content_parts(block))
    if not parts:
        return results
    # Plain text where possible: not every server supports parts.
    text_only = all(part["type"] == "text" for part in parts)
    return [*results, {"role": "user", "content": "\n".join(part["text"] for part in parts) if text_only else parts}]


def _tool_result(block: Block) -> tuple[str, list[dict[str, Any]]]:
    content = block.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    parts = [part for inner in blocks for part in _content_parts(inner)]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    images = [part for part in parts if part["type"] != "text"]
    return ("Error: " + text if block.get("is_error") else text), images


def _content_parts(block: Block) -> list[dict[str, Any]]:
    match block.get("type"):
        case "text":
            return [{"type": "text", "text": block["text"]}] if block["text"] else []
        case "image":
            return [{"type": "image_url", "image_url": {"url": _image_url(block["source"])}}]
    raise UnusableMessage("was given a block of an unknown type", "use blocks of type image, text, tool_result, tool_use")


def _image_url(source: Mapping[str, Any]) -> str:
    match source.get("type"):
        case "url":
            return str(source["url"])
        case "base64":
            return f"data:{source['media_type']};base64,{source['data']}"
    raise UnusableMessage("was given an image without a usable source", "give its source as a url")


def _assistant_params(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    texts, calls = [], []
    for block in blocks:
        match block.get("type"):
            case "text":
                texts.append(block["text"])
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case "thinking" | "redacted_thinking":
                pass  # of another provider
            case _:
                raise UnusableMessage("was given a block of an unknown type", "use text and tool_use for the assistant")
    text = "".join(texts)
    if not text and not calls:
        return []
    return [{"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}]


def _tool_params(prompt: Prompt) -> list[dict[str, Any]]:
    """The tools as functions."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool["name"],
                "description": tool.get("description", ""),
                "parameters": tool.get("input_schema") or {"type": "object", "properties": {}},
            },
        }
        for tool in prompt.tools
    ]


def response_format(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a response format; strict if every object is closed and requires all of its properties."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": _is_strict(schema)}}


def _is_strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_is_strict(item) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        properties = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != set(properties):
            return False
        return all(_is_strict(inner) for inner in properties.values()) and _is_strict(schema.get("$defs") or {})
    return all(_is_strict(value) for key, value in schema.items() if key not in ("enum", "const", "default"))


def parse_completion(body: Mapping[str, Any]) -> Completion:
    """A response in common form; the text of a refusal is its text."""
    choice = body["choices"][0]
    message = choice["message"]
    refusal = message.get("refusal")
    text = refusal or message.get("content")
    blocks: list[Block] = [{"type": "text", "text": text}] if isinstance(text, str) and text else []
    for call in message.get("tool_calls") or ():
        function = call["function"]
        blocks.append(tool_use(str(call.get("id") or ""), str(function.get("name") or ""), function.get("arguments")))
    stop = _STOPS.get(str(choice.get("finish_reason")), "end")
    if refusal:
        stop = "refusal"
    elif stop == "end" and message.get("tool_calls"):  # some servers send "stop" for tool calls too
        stop = "tools"
    elif stop == "tools" and not message.get("tool_calls"):
        stop = "end"
    return Completion(blocks, stop, _token_counts(body.get("usage")), str(body.get("model") or ""))


def _token_counts(usage: Mapping[str, Any] | None) -> tuple[int, int, int] | None:
    if not usage:
        return None
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached


class ChunkParser:
    """Assembles the chunks of a stream into the completion."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._open: dict[int | None, dict[str, Any]] = {}  # the call of each index
        self._stop: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._model = ""

    def add(self, event: Mapping[str, Any]) -> str:
        self._usage = event.get("usage") or self._usage
        self._model = event.get("model") or self._model
        text = ""
        for choice in (event.get("choices") or ())[:1]:
            delta = choice.get("delta") or {}
            text = delta.get("content") or ""
            self._texts.append(text)
            self._refusals.append(delta.get("refusal") or "")
            for call in delta.get("tool_calls") or ():
                self._add_call(call)
            self._stop = choice.get("finish_reason") or self._stop
        return text

    def _add_call(self, call: Mapping[str, Any]) -> None:
        """Add a part of a tool call. The first part has the id and the name, all have parts of the arguments. A new id begins a
        new call even under a known index, since some servers send the same index for all calls, or none."""
        function = call.get("function") or {}
        id, index, arguments = call.get("id") or "", call.get("index"), function.get("arguments") or ""
        known = self._open.get(index)
        if known is None or (id and known["id"] and id != known["id"]):
            known = self._open[index] = {"id": "", "function": {"name": "", "arguments": ""}}
            self._calls.append(known)
        known["id"] = known["id"] or id
        known["function"]["name"] = known["function"]["name"] or function.get("name") or ""
        known["function"]["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def completion(self) -> Completion:
        if self._stop is None:
            raise StreamInterrupted
        message = {
            "content": "".join(self._texts),
            "refusal": "".join(self._refusals),
            "tool_calls": self._calls,
        }
        choice = {"message": message, "finish_reason": self._stop}
        return parse_completion({"choices": [choice], "usage": self._usage, "model": self._model})
