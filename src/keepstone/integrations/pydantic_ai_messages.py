"""Messages of Pydantic AI as turns, and back, as its own adapter writes them, with what they say."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    TextPart,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)

from keepstone.integrations.message_items import Turn

_PLAIN = str.maketrans("-_", "+/")


def turn_of(message: ModelMessage, value: Mapping[str, Any], labels: Mapping[str, Any]) -> Turn:
    """A message as it is kept: what the user or the model said by its words, everything else as a step."""
    packed = {**value, "message": _plain_bytes(ModelMessagesTypeAdapter.dump_python([message], mode="json")[0])}
    if isinstance(message, ModelResponse):
        said = "".join(part.content for part in message.parts if isinstance(part, TextPart))
        return Turn("assistant", said, packed, at=message.timestamp, labels=labels)
    asked = [part for part in message.parts if isinstance(part, UserPromptPart)]
    said = "\n".join(filter(None, (text_of(part.content) for part in asked)))
    # What a tool gives beside its result comes as a prompt in the same request, and is not the user's word.
    by_user = asked and not any(isinstance(part, (ToolReturnPart, RetryPromptPart)) for part in message.parts)
    return Turn("user" if by_user else "tool", said, packed, at=asked[0].timestamp if asked else message.timestamp, labels=labels)


def message_of(turn: Turn) -> ModelMessage | None:
    """The message of a turn; for what was said in the session by other means, a plain one, and None for what was only done."""
    if turn.value is not None:
        return ModelMessagesTypeAdapter.validate_json(json.dumps([turn.value["message"]]))[0]
    if not turn.text or turn.role not in ("user", "assistant"):
        return None
    return ModelRequest.user_text_prompt(turn.text) if turn.role == "user" else ModelResponse(parts=[TextPart(turn.text)])


def text_of(content: str | Sequence[UserContent] | None) -> str:
    """The words of what a user gave."""
    if content is None or isinstance(content, str):
        return content or ""
    texts = (each if isinstance(each, str) else getattr(each, "content", None) for each in content)
    return "\n".join(text for text in texts if isinstance(text, str))


def _plain_bytes(value: Any) -> Any:
    """Data with its files in plain base64, which is read as well: with "-" and "_" a piece of one may look like somebody's key,
    and would be taken out."""
    if isinstance(value, list):
        return [_plain_bytes(each) for each in value]
    if not isinstance(value, dict):
        return value
    held = {key: _plain_bytes(each) for key, each in value.items()}
    if held.get("kind") == "binary" and isinstance(held.get("data"), str):
        held["data"] = held["data"].translate(_PLAIN)
    return held
