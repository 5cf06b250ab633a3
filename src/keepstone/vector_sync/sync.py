"""Feeds a vector index with the changes of the store.

**The change feed is the outbox.** Every write numbers its records in its own transaction, and the audit log has what was
forgotten. `store.changes(scope, number)` is therefore all that an index lacks, and nothing is queued. The cursor, a state of the
store, says how far the index is. It moves when the index has acknowledged everything; a crash means that the same
changes are fed again.

**One feeder at a time.** Rows that were read earlier must not overwrite rows that were read later. A feeder holds a lease of the
store for its scope and renews it before each chunk. A feeder that lost its lease rewinds the cursor, so that its changes are fed
again, and the cursor moves by compare-and-set only. If a process loses its lease while a chunk is on its way and dies before it
can rewind, the index differs from the store until `keepstone index repair`.

**Another embedder is another space.** The cursor names its space and those that may still hold entries. The first feeding after
the embedder changed clears these and starts at the beginning.

**From the beginning** a scope is cleared in the index first, since the change feed does not name what was forgotten before. Where
that, or a long gap, is too much to read at once, store and index are compared chunk by chunk instead.

The store must be the one below the guard, which would look for secrets in cursors.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from weakref import WeakValueDictionary

from keepstone.errors import EmbedderMismatch, IndexUnavailable, KeepstoneError
from keepstone.ports.caches import VectorIndex, batches
from keepstone.ports.forks import reset_after_fork
from keepstone.ports.maintenance import Leases
from keepstone.ports.stores import Store
from keepstone.ports.values import IndexRows, SearchFilter, Vector
from keepstone.text.passages import passage_number
from keepstone.types import Scope
from keepstone.vector_sync.compare import check_width, compare, indexable, make_entries, space_name
from keepstone.vector_sync.cursor import Cursor, Cursors

CHUNK_ENTRIES = 500  # in one call to the index
LARGE_GAP = 5_000  # changes that a recall does not wait for, and that are not read at once
_FURTHER_AT_ONCE = 256  # passages of a record that the index is asked for at once
MAX_SCOPE_BYTES = 64 * 1024 * 1024  # of a scope that is read at once when it is fed from the beginning
WAIT_SECONDS = 20.0  # for another feeder of the scope
LEASE_SECONDS = 30.0  # longer than an engine takes for one chunk
_POLL_SECONDS = 0.02  # between two attempts to take a lease
_FIRST_AUDIT_ROWS = 64  # enough in most cases to see that a gap is small
_MAX_ATTEMPTS = 5


class FedElsewhere(IndexUnavailable):
    """Another feeder is at work on the scope for longer than the caller can wait."""


class EmbedderChanged(Exception):
    """The store changed its embedder during a feeding."""


@dataclass(frozen=True, slots=True)
class Fed:
    """The result of a feeding: entries put, entries dropped, and the change number of the index."""

    put: int
    dropped: int
    number: int


class IndexSession:
    """An index has one space open at a time. A thread that needs another waits until no thread uses the open one, and later
    threads wait behind it. A thread must not enter twice: it could wait for itself."""

    def __init__(self, index: VectorIndex) -> None:
        self.index = index
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._space: str | None = None
        self._users = 0
        self._entry = threading.Lock()
        self._exit = threading.Condition()

    @contextmanager
    def open(self, space: str, dimension: int) -> Iterator[VectorIndex]:
        """The index with this space open."""
        with self._entry:
            if self._space != space:
                with self._exit:
                    self._exit.wait_for(lambda: self._users == 0)
                self._space = None
                self.index.open(space, dimension)
                self._space = space
            with self._exit:
                self._users += 1
        try:
            yield self.index
        except IndexUnavailable:
            self._space = None  # an engine that was restarted may have lost the space: open it again
            raise
        finally:
            with self._exit:
                self._users -= 1
                self._exit.notify_all()


class FeedLease:
    """The lease for feeding one scope."""

    def __init__(self, leases: Leases, name: str, clock: Callable[[], float]) -> None:
        self._leases, self._name, self._clock = leases, name, clock
        self._holder = secrets.token_hex(8)
        self._taken_at = 0.0

    def acquire(self, patience: float) -> None:
        """Take the lease; FedElsewhere if another holder keeps it for longer than `patience` seconds."""
        deadline = time.monotonic() + patience
        while not self._take():
            if time.monotonic() >= deadline:
                raise FedElsewhere("another process is bringing it up to date")
            time.sleep(_POLL_SECONDS)

    def renew(self) -> None:
        """Extend the lease when a third of it has passed; FedElsewhere if it expired or another holder has taken it."""
        if self._clock() - self._taken_at < LEASE_SECONDS / 3:
            return
        if not self.is_certain() or not self._take():
            self._taken_at = -math.inf
            raise FedElsewhere("another process took over bringing it up to date")

    def is_certain(self) -> bool:
        """Whether no other holder can have taken the lease since it was extended last."""
        return self._clock() - self._taken_at < LEASE_SECONDS

    def release(self) -> None:
        with contextlib.suppress(KeepstoneError):  # it expires by itself
            self._leases.release(self._name, self._holder)

    def _take(self) -> bool:
        asked_at = self._clock()
        if not self._leases.acquire(self._name, self._holder, timedelta(seconds=LEASE_SECONDS)):
            return False
        self._taken_at = asked_at
        return True


class IndexSync:
    """Brings an index up to date, scope by scope. Several of them, in several processes, may feed one index."""

    def __init__(
        self,
        store: Store,
        index: VectorIndex,
        *,
        chunk: int = CHUNK_ENTRIES,
        large_gap: int = LARGE_GAP,
        max_scope_bytes: int = MAX_SCOPE_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._session = IndexSession(index)
        self.cursors = Cursors(store, index.name)
        self._chunk, self.large_gap, self._max_scope_bytes = chunk, large_gap, max_scope_bytes
        self._clock = clock
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._locks: WeakValueDictionary[Scope, threading.Lock] = WeakValueDictionary()
        self._locks_guard = threading.Lock()

    @property
    def name(self) -> str:
        """The name of the index."""
        return self._session.index.name

    def space(self) -> str | None:
        """The space of the store's vectors; None while the store has no embedder."""
        embedder = self._store.embedder()
        return None if embedder is None else space_name(self._store.id, embedder)

    # -- how far it is --------------------------------------------------------------------------------------------
    def is_behind(self, scope: Scope) -> bool:
        """Whether the scope has audit entries that the index was not fed after. Not every one changes a record."""
        space, cursor = self.space(), self.cursors.read(scope)
        if space is None:
            return False
        if cursor.stale_spaces or (cursor.space != space and cursor.seen > 0):
            return True
        return cursor.seen != self._store.audit_log.last(scope)

    def is_far_behind(self, scope: Scope) -> bool:
        """Whether the index lacks more changes than a recall should wait for."""
        cursor = self.cursors.read(scope)
        if cursor.number == 0 or cursor.space != self.space():
            return self._store.count(scope) > self.large_gap
        return self._is_large_gap(scope, cursor.number)

    def number(self, scope: Scope) -> int:
        """The change number of the index in a scope; 0 if it was never fed."""
        cursor = self.cursors.read(scope)
        return cursor.number if cursor.space == self.space() else 0

    def scopes_behind(self) -> list[Scope]:
        return [scope for scope in self._store.retention.scopes() if self.is_behind(scope)]

    def _is_large_gap(self, scope: Scope, number: int) -> bool:
        """Whether many audit entries follow a number. Numbers count the whole store, so their distance alone says little."""
        if self._store.audit_log.last(scope) - number <= self.large_gap:
            return False
        for limit in (min(_FIRST_AUDIT_ROWS, self.large_gap + 1), self.large_gap + 1):
            rows = self._store.audit(scope, limit=limit)
            if len(rows) < limit or rows[-1].number <= number:
                return False
        return True

    # -- searching ------------------------------------------------------------------------------------------------
    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter) -> list[int] | None:
        """The nearest entries; None if the vector cannot be of the store's embedder."""
        embedder = self._store.embedder()
        if embedder is None or embedder[1] != len(vector):
            return None
        with self._session.open(space_name(self._store.id, embedder), embedder[1]) as index:
            return list(index.search(scope, vector, limit, search_filter))

    @contextmanager
    def open_index(self) -> Iterator[tuple[VectorIndex, int]]:
        """(the index with the store's space open, the dimension of its vectors)."""
        embedder = self._store.embedder()
        if embedder is None:
            raise EmbedderMismatch("the store has no embedder yet, so an index can hold nothing of it.")
        with self._session.open(space_name(self._store.id, embedder), embedder[1]) as index:
            yield index, embedder[1]

    # -- feeding --------------------------------------------------------------------------------------------------
    def feed(self, scope: Scope, *, patience: float = WAIT_SECONDS) -> Fed:
        """Bring the index up to date in a scope. IndexUnavailable if that fails, FedElsewhere if another feeder is at work for
        longer than `patience` seconds; nothing is lost, and the next feeding continues."""
        return self._feed_scope(scope, None, False, patience)

    def repair(self, scope: Scope) -> Fed:
        """Compare all of a scope and correct what differs, wherever the cursor is."""
        return self._feed_scope(scope, None, True, WAIT_SECONDS)

    def rebuild(self, scope: Scope) -> Fed:
        """Clear a scope in the index and feed all of it again."""
        return self._feed_scope(scope, 0, False, WAIT_SECONDS)

    def _feed_scope(self, scope: Scope, max_number: int | None, compare_all: bool, patience: float) -> Fed:
        put = dropped = 0
        with self._lease(scope, patience) as lease:
            for _ in range(_MAX_ATTEMPTS):
                embedder = self._store.embedder()
                if embedder is None:
                    return Fed(0, 0, 0)
                start, text = self.cursors.begin(scope, (space_name(self._store.id, embedder), embedder[1]), max_number)
                max_number = None
                feeding = _Feeding(self._store, self._session, lease, scope, start, embedder, self._chunk)
                cursor = self._attempt(feeding, compare_all)
                put, dropped = put + feeding.put, dropped + feeding.dropped
                if cursor is not None and self.cursors.move(scope, text, cursor):
                    return Fed(put, dropped, cursor.number)
                self.cursors.rewind(scope, start)
                lease.acquire(0.0)
        raise FedElsewhere(f"other processes brought it up to date {_MAX_ATTEMPTS} times meanwhile")

    @contextmanager
    def _lease(self, scope: Scope, patience: float) -> Iterator[FeedLease]:
        """The only right to feed a scope: a lock among the threads of this process, a lease among processes."""
        with self._locks_guard:
            lock = self._locks.setdefault(scope, threading.Lock())
        if not lock.acquire(timeout=patience):
            raise FedElsewhere("another thread is bringing it up to date")
        try:
            names = "\0".join((scope.tenant, scope.agent, scope.user)).encode("utf-8", "surrogatepass")
            name = f"{self.cursors.name}:{hashlib.blake2b(names, digest_size=16).hexdigest()}"
            lease = FeedLease(self._store.leases, name, self._clock)
            lease.acquire(patience)
            try:
                yield lease
            finally:
                lease.release()
        finally:
            lock.release()

    def _attempt(self, feeding: _Feeding, compare_all: bool) -> Cursor | None:
        """The cursor after one attempt; None if the embedder changed and the attempt has to be repeated."""
        try:
            return self._run(feeding, compare_all)
        except EmbedderChanged:
            return None
        except EmbedderMismatch as error:
            if feeding.embedder_changed():
                return None
            self._rewind_if_uncertain(feeding)
            raise IndexUnavailable(str(error)) from None
        except BaseException:
            self._rewind_if_uncertain(feeding)
            raise

    def _rewind_if_uncertain(self, feeding: _Feeding) -> None:
        """Without the lease, what was put may be older than what another feeder put: feed it again."""
        if not feeding.lease.is_certain():
            with contextlib.suppress(KeepstoneError):
                self.cursors.rewind(feeding.scope, feeding.start)

    def _run(self, feeding: _Feeding, compare_all: bool) -> Cursor:
        """Feed, and return where the index is then."""
        scope, number = feeding.scope, feeding.start.number
        feeding.clear_spaces()
        seen = self._store.audit_log.last(scope)
        if number == 0 and self._store.index_size(scope) > self._max_scope_bytes:
            reason = f"the index {self.name} is fed from the beginning"
            number = self._store.audit_log.note(scope, "index", "fed", "system", (reason,))
            feeding.repair_differences()  # later changes have numbers above that of the note
            return feeding.cursor_at(number, number)
        if number and (compare_all or self._is_large_gap(scope, number)):
            feeding.repair_differences()
            return feeding.cursor_at(max(number, seen), seen)
        changes = self._store.changes(scope, number)
        removed = [sequence for sequence in changes.removed if sequence is not None]  # a refused forget names no record
        complete = feeding.apply(changes.rows, removed)
        return feeding.cursor_at(changes.latest, seen) if complete else feeding.start

    def close(self) -> None:
        """Close the index."""
        self._session.index.close()


