"""Memories of Zep and Graphiti: sessions with messages and facts, edges, nodes and episodes of a graph.

A fact that no longer holds (`invalid_at`, else `expired_at`) is kept with its past: it says until when it held, and a recall of
an earlier time finds it as it was. One that is to hold until a time to come expires then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from keepstone.errors import ValidationError
from keepstone.importing.entries import Entry, Found, clean_metadata, read_rows, read_safely, split_entry, text_at
from keepstone.maintenance.external_exports import is_letta, time_at
from keepstone.maintenance.external_files import Document, Unread
from keepstone.text.times import now
from keepstone.types import MESSAGE

Reader = Callable[[Any, str, str, str, str], Iterator[Found]]  # what stands there, file, where, whose it is, which session


def is_zep(row: Any) -> bool:
    """Whether an entry of a file looks like one of Zep's or Graphiti's."""
    if not isinstance(row, Mapping) or is_letta(row):
        return False
    return _reader(row) is not None or any(name != "messages" or "uuid" in row[name][0] for name, _ in _held(row))


def entries(documents: Iterable[Document]) -> Iterator[Found]:
    """Facts and edges as facts, summaries of nodes and sessions and episodes as notes, messages as conversations."""
    return read_rows(documents, _row)


def _row(row: Any, file: str, where: str, owner: str = "", session: str = "") -> Iterator[Found]:
    """One row: a fact, a message … itself, or an object that holds lists of them."""
    if not isinstance(row, Mapping):
        yield Unread(file, where, "it is not an object with fields.")
        return
    owner = text_at(row, "user_id", "group_id", "graph_id") or owner
    held = _held(row)
    reader = _reader(row) if not held else None
    if reader is not None:
        yield from _read(reader, row, file, where, owner, session)
        return
    if not held and not any(isinstance(row.get(name), list) for names, _ in _PARTS for name in names):
        yield Unread(file, where, "it is neither a fact, an edge, a node, an episode, a message nor a session.")
        return
    session = text_at(row, "session_id", "thread_id") or session
    summary = row.get("summary")
    if isinstance(summary, Mapping) and text_at(summary, "content"):
        yield from read_safely(_summary(summary, file, f"summary of {where}", owner, session), file, where)
    for name, read in held:
        for number, each in enumerate(row[name], 1):
            at = f"entry {number} of {name}, {where}"
            if read is None:
                yield from _row(each, file, at, owner, session)
            else:
                yield from _read(read, each, file, at, owner, session)


def _held(row: Mapping[str, Any]) -> list[tuple[str, Reader | None]]:
    """The lists of an object that hold something, and what reads each."""
    found = [(name, read) for names, read in _PARTS for name in names if isinstance(row.get(name), list) and row[name]]
    return [(name, read) for name, read in found if isinstance(row[name][0], Mapping) or name == "facts"]


def _read(read: Reader, row: Any, file: str, where: str, owner: str, session: str) -> Iterator[Found]:
    if isinstance(row, str) and read is _fact:  # older versions listed facts as text
        row = {"fact": row}
    if not isinstance(row, Mapping):
        yield Unread(file, where, "it is not an object with fields.")
        return
    whose = text_at(row, "user_id", "group_id", "graph_id") or owner
    yield from read_safely(read(row, file, where, whose, session), file, where, text_at(row, "uuid"))


def _fact(row: Any, file: str, where: str, owner: str, session: str) -> Iterator[Found]:
    """A fact of a session, or an edge between two nodes."""
    fact = row.get("fact")
    if not isinstance(fact, str):
        raise ValidationError("the field fact is missing, and it holds the text of a memory.")
    metadata, note = clean_metadata(row.get("attributes") or row.get("metadata"))
    began, ended = time_at(row, where, "valid_at", "created_at"), time_at(row, where, "invalid_at", "expired_at")
    later = ended is not None and ended > now()
    id, name = text_at(row, "uuid", "id"), text_at(row, "name")
    entry = Entry(
        fact, file, where,
        id=id, tag=name.lower() or "general", metadata=metadata, at=began, changed_at=time_at(row, where, "updated_at"),
        until=None if later else ended, expires_at=ended if later else None, owner=owner, note=note,
    )  # fmt: skip
    if entry.until is not None:  # under a key of its own it is never merged with what still holds
        entry = replace(entry, key=f"zep/{id}") if id else replace(entry, content=entry.final, until=None)
    yield from split_entry(entry)


def _node(row: Any, file: str, where: str, owner: str, session: str) -> Iterator[Found]:
    name, summary = text_at(row, "name"), text_at(row, "summary")
    if not summary:
        yield Unread(
            file, where, "the node has no summary: what is known of it stands in its edges.", "skipped", text_at(row, "uuid")
        )
        return
    text = f"{name}: {summary}" if name else summary
    at = time_at(row, where, "created_at")
    yield from split_entry(Entry(text, file, where, id=text_at(row, "uuid"), kind="note", tag="entity", at=at, owner=owner))


def _episode(row: Any, file: str, where: str, owner: str, session: str) -> Iterator[Found]:
    metadata = {"title": text_at(row, "name")[:200]} if text_at(row, "name") else {}
    content = text_at(row, "content", "episode_body")
    at = time_at(row, where, "valid_at", "reference_time", "created_at")
    entry = Entry(
        content, file, where, id=text_at(row, "uuid"), kind="note", tag="episode", metadata=metadata, at=at, owner=owner
    )
    yield from split_entry(entry)


def _summary(row: Any, file: str, where: str, owner: str, session: str) -> Iterator[Found]:
    at = time_at(row, where, "created_at")
    content = text_at(row, "content")
    yield from split_entry(Entry(content, file, where, id=text_at(row, "uuid"), kind="note", tag="summary", at=at, owner=owner))


def _message(row: Any, file: str, where: str, owner: str, session: str) -> Iterator[Found]:
    role, speaker = text_at(row, "role_type"), text_at(row, "name", "role")
    if not role:  # newer versions say the role where older ones said the name
        role, speaker = text_at(row, "role"), text_at(row, "name")
    role = {"human": "user", "ai": "assistant", "function": "tool", "norole": "user"}.get(role.lower(), role.lower() or "user")
    metadata, note = clean_metadata(row.get("metadata"))
    talk = text_at(row, "session_id", "thread_id") or session or file
    entry = Entry(
        text_at(row, "content"), file, where,
        id=text_at(row, "uuid", "id"), kind=MESSAGE, metadata=metadata, at=time_at(row, where, "created_at"), owner=owner,
        session=f"zep:{talk}", role=role, name=speaker if speaker and speaker.lower() != role else None, note=note,
    )  # fmt: skip
    yield from split_entry(entry)


_PARTS: tuple[tuple[tuple[str, ...], Reader | None], ...] = (  # None: each entry is looked at as a file's own rows are
    (("sessions", "threads"), None),
    (("facts", "edges", "entity_edges"), _fact),
    (("nodes", "entity_nodes"), _node),
    (("episodes", "episodic_nodes"), _episode),
    (("messages",), _message),
)


def _reader(row: Mapping[str, Any]) -> Reader | None:
    """What reads a row that stands by itself."""
    if isinstance(row.get("fact"), str):
        return _fact
    if "role_type" in row or ("content" in row and not {"session_id", "thread_id"}.isdisjoint(row)):
        return _message
    if not {"episode_body", "source_description", "entity_edges"}.isdisjoint(row):
        return _episode
    if "name" in row and not {"summary", "labels", "name_embedding"}.isdisjoint(row):
        return _node
    return None
