"""The history of coding agents: every session that Claude Code, Codex, Gemini CLI or Cursor has kept, with its project.

A session keeps the name that hooks give it, so that what hooks have captured is not imported again. The owner of an entry is the
agent of its project's scope. A session that was resumed or forked into a file of its own repeats the one it came from; the
repetition is skipped.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

from keepstone.errors import ConfigurationError
from keepstone.importing.entries import Entry, Found, split_entry, valid_name
from keepstone.importing.project import PREFIX, find_past_project
from keepstone.importing.transcripts import Parsed, entry_id, parse_bubble, parse_entry, read_entries
from keepstone.maintenance.external_files import PathOrText, Unread
from keepstone.types import MESSAGE, Message
from keepstone.write.blocks import text_of

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_COPIED = "it repeats the session that this one goes on from"
CLIENTS = ("claude-code", "codex", "gemini-cli", "cursor")


def entries(client: str, path: PathOrText) -> Iterator[Found]:
    """The messages and steps of all sessions of a client. Raises ConfigurationError."""
    root = Path(path)
    if not root.exists():
        raise ConfigurationError(f"there is no file or folder {str(path)!r:.100}: check the path.")
    if client == "cursor":
        return _read_cursor(root)
    return _read_sessions(client, root, _list_files(client, root))


@dataclass
class _Session:
    """One session: where it is kept, its name, the folder it was in, and the one it was forked from."""

    file: str
    name: str
    folder: str = ""
    remote: str = ""
    parent: str = ""
    title: str = ""

    def find(self, parsed: Parsed, id: str, where: str) -> Iterator[tuple[str, Found]]:
        """The entries of what was read, each with what tells it from others."""
        for name in parsed.unknown:
            yield "", Unread(self.file, where, f"not known: {name}", "skipped", id)
        found: list[tuple[str, Message]] = [(id, parsed.text)] if parsed.text is not None else []
        for own, message in [*found, *((f"{id}/{step}", message) for step, message in parsed.steps)]:
            entry = self._entry(message, own, where)
            digest = f"{message.role}\0{entry.content}"
            for each in [entry] if entry.blocks else split_entry(entry):
                yield digest, each

    def _entry(self, message: Message, id: str, where: str) -> Entry:
        blocks = () if isinstance(message.content, str) else tuple(message.content)
        project = _project_of(self.folder, self.remote)
        return Entry(
            text_of(message.content), self.file, where,
            id=id, kind=MESSAGE, at=message.at, session=valid_name(self.name, "imported"), role=message.role,
            owner="" if project is None else f"{PREFIX}{project}", metadata={"title": self.title} if self.title else {},
            blocks=blocks,
        )  # fmt: skip


@lru_cache(maxsize=4096)
def _project_of(folder: str, remote: str) -> str | None:
    return find_past_project(folder, remote) if folder or remote else None


# -- files of lines and documents ------------------------------------------------------------------------------------------
def _list_files(client: str, root: Path) -> list[Path]:
    """The files with sessions, the oldest first; those of subagents are left out."""
    if root.is_file():
        return [root]
    found = [path for path in root.rglob("*.json*") if path.suffix in (".json", ".jsonl") and path.is_file()]
    if client == "claude-code":
        found = [path for path in found if path.suffix == ".jsonl" and not path.name.startswith("agent-")]
        found = [path for path in found if "subagents" not in path.parts]
        return sorted(found, key=lambda path: (path.stat().st_mtime_ns, str(path)))
    wanted = "rollout-" if client == "codex" else "session-"
    return sorted((path for path in found if path.name.startswith(wanted)), key=lambda path: (path.name, str(path)))


def _read_sessions(client: str, root: Path, files: list[Path]) -> Iterator[Found]:
    if not files:
        raise ConfigurationError(f"{str(root)!r:.100} holds no session of {client}: check the path.")
    ids: set[str] = set()  # of Claude Code, whose copies keep their ids
    said: dict[str, list[str]] = {}  # of Codex, what was said in each session: copies have no ids
    for path in files:
        name = str(path.relative_to(root)) if root.is_dir() else path.name
        try:
            if client == "gemini-cli":
                yield from _read_gemini(path, name)
            else:
                yield from _read_session(client, path, name, ids, said)
        except OSError as error:
            yield Unread(name, "the file", f"it cannot be read ({error.strerror}).")


def _read_session(client: str, path: Path, name: str, ids: set[str], said: dict[str, list[str]]) -> Iterator[Found]:
    """One file of Claude Code or Codex."""
    session = _read_head(path, name)
    parents = iter(said.get(session.parent, ()))
    own = said.setdefault(session.name, []) if client == "codex" else []
    for number, (position, value) in enumerate(read_entries(path), 1):
        where = f"line {number}"
        if not isinstance(value, Mapping):
            yield Unread(name, where, "not known: a line that is not JSON", "skipped")
            continue
        id = entry_id(value, position)
        copied = id in ids and client == "claude-code"
        ids.add(id)
        for digest, found in session.find(parse_entry(value), id, where):
            hashed = hashlib.blake2b(digest.encode("utf-8", "replace"), digest_size=16).hexdigest() if client == "codex" else ""
            if hashed and digest:
                own.append(hashed)
                if session.parent and next(parents, None) == hashed:
                    copied = True
                elif session.parent:
                    parents, copied = iter(()), False  # from here on it is a session of its own
            yield Unread(name, where, _COPIED, "skipped", id) if copied and isinstance(found, Entry) else found


def _read_head(path: Path, name: str) -> _Session:
    """Name and folder of a session of Claude Code or Codex, from its file's name and first lines."""
    named = _UUID.search(path.stem[-36:])
    session = _Session(name, named[0] if named else path.stem)
    for number, (_, value) in enumerate(read_entries(path)):
        if not isinstance(value, Mapping):
            continue
        payload = value.get("payload")
        inner = payload if value.get("type") in ("session_meta", "turn_context") and isinstance(payload, Mapping) else value
        git = inner.get("git")
        if number == 0 and isinstance(inner.get("id"), str) and inner is not value:
            session.name = inner["id"]
        session.name = session.name if named else str(inner.get("sessionId") or session.name)
        session.folder = session.folder or str(inner.get("cwd") or "")
        session.remote = session.remote or str(git.get("repository_url") or "" if isinstance(git, Mapping) else "")
        session.parent = session.parent or str(inner.get("forked_from_id") or "")
        if session.folder or number > 50:
            break
    return session


