"""IndexSync: keeps an index of vectors in step with the store.

**The change feed is the outbox.** Every write gives its records a number that only grows, in its own transaction, and what was
forgotten is in the trail. So `store.changes(scope, number)` is all that an index has not heard of yet, and nothing has to be
queued beside the write. How far it has heard is the cursor, a state in the store; it moves when the index has acknowledged
everything, and a crash before that means that the same is put again, which changes nothing.

**Old over new.** A reads changes up to 10 and falls asleep; B feeds up to 20; A wakes and puts what it read, which is old by
now. An index cannot refuse that, so: whoever feeds first puts a mark into the cursor, by compare-and-set, and others wait for
it. A mark runs out, or a killed process would block the index for ever, so somebody who slept too long may still put old rows;
but then their compare-and-set at the end fails, and they feed again from where they had begun, having set the cursor back to
there before. A lease of its own would say the same with two more commits, and would not be part of the value that is compared.
What is left is a process that is overtaken while one chunk is on its way, and dies before it has fed again: `drift.examine`
finds that, and nothing else can.

**Another embedder is another space.** The cursor says which space it belongs to, and in which others something may still be. The
first feeding after the embedder changed clears the scope in those, so that nothing of what is forgotten later stays there, and
begins at nothing in the new one.

**From nothing** a scope is cleared in the index first: a forget of everything takes the cursor with it, and the feed from 0
does not name what is gone. (`IndexedStore` puts back at once which space it was.) Where that, or a long gap, would be too much to
read at once, store and index are compared chunk by chunk instead.

The store must be the one below the guard, which would look for secrets in cursors.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from weakref import WeakValueDictionary

from keepstone.errors import EmbedderMismatch, IndexUnavailable
from keepstone.ports.caches import VectorIndex
from keepstone.ports.stores import Store
from keepstone.ports.values import IndexRows, SearchFilter, Vector
from keepstone.types import Scope
from keepstone.vector_sync.compare import compare, usable
from keepstone.vector_sync.cursor import ClaimedCursor, Cursor, Cursors, FedElsewhere, LostClaim
from keepstone.vector_sync.entries import chunks, entries_of, living, space_of
from keepstone.vector_sync.session import IndexSession

CHUNK = 500  # entries in one call to the index
LARGE = 5_000  # changes that a recall does not wait for, and that are not read at once
MEMORY = 64 * 1024 * 1024  # bytes of a scope that may be read at once when it is fed from nothing
PATIENCE = 20.0  # seconds to wait for somebody else who feeds
_GLANCE = 64  # rows of the trail that mostly tell whether a gap is small
_TRIES = 5  # how often one may be overtaken


@dataclass(frozen=True, slots=True)
class Fed:
    """What one feeding did: entries put, entries dropped, and the change number that the index is at."""

    put: int
    dropped: int
    number: int


class IndexSync:
    """Brings an index up to date, scope by scope. Any number of them, in any number of processes, may feed one index."""

    def __init__(
        self,
        store: Store,
        index: VectorIndex,
        *,
        chunk: int = CHUNK,
        large: int = LARGE,
        memory: int = MEMORY,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._door = IndexSession(index)
        self.cursors = Cursors(store, index.name, clock)
        self._chunk, self.large, self._memory = chunk, large, memory
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._locks: WeakValueDictionary[Scope, threading.Lock] = WeakValueDictionary()
        self._making = threading.Lock()

    @property
    def name(self) -> str:
        """What the index is called."""
        return self._door.index.name

    def space(self) -> str | None:
        """Where in the engine the store's vectors are; None while it has no embedder."""
        bound = self._store.embedder()
        return None if bound is None else space_of(self._store.id, bound)

    # -- how far it is --------------------------------------------------------------------------------------------
    def behind(self, scope: Scope) -> bool:
        """Whether anything happened that the index may not have heard of. Not every row of the trail is a change of a record; the
        cursor has the last one that was looked at, so those are looked at once."""
        space, cursor = self.space(), self.cursors.read(scope)
        if space is None:
            return False
        if cursor.others or (cursor.space != space and cursor.seen > 0):
            return True
        return cursor.seen != self._store.audit_log.last(scope)

    def far(self, scope: Scope) -> bool:
        """Whether more waits than a recall should wait for."""
        cursor = self.cursors.read(scope)
        if cursor.number == 0 or cursor.space != self.space():
            return self._store.count(scope) > self.large
        return self._gap(scope, cursor.number)

    def number(self, scope: Scope) -> int:
        """Up to which change the index has heard of a scope; 0: of nothing."""
        cursor = self.cursors.read(scope)
        return cursor.number if cursor.space == self.space() else 0

    def late(self) -> list[Scope]:
        """The scopes that are behind."""
        return [scope for scope in self._store.retention.scopes() if self.behind(scope)]

    def _gap(self, scope: Scope, number: int) -> bool:
        """Whether the trail has many rows after a number; numbers are the whole store's, so their distance alone says little."""
        if self._store.audit_log.last(scope) - number <= self.large:
            return False
        for limit in (min(_GLANCE, self.large + 1), self.large + 1):
            rows = self._store.audit(scope, limit=limit)
            if len(rows) < limit or rows[-1].number <= number:
                return False
        return True

    # -- searching and looking ------------------------------------------------------------------------------------
    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter) -> list[int] | None:
        """Ask the index; None if the vector cannot be one of the store's embedder."""
        bound = self._store.embedder()
        if bound is None or bound[1] != len(vector):
            return None
        with self._door.open(space_of(self._store.id, bound), bound[1]) as index:
            return list(index.search(scope, vector, limit, search_filter))

    @contextmanager
    def opened(self) -> Iterator[tuple[VectorIndex, int]]:
        """(the index with the store's space open, how wide its vectors are), for those who want to look."""
        bound = self._store.embedder()
        if bound is None:
            raise EmbedderMismatch("the store has no embedder yet, so there is nothing to be in an index.")
        with self._door.open(space_of(self._store.id, bound), bound[1]) as index:
            yield index, bound[1]

    # -- feeding --------------------------------------------------------------------------------------------------
    def feed(self, scope: Scope, *, patience: float = PATIENCE) -> Fed:
        """Bring the index up to date in a scope. IndexUnavailable if it cannot be, FedElsewhere if somebody else is at it for
        longer than `patience`; nothing is lost then, and the next feeding goes on."""
        return self._fed(scope, None, False, patience)

    def mend(self, scope: Scope) -> Fed:
        """Compare all of a scope and mend what differs, whatever the cursor says."""
        return self._fed(scope, None, True, PATIENCE)

    def renew(self, scope: Scope) -> Fed:
        """Clear a scope in the index and feed all of it again."""
        return self._fed(scope, 0, False, PATIENCE)

    def _fed(self, scope: Scope, least: int | None, all_of_it: bool, patience: float) -> Fed:
        put = dropped = 0
        last: Cursor | None = None
        with self._alone(scope, patience):
            for _ in range(_TRIES):
                bound = self._store.embedder()
                if bound is None:
                    return Fed(0, 0, 0)
                held = self._taken(scope, bound, last, least, patience)
                last, least = held.cursor, held.cursor.number
                feeding = _Feeding(self._store, self._door, scope, held, bound, self._chunk)
                reached = self._attempt(feeding, all_of_it)
                put, dropped = put + feeding.put, dropped + feeding.dropped
                if reached is not None:
                    return Fed(put, dropped, reached.number)
            if last is not None:
                self.cursors.set_back(scope, last)
        raise FedElsewhere(f"others brought it up to date {_TRIES} times meanwhile")

    def _taken(
        self, scope: Scope, bound: tuple[str, int], last: Cursor | None, least: int | None, patience: float
    ) -> ClaimedCursor:
        """Our mark; if it is to be had no more after we were overtaken, others have to begin again for us."""
        try:
            return self.cursors.take(scope, (space_of(self._store.id, bound), bound[1]), last, least, patience)
        except BaseException:
            if last is not None:
                self.cursors.set_back(scope, last)
            raise

    @contextmanager
    def _alone(self, scope: Scope, patience: float) -> Iterator[None]:
        """One thread of this process at a time."""
        if self._process != os.getpid():
            self._begin()  # whoever had a lock when we were forked is not here
        with self._making:
            lock = self._locks.setdefault(scope, threading.Lock())
        if not lock.acquire(timeout=patience):
            raise FedElsewhere("another thread is bringing it up to date just now")
        try:
            yield
        finally:
            lock.release()

    def _attempt(self, feeding: _Feeding, all_of_it: bool) -> Cursor | None:
        """Where the cursor is after one attempt; None if somebody else was quicker and all has to be done again."""
        held = feeding.held
        try:
            reached = self._run(feeding, all_of_it)
            return reached if held.move(reached) else None
        except LostClaim:
            held.give_up()  # it is still ours if only the embedder changed
            return None
        except EmbedderMismatch as error:
            if feeding.moved():
                held.give_up()
                return None
            held.fail()
            raise IndexUnavailable(str(error)) from None
        except BaseException:
            held.fail()
            raise

    def _run(self, feeding: _Feeding, all_of_it: bool) -> Cursor:
        """Feed, and say where the index is then."""
        scope, begun = feeding.scope, feeding.held.cursor.number
        feeding.prepare()
        seen = self._store.audit_log.last(scope)
        if begun == 0 and self._store.index_size(scope) > self._memory:
            reason = f"the index {self.name} is fed with everything there is"
            begun = seen = self._store.audit_log.note(scope, "index", "fed", "system", (reason,))
            feeding.compared()  # what is changed from here on has a number above this row's
            return feeding.at(begun, seen)
        if begun and (all_of_it or self._gap(scope, begun)):
            feeding.compared()
            return feeding.at(max(begun, seen), seen)
        changes = self._store.changes(scope, begun)
        gone = [sequence for sequence in changes.removed if sequence is not None]  # a refused forget names no record
        whole = feeding.apply(changes.rows, gone)
        return feeding.at(changes.latest, seen) if whole else feeding.held.unmarked

    def close(self) -> None:
        """Let go of the index."""
        self._door.index.close()


