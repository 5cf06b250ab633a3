"""A large scope: a segment that never changes, and what came after it in memory.

A question is not asked of all of it. The codes propose what is near in meaning, the rarest words what shares them, and the
ranking columns of those and of their neighbours are put together as a view like that of a small scope. Slots are counted
through: first those of the segment, then those of the tail.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Changes, Matrix, Vector
from keepstone.scope_index import codes as coding
from keepstone.scope_index.codes import Codes
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.scope_index.postings import NO_POSTINGS, Counts, Run, find_terms
from keepstone.scope_index.segment import Segment
from keepstone.types import MESSAGE

Slots = NDArray[np.int64]
Mask = NDArray[np.bool_]
PostingList = tuple[Slots | NDArray[np.uint32], Counts]
_PROPOSED = (800, 310)  # slots that the codes propose, to be measured better: so many, and one of so many of all
_COUNTED = 40_000  # entries of word lists that are gone through
_CODED = 8192  # records of the tail that get codes together
_MASKS = 8
_EMPTY: Matrix = np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which slots of the two parts a question may be answered with, and how many they are, facts among them."""

    old: Mask
    new: Mask
    count: int
    facts: int
    all_old: bool  # whether that is every slot of the segment


class MappedIndex:
    """The ranking columns of a large scope, kept up to date by `apply`."""

    def __init__(self, segment: Segment) -> None:
        self.segment = segment
        self.latest = segment.latest
        self._dimension = int(segment.about["dimension"])
        self._tail = ScopeIndex(self._dimension, segment.names, segment.speakers)
        self._active: Mask = segment.arrays["active"]
        self._masks: dict[Hashable, tuple[Mask, int, int, int]] = {}
        self._blocks: list[Codes | None] = []  # None: to be made anew
        self._blocks_of = 0
        self._gone = 0
        self._room: list[NDArray[np.float32]] = []
        self._view: MappedView | None = None
        self._lock = threading.Lock()

    def apply(self, changes: Changes) -> None:
        """Take in what a store's change feed says: records that changed stand in the tail from then on."""
        touched = np.concatenate([changes.rows.sequences, np.array(changes.removed, dtype=np.int64)])
        slots = self.segment.slots_of(np.sort(touched)) if len(touched) else touched
        slots = slots[self._active[slots]] if len(slots) else slots
        with self._lock:
            if len(slots):
                self._active = self._active.copy()  # a view taken before still has the record there
                self._active[slots] = False
                self._gone += len(slots)
                self._masks = {}
        self._tail.apply(changes)
        with self._lock:
            coded = self._tail.places(changes.rows.sequences) // _CODED
            for at in set(coded[coded < len(self._blocks)].tolist()):  # changed in place: a vector may have come, or another
                self._blocks[at] = None
        self.latest = changes.latest

    def worn(self) -> bool:
        """Whether so much has changed that a new segment is worth while."""
        changed = self._gone + self._tail.size
        return changed > max(_CODED, self.segment.size // 8)

    def nbytes(self) -> int:
        return self.segment.nbytes() + self._tail.nbytes()

    def view(self) -> MappedView:
        tail = self._tail.view()
        with self._lock:
            if self._view is not None and self._view.shows(self._active, tail):
                return self._view
            if self._blocks_of != self._tail.generation:
                self._blocks, self._blocks_of = [], self._tail.generation
            centres = self.segment.codes.centres
            while len(centres) and tail.size - (done := _CODED * len(self._blocks)) >= _CODED:
                self._blocks.append(_coded(tail, done, centres))
            blocks = [_coded(tail, _CODED * at, centres) if each is None else each for at, each in enumerate(self._blocks)]
            self._blocks = list(blocks)
            self._view = MappedView(self.segment, self._active, tail, tuple(blocks), self._masks, self._room)
            return self._view


def _coded(tail: View, start: int, centres: Matrix) -> Codes:
    """Codes of some records of the tail."""
    vectors = np.ascontiguousarray(tail.vectors[start : start + _CODED])
    nearest = coding.assign_centres(vectors, centres)
    words, spreads = coding.encode_vectors(vectors, centres, nearest)
    nearest = np.where(tail.embedded[start : start + _CODED], nearest, -1)
    made = coding.build_codes(words, spreads, nearest, centres)
    return Codes(made.centres, made.starts, made.planes, made.spreads, made.slots + np.uint32(start))


class MappedView:
    """A large scope as it was at one moment."""

    def __init__(
        self,
        segment: Segment,
        active: Mask,
        tail: View,
        blocks: tuple[Codes, ...],
        masks: dict[Hashable, Any],
        room: list[NDArray[np.float32]],
    ) -> None:
        self._segment = segment
        self._tail = tail
        self._blocks = blocks
        self._masks = masks
        self._room = room  # of a number for each slot, all 0: a user of one gives it back as it was
        columns = {**segment.arrays, "active": active}
        self._old = View(segment.size, columns, _EMPTY, list, tail.codes, tail.speakers, 0, tail.speaker_count)

    def shows(self, active: Mask, tail: View) -> bool:
        """Whether it is of these two."""
        return self._old.active is active and self._tail is tail

    @property
    def speakers(self) -> dict[str, frozenset[int]]:
        return self._tail.speakers

    def has_kind(self, kind: str) -> bool:
        """Whether there may be records of a kind."""
        return kind in self._tail.codes

    def live(self) -> int:
        """How many records are active."""
        return self._old.live + self._tail.live

    def sequences(self, slots: Slots) -> NDArray[np.int64]:
        return self._column("sequences", slots)

    def wanted(self, key: Hashable, now: int, usable: Callable[[View], Mask]) -> Wanted:
        """What `usable` says of both parts. For the segment it is remembered by the key until something in it expires."""
        held = self._masks.get(key)
        if held is None or now >= held[3]:
            mask = usable(self._old)
            message = self._old.code(MESSAGE)
            soon = self._old.expires[mask].min() if mask.any() else np.iinfo(np.int64).max
            records = mask if self._old.is_record is None else mask & self._old.is_record
            held = (mask, int(records.sum()), int((records & (self._old.kinds != message)).sum()), int(soon))
            if key is not None:
                if len(self._masks) >= _MASKS:
                    self._masks.clear()
                self._masks[key] = held
        mask, count, facts, _ = held
        new = usable(self._tail)
        late = new if self._tail.is_record is None else new & self._tail.is_record
        more = int((late & (self._tail.kinds != self._tail.code(MESSAGE))).sum())
        return Wanted(mask, new, count + int(late.sum()), facts + more, bool(mask.all()))

    # -- proposals ------------------------------------------------------------------------------------------------
    def nearest(self, vector: Vector, count: int, wanted: Wanted, within: Callable[[View], Mask] | None = None) -> Slots:
        """The slots that are nearest to a vector, of those that are wanted; `within` may ask for less."""
        if len(vector) != int(self._segment.about["dimension"]):
            return np.empty(0, dtype=np.int64)
        old: Mask | None = None if wanted.all_old else wanted.old
        new = wanted.new & self._tail.embedded
        if within is not None:
            old, new = wanted.old & within(self._old), new & within(self._tail)
        size = self._segment.size
        proposed = self._segment.codes.search(vector, max(_PROPOSED[0] + size // _PROPOSED[1], 4 * count), old)
        proposed.sort()  # in the order in which they lie in the file
        values = self._segment.measure_similarity(proposed, vector)
        done = _CODED * len(self._blocks)
        late = [block.search(vector, 4 * count, new) for block in self._blocks]
        late.append(np.flatnonzero(new[done:]) + done)
        slots = np.concatenate(late)
        values = np.concatenate([values, np.einsum("ij,j->i", self._tail.vectors[slots], vector)])
        slots = np.concatenate([proposed, slots + size])
        return coding.top_slots(slots, values, count)

    def sharing(self, lists: Sequence[tuple[float, PostingList, PostingList]], count: int, wanted: Wanted) -> Slots:
        """The slots that share most of some words, each with what it is worth; the rarest are gone through first, those that
        stand nearly everywhere not at all."""
        size = self._segment.size
        touched: list[tuple[Slots, float]] = []
        left = _COUNTED
        for value, (old, _), (new, _) in sorted(lists, key=lambda each: len(each[1][0]) + len(each[2][0])):
            if left <= 0:
                break
            old = old[-left:]  # of a word that very many have, the newest
            left -= len(old) + len(new)
            old = old if wanted.all_old else old[wanted.old[old]]
            new = new[wanted.new[new]].astype(np.int64) + size
            touched += [(slots.astype(np.int64), value) for slots in (old, new) if len(slots)]
        if not touched:
            return np.empty(0, dtype=np.int64)
        room = next((each for each in self._taken() if len(each) >= size + self._tail.size), None)
        worth = np.zeros(size + self._tail.size, dtype=np.float32) if room is None else room
        for each, value in touched:
            worth[each] += np.float32(value)
        every = np.concatenate([each for each, _ in touched])
        slots = _distinct(coding.top_slots(every, worth[every], 3 * count))  # a slot may be there several times
        found = coding.top_slots(slots, worth[slots], count)
        worth[every] = 0.0
        self._room.append(worth)
        return found

    def _taken(self) -> Iterator[NDArray[np.float32]]:
        """Work areas that no view uses any more; those that have become too small are not given back."""
        while self._room:
            try:
                yield self._room.pop()
            except IndexError:  # another thread was quicker
                return

    def newest(self, count: int, wanted: Wanted) -> Slots:
        old, new = (
            np.flatnonzero(mask & (view.places == 0)) for mask, view in ((wanted.old, self._old), (wanted.new, self._tail))
        )
        found = new[-count:] + self._segment.size
        return found if len(found) >= count else np.concatenate([old[len(found) - count :], found])

    def slot_of(self, sequence: int) -> Slots:
        """Where a record stands now; nothing if it does not."""
        there = np.flatnonzero((self._tail.sequences == sequence) & (self._tail.places == 0))
        return there + self._segment.size if len(there) else self._segment.slots_of(np.array([sequence]))[:1]

    def posting_lists(self, terms: Sequence[int]) -> list[tuple[PostingList, PostingList]]:
        """Of each term the slots it stands in, in the segment and in the tail."""
        late = find_terms(self._tail.runs, terms)
        return [(old, late.get(term, NO_POSTINGS)) for term, old in zip(terms, self._segment.find_all(terms), strict=True)]

    # -- a view of some slots -------------------------------------------------------------------------------------
    def with_neighbours(self, slots: Slots) -> Slots:
        """Slots with the records of passages and two neighbours on either side, ascending."""
        slots = _distinct(np.concatenate([slots, self._heads(slots)]))
        found = [slots]
        for way in ("before", "after"):
            at = slots
            for _ in range(2):
                at = self._along(way, at)
                at = at[at >= 0]
                found.append(at)
        return _distinct(np.concatenate(found))

    def _heads(self, slots: Slots) -> Slots:
        """The slots that stand for the records of further passages."""
        size = self._segment.size
        late = slots[slots >= size] - size
        heads = [] if self._tail.heads is None else [self._tail.heads[late] + size]
        old = slots[slots < size]
        old = old[self._old.places[old] > 0]
        if len(old):
            heads.append(np.searchsorted(self._old.sequences, self._old.sequences[old]))
        return np.concatenate(heads) if heads else slots[:0]

    def view(self, slots: Slots, terms: Sequence[int], lists: Sequence[tuple[PostingList, PostingList]]) -> View:
        """Some slots, ascending, as a scope of their own, with the words that are asked for."""
        size = self._segment.size
        cut = int(np.searchsorted(slots, size))
        old, new = slots[:cut], slots[cut:] - size
        names = [name for name in self._tail.columns if name not in ("before", "after")]
        columns = {name: self._column(name, slots, cut) for name in names}
        for name in ("before", "after"):
            there = self._along(name, slots)
            place = np.searchsorted(slots, there)
            place[place == len(slots)] = 0
            columns[name] = np.where((there >= 0) & (slots[place] == there), place, -1).astype(np.int32)
        vectors = self._segment.vectors_at(old)
        if len(new):
            vectors = np.concatenate([vectors, self._tail.vectors[new]]) if len(old) else self._tail.vectors[new]
        said = (columns["kinds"] == self._tail.code(MESSAGE)) & (columns["sessions"] != self._tail.code(None))
        sessions = int(np.count_nonzero(np.bincount(columns["sessions"][said])))
        runs = [_run(terms, lists, old, new)]
        return View(
            len(slots), columns, vectors, lambda: runs, self._tail.codes, self._tail.speakers, sessions,
            self._tail.speaker_count,
        )  # fmt: skip

    def _column(self, name: str, slots: Slots, cut: int | None = None) -> NDArray[Any]:
        """A column at some slots, of which the first `cut` are in the segment."""
        size = self._segment.size
        cut = int(np.searchsorted(slots, size)) if cut is None else cut
        if cut == len(slots):
            found: NDArray[Any] = self._old.columns[name][slots]
            return found
        return np.concatenate([self._old.columns[name][slots[:cut]], self._tail.columns[name][slots[cut:] - size]])

    def _along(self, name: str, slots: Slots) -> Slots:
        size = self._segment.size
        old = slots < size
        found = np.full(len(slots), -1, dtype=np.int64)
        found[old] = self._old.columns[name][slots[old]]
        late = self._tail.columns[name][slots[~old] - size].astype(np.int64)
        found[~old] = np.where(late >= 0, late + size, -1)
        if self._tail.size and (found < 0).any():
            self._across(name, slots, found)
        return found

    def _across(self, name: str, slots: Slots, found: Slots) -> None:
        """What a session's first message in the tail follows is in the segment."""
        last, first = self._ends
        open_ = np.flatnonzero((found < 0) & ((slots >= self._segment.size) == (name == "before")))
        sessions = self._column("sessions", slots[open_]) if len(open_) else open_
        ends = last if name == "before" else first
        kinds = self._column("kinds", slots[open_]) if len(open_) else open_
        said = kinds == self._tail.code(MESSAGE)
        found[open_[said]] = ends[sessions[said]]

    @cached_property
    def _ends(self) -> tuple[Slots, Slots]:
        """Of each session, by its code, the last message in the segment and the first in the tail, where it goes on there; else
        -1."""
        tail, arrays, size = self._tail, self._segment.arrays, self._segment.size
        last = np.full(len(tail.codes), -1, dtype=np.int64)
        first = last.copy()
        last[arrays["last_sessions"]] = arrays["last_slots"]
        message = (tail.kinds == tail.code(MESSAGE)) & (tail.places == 0)
        opening = np.flatnonzero((tail.before < 0) & message & (tail.sequences >= 0))
        opening = opening[tail.sessions[opening] != tail.code(None)]
        opening = opening[tail.sequences[opening] > int(arrays["sequences"][-1])] if size else opening
        first[tail.sessions[opening]] = opening + size
        return np.where(first >= 0, last, -1), np.where(last >= 0, first, -1)


def _distinct(slots: Slots) -> Slots:
    """Slots once each, ascending."""
    ordered = np.sort(slots)
    return ordered[np.append(True, ordered[1:] != ordered[:-1])] if len(ordered) else ordered


def _run(terms: Sequence[int], lists: Sequence[tuple[PostingList, PostingList]], old: Slots, new: Slots) -> Run:
    """Where the terms stand among some slots of both parts, counted anew."""
    found: dict[int, int] = {}
    places: list[Slots] = []
    counts: list[Counts] = []
    for term, (first, second) in sorted(zip(terms, lists, strict=True), key=lambda each: each[0]):
        for (slots, times), chosen, start in ((first, old, 0), (second, new, len(old))):
            if not len(slots) or not len(chosen):
                continue
            chosen = chosen.astype(slots.dtype)  # of another type, the whole list would be copied
            if len(slots) > 4 * len(chosen):
                place = np.searchsorted(slots, chosen)
                place[place == len(slots)] = 0
                there = slots[place] == chosen
                here, held = np.flatnonzero(there), times[place[there]]
            else:
                place = np.searchsorted(chosen, slots)
                place[place == len(chosen)] = 0
                there = chosen[place] == slots
                here, held = place[there], times[there]
            found[term] = found.get(term, 0) + len(here)
            places.append(here + start)
            counts.append(held)
    ends = np.cumsum(list(found.values()), dtype=np.int64)
    slots = np.concatenate([NO_POSTINGS[0], *places]).astype(np.uint32)
    return Run(np.array(list(found), dtype=np.uint32), ends, slots, np.concatenate([NO_POSTINGS[1], *counts]))
