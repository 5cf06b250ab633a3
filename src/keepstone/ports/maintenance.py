"""Ports of a store for maintenance: archiving, the review list, leases and the audit log.

An archived record is neither recalled nor listed. Its text and history stay, and `undo` or `restore` make it active again.
Records archived together share a number, their ticket.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Protocol, TypeVar, get_args

from keepstone.ports.values import FeedPage, Stamp
from keepstone.types import Record, Scope, ScopeSummary

ArchiveReason = Literal["aged", "expired", "faded", "capped", "compacted", "retired", "junk", "duplicate"]
ARCHIVE_REASONS: tuple[str, ...] = get_args(ArchiveReason)
KEPT: tuple[ArchiveReason, ...] = ("compacted",)  # originals of a digest: never erased by a job
FlagKind = Literal["quarantined", "contradicted", "stale", "unsupported", "duplicate", "sensitive", "conflict"]
ReviewState = Literal["open", "kept", "corrected", "retired"]
REVIEW_STATES: tuple[str, ...] = get_args(ReviewState)


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """An archived record: why, when, and in which batch."""

    record: Record
    why: ArchiveReason
    at: datetime
    ticket: int


@dataclass(frozen=True, slots=True)
class Age:
    """Selects records that were neither changed nor read since `before`, of these kinds (None: all but messages); with
    `created`, records that were first stored before then. Records with a key are included only if `keyed` is set."""

    before: datetime
    kinds: tuple[str, ...] | None = None
    keyed: bool = False
    limit: int = 10_000
    created: bool = False


@dataclass(frozen=True, slots=True)
class ScopeStats:
    """Counts of a scope: active records by kind, most frequent first; active records by day of arrival (UTC, days without any are
    left out); quarantined records; open reviews; waiting and failed jobs; sessions."""

    kinds: tuple[tuple[str, int], ...] = ()
    days: tuple[tuple[datetime, int], ...] = ()
    quarantined: int = 0
    reviews: int = 0
    waiting: int = 0
    failed: int = 0
    sessions: int = 0


class RetentionStore(Protocol):
    """Retention: selecting records, archiving and restoring them."""

    def scopes(self, tenant: str | None = None, user: str | None = None) -> Sequence[Scope]:
        """Every scope with data in a stable order, optionally only those of a tenant or a user."""

    def scopes_with_record(self, tenant: str, id: str) -> Sequence[Scope]:
        """The tenant's scopes that have a record with this id: one, unless it was imported into several."""

    def summaries(self, tenant: str) -> Sequence[ScopeSummary]:
        """What each scope of a tenant holds, by agent and user."""

    def lineage(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[tuple[str, str, bool]]:
        """(id, id of a parent, whether the current version has it) of the scope's active records, or of these. It covers all
        supports of all versions; `Record.parents` are those of the first support of the current version."""

    def stats(self, scope: Scope, since: datetime) -> ScopeStats:
        """Counts of a scope; the days since `since`."""

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        """Active records that `age` selects, oldest first."""

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        """Records past their time to live that are not archived yet, oldest first."""

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        """Active facts and notes without a key, below an importance, read at most `reads` times, and neither changed nor read
        since `before`; oldest first."""

    def excess(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        """The active records of these kinds above a maximum: the least important, least read and longest unused first. Records
        with a key are never among them."""

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> tuple[int, int]:
        """Archive active or quarantined records. Returns (number of records, ticket of the batch or 0)."""

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        """Make archived records active again and return their number. A record is skipped if another active one has its content
        or key. A record that was quarantined and not released is quarantined again. A time to live that has passed is removed,
        unless `keep_expiry`."""

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        """Restore the batch with a ticket and delete what was made in its place. Returns the restored ids."""

    def archived(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[ArchiveReason] | None = None, limit: int = 10_000
    ) -> Sequence[ArchivedRecord]:
        """Archived records, the longest archived first."""


@dataclass(frozen=True, slots=True)
class Flag:
    """A doubt about a record for a person to review. `reason` holds no content; `evidence` are ids of other records."""

    id: str
    flag: FlagKind
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """An entry of the review list. `record` is None once the record is erased."""

    number: int
    id: str
    version: int
    flag: FlagKind
    reason: str
    evidence: tuple[str, ...]
    at: datetime
    state: ReviewState
    record: Record | None = None


class Reviews(Protocol):
    """The review list."""

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        """Flag records and return the number of new items. A flag that is open for a record, or was settled for its current
        version, is not repeated."""

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        """Items in a state, oldest first."""

    def get(self, scope: Scope, number: int) -> ReviewItem | None: ...

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        """Close an open item and audit it. Returns whether it was open."""

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        """Make a quarantined record active, without the expiry of an unconfirmed one, and close its review. Returns whether it
        was quarantined."""

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        """Remove the expiry of an unconfirmed record. Returns whether there is such a record."""


class Leases(Protocol):
    """Cross-process lock with expiry."""

    def acquire(self, name: str, holder: str, length: timedelta) -> bool:
        """Acquire or extend a lease; False while another holder has it."""

    def release(self, name: str, holder: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ChainReport:
    """Whether a tenant's audit log is unchanged. `head` is the hash of its last entry: a copy kept elsewhere and passed to a
    later check proves that the log was not rewritten. `unchained` entries are older than the hash chain."""

    whole: bool
    rows: int
    unchained: int
    head: str
    problem: str | None = None


class AuditLog(Protocol):
    """The audit log: writing entries of other verbs, and verification. `Store.audit` lists it."""

    def note(self, scope: Scope, verb: str, action: str, source: str, reasons: Sequence[str] = (), id: str | None = None) -> int:
        """Append an entry (a denied write, use of a key) and return its number."""

    def note_foreign(self, scope: Scope, asked: Sequence[tuple[str, str]]) -> int:
        """Note which of the requested (verb, id) have ids of other scopes, in the log of `FOREIGN_REQUESTS`: the one who asked
        finds the same in the own log as for an absent id, nothing. One entry a verb. Returns their number."""

    def count(self, scope: Scope) -> int:
        """The number of the scope's entries."""

    def places(self, scope: Scope, numbers: Collection[int]) -> Mapping[int, int]:
        """Which of the scope's entries each of these numbers is, from 1. Callers are shown places: the store's numbers count what
        others do."""

    def number_at(self, scope: Scope, place: int) -> int:
        """The number of the entry at a place; beyond the last a number that no entry has."""

    def feed(self, scope: Scope, after: int, limit: int) -> FeedPage:
        """What changed in the scope after an audit number, in order: at most `limit` records, and what was forgotten."""

    def stamps(self, scope: Scope, ids: Collection[str]) -> Mapping[str, Stamp]:
        """When these records were changed and erased."""

    def forgotten(self, scope: Scope, ids: Collection[str]) -> Collection[str]:
        """Which of these ids were forgotten in the scope and are not there."""

    def last(self, scope: Scope) -> int:
        """The number of the scope's last entry, 0 if there is none. Every change of a record advances it. Cheap to read."""

    def days(self, scope: Scope, since: datetime) -> Sequence[datetime]:
        """The time of the first entry of each day since `since`, in order."""

    def verify(self, tenant: str, head: str | None = None) -> ChainReport:
        """Verify a tenant's hash chain; with `head`, that hash must be in it."""


T = TypeVar("T")


def with_places(log: AuditLog, scope: Scope, items: Sequence[T], field: str = "number") -> list[T]:
    """Items of a scope, which the store numbers by audit entries, with the places of these entries instead."""
    places = log.places(scope, {getattr(item, field) for item in items})
    changed: list[Any] = [replace(item, **{field: places[getattr(item, field)]}) for item in items]  # type: ignore[type-var]
    return changed
