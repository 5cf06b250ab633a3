"""One scope in memory, as columns that ranking reads: vectors, words, times, kinds.

A record has a slot; a long text has one for each passage, and the first stands for the record. New records and records whose
words changed get the next slot (the old one is marked as gone); other changes are made in place. Slots that are gone are dropped
when there are many, by building the columns anew.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Changes, IndexRows, Matrix
from keepstone.scope_index import message_links
from keepstone.scope_index.message_links import Slots
from keepstone.scope_index.postings import Postings, Run, find_terms
from keepstone.text.words import name_words
from keepstone.types import MESSAGE, STEP

PLAIN = (
    "sequences", "importances", "trusts", "occurred", "valid_from", "expires", "active", "embedded", "places",
    "passage_starts", "passage_stops",
)  # fmt: skip
CODED = ("kinds", "tags", "sessions", "roles", "names")
TYPES: dict[str, Any] = {
    "sequences": np.int64, "importances": np.float32, "trusts": np.float32, "occurred": np.int64, "valid_from": np.int64,
    "expires": np.int64, "active": np.bool_, "embedded": np.bool_, "kinds": np.int32, "tags": np.int32,
    "sessions": np.int32, "roles": np.int32, "names": np.int32, "lengths": np.int32, "sums": np.uint32, "before": np.int32,
    "after": np.int32, "similarity_to_previous": np.float32, "places": np.int16, "passage_starts": np.int32,
    "passage_stops": np.int32,
}  # fmt: skip
BM25_K1, BM25_B = 1.2, 0.6  # saturation of repeated terms, and how much length counts
_FEW = 64  # changes up to which a chain is mended; with more, all are made anew

Places = NDArray[np.int64] | slice


@dataclass(frozen=True, eq=False)
class View:
    """The index as it was at one moment; safe to read while others write to the index. Its columns are attributes, too. What
    most questions ask of all records alike is looked up once."""

    size: int
    columns: dict[str, NDArray[Any]]
    vectors: Matrix
    _runs: Callable[[], list[Run]]
    codes: dict[str | None, int]
    speakers: dict[str, frozenset[int]]  # a word of a speaker's name -> the codes of the names that have it
    session_count: int  # sessions that have messages
    speaker_count: int  # names that speakers have
    _holding: dict[tuple[int, ...], NDArray[np.bool_]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.__dict__.update(self.columns)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    @cached_property
    def runs(self) -> list[Run]:
        """Which record holds which word."""
        return self._runs()

    @cached_property
    def live(self) -> int:
        """How many slots are of records that are active."""
        return int(np.count_nonzero(self.columns["active"]))

    @cached_property
    def average_length(self) -> float:
        """The mean number of words of an active record."""
        return max(1.0, float(self.columns["lengths"][self.columns["active"]].mean())) if self.live else 1.0

    @cached_property
    def length_norms(self) -> NDArray[np.float32]:
        """What BM25 adds to the count of a word in each record: more in a longer one."""
        lengths = self.columns["lengths"].astype(np.float32) * np.float32(BM25_B / self.average_length)
        norms: NDArray[np.float32] = np.float32(BM25_K1) * (np.float32(1 - BM25_B) + lengths)
        return norms

    @cached_property
    def heads(self) -> NDArray[np.int64] | None:
        """Of each slot the slot that stands for its record; None where every slot stands for its own. A further passage of a
        record that is not here stands for itself."""
        further = np.flatnonzero(self.columns["places"])
        if not len(further):
            return None
        found = np.arange(self.size)
        sequences = self.columns["sequences"]
        first = np.flatnonzero(self.columns["places"] == 0)
        first = first[np.argsort(sequences[first], kind="stable")]
        at = np.searchsorted(sequences[first], sequences[further], side="right") - 1
        there = (at >= 0) & (sequences[first[at]] == sequences[further])
        found[further[there]] = first[at[there]]
        return found

    @cached_property
    def is_record(self) -> NDArray[np.bool_] | None:
        """Which slots stand for a record; None where all do."""
        return None if self.heads is None else self.columns["places"] == 0

    @cached_property
    def all_embedded(self) -> bool:
        return bool(self.columns["embedded"].all())

    @cached_property
    def first_expiry(self) -> int:
        """When the first record expires, in microseconds."""
        return int(self.columns["expires"].min(initial=np.iinfo(np.int64).max))

    @cached_property
    def least_importance(self) -> float:
        return float(self.columns["importances"].min(initial=1.0))

    @cached_property
    def outcomes(self) -> NDArray[np.bool_]:
        """The records that are active and do not tell a step of a task: its episode tells of those."""
        columns = self.columns
        if STEP not in self.codes:
            return columns["active"]
        found: NDArray[np.bool_] = columns["active"] & ~self.steps
        return found

    @cached_property
    def in_session(self) -> NDArray[np.bool_]:
        """The messages that belong to a session."""
        found: NDArray[np.bool_] = (self.columns["kinds"] == self.code(MESSAGE)) & (self.columns["sessions"] != self.code(None))
        return found

    @cached_property
    def unnamed(self) -> NDArray[np.bool_]:
        """The records that neither the assistant nor a speaker with a name said."""
        found: NDArray[np.bool_] = (self.columns["roles"] != self.code("assistant")) & (self.columns["names"] == self.code(None))
        return found

    @cached_property
    def stated(self) -> NDArray[np.int64]:
        """When each record got its present wording, in microseconds."""
        found: NDArray[np.int64] = np.maximum(self.columns["occurred"], self.columns["valid_from"])
        return found

    @cached_property
    def steps(self) -> NDArray[np.bool_]:
        """The records that tell what was done for a task, rather than what was said."""
        found: NDArray[np.bool_] = (self.columns["tags"] == self.code(STEP)) & (self.columns["kinds"] == self.code(MESSAGE))
        return found

    def neighbours(self, slots: NDArray[np.int64], unexpired: NDArray[np.bool_]) -> NDArray[np.int64]:
        """`message_links.find_neighbours` of some slots, without neighbours that are gone or have expired."""
        all_active = unexpired is self.columns["active"]
        if all_active and len(slots) == self.live == self.size:
            return self._all_neighbours
        links = self._links if all_active else message_links.find_links(self.columns, unexpired)
        return message_links.find_neighbours(links, slots)

    @cached_property
    def _links(self) -> message_links.Links:
        return message_links.find_links(self.columns, self.columns["active"])

    @cached_property
    def _all_neighbours(self) -> NDArray[np.int64]:
        return message_links.find_neighbours(self._links, np.arange(self.size))

    @cached_property
    def all_sessions(self) -> tuple[NDArray[np.float64], Slots, Slots, Slots]:
        """`message_links.divide_sessions` of all slots, where each is a message of a session."""
        return message_links.divide_sessions(self.columns["sessions"])

    @cached_property
    def said_in(self) -> NDArray[np.int32]:
        """One more than the code of the session that a message belongs to; 0 for other records."""
        found: NDArray[np.int32] = (self.columns["sessions"] + np.int32(1)) * self.in_session
        return found

    @cached_property
    def pair_norms(self) -> NDArray[np.float32]:
        """The length of the sum of each message's vector and that of the message before it."""
        norms: NDArray[np.float32] = np.sqrt(2 + 2 * np.maximum(self.columns["similarity_to_previous"], np.float32(-0.9)))
        return norms

    def holds(self, *terms: int) -> NDArray[np.bool_]:
        """Which slots hold any of some terms; the one after the last, which stands for no slot, does not."""
        if terms not in self._holding:
            holds_term = self._holding[terms] = np.zeros(self.size + 1, dtype=np.bool_)
            for slots, _ in find_terms(self.runs, terms).values():
                holds_term[slots] = True
        return self._holding[terms]

    def code(self, text: str | None) -> int:
        """The number a kind, tag, session, role or name stands as; -1 where no record has it."""
        return self.codes.get(text, -1)


