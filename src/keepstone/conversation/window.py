"""Which messages a model is given, within the budget, what each costs, and the shape that every API takes. Pure.

What does not fit is left out from the front; a message that is too long by itself is cut and says so. A tool result without the
use that asked for it, a second result, a use that was never answered, a block in the wrong role: all are refused by an API, and
become plain text here. Results stand first, together, in the message after their uses.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from keepstone.text.clipping import cut
from keepstone.types import Record
from keepstone.write.blocks import block_text, without_originals

Wire = dict[str, Any]  # {"role", "content"} as the Messages API takes it
Blocks = list[dict[str, Any]]
EMPTY = "-"  # where nothing is left of a message, which may not be empty
OVERHEAD_TOKENS = 4  # of a message, besides its text
IMAGE_TOKENS = 1600  # tokens of an image or a page, about


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
        return Shown(sequence, role, text, OVERHEAD_TOKENS + count(text))
    if speaker and not results(blocks):
        blocks = ({"type": "text", "text": speaker.strip()}, *blocks)
    return Shown(sequence, role, tuple(blocks), OVERHEAD_TOKENS + sum(block_tokens(block, count) for block in blocks))


def block_tokens(block: Mapping[str, Any], count: Callable[[str], int]) -> int:
    """What a block costs."""
    match block.get("type"):
        case "text":
            return count(str(block.get("text", "")))
        case "image" | "document":
            return IMAGE_TOKENS
        case "tool_use":
            return OVERHEAD_TOKENS * 2 + count(str(block.get("name"))) + count(json.dumps(block.get("input"), ensure_ascii=False))
        case "tool_result":
            inner = block.get("content") or ""
            if isinstance(inner, str):
                return OVERHEAD_TOKENS * 2 + count(inner)
            return OVERHEAD_TOKENS * 2 + sum(block_tokens(each, count) for each in inner if isinstance(each, Mapping))
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
                           OVERHEAD_TOKENS + sum(block_tokens(block, count) for block in blocks))  # fmt: skip
            if fitted.tokens <= room:
                return fitted
    text = message.content if isinstance(message.content, str) else "\n".join(map(block_text, message.content))
    text = cut(text, max(1, room - OVERHEAD_TOKENS), count)
    return Shown(message.sequence, message.role, text, OVERHEAD_TOKENS + count(text))


def _words(block: Mapping[str, Any]) -> str:
    """The part of a block that can be cut."""
    match block.get("type"), block.get("content"):
        case "text", _:
            return str(block.get("text", ""))
        case "tool_result", str(inner):
            return inner
        case _:
            return ""


# -- the shape that an API takes -------------------------------------------------------------------------------------------
def begun(messages: Sequence[Shown], lead: str) -> list[Shown]:
    """Messages from the first that may come first: a conversation begins with the user."""
    start = 0
    while not lead and start < len(messages) and messages[start].role != "user":
        start += 1
    return list(messages[start:])


def wire(messages: Sequence[Shown], lead: str = "") -> tuple[list[Wire], bool]:
    """Messages as an API takes them, `lead` in front as a message of the user; and whether anything had to be changed. Uses in
    the last message may still be answered by what is sent with it."""
    made: list[Wire] = [{"role": "user", "content": lead}] if lead else []
    changed = False
    asked: set[str] = set()  # uses of the assistant's last message that wait for their results
    for at, message in enumerate(messages):
        if message.role == "assistant":
            answered = None if at + 1 == len(messages) else _keep_answered(messages[at + 1 :])
            content, other = _assistant(message.content, answered)
            asked = set(uses(content))
        else:
            content, other = _user(message.content, asked)
            asked -= set(results(content))
            if results(content) and made and made[-1]["role"] == "user":
                first = _first_of_user(made)  # results must come right after the uses, whatever was said in between
                made[first]["content"] = _join(made[first]["content"], content)
                changed = True
                continue
        changed = changed or other
        made.append({"role": message.role, "content": content})
    return made, changed


def _first_of_user(made: Sequence[Wire]) -> int:
    """Where the user's turn begins that the messages end with."""
    at = len(made) - 1
    while at > 0 and made[at - 1]["role"] == "user":
        at -= 1
    return at


def tokens(made: Sequence[Wire], count: Callable[[str], int]) -> int:
    """What messages cost as they are sent."""
    total = 0
    for message in made:
        content = message["content"]
        inside = count(content) if isinstance(content, str) else sum(block_tokens(block, count) for block in content)
        total += OVERHEAD_TOKENS + inside
    return total


def _keep_answered(after: Sequence[Shown]) -> set[str]:
    """Ids that the user's messages up to the assistant's next answer."""
    found: set[str] = set()
    for message in after:
        if message.role == "assistant":
            break
        found |= set(results(message.content))
    return found


def _assistant(content: str | Sequence[Mapping[str, Any]], answered: set[str] | None) -> tuple[str | Blocks, bool]:
    """The assistant's words without tool uses that have no result (`answered` None: results may follow)."""
    if isinstance(content, str):
        return content or EMPTY, not content
    kept: Blocks = []
    seen: set[str] = set()
    changed = False
    for block in content:
        id = str(block.get("id"))
        use = block.get("type") == "tool_use"
        lost = use and (id in seen or (answered is not None and id not in answered))
        if lost or block.get("type") == "tool_result":
            kept.append({"type": "text", "text": block_text(block)})
            changed = True
        else:
            kept.append(dict(block))
            if use:
                seen.add(id)
    return _drop_empty(kept, changed)


def _user(content: str | Sequence[Mapping[str, Any]], asked: set[str]) -> tuple[str | Blocks, bool]:
    """The user's words with the results that were asked for first, each once."""
    if isinstance(content, str):
        return content or EMPTY, not content
    found: Blocks = []
    others: Blocks = []
    left = set(asked)
    changed = False
    for block in content:
        id = str(block.get("tool_use_id"))
        if block.get("type") == "tool_result" and id in left:
            left.discard(id)
            changed = changed or bool(others)
            found.append(dict(block))
        elif block.get("type") in ("tool_result", "tool_use"):
            others.append({"type": "text", "text": block_text(block)})
            changed = True
        else:
            others.append(dict(block))
    return _drop_empty([*found, *others], changed)


def _drop_empty(blocks: Blocks, changed: bool) -> tuple[Blocks, bool]:
    """Blocks without empty texts; never none."""
    kept = [block for block in blocks if block.get("type") != "text" or str(block.get("text", "")).strip()]
    return kept or [{"type": "text", "text": EMPTY}], changed or len(kept) < len(blocks)


def _join(before: str | Blocks, content: str | Blocks) -> Blocks:
    """Two messages of the user as one, all results first."""
    parts: Blocks = []
    for each in (before, content):
        parts += [{"type": "text", "text": each}] if isinstance(each, str) else each
    return sorted(parts, key=lambda block: block.get("type") != "tool_result")
