"""What was said in a session, read from the file in which a coding agent keeps it.

Claude Code, Codex and Cursor append a JSON object a line; Gemini CLI writes one JSON document, or lines as well. Only text that
the user and the model wrote is read: tool calls, their results, thoughts and what the client itself inserts are left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstone.errors import ValidationError
from keepstone.text.times import parse_time
from keepstone.types import Message

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>|<memory note=.*?</memory>", re.DOTALL)
_INSERTED = re.compile(r"\s*(?:<[a-z][\w-]*>|Caveat: The messages below were generated|# AGENTS\.md instructions)")
_ROLES = {"user": "user", "assistant": "assistant", "gemini": "assistant", "model": "assistant"}
_TEXT_BLOCKS = ("text", "input_text", "output_text")
_MAX_BYTES = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Said:
    """A message, its id in the transcript, and where the transcript goes on after it."""

    message: Message
    id: str
    next: int


def read_transcript(path: str | Path, start: int = 0) -> Iterator[Said]:
    """The messages from a position on: a byte in a file of lines, a number of messages in a document. A last line that is not
    complete yet is left for later."""
    path = Path(path)
    with path.open("rb") as file:
        document = path.suffix == ".json" and file.read(1) in (b"{", b"[")
        if document:
            file.seek(0)
            yield from _read_document(file.read(_MAX_BYTES), start)
            return
        file.seek(start)
        position = start
        for line in file:
            if not line.endswith(b"\n"):
                return
            position += len(line)
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # a line of another format
            found = _parse(entry) if isinstance(entry, dict) else None
            if found is not None:
                yield Said(found[0], found[1] or f"byte {position}", position)


def _read_document(content: bytes, start: int) -> Iterator[Said]:
    try:
        whole = json.loads(content)
    except ValueError:
        return  # being written
    entries = whole.get("messages", []) if isinstance(whole, dict) else whole
    for at, entry in enumerate(entries):
        found = _parse(entry) if at >= start and isinstance(entry, dict) else None
        if found is not None:
            yield Said(found[0], found[1] or f"message {at}", at + 1)


def _parse(entry: Mapping[str, Any]) -> tuple[Message, str] | None:
    """The message of an entry and its id; None for everything that is not text of the user or the model."""
    if any(entry.get(flag) for flag in ("isMeta", "isSidechain", "isCompactSummary")):
        return None
    inner = entry
    if entry.get("type") == "response_item":  # Codex
        inner = entry.get("payload") or {}
        if inner.get("type") != "message":
            return None
    elif isinstance(entry.get("message"), Mapping):  # Claude Code, Cursor
        inner = entry["message"]
    role = _ROLES.get(str(inner.get("role") or entry.get("role") or entry.get("type") or ""))
    text = _text_of(inner.get("content"))
    if role is None or not text:
        return None
    try:
        at = parse_time(entry["timestamp"], "timestamp") if isinstance(entry.get("timestamp"), str) else None
    except ValidationError:
        at = None
    id = next((entry[name] for name in ("uuid", "id") if isinstance(entry.get(name), str)), "")
    return Message(role, text, at=at), id


def _text_of(content: Any) -> str:
    """The text of a content: blocks of text joined, without what the client inserts."""
    if isinstance(content, list):
        blocks = [each for each in content if isinstance(each, Mapping)]
        if any(each.get("type") == "tool_result" for each in blocks):
            return ""
        texts = [each.get("text") for each in blocks if each.get("type", "text") in _TEXT_BLOCKS]
        content = "\n".join(text for text in texts if isinstance(text, str) and not _INSERTED.match(text))
    if not isinstance(content, str):
        return ""
    own = _REMINDER.sub("", content).strip()
    return "" if _INSERTED.match(own) else own
