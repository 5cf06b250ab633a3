"""Messages in the shape that every API takes, whatever was stored. Pure.

A tool result without the use that asked for it, a second result, a use that was never answered, a block in the wrong role: all
are refused by an API, and become plain text here. Results stand first, together, in the message after their uses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from keepstone.conversation.window import OVERHEAD, Shown, block_tokens, results, uses
from keepstone.write.blocks import block_text

Wire = dict[str, Any]  # {"role", "content"} as the Messages API takes it
Blocks = list[dict[str, Any]]
EMPTY = "-"  # where nothing is left of a message, which may not be empty


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
            answered = None if at + 1 == len(messages) else _answered(messages[at + 1 :])
            content, other = _assistant(message.content, answered)
            asked = set(uses(content))
        else:
            content, other = _user(message.content, asked)
            asked -= set(results(content))
            if results(content) and made and made[-1]["role"] == "user":
                first = _first_of_user(made)  # results must come right after the uses, whatever was said in between
                made[first]["content"] = _joined(made[first]["content"], content)
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
        total += OVERHEAD + inside
    return total


def _answered(after: Sequence[Shown]) -> set[str]:
    """Ids that the user's messages up to the assistant's next answer."""
    found: set[str] = set()
    for message in after:
        if message.role == "assistant":
            break
        found |= set(results(message.content))
    return found


def _assistant(content: str | Sequence[Mapping[str, Any]], answered: set[str] | None) -> tuple[str | Blocks, bool]:
    """The assistant's words without uses that nobody answered (`answered` None: they may yet be)."""
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
    return _filled(kept, changed)


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
    return _filled([*found, *others], changed)


def _filled(blocks: Blocks, changed: bool) -> tuple[Blocks, bool]:
    """Blocks without empty texts; never none."""
    kept = [block for block in blocks if block.get("type") != "text" or str(block.get("text", "")).strip()]
    return kept or [{"type": "text", "text": EMPTY}], changed or len(kept) < len(blocks)


def _joined(before: str | Blocks, content: str | Blocks) -> Blocks:
    """Two messages of the user as one, all results first."""
    parts: Blocks = []
    for each in (before, content):
        parts += [{"type": "text", "text": each}] if isinstance(each, str) else each
    return sorted(parts, key=lambda block: block.get("type") != "tool_result")
