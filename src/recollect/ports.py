"""The sockets of the house: what flows ask of stores, embedders and clocks. Imports: types (and numpy for arrays).

Values in this file are what crosses a port and nothing else: a `Draft` goes in, `IndexRows` come out. An adapter
implements a Protocol and passes the matching contract in `recollect.testing`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from recollect.desk import JobDraft, Jobs, States, Turns
from recollect.errors import ValidationError
from recollect.filters import Filter
from recollect.types import (
    AuditRow,
    Diagnosis,
    ForgetReceipt,
    Metadata,
    Receipt,
    Record,
    Scope,
    Status,
    Version,
)

Vector = NDArray[np.float32]
Matrix = NDArray[np.float32]
Clock = Callable[[], datetime]
Progress = Callable[[int, int], None]  # (done, total)
Reranker = Callable[[str, Sequence[str]], Sequence[float]]  # a query and texts -> how well each answers it, 0 to 1


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into unit vectors. `id` is stable and versioned: the store records it and refuses another.

    It may have a number `deviation`: how far the cosines of a question with unrelated texts spread. Ranking brings them to
    the default embedder's scale by it, and measures it on the scope where there is none."""

    @property
    def id(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    @property
    def local(self) -> bool:
        """True when computed in this process: then it runs before the commit, else after it."""

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> Matrix: ...


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
    gist: bytes | None = None  # equal for texts that may say the same; None: never compared
    blocks: str | None = None  # of a message that is more than text, as JSON


@dataclass(frozen=True, slots=True)
class Merge:
    """How a near-duplicate goes into the record it repeats: taking the new wording only where `replace` is set."""

    replace: bool
    reason: str


Judge = Callable[[Record], Merge | None]


@dataclass(frozen=True, slots=True)
class Write:
    """One draft with what else decides its fate inside the transaction."""

    draft: Draft
    judge: Judge | None = None  # asked about records of the same gist, inside the transaction: pure and quick
    idempotency_key: str | None = None
    fingerprint: str = ""
    reasons: tuple[str, ...] = ()
    made_from: tuple[tuple[str, int], ...] = ()  # (id, version) of its parents: refused if one is not that any more


@dataclass(frozen=True, slots=True)
class Revision:
    """Changes to one record; None leaves a field as it is. New content brings its terms and vector."""

    content: str | None = None
    terms: tuple[str, ...] = ()
    vector: Vector | None = None
    gist: bytes | None = None
    importance: float | None = None
    metadata: Metadata | None = None
    expected_version: int | None = None
    source: str | None = None  # whose words the new content is, if not those of the old one's source
    trust: float | None = None  # what that source is trusted; it never raises the record's own


@dataclass(frozen=True, slots=True)
class Selector:
    """Which records of a scope to forget: exactly one of the fields is set; `kind` may narrow it further."""

    id: str | None = None
    key: str | None = None
    source: str | None = None
    session: str | None = None
    everything: bool = False
    kind: str | None = None

    def check(self) -> None:
        """ValidationError unless exactly one field is set: a selector that means nothing, or two things, erases nothing."""
        named = [name for name in ("id", "key", "source", "session") if getattr(self, name) is not None]
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


@dataclass(frozen=True, slots=True)
class Narrow:
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
class Archive:
    """A record with all its versions, oldest first, the present one last: what export writes and import reads."""

    record: Record
    versions: tuple[Version, ...]


@dataclass(frozen=True, slots=True)
class ImportRow:
    """An archive ready to be stored: the present version's terms and vector beside it."""

    archive: Archive
    terms: tuple[str, ...]
    vector: Vector | None = None
    gist: bytes | None = None


class Store(Protocol):
    """Where records live: the truth. Every verb takes the scope; no verb reaches past it, `pending`, `attach`,
    `backup` and `doctor` apart, which are jobs over the whole store. One call is one transaction.

    Errors: only those of `recollect.errors`."""

    @property
    def id(self) -> str:
        """Made with the store, never changed."""

    @property
    def turns(self) -> Turns: ...

    @property
    def states(self) -> States: ...

    @property
    def jobs(self) -> Jobs: ...

    # -- the embedder whose vectors are in here -------------------------------------------------------------------
    def embedder(self) -> tuple[str, int] | None:
        """(id, dimension) of the vectors in the store; None before the first."""

    def bind_embedder(self, id: str, dimension: int) -> None:
        """Record the embedder of a new store; EmbedderMismatch if vectors of another are in it."""

    def change_embedder(self, id: str, dimension: int) -> None:
        """From now on vectors are of this embedder; all others are pending again."""

    def pending(self, limit: int, after: int = 0) -> Sequence[Pending]:
        """Records without a vector of the store's embedder, oldest first, those with a sequence above `after`."""

    def pending_count(self) -> int:
        """How many records wait for a vector."""

    def attach(self, vectors: Sequence[tuple[Pending, Vector]]) -> int:
        """Give pending records their vectors; those that changed or went meanwhile are left out. The number done."""

    # -- writing --------------------------------------------------------------------------------------------------
    def write(self, scope: Scope, writes: Sequence[Write], job: JobDraft | None = None) -> Sequence[Receipt]:
        """Commit drafts, all or none, in order, and with them the job that is to work on them. In turn for each: a known
        idempotency key returns its receipt (or Conflict for another fingerprint); a quarantined draft is added beside
        everything else; a key supersedes the record that has it (duplicate, if content, metadata, importance, tag and kind
        are equal); content equal to an active record's of the same kind and tag is a duplicate, which may prolong its life
        (messages and keyed records exempt); of the active records without a key that have its kind, tag and gist, newest
        first, the first that its judge agrees to takes it in, both wordings staying in history; else the draft is added.
        Expired records stand in nobody's way. A write is refused when what it was made from has gone or changed; and a fact
        that was made from something, when its key holds what was said later. The audit row carries the write's reasons. A
        draft's terms must be those of `words.record_terms`: taking a record out of the word index relies on it."""

    def revise(self, scope: Scope, id: str, revision: Revision) -> Receipt:
        """Change one record, its old state going to history; nothing new is a duplicate. NotFound; Conflict on a stale
        expected version, or when another active record has the new content already."""

    def touch(self, scope: Scope, sequences: Mapping[int, int], at: datetime) -> None:
        """Add to access counts (sequence -> times) and set the last access."""

    def faded(self, scope: Scope, importance: float, reads: int, before: datetime) -> Sequence[Record]:
        """Active facts and notes without a key that are below an importance, were read at most so often, and were neither
        changed nor read since; oldest first."""

    def put_aside(self, scope: Scope, ids: Sequence[str]) -> int:
        """Make active records expired, so that they are neither recalled nor listed; their text and history stay."""

    def bring_back(self, scope: Scope, ids: Sequence[str]) -> int:
        """Make records that were put aside active again, unless another active one has their content."""

    def forget(self, scope: Scope, selector: Selector) -> ForgetReceipt:
        """Erase records with words, vectors, history and every byte of their text. Nothing matching: 0 forgotten."""

    # -- reading --------------------------------------------------------------------------------------------------
    def get(self, scope: Scope, id: str) -> Record | None: ...

    def by_key(self, scope: Scope, key: str) -> Record | None: ...

    def fetch(self, scope: Scope, sequences: Sequence[int]) -> Sequence[Record | None]:
        """Records by sequence, in the order asked; None for those that are gone."""

    def list(self, scope: Scope, query: ListQuery) -> Sequence[tuple[int, Record]]:
        """(sequence, record), newest first; expired records are left out."""

    def count(self, scope: Scope) -> int: ...

    def tags(self, scope: Scope, limit: int = 100) -> Sequence[tuple[str, int]]:
        """The categories in use with how many memories each has, the largest first; messages, episodes and summaries do not
        count."""

    def history(self, scope: Scope, id: str) -> Sequence[Version] | None:
        """Every version, oldest first, the present one last; None for an unknown id."""

    def audit(self, scope: Scope, *, since: datetime | None = None, limit: int = 100) -> Sequence[AuditRow]:
        """The trail, newest first."""

    def written(self, scope: Scope, source: str, since: datetime) -> int:
        """How many memories a source (or a class of sources) has written since."""

    # -- what ranking reads ---------------------------------------------------------------------------------------
    def stamp(self) -> tuple[Hashable, Hashable]:
        """(which embedder's vectors are given out, what has been committed): cheap, and the second differs whenever
        anything may have changed since it was last read."""

    def changes(self, scope: Scope, after: int) -> Changes:
        """All that changed in the scope after a change number (0: everything there is)."""

    def matching(self, scope: Scope, filter: Filter) -> NDArray[np.int64]:
        """Sequences of the scope's records whose metadata match, ascending."""

    def sequence_of(self, scope: Scope, id: str) -> int | None: ...

    def snapshot(self, scope: Scope, as_of: datetime | None, known_at: datetime | None) -> Snapshot:
        """The records as they were: valid at `as_of`, known to the store at `known_at` (None: no bound).
        Of each record's versions known by then and valid by then, the last."""

    def search_words(self, scope: Scope, terms: Sequence[str], limit: int, narrow: Narrow = Narrow()) -> Sequence[int]:
        """Sequences of the best matches for any of the terms, best first: for scopes too large to hold in memory."""

    def search_recent(self, scope: Scope, limit: int, narrow: Narrow = Narrow()) -> Sequence[int]:
        """Sequences of the newest records."""

    def document_frequencies(self, scope: Scope, terms: Sequence[str]) -> Sequence[int]:
        """In how many of the scope's records each term stands."""

    def search_vectors(self, scope: Scope, vector: Vector, limit: int, narrow: Narrow = Narrow()) -> Sequence[int]:
        """Sequences of the nearest records, nearest first: for scopes too large to hold in memory."""

    def index_rows(self, scope: Scope, sequences: Sequence[int]) -> IndexRows:
        """The ranking columns of these records."""

    def neighbours(self, scope: Scope, sequences: Sequence[int], reach: int) -> Sequence[int]:
        """Sequences of the messages up to `reach` before and after these messages in their sessions, ascending; records of
        other kinds have none."""

    def index_size(self, scope: Scope) -> int:
        """About how many bytes the scope's ranking columns take in memory."""

    # -- moving and keeping ---------------------------------------------------------------------------------------
    def archives(self, scope: Scope) -> Iterator[Archive]:
        """Every record of the scope with its past, in order of sequence, one consistent view."""

    def restore(self, scope: Scope, rows: Iterable[ImportRow]) -> tuple[int, int]:
        """Store archives as they are (ids, versions, times); what is there already (by id, key or content) is skipped.
        (added, skipped)."""

    def backup(self, path: str, progress: Progress | None = None) -> None:
        """A consistent copy of the whole store while it is in use."""

    def doctor(self, analyse: Callable[[str, str | None], Sequence[str]], progress: Progress | None = None) -> Diagnosis:
        """Check the engine's integrity, every content hash, and that text, words and vectors agree; `analyse` gives
        the terms of a content and its key."""

    def close(self) -> None: ...


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
