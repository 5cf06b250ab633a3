"""Messages that are more than text: the blocks of the Messages API, checked, as JSON, and as text to find them by. Pure.

Images and documents are kept by reference (a URL or a file id), never as bytes. Blocks of a type we do not know are kept as they
are: an API grows. A block of type "original" is what another system calls this message, kept with it and nothing that is said: it
may be larger, and no model is shown it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from keepstone.errors import TooLarge, ValidationError
from keepstone.write.request import MAX_CONTENT, plain_json

MAX_BLOCK_DEPTH = 32
MAX_ORIGINAL = 256 * 1024  # bytes of JSON of what another system calls a message
ORIGINAL = "original"
_MAX_VALUES = 64 * 1024
_DONE = {"tool_use", "tool_result", "step", "thinking", "redacted_thinking"}
_NEEDED = {"text": ("text",), "tool_use": ("id", "name", "input"), "tool_result": ("tool_use_id",), "image": ("source",)}


def split_content(content: Any) -> tuple[str, str | None]:
    """(text to store and find a message by, its blocks as JSON or None if it is only text)."""
    if isinstance(content, str):
        return content, None
    if isinstance(content, (bytes, Mapping)) or not isinstance(content, Sequence):
        raise ValidationError(f"a message's content must be text or a list of blocks, got {type(content).__name__}.")
    if not content:
        raise ValidationError("a message's content is an empty list: give it at least one block.")
    blocks = [_checked(block, at) for at, block in enumerate(content)]
    packed = _packed(blocks)
    if len(packed.encode("utf-8")) > MAX_CONTENT:
        _check_sizes(blocks)
    return text_of(blocks), packed


def _packed(blocks: Sequence[Mapping[str, Any]]) -> str:
    return json.dumps(blocks, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _check_sizes(blocks: Sequence[Mapping[str, Any]]) -> None:
    spoken_json = _packed([block for block in blocks if block["type"] != ORIGINAL])
    if len(spoken_json.encode("utf-8")) > MAX_CONTENT:
        raise TooLarge(
            f"a message's blocks have {len(spoken_json)} characters as JSON, the limit is {MAX_CONTENT} bytes: shorten it."
        )
    original_bytes = len(_packed([block for block in blocks if block["type"] == ORIGINAL]).encode("utf-8"))
    if original_bytes > MAX_ORIGINAL:
        raise TooLarge(f"a message's original has {original_bytes} bytes as JSON, the limit is {MAX_ORIGINAL}: divide it.")


def _checked(block: Any, at: int) -> dict[str, Any]:
    where = f"block {at}"
    if not isinstance(block, Mapping) or not isinstance(block.get("type"), str) or not block["type"]:
        raise ValidationError(f"{where} of a message is not a block: use a dictionary with a 'type', such as text.")
    kind = block["type"]
    for name in _NEEDED.get(kind, ()):
        if name not in block:
            raise ValidationError(f"{where} of a message is of type {kind} and has no {name!r}: add it.")
    if kind == "text" and not isinstance(block["text"], str):
        raise ValidationError(f"{where} of a message has a text that is {type(block['text']).__name__}: use a str.")
    inner = block.get("content")
    if kind == "tool_result" and not (inner is None or isinstance(inner, str) or _blocks(inner)):
        raise ValidationError(f"{where} of a message has a result that is {type(inner).__name__}: use text or a list of blocks.")
    plain: dict[str, Any] = plain_json(block, where, MAX_BLOCK_DEPTH, _MAX_VALUES)
    if kind != ORIGINAL and _has_bytes(plain):
        raise ValidationError(f"{where} of a message holds an image's bytes: store it elsewhere and give its url or file_id.")
    return plain


def _blocks(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and all(isinstance(each, Mapping) for each in value)


def _has_bytes(value: Any) -> bool:
    if isinstance(value, dict):
        inline = value.get("type") == "base64" and "data" in value
        return inline or str(value.get("url", "")).startswith("data:") or any(_has_bytes(each) for each in value.values())
    return isinstance(value, list) and any(_has_bytes(each) for each in value)


def is_tool_only(content: str | Sequence[Mapping[str, Any]]) -> bool:
    """Whether a message is only about tools, used and answered: then it was done, not said."""
    if isinstance(content, str):
        return False
    kinds = {block.get("type") for block in content if block.get("type") != "text" or str(block.get("text", "")).strip()}
    kinds.discard(ORIGINAL)
    return kinds <= _DONE and bool(kinds & {"tool_use", "tool_result", "step"})


def without_originals(blocks: Sequence[Mapping[str, Any]] | None) -> Sequence[Mapping[str, Any]] | None:
    """Blocks without what only another system reads; None where what is left is plain text, which the content has."""
    if blocks is None or all(block.get("type") != ORIGINAL for block in blocks):
        return blocks
    kept = [block for block in blocks if block.get("type") != ORIGINAL]
    return kept if any(block.get("type") != "text" for block in kept) else None


def text_of(content: str | Sequence[Mapping[str, Any]]) -> str:
    """What a message says, as text: tool calls and results in brackets, images by their address.

    >>> text_of([{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "1", "name": "clock", "input": {}}])
    'Let me look.\\n[uses clock {}]'
    """
    return content if isinstance(content, str) else "\n".join(filter(None, map(block_text, content)))


def block_text(block: Mapping[str, Any]) -> str:
    """One block as words."""
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "tool_use":
            return f"[uses {block.get('name')} {json.dumps(block.get('input'), ensure_ascii=False)}]"
        case "tool_result":
            inner = block.get("content") or ""
            text = inner if isinstance(inner, str) else text_of([each for each in inner if isinstance(each, Mapping)])
            return f"[{'error' if block.get('is_error') else 'result'}: {text}]"
        case "image" | "document":
            source = block.get("source")
            named = source if isinstance(source, Mapping) else {}
            return f"[{block['type']} {named.get('url') or named.get('file_id') or ''}]"
        case "step":
            parts = ((name, block.get(name)) for name in ("thought", "action", "result"))
            return "\n".join(f"{name.capitalize()}: {value}" for name, value in parts if value)
        case "original":
            return ""
        case kind:
            return f"[{kind}]"
