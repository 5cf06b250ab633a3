"""Conversations and tasks as training data: one a line, in the chat format.

It is read from the messages, which are only ever added to; the audit log tells who did what and when.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from keepstone.errors import ConfigurationError
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery
from keepstone.types import Record, Scope
from keepstone.write.blocks import without_originals

FORMATS = ("openai", "anthropic")
TASK = "task:"  # the sessions of tasks
_PAGE_RECORDS = 500


def chat_lines(store: Store, scope: Scope, format: str, only_successes: bool) -> Iterator[str]:
    """A line for every session in which something was answered, oldest session first."""
    if format not in FORMATS:
        raise ConfigurationError(f"there is no training format {format!r:.40}: use {' or '.join(FORMATS)}.")
    for session in _list_sessions(store, scope):
        turns = list(_read_turns(store, scope, session))
        if only_successes and session.startswith(TASK) and not any(turn.metadata.get("success") is True for turn in turns):
            continue
        messages = _drop_unpaired([message for record in turns for message in _to_messages(record, format)])
        if any(message["role"] == "assistant" for message in messages):
            yield json.dumps({"messages": messages}, ensure_ascii=False)


def _list_sessions(store: Store, scope: Scope) -> list[str]:
    """Every session in the order of its first message."""
    sessions: dict[str, None] = {}
    before: int | None = None
    while page := store.list(scope, ListQuery(kind="message", limit=_PAGE_RECORDS, before=before)):
        before = page[-1][0]
        for _, record in page:
            if record.session is not None:
                sessions.pop(record.session, None)
                sessions[record.session] = None
    return list(reversed(sessions))


def _read_turns(store: Store, scope: Scope, session: str) -> Iterator[Record]:
    after = 0
    while page := store.message_log.page(scope, session, after=after, limit=_PAGE_RECORDS, oldest=True):
        after = page[-1][0]
        yield from (record for _, record in page)


def _to_messages(record: Record, format: str) -> list[dict[str, Any]]:
    """A message in the chat format; a step is what was said and what came of it."""
    role = record.role or "user"
    if role == "system" and format == "anthropic":
        return []  # it is no message there
    blocks = without_originals(record.blocks)
    if blocks is None:
        return [{"role": "user" if role == "tool" else role, "content": record.content}]
    first = blocks[0]
    if first.get("type") == "step":
        text = "\n".join(f"{name.capitalize()}: {first[name]}" for name in ("thought", "action") if first.get(name))
        result = [{"role": "user", "content": f"Result: {first['result']}"}] if first.get("result") else []
        return [{"role": "assistant", "content": text}, *result] if text else result
    if format == "openai":
        return _to_openai(role, blocks)
    return [{"role": "user" if role == "tool" else role, "content": list(blocks)}]


def _to_openai(role: str, blocks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Blocks as chat completions have them: tool calls next to the text, each result a message of its own."""
    text = "\n".join(filter(None, map(_block_text, blocks)))
    calls = [
        {
            "id": block["id"],
            "type": "function",
            "function": {"name": block["name"], "arguments": json.dumps(block["input"], ensure_ascii=False)},
        }
        for block in blocks
        if block.get("type") == "tool_use"
    ]
    made: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": block["tool_use_id"], "content": _content_text(block.get("content"))}
        for block in blocks
        if block.get("type") == "tool_result"
    ]
    if text or calls:
        made.append({"role": role, "content": text or None, **({"tool_calls": calls} if calls else {})})
    return made


def _drop_unpaired(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages without unanswered calls and without results of unknown calls: a trainer refuses both."""
    blocks = [block for message in said if isinstance(message["content"], list) for block in message["content"]]
    used = {block.get("id") for block in blocks if block.get("type") == "tool_use"}
    given = {block.get("tool_use_id") for block in blocks if block.get("type") == "tool_result"}
    results = {message["tool_call_id"] for message in said if message["role"] == "tool"}
    calls = {call["id"] for message in said for call in message.get("tool_calls", ())}
    kept: list[dict[str, Any]] = []
    for message in said:
        if message["role"] == "tool" and message["tool_call_id"] not in calls:
            continue
        asked = [call for call in message.get("tool_calls", ()) if call["id"] in results]
        rest = {name: value for name, value in message.items() if name != "tool_calls"}
        if isinstance(rest["content"], list):
            rest["content"] = [block for block in rest["content"] if _is_paired(block, used, given)]
        if asked or rest.get("content"):
            kept.append({**rest, "tool_calls": asked} if asked else rest)
    return kept


def _is_paired(block: Mapping[str, Any], used: set[Any], given: set[Any]) -> bool:
    match block.get("type"):
        case "tool_use":
            return block.get("id") in given
        case "tool_result":
            return block.get("tool_use_id") in used
    return True


def _block_text(block: Mapping[str, Any]) -> str:
    match block.get("type"):
        case "text":
            return str(block.get("text", ""))
        case "image" | "document" as kind:
            source = block.get("source") or {}
            return f"[{kind} {source.get('url') or source.get('file_id') or ''}]"
    return ""


def _content_text(content: Any) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", f"[{part.get('type')}]")) for part in parts if isinstance(part, Mapping))
