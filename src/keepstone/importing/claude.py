"""Claude's data export: conversations, projects and what Claude had remembered.

`users.json` is not read. Thoughts and the use of tools are left out of messages; attachments are kept with what was read from
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from keepstone.importing.entries import Entry, Found, clean_text, list_at, read_rows, read_safely, split_entry, text_at
from keepstone.maintenance.external_exports import time_at
from keepstone.maintenance.external_files import Document, Unread
from keepstone.types import MESSAGE

_ROLES = {"human": "user", "user": "user", "assistant": "assistant"}
_TITLE = 200
_NOTE = 4000  # bytes of one note of a document or of what Claude remembered: small enough to be found by what it says


def is_claude(row: Any) -> bool:
    """Whether an entry of a file is a conversation, a project or the memories of Claude's."""
    return isinstance(row, Mapping) and (
        isinstance(row.get("chat_messages"), list) or "conversations_memory" in row or {"uuid", "docs"} <= row.keys()
    )


def wanted(document: Document) -> bool:
    """Whether a file of the archive is read."""
    path = PurePosixPath(document.name)
    return document.alone or path.name.startswith(("conversations", "projects", "memories")) or "projects" in path.parts[:-1]


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Messages as conversations; documents and prompts of projects and what Claude remembered as notes."""
    return read_rows(documents, _row)


def _row(row: Any, file: str, where: str) -> Iterator[Found]:
    if isinstance(row, Mapping) and isinstance(row.get("chat_messages"), list):
        yield from _conversation(row, file, where)
    elif isinstance(row, Mapping) and ("conversations_memory" in row or "project_memories" in row):
        yield from _memories(row, file, where)
    elif isinstance(row, Mapping) and not {"docs", "prompt_template", "description"}.isdisjoint(row):
        yield from _project(row, file, where)
    elif text_at(row, "content", "text", "memory"):
        yield from read_safely(_fact(row, file, where), file, where, text_at(row, "uuid", "id"))
    else:
        yield Unread(file, where, "it is neither a conversation, a project nor a memory of Claude.")


def _conversation(row: Mapping[str, Any], file: str, where: str) -> Iterator[Found]:
    talk, title = text_at(row, "uuid", "id") or where, clean_text(text_at(row, "name", "title"))[:_TITLE]
    for number, message in enumerate(list_at(row, "chat_messages"), 1):
        id = text_at(message, "uuid", "id") or f"{talk}/{number}"
        at = f"message {number} of {where}"
        yield from read_safely(_message(message, id, file, at, talk, title), file, at, id)


def _message(message: Any, id: str, file: str, where: str, talk: str, title: str) -> Iterator[Found]:
    if not isinstance(message, Mapping):
        yield Unread(file, where, "it is not an object with fields.", id=id)
        return
    sender = text_at(message, "sender", "role").lower()
    texts = [text_at(block, "text") for block in list_at(message, "content") if text_at(block, "type") in ("text", "")]
    texts = [each for each in texts if each] or [text_at(message, "text")]
    attached = [each for each in list_at(message, "attachments") if isinstance(each, Mapping)]
    files = [*(each for each in list_at(message, "files", "files_v2") if isinstance(each, Mapping))]
    marks = [f"[file: {text_at(each, 'file_name') or 'without a name':.200}]" for each in files]
    said = "\n\n".join(each for each in (*texts, *marks) if each)
    entry = Entry(
        said, file, where,
        id=id, kind=MESSAGE, at=time_at(message, where, "created_at"), session=f"claude:{talk}",
        role=_ROLES.get(sender, sender or "user"), metadata={"title": title} if title else {},
    )  # fmt: skip
    if said.strip() or not attached:
        yield from split_entry(entry)
    for number, each in enumerate(attached, 1):
        name, content = text_at(each, "file_name") or "without a name", text_at(each, "extracted_content")
        text = f"[attachment: {name:.200}]\n{content}"
        yield from split_entry(Entry(
            text, file, f"attachment {number} of {where}",
            id=f"{id}/attachment-{number}", kind=MESSAGE, at=entry.at, session=entry.session, role=entry.role,
            metadata=entry.metadata,
        ))  # fmt: skip


def _project(row: Mapping[str, Any], file: str, where: str) -> Iterator[Found]:
    id, name = text_at(row, "uuid", "id"), clean_text(text_at(row, "name"))[:_TITLE]
    about = {"project": name} if name else {}
    for field, tag in (("description", "project"), ("prompt_template", "instructions")):
        if text_at(row, field).strip():
            at = f"{field} of {where}"
            yield from read_safely(_told(row, field, tag, file, at, about), file, at, id)
    for number, doc in enumerate(list_at(row, "docs"), 1):
        at = f"document {number} of {where}"
        yield from read_safely(_document(doc, file, at, about), file, at, text_at(doc, "uuid"))


def _told(row: Mapping[str, Any], field: str, tag: str, file: str, where: str, about: Mapping[str, Any]) -> Iterator[Found]:
    """What a project says of itself, or how Claude is to go about it."""
    id = text_at(row, "uuid", "id")
    began, changed = (time_at(row, where, name) for name in ("created_at", "updated_at"))
    yield from split_entry(Entry(
        text_at(row, field), file, where,
        id=f"{id}/{field}" if id else "", kind="note", tag=tag, metadata=about, at=began, changed_at=changed,
    ), _NOTE)  # fmt: skip


def _document(doc: Any, file: str, where: str, about: Mapping[str, Any]) -> Iterator[Found]:
    if not isinstance(doc, Mapping):
        yield Unread(file, where, "it is not an object with fields.")
        return
    name = clean_text(text_at(doc, "filename", "file_name"))[:_TITLE]
    yield from split_entry(Entry(
        text_at(doc, "content"), file, where,
        id=text_at(doc, "uuid", "id"), kind="note", tag="project", metadata={**about, **({"title": name} if name else {})},
        at=time_at(doc, where, "created_at"),
    ), _NOTE)  # fmt: skip


def _memories(row: Mapping[str, Any], file: str, where: str) -> Iterator[Found]:
    """What Claude remembered, as notes under keys: a later export supersedes them."""
    parts = {"": row.get("conversations_memory")}
    projects = row.get("project_memories")
    if isinstance(projects, Mapping):
        parts |= {f"/{name}": text for name, text in projects.items()}
    for name, text in parts.items():
        if isinstance(text, str) and text.strip():
            at = f"memory{name:.60} of {where}"
            yield from split_entry(Entry(text, file, at, kind="note", tag="memory", key=f"claude/memory{name}"), _NOTE)


def _fact(row: Mapping[str, Any], file: str, where: str) -> Iterator[Found]:
    text, times = text_at(row, "content", "text", "memory"), ("created_at", "updated_at")
    at, changed = (time_at(row, where, name) for name in times)
    yield from split_entry(Entry(text, file, where, id=text_at(row, "uuid", "id"), at=at or changed, changed_at=changed))
