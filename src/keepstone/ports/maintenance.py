"""What a store offers for its upkeep, beside memories: records put aside, the review list, leases, the audit chain.

Put aside is not erased: such a record is neither recalled nor listed, its text and history stay, and `undo` or `bring_back` make
it active again. Each batch that is put aside together has a number, its ticket.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol, get_args

from keepstone.types import Record, Scope

ArchiveReason = Literal["aged", "expired", "faded", "capped", "compacted", "retired", "junk", "duplicate"]
ARCHIVE_REASONS: tuple[str, ...] = get_args(ArchiveReason)
KEPT: tuple[ArchiveReason, ...] = ("compacted",)  # put aside for good reason: never erased by a job
FlagKind = Literal["quarantined", "contradicted", "stale", "unsupported", "duplicate", "sensitive"]
FLAGS: tuple[str, ...] = get_args(FlagKind)
ReviewState = Literal["open", "kept", "corrected", "retired"]
REVIEW_STATES: tuple[str, ...] = get_args(ReviewState)


@dataclass(frozen=True, slots=True)
class ArchivedRecord:
    """A record that was put aside: when, why, and with which batch."""

    record: Record
    why: ArchiveReason
    at: datetime
    ticket: int


@dataclass(frozen=True, slots=True)
class Age:
    """Which records are old: neither changed nor read since `before`, of these kinds (None: all but messages); those under a key
    only where `keyed` is set."""

    before: datetime
    kinds: tuple[str, ...] | None = None
    keyed: bool = False
    limit: int = 10_000


@dataclass(frozen=True, slots=True)
class ScopeStats:
    """A scope in numbers: active records by kind, the most frequent first; how many of them came on each day (a day's first
    moment, UTC; days on which none came are left out); what is in quarantine; open reviews; jobs that are still to be done and
    those that were given up; conversations."""

    kinds: tuple[tuple[str, int], ...] = ()
    days: tuple[tuple[datetime, int], ...] = ()
    quarantined: int = 0
    reviews: int = 0
    waiting: int = 0
    failed: int = 0
    sessions: int = 0


class RetentionStore(Protocol):
    """Retention: finding what may go, putting it aside, bringing it back."""

    def scopes(self, tenant: str | None = None, user: str | None = None) -> Sequence[Scope]:
        """Every scope that has anything, in a stable order; with a tenant, only its own; with a user, only those of that name."""

    def scopes_with_record(self, tenant: str, id: str) -> Sequence[Scope]:
        """The tenant's scopes that have a record with this id: one, unless it was imported into several."""

    def lineage(self, scope: Scope, ids: Sequence[str] | None = None) -> Sequence[tuple[str, str, bool]]:
        """(id, the id of what it rests on, whether its present version does) of the scope's active records, or of these: by any
        support that any of their versions has, of which `Record.parents` are the first of the present one."""

    def stats(self, scope: Scope, since: datetime) -> ScopeStats:
        """What a scope has, counted; the days since then."""

    def old(self, scope: Scope, age: Age) -> Sequence[Record]:
        """Active records that were neither changed nor read since; oldest first."""

    def lapsed(self, scope: Scope, limit: int = 10_000) -> Sequence[Record]:
        """Records whose time to live has passed and that nobody has put aside yet; oldest first."""

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        """Active facts and notes without a key that are below an importance, were read at most so often, and were neither
        changed nor read since; oldest first."""

    def excess(self, scope: Scope, most: int, kinds: Collection[str]) -> Sequence[Record]:
        """What is over when a scope may have so many active records of these kinds: the least important, least read and longest
        untouched first; those under a key never."""

    def archive(self, scope: Scope, ids: Sequence[str], why: ArchiveReason = "faded") -> tuple[int, int]:
        """Make active or quarantined records expired. (how many, the ticket of the batch; 0 if there were none)."""

    def restore(self, scope: Scope, ids: Sequence[str], *, keep_expiry: bool = False) -> int:
        """Make records that were put aside active again, unless another active one has their content or key; what nobody has let
        out of quarantine goes back there. One whose time to live has passed is kept for ever, unless `keep_expiry`."""

    def undo(self, scope: Scope, ticket: int) -> Sequence[str]:
        """Bring back what was put aside with one ticket, and take back what was made in its place. The ids that came back."""

    def archived(
        self, scope: Scope, *, before: datetime | None = None, why: Collection[ArchiveReason] | None = None, limit: int = 10_000
    ) -> Sequence[ArchivedRecord]:
        """What is put aside, the longest first."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Something about a record that a person should look at. `reason` holds no content; `evidence` are ids of records that
    speak for it."""

    id: str
    flag: FlagKind
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """One line of the review list. `record` is None once the record is gone."""

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
    """What a person should look at."""

    def add(self, scope: Scope, flags: Sequence[Flag]) -> int:
        """Flag records; what is open already for a record and flag, or was settled for its present version, is not repeated.
        How many are new."""

    def list(self, scope: Scope, *, state: ReviewState = "open", limit: int = 100, after: int = 0) -> Sequence[ReviewItem]:
        """Oldest first."""

    def get(self, scope: Scope, number: int) -> ReviewItem | None: ...

    def settle(self, scope: Scope, number: int, state: ReviewState, by: str) -> bool:
        """Close an open item, with an audit row. Whether it was open."""

    def release(self, scope: Scope, id: str, by: str = "user", state: ReviewState = "kept") -> bool:
        """Make a quarantined record active, kept for as long as a confirmed one, and close its review. Whether it was in
        quarantine."""

    def confirm(self, scope: Scope, id: str, by: str = "user") -> bool:
        """Let a record that would have expired unconfirmed stay. Whether there is such a record."""


class Leases(Protocol):
    """Of several processes one does a piece of work."""

    def acquire(self, name: str, holder: str, length: timedelta) -> bool:
        """Hold a lease, or hold it for longer; False while somebody else has it."""

    def release(self, name: str, holder: str) -> None: ...


@dataclass(frozen=True, slots=True)
class ChainReport:
    """Whether a tenant's audit trail is what was written. `head` is the hash of its last row: keep it elsewhere and give it to a
    later check, and nobody can have written the trail anew. `unchained` rows are from before there was a chain."""

    whole: bool
    rows: int
    unchained: int
    head: str
    problem: str | None = None


class AuditLog(Protocol):
    """The audit trail beyond what `Store.audit` shows."""

    def note(self, scope: Scope, verb: str, action: str, source: str, reasons: Sequence[str] = (), id: str | None = None) -> int:
        """Write a row of its own (a denied write, a key used): its number."""

    def note_foreign(self, scope: Scope, asked: Sequence[tuple[str, str]]) -> int:
        """(verb, id) that somebody asked for and did not find: a row for each id that belongs to another scope. How many."""

    def last(self, scope: Scope) -> int:
        """The number of the last row of a scope's trail, 0 if there is none: whatever changes a record moves it. Cheap."""

    def days(self, scope: Scope, since: datetime) -> Sequence[datetime]:
        """The first time of each day, since then, on which anything was done in a scope; in order."""

    def verify(self, tenant: str, head: str | None = None) -> ChainReport:
        """Walk a tenant's chain; with `head`, that hash must be in it."""
