"""Which messages a model is given, within the budget, and what each costs. Pure.

What does not fit is left out from the front; a message that is too long by itself is cut and says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keepstone.text.clipping import cut
from keepstone.types import Record
from keepstone.write.blocks import block_text, without_originals

OVERHEAD = 4  # tokens a message takes beside its words
IMAGE = 1600  # tokens of an image or a page, about


@dataclass(frozen=True, slots=True)
class Shown:
    """A stored message ready to be shown, with what it costs."""

    sequence: int
    role: str
    content: str | tuple[Mapping[str, Any], ...]
    tokens: int


def shown(sequence: int, record: Record, count: Callable[[str], int], named: bool) -> Shown | None:
    """A record as a message for a model; None for what is not said to it (system messages). `named`: several people speak in
    the window, so who it was stands before the words."""
    if record.role == "system":
        return None
    role = "assistant" if record.role == "assistant" else "user"
    speaker = f"{record.name}: " if named and record.name else ""
    blocks = without_originals(record.blocks)
    if blocks is None or any(block.get("type") == "step" for block in blocks):
        text = f"{speaker}{record.content}" if record.role != "tool" else f"[result: {record.content}]"
        return Shown(sequence, role, text, OVERHEAD + count(text))
    if speaker and not results(blocks):
        blocks = ({"type": "text", "text": speaker.strip()}, *blocks)
    return Shown(sequence, role, tuple(blocks), OVERHEAD + sum(block_tokens(block, count) for block in blocks))


def block_tokens(block: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """What a block costs."""
    match block.get("type"):
        case "text":
            return count(str(block.get("text", "")))
        case "image" | "document":
            return IMAGE
        case "tool_use":
            return OVERHEAD * 2 + count(str(block.get("name"))) + count(json.dumps(block.get("input"), ensure_ascii=False))
        case "tool_result":
            inner = block.get("content") or ""
            if isinstance(inner, str):
                return OVERHEAD * 2 + count(inner)
            return OVERHEAD * 2 + sum(block_tokens(each, count) for each in inner if isinstance(each, Mapping))
        case _:
            return count(json.dumps(dict(block), ensure_ascii=False))


def uses(content: str | Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the tool uses in a message."""
    return [] if isinstance(content, str) else [str(each.get("id")) for each in content if each.get("type") == "tool_use"]


def results(content: str | Sequence[Mapping[str, Any]]) -> list[str]:
    """Ids of the tool uses that a message answers."""
    blocks = [] if isinstance(content, str) else content
    return [str(each.get("tool_use_id")) for each in blocks if each.get("type") == "tool_result"]


def recent(messages: Sequence[Shown], max_tokens: int, max_messages: int) -> int:
    """Where the newest messages begin that fit, without beginning with a tool result or in the middle of an exchange with a
    tool. At least the last message is kept."""
    start, spent = len(messages), 0
    while start > 0 and len(messages) - start < max_messages:
        spent += messages[start - 1].tokens
        if spent > max_tokens and start < len(messages):
            break
        start -= 1
    while start < len(messages) - 1 and results(messages[start].content):
        start += 1
    return start


def shortened(message: Shown, room: int, count: Callable[[str], int]) -> Shown:
    """A message cut until it fits the room: the longest of its texts first, always with a mark."""
    if message.tokens <= room:
        return message
    if not isinstance(message.content, str):
        blocks = [dict(block) for block in message.content]
        longest = max(blocks, key=lambda block: len(_words(block)))
        over = message.tokens - room
        left = count(_words(longest)) - over
        if left > 0:
            longest["text" if longest.get("type") == "text" else "content"] = cut(_words(longest), left, count)
            fitted = Shown(message.sequence, message.role, tuple(blocks),
                           OVERHEAD + sum(block_tokens(block, count) for block in blocks))  # fmt: skip
            if fitted.tokens <= room:
                return fitted
    text = message.content if isinstance(message.content, str) else "\n".join(map(block_text, message.content))
    text = cut(text, max(1, room - OVERHEAD), count)
    return Shown(message.sequence, message.role, text, OVERHEAD + count(text))


def _words(block: Mapping[str, Any]) -> str:
    """The part of a block that can be cut."""
    match block.get("type"), block.get("content"):
        case "text", _:
            return str(block.get("text", ""))
        case "tool_result", str(inner):
            return inner
        case _:
            return ""
