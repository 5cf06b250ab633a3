"""Ports of a store for messages in order, named states and queued jobs.

A state is a named text that is not a memory: it is never recalled or exported (working memory, running summaries). A job is
deferred work on messages; it holds their ids and none of their text.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from keepstone.types import Record, Scope

JobState = Literal["waiting", "running", "failed"]
EVERY_SESSION = "\x01"  # the session of a state that was made from all sessions; not a valid session name


@dataclass(frozen=True, slots=True)
class Session:
    """A session of a scope: its number of messages and the times of the first and the last."""

    name: str
    messages: int
    first: datetime
    last: datetime


class MessageLog(Protocol):
    """Messages in the order of arrival."""

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
        """(sequence, message) of the newest (or oldest) `limit` messages between two sequences, in the order of arrival.
        Without a session: of all sessions, except steps of tasks (tag "step") and quarantined messages."""

    def count(self, scope: Scope, session: str | None, *, after: int = 0) -> int: ...

    def sessions(self, scope: Scope, limit: int = 100) -> Sequence[Session]:
        """The sessions of a scope, the one with the newest message first. Sessions of tasks are left out."""


class StateStore(Protocol):
    """Named texts. A state made from the messages of a session names it and is deleted when one of them is forgotten."""

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
        """Store a text and return whether it was stored. With `expected`, only if that is the current text; with `new`, only if
        there is none; with `made_from`, only if these records still have these versions (id, version)."""

    def drop(self, scope: Scope, name: str) -> bool: ...

    def all(self, scope: Scope) -> Sequence[tuple[str, str]]:
        """Every (name, text) of a scope, by name."""


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job to be queued in the transaction of its messages. It starts at `due` at the earliest."""

    kind: str
    session: str | None
    due: datetime
    max_messages: int = 40  # of one job; more messages make further jobs


@dataclass(frozen=True, slots=True)
class Job:
    """Queued work on messages. A failed job stays until it is retried or dropped."""

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
    claim: int = 0  # number of this claim: only the latest may finish the job


class JobQueue(Protocol):
    """The job queue. A claimed job that is neither finished nor put back becomes available again when its lease ends."""

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
        """Claim the next due job. `early` also claims jobs that are not due yet; jobs in `exclude` are skipped."""

    def finish(self, job: Job) -> None:
        """Delete a completed job."""

    def put_back(self, job: Job, problem: str, due: datetime) -> None: ...

    def give_up(self, job: Job, problem: str) -> None: ...

    def list(self, scope: Scope | None = None, *, state: JobState | None = None, limit: int = 100) -> Sequence[Job]:
        """Jobs, oldest first; without a scope those of the whole store."""

    def retry(self, scope: Scope | None, number: int | None = None) -> int:
        """Queue failed jobs again with their attempts reset. Returns their number."""

    def drop(self, scope: Scope | None, number: int) -> bool: ...

    def next_due(self, kinds: Collection[str]) -> datetime | None:
        """When the next waiting or abandoned job may start."""
