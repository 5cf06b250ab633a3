"""Conversations: `memory.conversation`, the sessions of one scope."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keepstone.conversation.conversation import Conversation, checked
from keepstone.conversation.flow import Limits, WindowBuilder, message_of_record
from keepstone.ports.chat import ChatModel
from keepstone.ports.queue import Session
from keepstone.ports.stores import Store
from keepstone.recall.query import check_int
from keepstone.types import Message, Scope

if TYPE_CHECKING:
    from keepstone.learning.consolidation import ConversationConsolidator
    from keepstone.learning.flow import Learner

MAX_SESSIONS = 10_000
MAX_MESSAGES = 100_000


@dataclass(frozen=True, slots=True)
class Sessions:
    """The parts of `Conversations`, wired by the engine."""

    store: Store
    window_builder: WindowBuilder
    learner: Learner
    consolidator: ConversationConsolidator
    make_model: Callable[[Any], ChatModel | None]
    export_chats: Callable[[Scope, Path, str, bool], int]

    def open(self, scope: Scope, session: str, limits: Mapping[str, Any], withhold: bool = False) -> Conversation:
        """One session of a scope. `withhold` leaves out what waits for a review."""
        chosen = replace(self.limits(limits), withhold=withhold)
        return Conversation(self.store, scope, session, chosen, self.window_builder, self.learner, self.consolidator)

    def limits(self, given: Mapping[str, Any]) -> Limits:
        """Limits of a conversation from keyword arguments; a model may be named."""
        if given.get("model") is not None:
            given = {**given, "model": self.make_model(given["model"])}
        return checked(Limits(), given)


class Conversations:
    """The conversations of one scope. Calling it with the name of a session gives one of them."""

    def __init__(self, scope: Scope, sessions: Sessions) -> None:
        self._scope = scope
        self._sessions = sessions

    def __call__(self, session: str, **limits: Any) -> Conversation:
        """One session's messages, and what a model is given of them.

        Limits: `max_messages` and `max_tokens` of what a model is given, `counter` (a function that counts a text's tokens),
        `model` (for summaries; None: the memory's own, or extracted sentences), `summarise` (False: older messages are only
        left out)."""
        return self._sessions.open(self._scope, session, limits)

    def recent(self, n: int = 20) -> list[Message]:
        """The last n messages across all sessions, oldest first."""
        count = check_int(n, "n", 0, MAX_MESSAGES)
        rows = self._sessions.store.message_log.page(self._scope, None, limit=count) if count else []
        return [message_of_record(record) for _, record in rows]

    def list(self, *, limit: int = 100) -> Sequence[Session]:
        """List the sessions, the one with the newest message first."""
        return self._sessions.store.message_log.sessions(self._scope, check_int(limit, "limit", 1, MAX_SESSIONS))

    def export_chats(self, path: str | PathLike[str], *, format: str = "openai", only_successes: bool = False) -> int:
        """Write every conversation and task as a line of chat messages for fine-tuning (JSONL). Returns the number of lines.

        `format` is "openai" or "anthropic"; `only_successes` leaves out tasks that failed."""
        return self._sessions.export_chats(self._scope, Path(path), format, only_successes)