class _Feeding:
    """One attempt to feed one scope, under our mark."""

    def __init__(
        self, store: Store, door: IndexSession, scope: Scope, held: ClaimedCursor, bound: tuple[str, int], size: int
    ) -> None:
        self.scope, self.held = scope, held
        self.put = self.dropped = 0
        self._store, self._door, self._bound, self._size = store, door, bound, size
        self._space = space_of(store.id, bound)

    def at(self, number: int, seen: int) -> Cursor:
        return Cursor(number, seen, self._space, self._bound[1])

    def prepare(self) -> None:
        """Leave nothing in a space that is used no more, and nothing in this one where all of it is to be put."""
        for space, dimension in self.held.cursor.others:
            self._clear(space, dimension)
        if self.held.cursor.number == 0:
            self._clear(self._space, self._bound[1])

    def _clear(self, space: str, dimension: int) -> None:
        """Take everything out and see that it is."""
        self.held.keep()
        with self._door.open(space, dimension) as index:
            for _ in range(2):
                index.clear(self.scope)
                if next(iter(index.vector_hashes(self.scope)), None) is None:
                    return
            raise IndexUnavailable(f"{index.name} still has entries of a scope that it was told to clear.")

    def apply(self, rows: IndexRows, gone: Sequence[int]) -> bool:
        """Put what is alive and drop what is not. False if only dropping was possible: the store was opened without its embedder
        and gives no vectors out, which is enough to forget, and no reason to move the cursor past what has to be put."""
        self._same_embedder()
        alive = living(rows)
        whole = not len(rows) or rows.vectors.shape[1] == self._bound[1]
        if self.held.cursor.number:  # else nothing is there that could be dropped
            out = ~alive if whole else ~rows.active
            self.drop([*gone, *(int(each) for each in rows.sequences[out])])
        if whole:
            for places in chunks(alive.nonzero()[0].tolist(), self._size):
                self._put(rows, places)
        return whole

    def compared(self) -> None:
        """Mend whatever differs in the scope, without reading it all at once."""
        with self._door.open(self._space, self._bound[1]) as index:
            found = compare(self._store, index, self.scope, self._bound[1], self._size, self.held.keep)
        self._same_embedder()
        self.drop(found.extra)
        for sequences in chunks(sorted(found.missing + found.different), self._size):
            rows = usable(self._store.index_rows(self.scope, sequences), self._bound[1])
            self._same_embedder()
            self._put(rows, living(rows).nonzero()[0].tolist())

    def drop(self, sequences: Sequence[int]) -> None:
        """Take entries out and see that they are."""
        for part in chunks(sequences, self._size):
            self.held.keep()
            with self._door.open(self._space, self._bound[1]) as index:
                index.drop(self.scope, part)
                left = index.existing(self.scope, part)
                if left:
                    index.drop(self.scope, sorted(left))
                    left = index.existing(self.scope, part)
                if left:
                    raise IndexUnavailable(f"{index.name} still has {len(left)} of {len(part)} entries that it was told to drop.")
            self.dropped += len(part)

    def _put(self, rows: IndexRows, places: Sequence[int]) -> None:
        self.held.keep()
        with self._door.open(self._space, self._bound[1]) as index:
            index.put(self.scope, entries_of(rows, places))
        self.put += len(places)

    def _same_embedder(self) -> None:
        """What was just read may be of another embedder than the space is for: then all of it is to be read again."""
        if self.moved():
            raise LostClaim

    def moved(self) -> bool:
        """Whether the store has gone over to another embedder since."""
        return self._store.embedder() != self._bound