def _read_gemini(path: Path, name: str) -> Iterator[Found]:
    """One file of Gemini CLI: a document, or lines that add, replace, change and take back messages."""
    head: dict[str, Any] = {}
    messages: dict[str, tuple[str, Any]] = {}
    whole = _read_json(path) if path.suffix == ".json" else None
    if isinstance(whole, Mapping):
        head = {key: value for key, value in whole.items() if key != "messages"}
    elif path.suffix == ".json":
        yield Unread(name, "the file", "it is not a JSON document of Gemini CLI.")
        return
    for number, (position, value) in enumerate(read_entries(path), 1):
        where = f"{'message' if whole is not None else 'line'} {number}"
        if not isinstance(value, Mapping):
            yield Unread(name, where, "not known: a line that is not JSON", "skipped")
        elif isinstance(value.get("$rewindTo"), str):
            names = list(messages)
            for gone in names[names.index(value["$rewindTo"]) :] if value["$rewindTo"] in messages else names:
                del messages[gone]
        elif isinstance(value.get("$set"), Mapping) or "projectHash" in value:
            changed = value.get("$set") or value
            head |= {key: each for key, each in changed.items() if key != "messages"}
            for each in changed.get("messages") or ():
                if isinstance(each, Mapping):
                    messages[entry_id(each, position)] = (where, each)
        else:
            messages[entry_id(value, position)] = (where, value)
    if head.get("kind") == "subagent":
        return
    session = _Session(name, str(head.get("sessionId") or path.stem), _gemini_folder(path, head))
    for id, (where, value) in messages.items():
        for _, found in session.find(parse_entry(value), id, where):
            yield found


