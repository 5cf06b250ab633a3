"""ChatGPT's data export: conversations as trees of messages, and ChatGPT's memories.

Of each conversation the branch that ChatGPT shows is imported, without hidden messages. Images and files are named only, since
the export has them in separate files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from keepstone.importing.entries import Entry, Found, clean_text, list_at, read_rows, read_safely, split_entry, text_at, time_of
from keepstone.maintenance.external_exports import object_at, time_at
from keepstone.maintenance.external_files import Document, Unread
from keepstone.types import MESSAGE

_FILES = re.compile(r"conversations([-_].*)?\.json$", re.IGNORECASE)
_LISTED = re.compile(r"^\s*(?:\d+[.)]|[-*•])\s*(?:\[(\d{4}-\d\d-\d\d)\][.:]?\s*)?(.+)$")
_SILENT = ("thoughts", "reasoning_recap", "model_editable_context", "user_editable_context", "app_pairing_content")
_TITLE = 200


def is_chatgpt(row: Any) -> bool:
    """Whether an entry of a file is a conversation of ChatGPT's."""
    return isinstance(row, Mapping) and isinstance(row.get("mapping"), Mapping)


def wanted(document: Document) -> bool:
    """Whether a file of the archive holds conversations."""
    return document.alone or _FILES.match(PurePosixPath(document.name).name) is not None


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Messages as conversations; memories and what users told of themselves as facts, each once."""
    return read_rows(documents, partial(_conversation, set()))


def _conversation(told: set[str], row: Any, file: str, where: str) -> Iterator[Found]:
    if not is_chatgpt(row):
        yield Unread(file, where, "it is not a conversation of ChatGPT: it has no mapping of messages.")
        return
    began = time_at(row, where, "create_time")
    name = text_at(row, "conversation_id", "id") or (began.isoformat() if began else where)
    talk = (name, clean_text(text_at(row, "title"))[:_TITLE])
    facts: list[Found] = []
    for node, message in _branch(row):
        at = f"message {node:.60} of {where}"
        facts += read_safely(_remembered(message, file, at, told, began), file, at, node)
        yield from read_safely(_message(message, node, file, at, talk, began), file, at, node)
    yield from facts  # after the conversation, which goes in as one


def _branch(row: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The messages that are shown, oldest first: those that lead to the current node, or else to the last one."""
    nodes: Mapping[str, Any] = {key: node for key, node in row["mapping"].items() if isinstance(node, Mapping)}
    current = row.get("current_node")
    if not isinstance(current, str) or current not in nodes:
        current = _last_leaf(nodes)
    path: dict[str, None] = {}
    while isinstance(current, str) and current in nodes and current not in path:
        path[current] = None
        current = nodes[current].get("parent")
    messages = ((key, nodes[key].get("message")) for key in reversed(path))
    return [(text_at(message, "id") or key, message) for key, message in messages if isinstance(message, Mapping)]


def _last_leaf(nodes: Mapping[str, Any]) -> str | None:
    """The end of the path down the last children of the last root."""
    current = next((key for key, node in reversed(list(nodes.items())) if node.get("parent") not in nodes), None)
    seen: set[str] = set()
    while current is not None and current not in seen:
        seen.add(current)
        below = [key for key in list_at(nodes[current], "children") if isinstance(key, str) and key in nodes]
        current = below[-1] if below else current
    return current


def _message(
    message: Mapping[str, Any], id: str, file: str, where: str, talk: tuple[str, str], began: datetime | None
) -> Iterator[Found]:
    author, content, about = (object_at(message, name) for name in ("author", "content", "metadata"))
    role = text_at(author, "role") or "user"
    if about.get("is_visually_hidden_from_conversation") is True or content.get("content_type") in _SILENT:
        return
    if text_at(message, "recipient") == "bio" or text_at(author, "name") == "bio":
        return  # a memory: it is kept as a fact
    text = _text(content)
    if not text.strip():
        if role != "system":
            yield Unread(file, where, "it says nothing: an empty message, or a step without text.", "skipped", id)
        return
    speaker = text_at(author, "name") if role == "tool" else ""
    entry = Entry(
        text, file, where,
        id=id, kind=MESSAGE, at=time_at(message, where, "create_time") or began, session=f"chatgpt:{talk[0]}", role=role,
        name=speaker or None,
        metadata={"title": talk[1]} if talk[1] else {},
    )  # fmt: skip
    yield from split_entry(entry)


def _text(content: Mapping[str, Any]) -> str:
    """What a content says: its parts one after the other, those that are no text by name."""
    said = [_part(part) for part in list_at(content, "parts")]
    if not said:
        said = [text_at(content, "text", "result")]
        if content.get("content_type") == "tether_quote":
            said = [text_at(content, "title"), *said, text_at(content, "url")]
        if content.get("content_type") == "code" and said[0]:
            language = text_at(content, "language")
            said = [f"```{language if language != 'unknown' else ''}\n{said[0]}\n```"]
    return "\n\n".join(each for each in said if each)


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    kind = text_at(part, "content_type")
    if "pointer" in kind or text_at(part, "asset_pointer"):
        return (
            f"[{'audio' if 'audio' in kind else 'video' if 'video' in kind else 'image'}: {text_at(part, 'asset_pointer')[:200]}]"
        )
    return text_at(part, "text")


def _remembered(message: Mapping[str, Any], file: str, where: str, told: set[str], began: datetime | None) -> Iterator[Found]:
    """What ChatGPT had been told to keep: its memories, and what users wrote about themselves and how it should answer."""
    content = object_at(message, "content")
    kind = content.get("content_type")
    lines: list[tuple[str, str, datetime | None]] = []
    if text_at(message, "recipient") == "bio":
        lines = [("general", line, None) for line in _text(content).splitlines()]
    elif kind == "model_editable_context":
        for line in text_at(content, "model_set_context").splitlines():
            match = _LISTED.match(line)
            since = time_of(match[1]) if match and match[1] else None
            lines.append(("general", match[2] if match else line, since))
    elif kind == "user_editable_context":
        lines = [(tag, text_at(content, f"user_{tag}"), None) for tag in ("profile", "instructions")]
    for tag, line, since in lines:
        text = line.strip()
        if text and text not in told:
            told.add(text)
            yield from split_entry(
                Entry(text, file, f"memory in {where}", tag=tag, at=since or time_at(message, where, "create_time") or began)
            )
