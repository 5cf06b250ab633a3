"""Which messages a model is given, and in what shape: valid for the Messages API whatever was stored, within the budget. Pure.
Imports: chat, types.

A tool result without the use that asked for it, or a use that was never answered, is refused by every API; here either becomes
plain text. What does not fit is left out from the front; a message that is too long by itself is cut and says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from recollect.types import Record

OVERHEAD = 4  # tokens a message takes beside its words
IMAGE = 1600  # tokens of an image or a page, about
CUT = " … [cut]"
Wire = dict[str, Any]  # {"role", "content"} as the Messages API takes it


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
    if record.blocks is None or any(block.get("type") == "step" for block in record.blocks):
        text = f"{speaker}{record.content}" if record.role != "tool" else f"[result: {record.content}]"
        return Shown(sequence, role, text, OVERHEAD + count(text))
    return Shown(sequence, role, record.blocks, OVERHEAD + sum(block_tokens(block, count) for block in record.blocks))


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


def wire(messages: Sequence[Shown], lead: str = "", *, open_end: bool = True) -> list[Wire]:
    """Messages as an API takes them, `lead` in front as a message of the user. `open_end`: the last message's tool uses may
    still be answered by what is sent with it."""
    made: list[Wire] = [{"role": "user", "content": lead}] if lead else []
    asked: set[str] = set()
    for at, message in enumerate(messages):
        if not made and message.role != "user":
            continue  # a conversation begins with the user
        answered = set(results(messages[at + 1].content)) if at + 1 < len(messages) else set()
        last = open_end and at + 1 == len(messages)
        made.append({"role": message.role, "content": _repaired(message, asked, None if last else answered)})
        asked = set(uses(message.content)) if message.role == "assistant" else set()
    return made


def _repaired(message: Shown, asked: set[str], answered: set[str] | None) -> str | list[dict[str, Any]]:
    """A message's content without results nobody asked for and uses nobody answered (`answered` None: may yet be)."""
    if isinstance(message.content, str):
        return message.content
    kept: list[dict[str, Any]] = []
    for block in message.content:
        lost_result = block.get("type") == "tool_result" and str(block.get("tool_use_id")) not in asked
        lost_use = block.get("type") == "tool_use" and answered is not None and str(block.get("id")) not in answered
        if lost_result or lost_use:
            kept.append({"type": "text", "text": as_text(block)})
        else:
            kept.append(dict(block))
    return kept


def as_text(block: Mapping[str, Any]) -> str:
    """A block as words, for where it may not stand as a block."""
    if block.get("type") == "text":
        return str(block.get("text", ""))
    if block.get("type") == "tool_use":
        return f"[used {block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}]"
    if block.get("type") != "tool_result":
        return f"[{block.get('type')}]"
    inner = block.get("content") or ""
    if not isinstance(inner, str):
        inner = " ".join(str(each.get("text", f"[{each.get('type')}]")) for each in inner if isinstance(each, Mapping))
    return f"[result: {inner}]"


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
    text = message.content if isinstance(message.content, str) else "\n".join(map(as_text, message.content))
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


def cut(text: str, room: int, count: Callable[[str], int]) -> str:
    """The beginning of a text that fits a room, with a mark if anything is missing."""
    if count(text) <= room:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits, to a character
        middle = (low + high + 1) // 2
        if count(text[:middle] + CUT) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + CUT if low else CUT.strip()
