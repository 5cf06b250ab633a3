"""KeepstoneSessionStore, memory_server, memory_hooks, memory_options: the Claude Agent SDK with keepstone behind it.

A transcript is a session of items: what users and Claude said is found by recall, everything else is stored as steps, and facts
are extracted from what users said. A document for each session holds what a list of sessions needs.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from claude_agent_sdk import (
    ClaudeAgentOptions,
    HookMatcher,
    SdkMcpTool,
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
    SessionSummaryEntry,
    ToolAnnotations,
    create_sdk_mcp_server,
    fold_session_summary,
)
from claude_agent_sdk.types import HookEvent, McpSdkServerConfig

from keepstone.errors import ConfigurationError, Conflict
from keepstone.integrations.bridge import as_sync_memory, join_names
from keepstone.integrations.document_store import DocumentStore
from keepstone.integrations.message_items import SessionItem, SessionItems
from keepstone.text.times import parse_time

NAME = "claude-agent-sdk"
SERVER = "memory"  # what the tools' server is called: Claude knows them as mcp__memory__recall_memory …
_READ_ONLY = {"recall_memory": True, "write_memory": False, "update_memory": False, "forget_memory": False}
_NOT_SAID = ("isMeta", "isCompactSummary", "isSidechain", "isVisibleInTranscriptOnly", "isApiErrorMessage")
# A command, its output, a reminder, a note that the user has stopped it: the program's words in the user's place.
_PROGRAM = re.compile(
    r"\s*(<(command-|local-command-|system-reminder|session-start-hook|ide_|bash-|tick>|goal>)|\[Request interrupted)"
)
_MAX_CACHED_SESSIONS = 64  # whose uuids are cached
_MAX_ATTEMPTS = 20  # of updating the document of a session while others do

T = TypeVar("T")


# -- transcripts ----------------------------------------------------------------------------------------------------
class KeepstoneSessionStore(SessionStore):
    """Transcripts of the Claude Agent SDK, to be continued in another process: `ClaudeAgentOptions(session_store=…)`.

    With `learn`, facts are extracted from what users said, as `memory.ingest` does."""

    def __init__(self, memory: Any, *, learn: bool = True) -> None:
        self._memory = as_sync_memory(memory)
        self._documents = DocumentStore(memory, NAME)
        self._learn = learn
        self._known: dict[str, tuple[str | None, set[str]]] = {}  # by session: its last record, the uuids in it
        self._lock = threading.Lock()

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep entries of a transcript; one whose uuid is there already is left out."""
        if entries:
            await _in_thread(lambda: self.add(key, entries))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """A transcript as it was appended, or None."""
        turns = await _in_thread(self._turns(key).all)
        return list(_new_entries((turn.value for turn in turns), set())) or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """The sessions of a project, and when each was last written to."""
        noted = await self._list_notes((project_key,), 2)
        return [SessionStoreListEntry(session_id=path[1], mtime=value["mtime"]) for path, value in noted]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """What the SDK has noted of the sessions of a project: titles, first prompts."""
        noted = await self._list_notes((project_key,), 2)
        return [SessionSummaryEntry(session_id=path[1], mtime=value["mtime"], data=value["data"]) for path, value in noted]

    async def delete(self, key: SessionKey) -> None:
        """Erase a transcript, and with a session those of its subagents."""
        await _in_thread(lambda: self._delete(key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """The transcripts of a session's subagents."""
        noted = await self._list_notes((key["project_key"], key["session_id"]), 3)
        return [path[2] for path, _ in noted]

    def add(self, key: SessionKey, entries: Iterable[SessionStoreEntry]) -> int:
        """`append` for callers that are not async; how many entries were new."""
        given = list(entries)
        turns = self._turns(key)
        with self._lock:
            last, seen = self._read_uuids(turns)
            new = list(_new_entries(given, seen))
            self._known.pop(turns.session, None)  # read again if the next line fails
            stored = turns.add(map(to_item, new), extract=self._learn and key.get("subpath") is None)
            self._known[turns.session] = (stored[-1].id if stored else last, seen)
            if len(self._known) > _MAX_CACHED_SESSIONS:
                self._known.pop(next(iter(self._known)))
        self._note(key, given)
        return len(new)

    # -- parts ----------------------------------------------------------------------------------------------------
    def _turns(self, key: SessionKey) -> SessionItems:
        return SessionItems(self._memory, join_names(NAME, *_path(key)), of=NAME)

    def _read_uuids(self, turns: SessionItems) -> tuple[str | None, set[str]]:
        """The last record of a transcript and the uuids in it; read again when another process has added to it."""
        newest = turns.all(1)
        last = newest[-1].id if newest else None
        known = self._known.get(turns.session)
        if known is not None and known[0] == last:
            return known
        seen: set[str] = set()
        for _ in _new_entries((turn.value for turn in turns.all()), seen):
            pass
        return last, seen

    def _note(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Update the document of a transcript: its time, and for a session the SDK's summary. Conflicts are retried."""
        path = _path(key)
        for attempt in range(_MAX_ATTEMPTS):
            held = self._documents.get(path)
            before: dict[str, Any] = {"mtime": 0, "data": {}} if held is None else held.value
            value = {"mtime": max(before["mtime"] + 1, int(time.time() * 1000)), "data": before["data"]}
            if len(path) == 2:
                summary = SessionSummaryEntry(session_id=path[1], mtime=before["mtime"], data=before["data"])
                value["data"] = fold_session_summary(None if held is None else summary, key, entries)["data"]
            try:
                self._documents.put(path, value, expected_version=0 if held is None else held.version)
                return
            except Conflict:
                if attempt == _MAX_ATTEMPTS - 1:
                    raise

    async def _list_notes(self, under: tuple[str, ...], length: int) -> list[tuple[tuple[str, ...], Any]]:
        documents = await _in_thread(lambda: list(self._documents.list(under)))
        return [(each.path, each.value) for each in documents if len(each.path) == length]

    def _delete(self, key: SessionKey) -> None:
        with self._lock:
            own = _path(key)
            for path in {own, *(self._documents.paths(own) if len(own) == 2 else ())}:
                turns = self._turns(_key(path))
                turns.clear()
                self._known.pop(turns.session, None)
                self._documents.delete(path)


def _new_entries(entries: Iterable[Any], seen: set[str]) -> Iterator[Any]:
    """Entries whose uuid was not seen, which then is; those without one as they come. What was said in the session by other means
    is none."""
    for entry in entries:
        if entry is None:
            continue
        uuid = entry.get("uuid")
        if uuid is None or uuid not in seen:
            yield entry
        if uuid is not None:
            seen.add(uuid)


def to_item(entry: Mapping[str, Any]) -> SessionItem:
    """An entry of a transcript as an item; it has a text only if the user or Claude said it."""
    kind, said = entry.get("type"), ""
    role = kind if kind in ("user", "assistant") else "system"
    message = entry.get("message")
    content = message.get("content") if isinstance(message, Mapping) else None
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    if any(block.get("type") == "tool_result" for block in blocks):
        role = "tool"
    elif role != "system" and not any(entry.get(mark) for mark in _NOT_SAID):
        texts = [content] if isinstance(content, str) else [block.get("text") for block in blocks if block.get("type") == "text"]
        said = "\n".join(text for text in texts if isinstance(text, str))
        if role == "user" and _PROGRAM.match(said):
            said = ""
    return SessionItem(role, said, dict(entry), at=_time(entry.get("timestamp")))


def _time(text: Any) -> datetime | None:
    try:
        return parse_time(text, "timestamp") if isinstance(text, str) else None
    except ValueError:
        return None


def _path(key: SessionKey) -> tuple[str, ...]:
    return (key["project_key"], key["session_id"], *filter(None, [key.get("subpath")]))


def _key(path: tuple[str, ...]) -> SessionKey:
    key = SessionKey(project_key=path[0], session_id=path[1])
    return SessionKey(**key, subpath=path[2]) if len(path) == 3 else key


# -- tools ------------------------------------------------------------------------------------------------------------
def memory_server(memory: Any, *, allow_forget: bool = False) -> McpSdkServerConfig:
    """The memory tools as an MCP server in this process: `ClaudeAgentOptions(mcp_servers={"memory": memory_server(memory)})`.
    They act in the memory's own scope, whatever Claude says."""
    inner = as_sync_memory(memory)

    def make_tool(schema: Mapping[str, Any]) -> SdkMcpTool[Any]:
        async def answer(given: Mapping[str, Any]) -> dict[str, Any]:
            found = await _in_thread(lambda: inner.call_tool(schema["name"], given, allow_forget=allow_forget))
            text = json.dumps(found, ensure_ascii=False, default=str)
            return {"content": [{"type": "text", "text": text}], "is_error": "error" in found}

        reads = _READ_ONLY[schema["name"]]
        hints = ToolAnnotations(readOnlyHint=reads, destructiveHint=schema["name"] == "forget_memory", openWorldHint=False)
        return SdkMcpTool(schema["name"], schema["description"], schema["input_schema"], answer, hints)

    from keepstone.agent.tools import schemas

    return create_sdk_mcp_server(SERVER, tools=[make_tool(schema) for schema in schemas(allow_forget, "anthropic")])


def memory_tools(*, allow_forget: bool = False) -> list[str]:
    """What the tools of `memory_server` are called, for `allowed_tools`, where it is given as "memory"."""
    return [f"mcp__{SERVER}__{name}" for name in _READ_ONLY if allow_forget or name != "forget_memory"]


# -- hooks ------------------------------------------------------------------------------------------------------------
def memory_hooks(memory: Any, *, learn: bool = True, max_tokens: int = 1500) -> dict[HookEvent, list[HookMatcher]]:
    """For `ClaudeAgentOptions(hooks=…)`: what is known about a prompt goes to Claude with it, and, with `learn`, what was said
    since the last time is kept when Claude stops and before it compacts, each message once."""
    inner, store = as_sync_memory(memory), KeepstoneSessionStore(memory)

    async def load(given: Any, use: str | None, context: Any) -> Any:
        known = await _in_thread(lambda: inner.context(given["prompt"], max_tokens=max_tokens))
        told = {"hookEventName": "UserPromptSubmit", "additionalContext": known}
        return {"hookSpecificOutput": told} if known else {}

    async def save(given: Any, use: str | None, context: Any) -> Any:
        await _in_thread(lambda: _save(store, given))
        return {}

    hooks: dict[HookEvent, list[HookMatcher]] = {"UserPromptSubmit": [HookMatcher(hooks=[load])]}
    if learn:
        hooks |= {"Stop": [HookMatcher(hooks=[save])], "PreCompact": [HookMatcher(hooks=[save])]}
    return hooks


def _save(store: KeepstoneSessionStore, given: Mapping[str, Any]) -> None:
    """Keep what a transcript on disk says, under the key that the SDK gives it; what has no uuid cannot be told apart."""
    transcript = Path(given["transcript_path"])
    if not transcript.is_file():
        return
    entries: list[Any] = []
    for line in transcript.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # the last line is being written
            continue
        if isinstance(entry, dict) and isinstance(entry.get("uuid"), str):
            entries.append(entry)
    if entries:
        store.add(SessionKey(project_key=transcript.parent.name, session_id=given["session_id"]), entries)


def memory_options(memory: Any, *, allow_forget: bool = False, max_tokens: int = 1500, **options: Any) -> ClaudeAgentOptions:
    """Options with all of it: the transcripts in the store, the tools, and what is known about a prompt. Further options are
    those of ClaudeAgentOptions; given tools, servers and hooks stay."""
    given = ClaudeAgentOptions(**options)
    if not isinstance(given.mcp_servers, dict):
        raise ConfigurationError(
            f"mcp_servers is a {type(given.mcp_servers).__name__}: pass a dictionary, to which the memory's server is added."
        )
    store = given.session_store or KeepstoneSessionStore(memory)
    ours = memory_hooks(memory, learn=False, max_tokens=max_tokens)
    hooks = {
        **(given.hooks or {}),
        **{event: [*(given.hooks or {}).get(event, ()), *matchers] for event, matchers in ours.items()},
    }
    return replace(
        given,
        session_store=store,
        mcp_servers={**given.mcp_servers, SERVER: memory_server(memory, allow_forget=allow_forget)},
        allowed_tools=[*given.allowed_tools, *memory_tools(allow_forget=allow_forget)],
        hooks=hooks,
    )


async def _in_thread(work: Callable[[], T]) -> T:
    return await run_sync(work)
