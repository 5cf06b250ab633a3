"""Values that cross the store port."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import ValidationError
from keepstone.ports.filters import Filter
from keepstone.text.passages import Passage, passage_number
from keepstone.types import Metadata, Record, Scope, Status, Version

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]


@dataclass(slots=True)
class Draft:
    """A record to be written. What follows from its text (`terms`, `dedup_key`, `vector`, `passages`) is filled in once that is
    screened, so it is not frozen."""

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
    terms: tuple[str, ...] = ()
    vector: Vector | None = None
    parents: tuple[str, ...] = ()
    status: Status = "active"
    dedup_key: bytes | None = None  # equal for texts that may be near-duplicates; None: never compared
    blocks: str | None = None  # content blocks of a message that is not plain text, as JSON
    sensitive: tuple[str, ...] = ()  # kinds of sensitive data in it that the policy allows
    passages: tuple[Passage, ...] = ()  # of a long text those after the first; without them the store makes them, to be embedded


@dataclass(frozen=True, slots=True)
class Merge:
    """How a near-duplicate is merged into a record: with `replace` the new wording becomes the current one."""

    replace: bool
    reason: str


MergeCheck = Callable[[Record], Merge | None]


@dataclass(frozen=True, slots=True)
class Limit:
    """A token bucket for writes: at most `burst` tokens, refilled by `per_second`, and at least `interval` seconds between two
    writes. `name` says what it counts: all writes of a scope, or those of one source."""

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
    """The guard's result for a write. `refused`: only an audit entry is stored; `redacted`: something was removed; `reasons` are
    for the receipt and the audit entry and hold no sensitive value."""

    reasons: tuple[str, ...] = ()
    redacted: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """A draft and the conditions that are checked in its transaction."""

    draft: Draft
    merge_check: MergeCheck | None = None  # for records with the same dedup_key; runs inside the transaction
    idempotency_key: str | None = None
    fingerprint: str = ""
    reasons: tuple[str, ...] = ()
    made_from: tuple[tuple[str, int], ...] = ()  # (id, version) of its parents: refused if one changed
    replaces: tuple[str, ...] = ()  # ids of records that are archived as compacted with it
    limits: tuple[Limit, ...] = ()
    screening: Screening | None = None  # None: not screened yet


@dataclass(frozen=True, slots=True)
class Revision:
    """Changes to one record; None keeps a field. New content needs its terms, vector and passages, as in a draft."""

    content: str | None = None
    terms: tuple[str, ...] = ()
    vector: Vector | None = None
    dedup_key: bytes | None = None
    importance: float | None = None
    metadata: Metadata | None = None
    tag: str | None = None
    expected_version: int | None = None
    source: str | None = None  # source of the new content; None: that of the record
    trust: float | None = None  # trust of that source; never raises the record's trust
    valid_from: datetime | None = None  # None: from now on
    sensitive: tuple[str, ...] | None = None
    limits: tuple[Limit, ...] = ()
    screening: Screening | None = None
    passages: tuple[Passage, ...] = ()


@dataclass(frozen=True, slots=True)
class Selector:
    """Which records of a scope to forget. Exactly one of id, ids, key, source, session and everything is set."""

    id: str | None = None
    ids: tuple[str, ...] | None = None
    key: str | None = None
    source: str | None = None
    session: str | None = None
    everything: bool = False
    kind: str | None = None
    keep_facts: bool = False  # keep facts derived from it; summaries are erased
    keep_derived: bool = False  # keep everything derived from it
    archived: bool = False  # only archived records

    def check(self) -> None:
        """Raise ValidationError unless exactly one field is set, so that an ambiguous selector erases nothing."""
        named = [name for name in ("id", "ids", "key", "source", "session") if getattr(self, name) is not None]
        given = named + ["everything"] * (self.everything is True)
        if len(given) != 1:
            got = " and ".join(given) or "none"
            raise ValidationError(f"forget needs exactly one of id, key, source, session and everything; it got {got}.")


@dataclass(frozen=True, slots=True)
class ListQuery:
    """A page of records: those after the one with the sequence `before`, the last stored or, by `order`, occurred first."""

    tag: str | None = None
    kind: str | None = None
    session: str | None = None
    filter: Filter | None = None
    limit: int = 20
    before: int | None = None
    exclude_kind: str | None = None
    prefix: str | None = None  # of the ids
    order: str = "stored"  # or "occurred"


@dataclass(frozen=True, slots=True)
class SearchFilter:
    """Which of a scope's records a search may return. Records that are not active or have expired are never returned."""

    kinds: tuple[str, ...] | None = None
    tag: str | None = None
    session: str | None = None
    min_importance: float = 0.0
    min_trust: float = 0.0
    filter: Filter | None = None
    steps: bool = True  # whether to return messages with the tag "step"