class _Feeding:
    """One attempt to feed one scope."""

    def __init__(
        self,
        store: Store,
        session: IndexSession,
        lease: FeedLease,
        scope: Scope,
        start: Cursor,
        embedder: tuple[str, int],
        chunk: int,
    ) -> None:
        self.lease, self.scope, self.start = lease, scope, start
        self.put = self.dropped = 0
        self._store, self._session, self._embedder, self._chunk = store, session, embedder, chunk

    def cursor_at(self, number: int, seen: int) -> Cursor:
        return Cursor(number, seen, self.start.space, self.start.dimension, (), self.start.rewinds)

    def clear_spaces(self) -> None:
        """Clear the spaces that are not used any more, and this one where everything is fed again."""
        for space, dimension in self.start.stale_spaces:
            self._clear(space, dimension)
        if self.start.number == 0:
            self._clear(self.start.space, self.start.dimension)

    def _clear(self, space: str, dimension: int) -> None:
        """Remove everything of the scope and verify it."""
        self.lease.renew()
        with self._session.open(space, dimension) as index:
            for _ in range(2):
                index.clear(self.scope)
                if next(iter(index.vector_hashes(self.scope)), None) is None:
                    return
            raise IndexUnavailable(f"{index.name} still has entries of a scope after it was cleared.")

    def apply(self, rows: IndexRows, removed: Sequence[int]) -> bool:
        """Put the active rows and drop the others. False if only dropping was possible: a store that was opened without its
        embedder returns no vectors, which is enough to forget, and no reason to move the cursor past what has to be put."""
        self._check_embedder()
        active = indexable(rows)
        complete = not len(rows) or rows.vectors.shape[1] == self._embedder[1]
        if self.start.number:  # a cleared scope has nothing to drop
            gone = ~active if complete else ~rows.active
            kept = {rows.number(at) for at in range(len(rows)) if not gone[at]}
            records = [*removed, *dict.fromkeys(rows.sequences.tolist())]
            dropped = [*removed, *(rows.number(at) for at in gone.nonzero()[0].tolist())]
            self._drop([*dropped, *(number for number in self._further(records) if number not in kept)])
        if complete:
            for positions in batches(active.nonzero()[0].tolist(), self._chunk):
                self._put(rows, positions)
        return complete

    def repair_differences(self) -> None:
        """Correct whatever differs in the scope, without reading all of it at once."""
        dimension = self._embedder[1]
        with self._session.open(self.start.space, dimension) as index:
            difference = compare(self._store, index, self.scope, dimension, self._chunk, self.lease.renew)
        self._check_embedder()
        self._drop(difference.extra)
        for numbers in batches(sorted(difference.missing + difference.different), self._chunk):
            rows = check_width(self._store.index_rows(self.scope, numbers), dimension)
            self._check_embedder()
            wanted = set(numbers)
            self._put(rows, [at for at in indexable(rows).nonzero()[0].tolist() if rows.number(at) in wanted])

    def _further(self, records: Sequence[int]) -> list[int]:
        """The further passages of records that the index has, of each record the last first: if dropping them is interrupted, the
        first is still there to tell of the rest."""
        found: list[int] = []
        left, place = list(dict.fromkeys(records)), 1
        while left:
            step = 1 if place == 1 else _FURTHER_AT_ONCE
            numbers = {passage_number(record, at): record for record in left for at in range(place, place + step)}
            there: list[int] = []
            for part in batches(list(numbers), self._chunk):
                self.lease.renew()
                with self._session.open(self.start.space, self.start.dimension) as index:
                    there += sorted(index.existing(self.scope, part))
            found += there
            left, place = list(dict.fromkeys(numbers[number] for number in there)), place + step
        return sorted(found)

    def _drop(self, sequences: Sequence[int]) -> None:
        """Remove entries and verify it."""
        for part in batches(sequences, self._chunk):
            self.lease.renew()
            with self._session.open(self.start.space, self.start.dimension) as index:
                index.drop(self.scope, part)
                left = index.existing(self.scope, part)
                if left:
                    index.drop(self.scope, sorted(left))
                    left = index.existing(self.scope, part)
                if left:
                    raise IndexUnavailable(f"{index.name} still has {len(left)} of {len(part)} entries after they were dropped.")
            self.dropped += len(part)

    def _put(self, rows: IndexRows, positions: Sequence[int]) -> None:
        self.lease.renew()
        with self._session.open(self.start.space, self.start.dimension) as index:
            index.put(self.scope, make_entries(rows, positions))
        self.put += len(positions)

    def _check_embedder(self) -> None:
        """EmbedderChanged if the rows just read may be of another embedder than the space is for."""
        if self.embedder_changed():
            raise EmbedderChanged

    def embedder_changed(self) -> bool:
        return self._store.embedder() != self._embedder