class ScopeIndex:
    """The ranking columns of one scope, kept up to date by `apply`."""

    def __init__(self, dimension: int, codes: Mapping[str | None, int] | None = None, speakers: Iterable[str] = ()) -> None:
        """An empty one; `codes` and `speakers` are those of records that are held elsewhere."""
        self.latest = 0
        self.generation = 0  # how often slots were numbered anew
        self._dimension = dimension
        self._size = 0
        self._gone = 0
        self._columns = {name: np.empty(0, dtype=kind) for name, kind in TYPES.items()}
        self._vectors: Matrix = np.empty((0, dimension), dtype=np.float32)
        self._postings = Postings()
        self._codes: dict[str | None, int] = dict(codes or {})
        self._speakers: dict[str, frozenset[int]] = {}
        self._named: set[int] = set()  # the codes of names
        self._last: dict[int, int] = {}  # of each session the slot of its last message
        self._elsewhere = {self._codes[name] for name in speakers}  # the codes of speakers that others have
        self._lock = threading.Lock()
        self._view: View | None = None  # until something changes
        for name in speakers:
            self._know(name, self._codes[name])

    @classmethod
    def of(cls, rows: IndexRows) -> ScopeIndex:
        """An index of just these rows, in their order: slot i is row i."""
        index = cls(rows.vectors.shape[1])
        index._append(rows, np.arange(len(rows)), checksums(rows))
        return index

    def view(self) -> View:
        with self._lock:
            if self._view is None:
                size = self._size
                columns = {name: column[:size] for name, column in self._columns.items()}
                self._view = View(
                    size,
                    columns,
                    self._vectors[:size],
                    self._postings.snapshot(),
                    self._codes,
                    self._speakers,
                    len(self._last),
                    len(self._named),
                )
            return self._view

    @property
    def size(self) -> int:
        """Slots in use, those of records that are gone among them."""
        return self._size

    @property
    def empty(self) -> bool:
        """Whether it has no record."""
        return self._size == self._gone

    def places(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots of some records, in no order."""
        with self._lock:
            return self._slots(sequences)

    def nbytes(self) -> int:
        return sum(column.nbytes for column in self._columns.values()) + self._vectors.nbytes + self._postings.nbytes()

    def apply(self, changes: Changes) -> None:
        """Take in what a store's change feed says."""
        rows = changes.rows
        with self._lock:
            if not len(rows) and not changes.removed and rows.vectors.shape[1] == self._dimension:
                self.latest = changes.latest  # something else was written, such as counts of reads: the view still holds
                return
            self._view = None
            if rows.vectors.shape[1] != self._dimension:
                self._vectors = np.zeros((len(self._vectors), rows.vectors.shape[1]), dtype=np.float32)
                self._dimension = rows.vectors.shape[1]
                self._columns["embedded"][:] = False
                self._columns["similarity_to_previous"][:] = 0.0
            if len(rows):
                sums = checksums(rows)
                self._append(rows, self._update(rows, sums), sums)
            if changes.removed:
                self._drop(self._slots(np.array(changes.removed, dtype=np.int64)))
            self.latest = changes.latest
            if self._gone > 64 and self._gone * 4 > self._size:
                self._rebuild()

    def _slots(self, sequences: NDArray[np.int64]) -> NDArray[np.int64]:
        """The slots of these records; those that have none are left out."""
        held = self._columns["sequences"][: self._size]
        if len(sequences) <= 4:
            found = [np.flatnonzero(held == sequence) for sequence in sequences]
            return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        return np.flatnonzero(np.isin(held, sequences))

    def _drop(self, slots: NDArray[np.int64]) -> None:
        """Mark slots as gone, in columns of their own: a view taken before still has the record there."""
        self._columns["active"] = self._columns["active"].copy()
        self._columns["sequences"] = self._columns["sequences"].copy()
        self._columns["active"][slots] = False
        self._columns["sequences"][slots] = -1
        self._gone += len(slots)
        self._know_again()
        if len(slots) > _FEW:
            self._link_all()
        else:
            following = self._columns["after"][slots]
            message_links.remove_links(self._columns, slots, self._last)
            self._measure_links(following[following >= 0].astype(np.int64))

    def _measure_links(self, slots: NDArray[np.int64]) -> None:
        message_links.measure_links(self._columns, self._vectors.__getitem__, slots)

    def _linked(self, which: Places) -> NDArray[np.bool_]:
        """Which of some slots are messages of a session, and still there."""
        kinds, sessions, sequences = (self._columns[name][which] for name in ("kinds", "sessions", "sequences"))
        message, none = self._codes.get(MESSAGE, -1), self._codes.get(None, -1)
        first = self._columns["places"][which] == 0  # a message is linked by its first passage
        linked: NDArray[np.bool_] = (kinds == message) & (sessions != none) & (sequences >= 0) & first
        return linked

    def _link_all(self) -> None:
        linked = np.flatnonzero(self._linked(slice(0, self._size)))
        self._last = message_links.link_all(self._columns, self._vectors.__getitem__, linked)

    def _link(self, slots: NDArray[np.int64]) -> None:
        """Chain the slots that were just filled."""
        linked = slots[self._linked(slots)]
        if all(message_links.append_link(self._columns, slot, self._last) for slot in linked.tolist()):
            self._measure_links(linked)
        else:
            self._link_all()

    def _update(self, rows: IndexRows, sums: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Change records in place where their words stayed the same; the rows that need a new slot."""
        held = self._columns["sequences"][: self._size]
        newest = int(held.max()) if self._size else -1
        fresh = rows.sequences > newest  # sequences only grow, so these are in no slot
        if fresh.all():
            return np.arange(len(rows))
        known, passage = self._slots(rows.sequences[~fresh]).tolist(), self._columns["places"]
        places = {(int(held[slot]), int(passage[slot])): slot for slot in known}
        appended, gone, same, here = [], [], [], []
        for at, row in enumerate(zip(rows.sequences.tolist(), rows.places.tolist(), strict=True)):
            slot = places.pop(row, None)
            if slot is not None and self._columns["sums"][slot] == sums[at]:
                same.append(at)
                here.append(slot)
            else:
                gone += [] if slot is None else [slot]
                appended.append(at)
        gone += places.values()  # passages that the record no longer has
        if same:
            self._change(rows, np.array(same), np.array(here), sums)
        if gone:
            self._drop(np.array(gone))
        return np.array(appended, dtype=np.int64)

    def _change(self, rows: IndexRows, which: NDArray[np.int64], slots: NDArray[np.int64], sums: NDArray[np.uint32]) -> None:
        """Write rows into the slots that they have already."""
        was = [self._columns[name][slots] for name in ("kinds", "sessions", "names")]
        self._put(rows, which, slots, sums)
        now = [self._columns[name][slots] for name in ("kinds", "sessions", "names")]
        if any((one != other).any() for one, other in zip(was, now, strict=True)):
            self._link_all()
            self._know_again()
        else:  # the vectors may be others
            following = self._columns["after"][slots]
            self._measure_links(np.concatenate([slots, following[following >= 0]]))

    def _append(self, rows: IndexRows, which: NDArray[np.int64], sums: NDArray[np.uint32]) -> None:
        if not len(which):
            return
        whole = len(which) == len(rows)
        if whole and not self._size and rows.vectors.flags.writeable:
            self._vectors = rows.vectors  # the first load: a hundred megabytes need not be copied
        self._reserve(self._size + len(which))
        slots = np.arange(self._size, self._size + len(which))
        span = slice(self._size, self._size + len(which)) if whole else slots
        self._put(rows, slice(None) if whole else which, span, sums)
        lengths = rows.ends.copy()
        lengths[1:] -= rows.ends[:-1]
        self._columns["lengths"][slots] = lengths[which]
        pieces = () if whole else [rows.terms[rows.ends[at] - lengths[at] : rows.ends[at]] for at in which]
        terms = rows.terms if whole else np.concatenate(pieces)
        self._postings.add(terms, np.repeat(slots, lengths[which]))
        self._columns["before"][slots] = self._columns["after"][slots] = -1
        self._columns["similarity_to_previous"][slots] = 0.0
        self._size += len(which)
        self._link(slots) if self._size > len(which) else self._link_all()

    def _put(self, rows: IndexRows, which: Places, slots: Places, sums: NDArray[np.uint32]) -> None:
        """Write some rows, or all of them, into slots."""
        for name in PLAIN:
            self._columns[name][slots] = getattr(rows, name)[which]
        for name in CODED:
            texts: list[str | None] = getattr(rows, name)
            different = texts[:1] if texts.count(texts[0]) == len(texts) else set(texts)
            for text in different:
                code = self._codes.setdefault(text, len(self._codes))
                if name == "names" and text is not None:
                    self._know(text, code)
            codes = np.fromiter(map(self._codes.__getitem__, texts), np.int32, len(texts)) if len(different) > 1 else None
            self._columns[name][slots] = code if codes is None else codes[which]
        self._columns["sums"][slots] = sums[which]
        if self._vectors is not rows.vectors:
            self._vectors[slots] = rows.vectors[which]

    def _know(self, name: str, code: int) -> None:
        """Note a speaker by every word of the name."""
        if code not in self._named:
            self._named.add(code)
            for word in name_words(name):
                self._speakers[word] = self._speakers.get(word, frozenset()) | {code}

    def _know_again(self) -> None:
        """Forget the names of speakers who are gone."""
        if self._speakers:
            columns = self._columns
            here = set(np.unique(columns["names"][: self._size][columns["sequences"][: self._size] >= 0]).tolist())
            here |= self._elsewhere
            self._speakers, self._named = {}, set()
            for name, code in self._codes.items():
                if name is not None and code in here:
                    self._know(name, code)

    def _reserve(self, size: int) -> None:
        room = len(self._columns["sequences"])
        if size <= room:
            return
        room = size if not self._size else max(size, room + room // 2)
        for name, column in self._columns.items():
            grown = self._columns[name] = np.empty(room, dtype=column.dtype)
            if self._size:
                grown[: self._size] = column[: self._size]
        if len(self._vectors) < room:
            vectors = np.empty((room, self._dimension), dtype=np.float32)
            vectors[: self._size] = self._vectors[: self._size]
            self._vectors = vectors

    def _rebuild(self) -> None:
        """Drop the slots that are gone."""
        keep = self._columns["sequences"][: self._size] >= 0
        place = np.cumsum(keep) - 1
        runs = self._postings.runs()
        self._postings = Postings()
        for run in runs:
            held = keep[run.slots]
            terms = np.repeat(run.terms, np.diff(run.ends, prepend=0))[held]
            repeats = run.counts[held]
            self._postings.add(np.repeat(terms, repeats), np.repeat(place[run.slots[held]], repeats))
        self._columns = {name: column[: self._size][keep] for name, column in self._columns.items()}
        self._vectors = self._vectors[: self._size][keep]
        self._size, self._gone = int(keep.sum()), 0
        self.generation += 1
        self._link_all()


def checksums(rows: IndexRows) -> NDArray[np.uint32]:
    """A checksum of each row's words, to tell whether they changed."""
    raw, ends = rows.terms.tobytes(), (rows.ends * 4).tolist()
    return np.array([zlib.crc32(raw[start:end]) for start, end in zip([0, *ends], ends, strict=False)], dtype=np.uint32)
