"""A vault: a folder of Markdown notes, one for each memory, as Obsidian and other editors read them.

`export_vault` writes it, `compare_vault` says what differs from the store, and `apply_changes` carries that over. A note without
an id is a new memory; a memory without a note stays.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from keepstone.errors import ConfigurationError, Conflict, NotFound
from keepstone.importing.markdown import read_notes
from keepstone.memory import list_all
from keepstone.types import MESSAGE, Receipt, Record

if TYPE_CHECKING:
    from keepstone.memory import Memory

_UNSAFE = re.compile(r"[^\w-]+")
_MAX_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class Change:
    """What a note would change: a "new" memory, a "changed" one, or nothing, because the memory was changed ("conflict") or
    forgotten ("gone") since the note was written."""

    what: Literal["new", "changed", "conflict", "gone"]
    file: str
    content: str
    tag: str | None = None
    id: str | None = None
    before: Record | None = None


def export_vault(memory: Memory, folder: str | PathLike[str]) -> int:
    """Write each memory but messages as a note: FOLDER/TAG/words-ID.md. A note of the same memory is replaced; other files stay.
    Returns the number of notes."""
    root, count = Path(folder), 0
    known = {note.fields.get("id"): note.path for note in read_notes(root)} if root.is_dir() else {}
    for record in list_all(memory):
        if record.kind == MESSAGE:
            continue
        path = root / (_safe(record.tag) or "general") / f"{_safe(record.content[:_MAX_NAME_CHARS])}-{record.id}.md"
        former = known.get(record.id)
        if former is not None and former != path:
            former.unlink(missing_ok=True)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, _render(record))
        except OSError as error:
            raise ConfigurationError(f"cannot write {str(path)!r:.200} ({error.strerror}): choose another folder.") from None
        count += 1
    return count


def _write(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o600), "w", encoding="utf-8", newline="\n") as file:
        file.write(text)


def compare_vault(memory: Memory, folder: str | PathLike[str]) -> list[Change]:
    """What the notes of a folder say that the memory does not."""
    if not Path(folder).is_dir():
        raise ConfigurationError(f"there is no folder {str(folder)!r:.200}: check the path.")
    changes: list[Change] = []
    for note in read_notes(Path(folder)):
        id, tag = note.fields.get("id"), note.fields.get("tag") or None
        content = note.body.strip("\n")
        if not isinstance(id, str) or not id:
            if content.strip():
                changes.append(Change("new", note.name, content, tag))
            continue
        record = memory.get(id)
        if record is None or record.status != "active":
            changes.append(Change("gone", note.name, content, tag, id))
        elif content != record.content.strip("\n") or (tag is not None and tag != record.tag):
            stale = str(note.fields.get("version")) != str(record.version)
            changes.append(Change("conflict" if stale else "changed", note.name, content, tag, id, record))
    return changes


def apply_changes(memory: Memory, changes: Sequence[Change]) -> list[Receipt]:
    """Store new notes and change memories; a receipt for each of them."""
    receipts = []
    for change in changes:
        if change.what == "new":
            receipts.append(memory.remember(change.content, kind="note", tag=change.tag or "notes"))
        elif change.what == "changed" and change.before is not None and change.id is not None:
            content = None if change.content == change.before.content.strip("\n") else change.content
            tag = change.tag if change.tag != change.before.tag else None
            try:
                receipts.append(memory.update(change.id, content, tag=tag, expected_version=change.before.version))
            except (Conflict, NotFound) as error:
                receipts.append(Receipt("refused", change.id, 0, (str(error),)))
    return receipts


def _render(record: Record) -> str:
    fields = {"id": record.id, "version": str(record.version), "kind": record.kind, "tag": record.tag}
    fields |= {"key": record.key} if record.key is not None else {}
    fields |= {"occurred": f"{record.occurred_at:%Y-%m-%d}", "tags": f"[{_safe(record.tag)}]"}
    lines = [f"{name}: {value if name == 'tags' else json.dumps(value, ensure_ascii=False)}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", record.content.strip("\n"), ""])


def _safe(text: str) -> str:
    """A text as a part of a file name."""
    return _UNSAFE.sub("-", text).strip("-")[:_MAX_NAME_CHARS].strip("-")
