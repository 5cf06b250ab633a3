"""Entries of the transcripts of coding agents as messages: Claude Code, Codex, Gemini CLI and Cursor.

Claude Code, Codex and Cursor append a JSON object a line; Gemini CLI writes one JSON document, or lines as well. What the user
and the model wrote are messages, tool calls and their results are steps. Thoughts, conversations of subagents and what the client
itself inserts are left out. Hooks read a transcript as it grows, an import reads whole folders of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from keepstone.importing.entries import clean_text, time_of
from keepstone.types import Message

_REMINDER = re.compile(r"<system-reminder>.*?</system-reminder>|<memory note=.*?</memory>", re.DOTALL)
_QUERY = re.compile(r"<user_query>\s*(.*?)\s*</user_query>", re.DOTALL)  # Cursor
_INSERTED = re.compile(r"\s*(?:<[a-z][\w-]*>|Caveat: The messages below were generated|# AGENTS\.md instructions)")
_ROLES = {"user": "user", "assistant": "assistant", "gemini": "assistant", "model": "assistant"}
_TEXT_BLOCKS = ("text", "input_text", "output_text")
_MAX_BYTES = 256 * 1024 * 1024
_MAX_STEP_CHARS = 2000  # of a tool's input or result

# Entries that hold nothing that was said or done, by their type.
_LEFT_OUT = frozenset(
    # Claude Code
    "summary system file-history-snapshot queue-operation progress attachment last-prompt custom-title ai-title agent-name "
    "agent-color agent-setting permission-mode mode pr-link tag task-summary worktree-state content-replacement "
    "attribution-snapshot saved_hook_context result stream_event "
    # Codex
    "session_meta turn_context event_msg compacted state reasoning ghost_snapshot compaction context_compaction "
    "web_search_call image_generation_call other developer world_state "
    # Gemini CLI
    "info error warning "
    # blocks of messages
    "thinking redacted_thinking image input_image document server_tool_use web_search_tool_result".split()
)
_HEADS = frozenset(("record_type", "instructions", "projectHash", "$set", "$rewindTo"))  # fields of lines without a type
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "tool_search_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "tool_search_output")


@dataclass(frozen=True, slots=True)
class Said:
    """A message, its id in the transcript, and where the transcript goes on after it."""

    message: Message
    id: str
    next: int


@dataclass(frozen=True, slots=True)
class Parsed:
    """What one entry holds: the text that was said, the steps that were taken with their ids, and types that are not known."""

    text: Message | None = None
    steps: tuple[tuple[str, Message], ...] = ()
    unknown: tuple[str, ...] = ()


def read_transcript(path: str | Path, start: int = 0) -> Iterator[Said]:
    """The texts from a position on: a byte in a file of lines, a number of messages in a document. A last line that is not
    complete yet is left for later."""
    for position, entry in read_entries(path, start):
        parsed = parse_entry(entry) if isinstance(entry, Mapping) else Parsed()
        if parsed.text is not None:
            yield Said(parsed.text, entry_id(entry, position), position)


def read_entries(path: str | Path, start: int = 0) -> Iterator[tuple[int, Any]]:
    """The JSON values of a transcript, each with the position after it; None for a line that is not JSON."""
    path = Path(path)
    with path.open("rb") as file:
        if path.suffix == ".json" and file.read(1) in (b"{", b"["):
            file.seek(0)
            size = min(path.stat().st_size, _MAX_BYTES)  # a read takes as much memory as it may need
            whole = _decode(file.read(size))  # nothing while it is being written
            entries = whole.get("messages") if isinstance(whole, Mapping) else whole
            yield from enumerate(entries[start:] if isinstance(entries, list) else [], start + 1)
            return
        file.seek(start)
        position = start
        for line in file:
            if not line.endswith(b"\n"):
                return
            position += len(line)
            if line.strip():
                yield position, _decode(line)


def _decode(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def entry_id(entry: Mapping[str, Any], position: int) -> str:
    """The id of an entry, or its place."""
    id = next((entry[name] for name in ("uuid", "id", "bubbleId") if isinstance(entry.get(name), str)), "")
    return id or f"byte {position}"


def parse_entry(entry: Mapping[str, Any]) -> Parsed:
    """What an entry of any client holds."""
    if any(entry.get(flag) for flag in ("isMeta", "isSidechain", "isCompactSummary")):
        return Parsed()
    inner = entry
    if entry.get("type") == "response_item":  # Codex
        inner = entry["payload"] if isinstance(entry.get("payload"), Mapping) else {}
    elif isinstance(entry.get("message"), Mapping):  # Claude Code, Cursor
        inner = entry["message"]
    at = _time_of(entry)
    kind = str(inner.get("type") or entry.get("type") or "")
    if kind in _CALLS or kind in _RESULTS:
        return Parsed(steps=(_codex_step(inner, kind, at),))
    role = _ROLES.get(str(inner.get("role") or entry.get("role") or entry.get("type") or ""))
    if role is None:
        name = kind if kind != "message" else str(inner.get("role"))
        left_out = name in _LEFT_OUT or not _HEADS.isdisjoint(entry)
        return Parsed() if left_out else Parsed(unknown=(f"type {name!r:.40}",))
    return _parse_message(role, inner, at)


def _parse_message(role: str, inner: Mapping[str, Any], at: datetime | None) -> Parsed:
    content = inner.get("content")
    blocks = [each for each in content if isinstance(each, Mapping)] if isinstance(content, list) else []
    steps = [step for block in blocks if (step := _tool_block(block, at)) is not None]
    for call in inner.get("toolCalls") or ():  # Gemini CLI
        if isinstance(call, Mapping):
            steps += _call_and_result(call.get("id"), call.get("name"), call.get("args"), call.get("result"), at)
    known = (*_TEXT_BLOCKS, "tool_use", "tool_result")
    kinds = {str(block.get("type", "text")) for block in blocks}
    unknown = tuple(f"block {kind!r:.40}" for kind in sorted(kinds) if kind not in known and kind not in _LEFT_OUT)
    text = text_of(content)
    return Parsed(Message(role, text, at=at) if text else None, tuple(steps), unknown)


def _tool_block(block: Mapping[str, Any], at: datetime | None) -> tuple[str, Message] | None:
    """A tool's use or result in a message of Claude Code or Cursor."""
    if block.get("type") == "tool_use":
        return _call(block.get("id"), block.get("name"), block.get("input"), at)
    return _result(block.get("tool_use_id"), block.get("content"), at) if block.get("type") == "tool_result" else None


