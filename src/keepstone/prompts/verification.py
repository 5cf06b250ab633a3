"""Memories that later messages contradict: the prompt, its schema, and the reader of its answer. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from keepstone.ports.chat import Prompt
from keepstone.prompts import read_text
from keepstone.prompts.answers import closed_object, json_object
from keepstone.prompts.extraction import Line, conversation, escaped, moment, shortened

VERSION = "1"
MAX_MEMORY_CHARS = 500
SYSTEM = read_text("verification")
_PAIR = closed_object({"memory": {"type": "integer"}, "turn": {"type": "integer"}})
SCHEMA = closed_object({"contradicted": {"type": "array", "items": _PAIR}})


def render(memories: Sequence[tuple[str, datetime]], lines: Sequence[Line], *, now: datetime, max_tokens: int = 1024) -> Prompt:
    """The prompt for memories, each with the time since when it is known, and later messages."""
    numbered = [
        f'<memory number="{number}" since="{moment(since)}">{escaped(shortened(content, MAX_MEMORY_CHARS))}</memory>'
        for number, (content, since) in enumerate(memories, 1)
    ]
    parts = [
        f"<now>{moment(now)}</now>",
        "\n".join(["<memories>", *numbered, "</memories>"]),
        conversation(lines),
        "Which memories do the messages contradict? Answer as JSON.",
    ]
    return Prompt([{"role": "user", "content": "\n\n".join(parts)}], SYSTEM, max_tokens=max_tokens, schema=SCHEMA)


def read(text: str, memories: int, turns: int) -> list[tuple[int, int]] | None:
    """The (memory, turn) pairs of an answer, from 0; None if it holds no usable JSON. Pairs of what was not shown are left
    out.

    >>> read('{"contradicted": [{"memory": 2, "turn": 1}, {"memory": 9, "turn": 1}]}', 2, 1)
    [(1, 0)]
    """
    found = json_object(text, ("contradicted",))
    items = None if found is None else found.value["contradicted"]
    if not isinstance(items, list):
        return None
    pairs = [(item.get("memory"), item.get("turn")) for item in items if isinstance(item, dict)]
    return [
        (memory - 1, turn - 1)
        for memory, turn in pairs
        if type(memory) is int and type(turn) is int and 1 <= memory <= memories and 1 <= turn <= turns
    ]