@dataclass(frozen=True, slots=True)
class Pending:
    """A record without a vector, or a passage of one: `sequence` is then the passage's number, `content` its text."""

    scope: Scope
    sequence: int
    version: int
    content: str


@dataclass(slots=True)
class IndexRows:
    """The ranking columns of records. `terms` are 32-bit hashes; `ends[i]` ends the slice of row i. `vectors` has a row for each
    record, zero where `embedded` is False. Times are microseconds since 1970.

    A long text has a row for each passage, all with the sequence of its record. `places` is 0 for the first; `passage_starts` and
    `passage_stops` say where it stands in the text (both 0 for a text that is one passage)."""

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
    places: NDArray[np.int16] = field(default_factory=lambda: np.empty(0, dtype=np.int16))
    passage_starts: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    passage_stops: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))

    def __post_init__(self) -> None:
        for name in ("places", "passage_starts", "passage_stops"):
            if len(getattr(self, name)) != len(self.sequences):
                setattr(self, name, np.zeros(len(self.sequences), dtype=getattr(self, name).dtype))

    def __len__(self) -> int:
        return len(self.sequences)

    def number(self, at: int) -> int:
        """The number of a row's passage; that of its record for the first."""
        return passage_number(int(self.sequences[at]), int(self.places[at]))


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes of a scope after a change number: current rows and removed sequences."""

    latest: int
    rows: IndexRows
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Support:
    """A support of a version: the ids it was derived from (none: it was stated directly) and the session."""

    version: int
    number: int
    parents: tuple[str, ...]
    session: str | None


@dataclass(frozen=True, slots=True)
class RecordExport:
    """A record as exported and imported: all versions, oldest first, the current one last; when and why it was archived; and the
    supports of its versions where `Record.parents` does not say them all. A store adds what it finds near-duplicates by."""

    record: Record
    versions: tuple[Version, ...]
    archived: tuple[datetime, str] | None = None
    supports: tuple[Support, ...] = ()

    @property
    def fingerprint(self) -> str:
        """What two stores compare of a record: all but where it is, how far it is trusted and how often it was read."""
        record, versions = self.record, self.versions
        return json.dumps(
            [
                record.id, record.key, record.status, record.blocks, sorted(record.parents), record.created_at,
                record.occurred_at, record.expires_at, self.archived and self.archived[1],
                [[each.known_from, each.content, each.metadata, each.importance, each.kind, each.tag, each.source, each.session,
                each.role, each.name, each.valid_from] for each in versions],
            ],
            default=str, sort_keys=True,
        )  # fmt: skip

    dedup_key: bytes | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Stamp:
    """When a record was last changed, and when something of its history was last erased, in whichever store that was."""

    changed: datetime
    erased: datetime | None = None


@dataclass(frozen=True, slots=True)
class FeedPage:
    """A page of a scope's changes: the audit number it goes to, the ids of changed records, and the ids of forgotten ones."""

    latest: int
    changed: tuple[str, ...]
    forgotten: tuple[str, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class ImportRow:
    """An exported record with the terms and the vector of its current version, ready to be stored."""

    archive: RecordExport
    terms: tuple[str, ...]
    vector: Vector | None = None
    dedup_key: bytes | None = None
    screening: Screening | None = None
    passages: tuple[Passage, ...] = ()  # as in a draft
    stamp: Stamp | None = None  # of a record of another store, which is merged with the one that is here
    vouched: bool = False  # a person named the source, or it is in the store already: its text is not screened as a stranger's


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A past view of a scope: ranking columns and their records, by position."""

    rows: IndexRows
    records: Sequence[Record] = field(default_factory=tuple)


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """Options of a store; an adapter uses those that apply to it."""

    durable: bool = True  # every commit is flushed to disk
    busy_timeout: float = 30.0  # seconds to wait for a lock of another process
    statement_timeout: float = 60.0  # seconds until a statement is cancelled, on engines that support it
    encryption_key: str | None = field(default=None, repr=False)  # of a file; None: it is not encrypted
    read_url: str = field(default="", repr=False)  # a standby that recall may read from
    read_staleness: float = 5.0  # seconds that it may be behind
