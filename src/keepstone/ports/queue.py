"""What a store offers for work under way, beside memories: the turns of conversations in order, states, jobs.

A state is a text under a name that is not a memory: never recalled, never exported (working memory, running summaries). A job is
work that waits until somebody has time or a model is there; it names messages and holds no text of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from keepstone.types import Record, Scope

JobState = Literal["waiting", "running", "failed"]
EVERY_SESSION = "\x01"  # stands for all of a user's sessions where a state has to name one; no session can be called so


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation of a scope: how many messages, and when the first and the last came."""

    name: str
    messages: int
    first: datetime
    last: datetime


class MessageLog(Protocol):
    """Messages in the order they came."""

    def page(
        self,
        scope: Scope,
        session: str | None,
        *,
        after: int = 0,
        before: int | None = None,
        limit: int = 100,
        oldest: bool = False,
    ) -> Sequence[tuple[int, Record]]:
        """(sequence, message) of the newest (or the oldest) `limit` messages between two sequences, in the order they came.
        No session: those of all sessions, the steps of tasks (tag "step") and what is in quarantine left out."""

    def count(self, scope: Scope, session: str | None, *, after: int = 0) -> int: ...

    def sessions(self, scope: Scope, limit: int = 100) -> Sequence[Session]:
        """The scope's conversations, the one with the newest message first; those of tasks are left out."""


class StateStore(Protocol):
    """Texts under names. One that was made from a session's messages names it, and goes when one of those is forgotten."""

    def get(self, scope: Scope, name: str) -> str | None: ...

    def put(
        self,
        scope: Scope,
        name: str,
        value: str,
        *,
        session: str | None = None,
        expected: str | None = None,
        new: bool = False,
        made_from: Sequence[tuple[str, int]] = (),
    ) -> bool:
        """Store a text. With `expected`, only if that is what stands there; with `new`, only if nothing does; with `made_from`,
        only if these records (id, version) are still what they were. Whether it was stored."""

    def drop(self, scope: Scope, name: str) -> bool: ...

    def all(self, scope: Scope) -> Sequence[tuple[str, str]]:
        """Every (name, text) of a scope, by name."""


@dataclass(frozen=True, slots=True)
class JobDraft:
    """Work to be queued with some messages, in their transaction; `due` says when it is to begin at the earliest."""

    kind: str
    session: str | None
    due: datetime
    most: int = 40  # messages in one job; more make further jobs


@dataclass(frozen=True, slots=True)
class Job:
    """Queued work on some messages. A failed one has been given up: it stays until somebody retries or drops it."""

    number: int
    scope: Scope
    kind: str
    session: str | None
    ids: tuple[str, ...]
    state: JobState
    attempts: int
    due: datetime
    created_at: datetime
    problem: str | None = None
    claim: int = 0  # which claim this is: only the latest may settle the job


class JobQueue(Protocol):
    """The queue. A job that was claimed and neither finished nor put back is free again when its lease ends."""

    def add(self, scope: Scope, draft: JobDraft, ids: Sequence[str]) -> None: ...

    def claim(
        self,
        kinds: Collection[str],
        lease: timedelta,
        *,
        early: bool = False,
        scope: Scope | None = None,
        exclude: Collection[int] = (),
    ) -> Job | None:
        """The next job that is due, now running; `early` takes those too whose time has not come; those in `leave` stay."""

    def finish(self, job: Job) -> None:
        """It is done; the row goes."""

    def put_back(self, job: Job, problem: str, due: datetime) -> None: ...

    def give_up(self, job: Job, problem: str) -> None: ...

    def list(self, scope: Scope | None = None, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        """Oldest first; no scope: the whole store's."""

    def retry(self, scope: Scope | None, number: int | None = None) -> int:
        """Make failed jobs wait again, with their attempts counted anew. How many."""

    def drop(self, scope: Scope | None, number: int) -> bool: ...

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        """When the next waiting or abandoned job may begin."""
