"""The values that cross a port and nothing else: a `Draft` goes in, `IndexRows` come out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import ValidationError
from keepstone.ports.filters import Filter
from keepstone.types import Metadata, Record, Scope, Status, Version

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Draft:
    """A record to be: everything the guard has checked. `vector` is None until it could be embedded."""

    content: str
    kind: str
    tag: str
    key: str | None
    importance: float
    metadata: Metadata
    source: str
    trust: float
    session: str | None
    role: str | None
    name: str | None
    occurred_at: datetime
    expires_at: datetime | None
    terms: tuple[str, ...]
    vector: Vector | None = None
    parents: tuple[str, ...] = ()
    status: Status = "active"
    dedup_key: bytes | None = None  # equal for texts that may say the same; None: never compared
    blocks: str | None = None  # of a message that is more than text, as JSON
    sensitive: tuple[str, ...] = ()  # kinds of sensitive data that it holds and that the policy keeps


@dataclass(frozen=True, slots=True)
class Merge:
    """How a near-duplicate goes into the record it repeats: taking the new wording only where `replace` is set."""

    replace: bool
    reason: str


MergeCheck = Callable[[Record], Merge | None]


@dataclass(frozen=True, slots=True)
class Limit:
    """A token bucket that a write takes from: `burst` tokens at most, `per_second` come back; `interval` seconds must lie between
    two writes. `name` is what it counts: everything in a scope, or what one source writes there."""

    name: str
    burst: float
    per_second: float
    interval: float = 0.0

    @property
    def description(self) -> str:
        """The limit in words."""
        many = f"at most {self.per_second * 60:g} {self.name} a minute are taken" if self.per_second else ""
        apart = f"{self.name} must be {self.interval:g} seconds apart" if self.interval else ""
        return " and ".join(filter(None, (many, apart)))


@dataclass(frozen=True, slots=True)
class Screening:
    """What the guard made of a write. `refused`: nothing is stored but a line in the trail; `redacted`: something was taken out;
    `reasons` say it in words, for the receipt and the trail, without the value."""

    reasons: tuple[str, ...] = ()
    redacted: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """One draft with what else decides its fate inside the transaction."""

    draft: Draft
    merge_check: MergeCheck | None = None  # asked about records of the same dedup_key, inside the transaction: pure and quick
    idempotency_key: str | None = None
    fingerprint: str = ""
    reasons: tuple[str, ...] = ()
    made_from: tuple[tuple[str, int], ...] = ()  # (id, version) of its parents: refused if one is not that any more
    replaces: tuple[str, ...] = ()  # ids of records that are put aside as compacted once it is stored
    limits: tuple[Limit, ...] = ()
    screening: Screening | None = None  # None: the guard has not seen it yet


@dataclass(frozen=True, slots=True)
class Revision:
    """Changes to one record; None leaves a field as it is. New content brings its terms and vector."""

    content: str | None = None
    terms: tuple[str, ...] = ()
    vector: Vector | None = None
    dedup_key: bytes | None = None
    importance: float | None = None
    metadata: Metadata | None = None
    expected_version: int | None = None
    source: str | None = None  # whose words the new content is, if not those of the old one's source
    trust: float | None = None  # what that source is trusted; it never raises the record's own
    valid_from: datetime | None = None  # since when the new content holds; None: from now on
    sensitive: tuple[str, ...] | None = None
    limits: tuple[Limit, ...] = ()
    screening: Screening | None = None


@dataclass(frozen=True, slots=True)
class Selector:
    """Which records of a scope to forget: exactly one of the fields is set; `kind` may search_filter it further."""

    id: str | None = None
    ids: tuple[str, ...] | None = None
    key: str | None = None
    source: str | None = None
    session: str | None = None
    everything: bool = False
    kind: str | None = None
    keep_facts: bool = False  # what was learned from it stays; summaries do not
    keep_derived: bool = False  # whatever was made from it stays
    archived: bool = False  # only what is put aside

    def check(self) -> None:
        """ValidationError unless exactly one field is set: a selector that means nothing, or two things, erases nothing."""
        named = [name for name in ("id", "ids", "key", "source", "session") if getattr(self, name) is not None]
        given = named + ["everything"] * (self.everything is True)
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise ValidationError(f"forget needs exactly one of id, key, source, session, everything=True; it got {got}.")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A page of records, newest first: those with a sequence below `before`."""

    tag: str | None = None
    kind: str | None = None
    session: str | None = None
    filter: Filter | None = None
    limit: int = 20
    before: int | None = None
    exclude_kind: str | None = None


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which of a scope's records a search may return; those that are not active or have expired never are."""

    kinds: tuple[str, ...] | None = None
    tag: str | None = None
    session: str | None = None
    min_importance: float = 0.0
    min_trust: float = 0.0
    filter: Filter | None = None
    steps: bool = True  # whether messages with the tag "step" are wanted


@dataclass(frozen=True, slots=True)
class Pending:
    """A record that waits for its vector."""

    scope: Scope
    sequence: int
    version: int
    content: str


@dataclass(slots=True)
class IndexRows:
    """What ranking needs of some records, as columns. `terms` are 32-bit hashes, `ends[i]` closes row i's slice of
    them; `vectors` has a row for each record, zero where `embedded` is False. Times are microseconds since 1970."""

    sequences: NDArray[np.int64]
    kinds: list[str]
    tags: list[str]
    sessions: list[str | None]
    roles: list[str | None]
    names: list[str | None]
    importances: NDArray[np.float32]
    trusts: NDArray[np.float32]
    occurred: NDArray[np.int64]
    valid_from: NDArray[np.int64]
    expires: NDArray[np.int64]  # far future where a record does not expire
    active: NDArray[np.bool_]
    terms: NDArray[np.uint32]
    ends: NDArray[np.int64]
    embedded: NDArray[np.bool_]
    vectors: Matrix

    def __len__(self) -> int:
        return len(self.sequences)


@dataclass(frozen=True, slots=True)
class Changes:
    """What happened to a scope after a change number: rows as they are now, sequences that are gone."""

    latest: int
    rows: IndexRows
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Support:
    """What a version of a record rests on: the ids it was derived from (none: it was said directly) and the session."""

    version: int
    number: int
    parents: tuple[str, ...]
    session: str | None


@dataclass(frozen=True, slots=True)
class RecordExport:
    """A record with all its versions, oldest first, the present one last; if it is put aside since when and why; and what its
    versions rest on, where that is more than the record itself says: what export writes and import reads."""

    record: Record
    versions: tuple[Version, ...]
    archived: tuple[datetime, str] | None = None
    supports: tuple[Support, ...] = ()


@dataclass(frozen=True, slots=True)
class ImportRow:
    """An archive ready to be stored: the present version's terms and vector beside it."""

    archive: RecordExport
    terms: tuple[str, ...]
    vector: Vector | None = None
    dedup_key: bytes | None = None
    screening: Screening | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A past view: ranking columns and the records they stand for, by position."""

    rows: IndexRows
    records: Sequence[Record] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a store is opened with; each adapter takes what concerns it."""

    durable: bool = True  # every commit waits for the disk
    busy_timeout: float = 30.0  # seconds to wait for another process
    statement_timeout: float = 60.0  # seconds that one statement may take, where the engine can end it