def _gemini_folder(path: Path, head: Mapping[str, Any]) -> str:
    """The project's folder: noted beside the sessions, or found by its name or hash among the folders that Gemini CLI knows."""
    place = next((parent.parent for parent in path.parents if parent.name == "chats"), path.parent)
    noted = place / ".project_root"
    if noted.is_file():
        return noted.read_text(encoding="utf-8", errors="replace").strip()
    known = _read_json(place.parent.parent / "projects.json")
    paths = known.get("projects") if isinstance(known, Mapping) else None
    trusted = _read_json(place.parent.parent / "trustedFolders.json")
    folders = {**(trusted if isinstance(trusted, Mapping) else {}), **(paths if isinstance(paths, Mapping) else {})}
    for folder, short in folders.items():
        if short == place.name or hashlib.sha256(folder.encode()).hexdigest() in (place.name, head.get("projectHash")):
            return str(folder)
    return ""


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None


# -- the databases of Cursor -----------------------------------------------------------------------------------------------
def _read_cursor(root: Path) -> Iterator[Found]:
    """The chats of a database, or of Cursor's folder of settings."""
    database = root if root.is_file() else root / "globalStorage" / "state.vscdb"
    if not database.is_file():
        raise ConfigurationError(f"{str(root)!r:.100} holds no globalStorage/state.vscdb of Cursor: check the path.")
    folders = _cursor_folders(database.parent.parent / "workspaceStorage")
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            names = [row[0] for row in connection.execute("SELECT key FROM cursorDiskKV WHERE key GLOB 'composerData:*'")]
            chats = [(name.partition(":")[2], chat) for name in names if (chat := _value(connection, "cursorDiskKV", name))]
            chats.sort(key=lambda each: (_number(each[1].get("createdAt")), each[0]))
            for id, chat in chats:
                yield from _read_chat(connection, id, chat, folders)
    except sqlite3.Error as error:
        raise ConfigurationError(f"{str(database)!r:.100} is no database of Cursor ({error}): check the path.") from None


def _value(connection: sqlite3.Connection, table: str, key: str) -> dict[str, Any]:
    row = connection.execute(f"SELECT value FROM {table} WHERE key = ?", (key,)).fetchone()
    try:
        value = json.loads(row[0]) if row is not None and row[0] is not None else None
    except (ValueError, TypeError):
        value = None
    return value if isinstance(value, dict) else {}


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0.0


def _cursor_folders(storage: Path) -> dict[str, str]:
    """The folder of each chat, by the workspaces that list them."""
    folders: dict[str, str] = {}
    for place in sorted(storage.glob("*/workspace.json")):
        known = _read_json(place)
        address = urlparse(str(known.get("folder") or "") if isinstance(known, Mapping) else "")
        folder = unquote(address.path) if address.scheme == "file" else ""
        database = place.parent / "state.vscdb"
        if not folder or not database.is_file():
            continue
        try:
            with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as connection:
                listed = _value(connection, "ItemTable", "composer.composerData").get("allComposers")
        except sqlite3.Error:
            continue
        for chat in listed if isinstance(listed, list) else ():
            if isinstance(chat, Mapping):
                folders[str(chat.get("composerId"))] = folder
    return folders


def _read_chat(connection: sqlite3.Connection, id: str, chat: Mapping[str, Any], folders: Mapping[str, str]) -> Iterator[Found]:
    began = _number(chat.get("createdAt"))
    at = datetime.fromtimestamp(began / 1000, UTC) if 0 < began < 1e14 else None
    place = chat.get("workspaceIdentifier")
    uri = place.get("uri") if isinstance(place, Mapping) else None
    folder = str(uri.get("fsPath") or "") if isinstance(uri, Mapping) else ""
    session = _Session(f"chat {id:.60}", id, folder or folders.get(id, ""), title=str(chat.get("name") or "")[:200])
    headers = chat.get("fullConversationHeadersOnly")
    inline = chat.get("conversation")
    for number, header in enumerate(headers if isinstance(headers, list) and headers else inline or (), 1):
        own = str(header.get("bubbleId") or "") if isinstance(header, Mapping) else ""
        bubble = _value(connection, "cursorDiskKV", f"bubbleId:{id}:{own}") if own else {}
        bubble = bubble or (dict(header) if isinstance(header, Mapping) and "text" in header else {})
        where = f"message {number}"
        if not bubble:
            yield Unread(session.file, where, "not known: a message without content", "skipped", own)
            continue
        for _, found in session.find(parse_bubble(bubble, at), own or f"message {number}", where):
            yield found
