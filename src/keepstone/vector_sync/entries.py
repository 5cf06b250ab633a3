"""What an index is given of a record, and the names and prints it is known by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.caches import Entry
from keepstone.ports.values import IndexRows, Vector

T = TypeVar("T")


def print_of(vector: Vector) -> str:
    """A short print of a vector: the same for it and for what is left of it in half precision, which is how some stores keep it.

    >>> whole = np.array([0.1, 0.9], dtype=np.float32)
    >>> print_of(whole) == print_of(whole.astype(np.float16).astype(np.float32)) != print_of(whole[::-1])
    True
    """
    with np.errstate(over="ignore"):
        halves = np.ascontiguousarray(vector).astype("<f2")
    return hashlib.blake2b(halves.tobytes(), digest_size=8).hexdigest()


def space_of(store: str, embedder: tuple[str, int]) -> str:
    """The name of the place in an engine where the vectors of one store by one embedder are.

    >>> space_of("a", ("static-1", 256)) == space_of("a", ("static-1", 256)) != space_of("a", ("static-2", 256))
    True
    """
    known_by = "\0".join((store, embedder[0], str(embedder[1])))
    return "keepstone-" + hashlib.blake2b(known_by.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


def living(rows: IndexRows) -> NDArray[np.bool_]:
    """Which rows belong into an index: those that are active and have a vector."""
    alive: NDArray[np.bool_] = rows.active & rows.embedded
    return alive


def entries_of(rows: IndexRows, places: Sequence[int]) -> list[Entry]:
    """The entries that stand for some of the rows."""
    return [
        Entry(
            int(rows.sequences[place]),
            rows.vectors[place],
            print_of(rows.vectors[place]),
            rows.kinds[place],
            rows.tags[place],
            rows.sessions[place],
        )
        for place in places
    ]


def chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Parts of so many, in order.

    >>> list(chunks([1, 2, 3], 2))
    [[1, 2], [3]]
    """
    return (items[start : start + size] for start in range(0, len(items), size))
