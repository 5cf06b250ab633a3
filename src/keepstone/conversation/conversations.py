"""Conversations: `memory.conversation`, the sessions of one scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from keepstone.conversation.conversation import Conversation
from keepstone.conversation.flow import message_of_record
from keepstone.ports.queue import Session
from keepstone.ports.stores import Store
from keepstone.recall.query import check_int
from keepstone.types import Message, Scope

MAX_SESSIONS = 10_000
MAX_MESSAGES = 100_000


class Conversations:
    """The conversations of one scope. Calling it with the name of a session gives one of them."""

    def __init__(
        self,
        store: Store,
        scope: Scope,
        open_session: Callable[[str, dict[str, Any]], Conversation],
        export_chats: Callable[[Path, str, bool], int],
    ) -> None:
        self._store = store
        self._scope = scope
        self._open_session = open_session
        self._export_chats = export_chats

    def __call__(self, session: str, **limits: Any) -> Conversation:
        """One session's messages, and what a model is given of them.

        Limits: `max_messages` and `max_tokens` of what a model is given, `counter` (a function that counts a text's tokens),
        `model` (for summaries; None: the memory's own, or extracted sentences), `summarise` (False: older messages are only
        left out)."""
        return self._open_session(session, limits)

    def recent(self, n: int = 20) -> list[Message]:
        """The last n messages across all sessions, oldest first."""
        count = check_int(n, "n", 0, MAX_MESSAGES)
        rows = self._store.message_log.page(self._scope, None, limit=count) if count else []
        return [message_of_record(record) for _, record in rows]

    def list(self, *, limit: int = 100) -> Sequence[Session]:
        """List the sessions, the one with the newest message first."""
        return self._store.message_log.sessions(self._scope, check_int(limit, "limit", 1, MAX_SESSIONS))

    def export_chats(self, path: str | PathLike[str], *, format: str = "openai", only_successes: bool = False) -> int:
        """Write every conversation and task as a line of chat messages for fine-tuning (JSONL). Returns the number of lines.

        `format` is "openai" or "anthropic"; `only_successes` leaves out tasks that failed."""
        return self._export_chats(Path(path), format, only_successes)
