"""Vectors as one bit a dimension, for scopes so large that measuring every vector would take too long.

Vectors are sorted into lists around a few centres. Of each the difference to its centre is turned (so that no dimension says
more than another) and only the signs are kept: 32 bytes instead of a thousand, and how far two codes differ is counted with
a few instructions. Every code is compared, so a filter costs nothing in quality, and lists that cannot hold anything near
are passed over. What the codes propose is measured again with better vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Matrix, Vector

_LIST, _SHORTEST = 16_384, 2048  # vectors that a list has, about; and at least, where there are few
_LISTS = 16  # that there should be: the nearer the centre, the more the signs of the difference say
_BLOCK = 32_768  # codes that are compared at a time
_MOST_BITS = 256  # half of them are counted in a byte
_FLOOR = 51  # of half the bits: codes that are near differ in about so many, or in as few as some that were measured first do;
# those that would need fewer are passed over
_ALIKE = 1024  # neighbours in a list whose spreads are taken to be as wide as the first of them
_CHANCE = 5  # bits by which twice the first half may be wrong about the whole: nearly a deviation
_LOOKED_AT = 2.0  # times as many codes as are wanted have all their bits compared
_BINS = 2048
_SAMPLE, _APART = 4096, 61  # codes that are measured first, to know from where on a likeness counts; at most so far apart
_ROUNDS = 6
_CHUNK = 8192

Words = NDArray[np.uint64]
Slots = NDArray[np.int64]


@cache
def _turn(dimension: int) -> NDArray[np.float32]:
    """A matrix that spreads what a vector says evenly over its dimensions: Hadamard's, twice, with signs between. It is the
    same everywhere and for ever, because codes are kept in files."""
    size = _MOST_BITS  # short vectors get as many bits: what is passed over is reckoned with these
    while size < dimension:
        size *= 2
    square = np.ones((1, 1), dtype=np.float32)
    while len(square) < size:
        square = np.block([[square, square], [square, -square]])
    state, signs = np.uint64(0x9E3779B97F4A7C15), np.empty((2, size), dtype=np.float32)
    numbers = np.arange(1, 2 * size + 1, dtype=np.uint64)
    with np.errstate(over="ignore"):
        mixed = numbers * state
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    signs = np.where(mixed >> np.uint64(63), np.float32(1), np.float32(-1)).reshape(2, size)
    turned: Matrix = (((signs[0][:, None] * square) * signs[1]) @ square) / np.float32(size)
    return np.ascontiguousarray(turned[:dimension, : min(size, _MOST_BITS)], dtype=np.float32)


def _packed(positive: NDArray[np.bool_]) -> Words:
    """Rows of signs as rows of 64-bit words."""
    found: Words = np.packbits(positive, axis=1).view(np.uint64)
    return found


@dataclass(frozen=True)
class Codes:
    """The codes of many vectors, in the order of their lists."""

    centres: Matrix
    starts: NDArray[np.int64]  # where each list begins, and the end
    planes: Words  # one row a word of the code, so that a word of all is read in one go
    spreads: NDArray[np.float32]  # what a code's agreement is worth: how far the vector is from its centre
    slots: NDArray[np.uint32]  # whose code each is

    @property
    def nbytes(self) -> int:
        return self.centres.nbytes + self.starts.nbytes + self.planes.nbytes + self.spreads.nbytes + self.slots.nbytes

    def search(self, vector: Vector, wanted: int, usable: NDArray[np.bool_] | None = None) -> Slots:
        """About `wanted` slots that seem nearest to a vector, of those that are usable; in no order."""
        if not len(self.slots):
            return np.empty(0, dtype=np.int64)
        turned = vector @ _turn(len(vector))
        key, sizes = _packed((turned > 0)[None])[0], np.abs(turned)
        worth = np.float32(sizes.sum() / np.sqrt(len(turned)))
        step = np.float32(2 * worth / (64 * len(self.planes)))  # what one bit that differs takes off
        bases = self.centres @ vector
        bound, floor = self._bound(key, worth, step, bases, _LOOKED_AT * wanted, usable)
        # The first half of the bits tells nearly all that are too far: twice what differs there, less some for chance.
        twice, lenient = np.float32(2 * step), worth + step * np.float32(_CHANCE)
        lacks = np.maximum(bound - bases, np.float32(-1e9))
        of, edges, widest = self._runs
        allowed = (lenient - lacks[of] / widest) / twice  # bits in which a code of each run may differ
        most = np.repeat((np.clip(allowed, -1, 128) + 1).astype(np.uint8), np.diff(edges))
        count_first = _FirstHalf(self.planes, key)
        places = []
        for first, last in _together((allowed >= floor) | (lacks[of] <= 0)):
            for start in range(int(edges[first]), int(edges[last]), _BLOCK):
                end = min(start + _BLOCK, int(edges[last]))
                places.append(np.flatnonzero(count_first(start, end) < most[start:end]) + start)
        if not places:
            return np.empty(0, dtype=np.int64)
        there = np.concatenate(places)
        slots = self.slots[there].astype(np.int64)
        if usable is not None:
            there, slots = there[usable[slots]], slots[usable[slots]]
        value = self.spreads[there] * (worth - self._lost(there, key, sizes)) + bases[self._lists[there]]
        return top_slots(slots, value, wanted)

    def _lost(self, places: NDArray[np.int64], key: Words, sizes: Vector) -> NDArray[np.float32]:
        """What the bits that differ from a key take off at some places: more in the half of the dimensions in which the vector is
        larger."""
        is_large = np.zeros(len(sizes), dtype=np.bool_)
        is_large[sizes.argsort()[len(sizes) // 2 :]] = True
        small, large = (np.float32(2 * sizes[half].mean() / np.sqrt(len(sizes))) for half in (~is_large, is_large))
        total, in_large = np.zeros((2, len(places)), dtype=np.uint16)
        for plane, word, mask in zip(self.planes, key, _packed(is_large[None])[0], strict=True):
            differ = plane[places] ^ word
            total += np.bitwise_count(differ)
            in_large += np.bitwise_count(differ & mask)
        lost: NDArray[np.float32] = small * total + (large - small) * in_large
        return lost

    @cached_property
    def _lists(self) -> NDArray[np.uint16]:
        """Of each code its list."""
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.uint16), np.diff(self.starts))

    @cached_property
    def _runs(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Neighbours in a list whose spreads are taken to be alike: their list, where they begin (and the end), and the widest
        spread, which stands first."""
        sizes = np.diff(self.starts)
        held = -(-sizes // _ALIKE)
        of = np.repeat(np.arange(len(sizes)), held)
        first = self.starts[of] + _ALIKE * (np.arange(len(of)) - np.repeat(np.cumsum(held) - held, held))
        return of, np.append(first, self.starts[-1]), np.maximum(self.spreads[first], np.float32(1e-6))

    @cached_property
    def _sample(self) -> tuple[int, Words, NDArray[np.float32], NDArray[np.int64], NDArray[np.uint32]]:
        """One of so many codes, with its spread, list and slot."""
        step = max(1, min(len(self.slots) // _SAMPLE, _APART))
        lists = np.searchsorted(self.starts, np.arange(0, len(self.slots), step), side="right") - 1
        return step, np.ascontiguousarray(self.planes[:, ::step]), self.spreads[::step].copy(), lists, self.slots[::step].copy()

    def _bound(
        self, key: Words, worth: np.float32, step: np.float32, bases: Vector, wanted: float, usable: NDArray[np.bool_] | None
    ) -> tuple[np.float32, float]:
        """The likeness that about `wanted` of all codes reach, measured on some of them; and in how few of half the bits a code
        that reaches it may differ."""
        every, planes, spreads, lists, slots = self._sample
        total = np.zeros(len(slots), dtype=np.uint16)
        for word, plane in zip(key, planes, strict=True):
            total += np.bitwise_count(plane ^ word)
        value = spreads * (worth - step * total) + bases[lists]
        if usable is not None:
            value, total = value[usable[slots]], total[usable[slots]]
        rank = int(1.25 * wanted / every) + 1
        if len(value) <= rank:
            return np.float32(-np.inf), 0.0
        bound = np.float32(np.partition(value, len(value) - rank)[len(value) - rank])
        return bound, min(_FLOOR, int(total[value >= bound].min()) / 2 - _CHANCE)


def _together(passed: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Where those that passed stand next to each other: the first, and the one after the last.

    >>> _together(np.array([True, True, False, True]))
    [(0, 2), (3, 4)]
    """
    edges = np.flatnonzero(np.diff(passed.astype(np.int8), prepend=0, append=0)).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def top_slots(slots: Slots, values: NDArray[np.float32], count: int) -> Slots:
    """The slots with the highest values; of equals at the end some. By bins, because selecting among many equals is slow."""
    if len(slots) <= count:
        return slots
    low, high = float(values.min()), float(values.max())
    if not high - low > 1e-30:  # less cannot be told apart, nor divided by
        return slots[:count]
    bins = ((values - np.float32(low)) * np.float32(_BINS / (high - low))).astype(np.int32)
    held = np.bincount(bins, minlength=_BINS + 1)
    above = np.cumsum(held[::-1])[::-1]
    last = int(np.flatnonzero(above >= count)[-1])  # the bin in which the count is reached
    better, edge = slots[bins > last], np.flatnonzero(bins == last)
    left = count - len(better)
    if left < len(edge):
        edge = edge[np.argsort(-values[edge], kind="stable")[:left]] if len(edge) < 2000 else edge[:left]
    return np.concatenate([better, slots[edge]])


class _FirstHalf:
    """Counts in how many of the first half of their bits codes differ from a key; its room is made once a search."""

    def __init__(self, planes: Words, key: Words) -> None:
        self._planes, self._key = planes, key
        self._words = np.empty(_BLOCK, dtype=np.uint64)
        self._counts = np.empty(_BLOCK, dtype=np.uint8)
        self._total = np.empty(_BLOCK, dtype=np.uint8)

    def __call__(self, start: int, end: int) -> NDArray[np.uint8]:
        size = end - start
        words, counts, total = self._words[:size], self._counts[:size], self._total[:size]
        for at in range(len(self._key) // 2 or 1):
            np.bitwise_xor(self._planes[at, start:end], self._key[at], out=words)
            np.bitwise_count(words, out=counts if at else total)
            if at:
                np.add(total, counts, out=total)
        return total


def build_codes(words: Words, spreads: NDArray[np.float32], nearest: NDArray[np.int64], centres: Matrix) -> Codes:
    """Codes in the order of their lists; row i is that of slot i. A vector that is none is in no list: its centre is -1."""
    order = np.lexsort((-spreads, nearest))  # the widest first: those that need the same nearness stand together
    order = order[int(np.searchsorted(nearest[order], 0)) :]
    held = np.bincount(nearest[order], minlength=len(centres))
    kept = held > 0  # a list without members would only be in the way
    starts = np.append(0, np.cumsum(held[kept])).astype(np.int64)
    planes = np.empty((words.shape[1], len(order)), dtype=np.uint64)
    for at in range(words.shape[1]):
        planes[at] = words[order, at]
    return Codes(centres[kept], starts, planes, spreads[order], order.astype(np.uint32))


def count_lists(count: int) -> int:
    """How many lists so many vectors are sorted into.

    >>> [lists_for(count) for count in (1, 10_000, 100_000, 1_000_000)]
    [1, 4, 16, 61]
    """
    return max(1, count // _LIST, min(_LISTS, count // _SHORTEST))


def find_centres(sample: Matrix, count: int) -> Matrix:
    """Centres around which vectors gather."""
    chosen = np.random.default_rng(7)
    if count == 1:
        middle: Matrix = sample.mean(axis=0, keepdims=True)
        return middle
    centres = sample[chosen.choice(len(sample), count, replace=False)].copy()
    for _ in range(_ROUNDS):
        nearest = assign_centres(sample, centres)
        order = np.argsort(nearest, kind="stable")
        held = np.bincount(nearest, minlength=count)
        there = held > 0
        starts = (np.cumsum(held) - held)[there]
        centres[there] = np.add.reduceat(sample[order], starts, axis=0) / held[there, None]
        centres[~there] = sample[chosen.choice(len(sample), int((~there).sum()))]
    return centres


def assign_centres(vectors: Matrix, centres: Matrix) -> NDArray[np.int64]:
    """The nearest centre of each vector."""
    half = np.float32(0.5) * np.einsum("ij,ij->i", centres, centres)
    found: list[NDArray[np.int64]] = []
    for start in range(0, len(vectors), _CHUNK):
        found.append((vectors[start : start + _CHUNK] @ centres.T - half).argmax(axis=1))
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)


def encode_vectors(vectors: Matrix, centres: Matrix, nearest: NDArray[np.int64]) -> tuple[Words, NDArray[np.float32]]:
    """Codes of vectors around their centres, a row each, and their spreads."""
    away = vectors - centres[nearest]
    turned = away @ _turn(vectors.shape[1])
    reach = np.abs(turned).sum(axis=1) / np.float32(np.sqrt(turned.shape[1]))
    spreads = np.einsum("ij,ij->i", turned, turned) / np.maximum(reach, np.float32(1e-9))
    return _packed(turned > 0), spreads.astype(np.float32)
