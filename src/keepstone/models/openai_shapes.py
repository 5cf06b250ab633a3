"""Messages in the shape of chat completions, to and from. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from keepstone.models.hosted import Cut, Reading, Unusable, tool_use
from keepstone.ports.chat import Block, Prompt, Stop

_STOPS: dict[str, Stop] = {"length": "length", "content_filter": "refusal", "tool_calls": "tools", "function_call": "tools"}
_ASKED = "Answer with one JSON object and nothing else. It must fit this JSON Schema:\n"


def system_of(prompt: Prompt, told_schema: bool) -> str:
    """The system prompt; with `told_schema` it asks for JSON, where the server cannot be made to."""
    if prompt.schema is None or not told_schema:
        return prompt.system
    return "\n\n".join(part for part in (prompt.system, _ASKED + json.dumps(prompt.schema)) if part)


def messages_of(prompt: Prompt, system: str) -> list[dict[str, Any]]:
    """The conversation: a message with tool results becomes one message a result, and one more for what else it says."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for message in prompt.messages:
        role, content = message["role"], message["content"]
        if role not in ("user", "assistant"):
            raise Unusable("takes messages of the user and the assistant only", "put instructions into system")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        messages.extend(_from_user(blocks) if role == "user" else _from_assistant(blocks))
    return messages


def _from_user(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    results, parts = [], []
    for block in blocks:
        if block.get("type") == "tool_result":
            text, images = _result(block)
            results.append({"role": "tool", "tool_call_id": block["tool_use_id"], "content": text})
            parts.extend(images)  # a tool's message holds text only
        else:
            parts.extend(_part(block))
    if not parts:
        return results
    # Plain text where it will do: not every server knows parts.
    plain = all(part["type"] == "text" for part in parts)
    return [*results, {"role": "user", "content": "\n".join(part["text"] for part in parts) if plain else parts}]


def _result(block: Block) -> tuple[str, list[dict[str, Any]]]:
    content = block.get("content", "")
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
    parts = [part for each in blocks for part in _part(each)]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    images = [part for part in parts if part["type"] != "text"]
    return ("Error: " + text if block.get("is_error") else text), images


def _part(block: Block) -> list[dict[str, Any]]:
    match block.get("type"):
        case "text":
            return [{"type": "text", "text": block["text"]}] if block["text"] else []
        case "image":
            return [{"type": "image_url", "image_url": {"url": _url(block["source"])}}]
    raise Unusable("was given a block it does not know", "use blocks of type image, text, tool_result, tool_use")


def _url(source: Mapping[str, Any]) -> str:
    match source.get("type"):
        case "url":
            return str(source["url"])
        case "base64":
            return f"data:{source['media_type']};base64,{source['data']}"
    raise Unusable("was given an image it cannot fetch", "give its source as a url")


def _from_assistant(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    texts, calls = [], []
    for block in blocks:
        match block.get("type"):
            case "text":
                texts.append(block["text"])
            case "tool_use":
                function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                calls.append({"id": block["id"], "type": "function", "function": function})
            case "thinking" | "redacted_thinking":
                pass  # another provider's, of no use to this one
            case _:
                raise Unusable("was given a block it does not know", "use blocks of type text and tool_use for the assistant")
    text = "".join(texts)
    if not text and not calls:
        return []
    return [{"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}]


def tools_of(prompt: Prompt) -> list[dict[str, Any]]:
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


def format_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema as a response format; strict where every object is closed and has all of its properties required."""
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema), "strict": _strict(schema)}}


def _strict(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_strict(each) for each in schema)
    if not isinstance(schema, Mapping):
        return True
    kind = schema.get("type")
    if kind == "object" or (isinstance(kind, list) and "object" in kind):
        properties = schema.get("properties") or {}
        if schema.get("additionalProperties") is not False or set(schema.get("required") or ()) != set(properties):
            return False
        return all(_strict(each) for each in properties.values()) and _strict(schema.get("$defs") or {})
    return all(_strict(value) for key, value in schema.items() if key not in ("enum", "const", "default"))


def reading_of(body: Mapping[str, Any]) -> Reading:
    """An answer read; a refusal's words are its text."""
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
    elif stop == "end" and message.get("tool_calls"):  # some servers say "stop" all the same
        stop = "tools"
    elif stop == "tools" and not message.get("tool_calls"):
        stop = "end"
    return Reading(blocks, stop, _tokens(body.get("usage")), str(body.get("model") or ""))


def _tokens(usage: Mapping[str, Any] | None) -> tuple[int, int, int] | None:
    if not usage:
        return None
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0, cached


class Chunks:
    """A stream of chunks, put together to the completion it would have been."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._refusals: list[str] = []
        self._calls: list[dict[str, Any]] = []
        self._open: dict[int | None, dict[str, Any]] = {}  # the call that an index stands for
        self._stop: str | None = None
        self._usage: Mapping[str, Any] | None = None
        self._model = ""

    def take(self, event: Mapping[str, Any]) -> str:
        self._usage = event.get("usage") or self._usage
        self._model = event.get("model") or self._model
        said = ""
        for choice in (event.get("choices") or ())[:1]:
            delta = choice.get("delta") or {}
            said = delta.get("content") or ""
            self._texts.append(said)
            self._refusals.append(delta.get("refusal") or "")
            for call in delta.get("tool_calls") or ():
                self._grow(call)
            self._stop = choice.get("finish_reason") or self._stop
        return said

    def _grow(self, call: Mapping[str, Any]) -> None:
        """A call's id and name come in its first piece, its arguments in bits. A new id begins a new call even under an index
        that was used, since some servers give all calls the same, or none."""
        function = call.get("function") or {}
        id, index, arguments = call.get("id") or "", call.get("index"), function.get("arguments") or ""
        known = self._open.get(index)
        if known is None or (id and known["id"] and id != known["id"]):
            known = self._open[index] = {"id": "", "function": {"name": "", "arguments": ""}}
            self._calls.append(known)
        known["id"] = known["id"] or id
        known["function"]["name"] = known["function"]["name"] or function.get("name") or ""
        known["function"]["arguments"] += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def reading(self) -> Reading:
        if self._stop is None:
            raise Cut
        message = {
            "content": "".join(self._texts),
            "refusal": "".join(self._refusals),
            "tool_calls": self._calls,
        }
        choice = {"message": message, "finish_reason": self._stop}
        return reading_of({"choices": [choice], "usage": self._usage, "model": self._model})
