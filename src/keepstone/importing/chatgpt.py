"""ChatGPT's data export: conversations as trees of messages, and what ChatGPT had remembered.

Of each conversation the branch that is shown is taken. What was hidden in the product stays out; images and files are named, as
the export keeps them in files of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from keepstone.errors import ValidationError
from keepstone.importing.entries import Entry, Found, Passed, clean_text
from keepstone.importing.json_files import Document
from keepstone.importing.row_readers import collect_safely, list_at, read_rows, split_entry, text_at, time_at
from keepstone.text.times import parse_time
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
        yield Passed(file, where, "it is not a conversation of ChatGPT: it has no mapping of messages.")
        return
    began = time_at(row, where, "create_time")
    name = text_at(row, "conversation_id", "id") or (began.isoformat() if began else where)
    talk = (name, clean_text(text_at(row, "title"))[:_TITLE])
    facts: list[Found] = []
    for node, message in _branch(row):
        at = f"message {node:.60} of {where}"
        facts += collect_safely(_remembered(message, file, at, told, began), file, at, node)
        yield from collect_safely(_message(message, node, file, at, talk, began), file, at, node)
    yield from facts  # after the conversation, which goes in as one


def _branch(row: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """The messages that are shown, oldest first: from the current node up, or down the last children where none is named."""
    mapping: Mapping[str, Any] = {key: each for key, each in row["mapping"].items() if isinstance(each, Mapping)}
    node = row.get("current_node")
    path: dict[str, None] = {}
    if not isinstance(node, str) or node not in mapping:
        roots = [key for key, each in mapping.items() if each.get("parent") not in mapping]
        node = roots[-1] if roots else None
        while isinstance(node, str) and node in mapping and node not in path:
            path[node] = None
            children = [each for each in list_at(mapping[node], "children") if isinstance(each, str) and each in mapping]
            node = children[-1] if children else None
        order = list(path)
    else:
        while isinstance(node, str) and node in mapping and node not in path:
            path[node] = None
            node = mapping[node].get("parent")
        order = list(path)[::-1]
    found = ((key, mapping[key].get("message")) for key in order)
    return [(text_at(message, "id") or key, message) for key, message in found if isinstance(message, Mapping)]


def _message(
    message: Mapping[str, Any], id: str, file: str, where: str, talk: tuple[str, str], began: datetime | None
) -> Iterator[Found]:
    author, content, about = (_inner(message, name) for name in ("author", "content", "metadata"))
    role = text_at(author, "role") or "user"
    if about.get("is_visually_hidden_from_conversation") is True or content.get("content_type") in _SILENT:
        return
    if text_at(message, "recipient") == "bio" or text_at(author, "name") == "bio":
        return  # a memory: it is kept as a fact
    text = _text(content)
    if not text.strip():
        if role != "system":
            yield Passed(file, where, "it says nothing: an empty message, or a step without text.", "skipped", id)
        return
    speaker = text_at(author, "name") if role == "tool" else ""
    entry = Entry(
        text, file, where,
        id=id, kind=MESSAGE, at=_time(message, where) or began, session=f"chatgpt:{talk[0]}", role=role, name=speaker or None,
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
    content = _inner(message, "content")
    kind = content.get("content_type")
    lines: list[tuple[str, str, datetime | None]] = []
    if text_at(message, "recipient") == "bio":
        lines = [("general", line, None) for line in _text(content).splitlines()]
    elif kind == "model_editable_context":
        for line in text_at(content, "model_set_context").splitlines():
            match = _LISTED.match(line)
            since = _day(match[1]) if match and match[1] else None
            lines.append(("general", match[2] if match else line, since))
    elif kind == "user_editable_context":
        lines = [(tag, text_at(content, f"user_{tag}"), None) for tag in ("profile", "instructions")]
    for tag, line, since in lines:
        text = line.strip()
        if text and text not in told:
            told.add(text)
            yield from split_entry(Entry(text, file, f"memory in {where}", tag=tag, at=since or _time(message, where) or began))


def _day(text: str) -> datetime | None:
    try:
        return parse_time(text, "date")
    except ValidationError:
        return None


def _time(message: Mapping[str, Any], where: str) -> datetime | None:
    return time_at(message, where, "create_time")


def _inner(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}