def _codex_step(inner: Mapping[str, Any], kind: str, at: datetime | None) -> tuple[str, Message]:
    id = inner.get("call_id") or inner.get("id")
    if kind in _RESULTS:
        return _result(id, inner.get("output"), at)
    given: Any = next((inner[name] for name in ("arguments", "input", "action") if inner.get(name) is not None), None)
    return _call(id, inner.get("name") or kind.removesuffix("_call"), given, at)


def parse_bubble(bubble: Mapping[str, Any], at: datetime | None) -> Parsed:
    """A message of a Cursor database."""
    role = {1: "user", 2: "assistant"}.get(bubble.get("type") or 0)
    if role is None:
        return Parsed(unknown=(f"bubble of type {str(bubble.get('type'))!r:.40}",))
    at = _time_of({"timestamp": bubble.get("createdAt")}) or at
    tool = bubble.get("toolFormerData")
    steps: list[tuple[str, Message]] = []
    if isinstance(tool, Mapping) and tool.get("name"):
        given = tool.get("rawArgs") or tool.get("params")
        steps = _call_and_result(tool.get("toolCallId"), tool["name"], given, tool.get("result"), at)
    text = text_of(bubble.get("text"))
    return Parsed(Message(role, text, at=at) if text else None, tuple(steps))


# -- steps -----------------------------------------------------------------------------------------------------------------
def _call_and_result(id: Any, name: Any, given: Any, result: Any, at: datetime | None) -> list[tuple[str, Message]]:
    steps = [_call(id, name, given, at)]
    return steps if result in (None, "", []) else [*steps, _result(id, result, at)]


def _call(id: Any, name: Any, given: Any, at: datetime | None) -> tuple[str, Message]:
    if isinstance(given, str):
        decoded = _decode(given.encode("utf-8", "replace"))
        given = decoded if isinstance(decoded, Mapping) else {"input": given}
    given = given if isinstance(given, Mapping) else {} if given is None else {"input": given}
    block = {"type": "tool_use", "id": _name(id), "name": _name(name) or "tool", "input": _shorten_input(given)}
    return f"{_name(id)}/call", Message("assistant", [block], at=at)


def _result(id: Any, content: Any, at: datetime | None) -> tuple[str, Message]:
    text = _result_text(content)
    block = {"type": "tool_result", "tool_use_id": _name(id), "content": _shorten(text)}
    return f"{_name(id)}/result", Message("tool", [block], at=at)


def _name(value: Any) -> str:
    return clean_text(str(value))[:200] if value else ""


def _result_text(content: Any) -> str:
    """The text of a result: its blocks of text, or the JSON of something else."""
    if isinstance(content, str):
        return content
    if isinstance(content, Mapping) and isinstance(content.get("content"), str):
        return str(content["content"])
    if isinstance(content, list):
        texts = [each.get("text") for each in content if isinstance(each, Mapping)]
        if any(isinstance(text, str) for text in texts):
            return "\n".join(text for text in texts if isinstance(text, str))
    return json.dumps(content, ensure_ascii=False, default=str)


def _shorten(text: str) -> str:
    text = clean_text(text)
    return text if len(text) <= _MAX_STEP_CHARS else f"{text[: _MAX_STEP_CHARS - 1]}…"


def _shorten_input(given: Mapping[str, Any]) -> dict[str, Any]:
    """A tool's input, as JSON that can be stored; long ones are cut."""
    text = json.dumps(given, ensure_ascii=False, default=str)
    if len(text) > _MAX_STEP_CHARS:
        return {"input": _shorten(text)}
    plain = json.loads(clean_text(text).replace("\\u0000", ""))
    return plain if isinstance(plain, dict) else {}


# -- texts -----------------------------------------------------------------------------------------------------------------
def _time_of(entry: Mapping[str, Any]) -> datetime | None:
    given = entry.get("timestamp")
    return time_of(given / 1000 if isinstance(given, (int, float)) and not isinstance(given, bool) else given)


def text_of(content: Any) -> str:
    """The text of a content: blocks of text joined, without what the client inserts."""
    if isinstance(content, list):
        blocks = [each for each in content if isinstance(each, Mapping)]
        if any(each.get("type") == "tool_result" for each in blocks):
            return ""
        texts = [each.get("text") for each in blocks if each.get("type", "text") in _TEXT_BLOCKS]
        content = "\n".join(own for text in texts if isinstance(text, str) and (own := _own_text(text)))
    return _own_text(content) if isinstance(content, str) else ""


def _own_text(text: str) -> str:
    """What a person or the model wrote of a text; "" if the client inserted it."""
    query = _QUERY.search(text)
    own = _REMINDER.sub("", query[1] if query else text).strip()
    return "" if _INSERTED.match(own) else own
