"""What may stand beside a store and is never the truth: a buffer of short-term messages, an index of vectors.

Everything in either can be lost at any time and is made again from the store. What a buffer holds is believed only while the
store's own number says that nothing has happened since.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from keepstone.ports.values import SearchFilter, Vector
from keepstone.types import Record, Scope


@dataclass(frozen=True, slots=True)
class Window:
    """The newest messages of a session, or of all sessions, in the order they came, as they were when the last row of the scope's
    trail was `number`. `whole`: there are no older ones."""

    number: int
    turns: tuple[tuple[int, Record], ...]
    whole: bool


class Buffer(Protocol):
    """Recent messages, shared by the processes that use it.

    No method raises because the buffer cannot be reached: it then answers as if it were empty, soon, and `problem` says why.
    What is in it expires, and it holds a bounded amount."""

    @property
    def name(self) -> str:
        """What it is, for people: "redis at localhost:6379", without a password."""

    @property
    def bound(self) -> int:
        """How many messages of a session a window may hold."""

    @property
    def problem(self) -> str | None:
        """Why it cannot be used at present; None while it can."""

    def window(self, scope: Scope, session: str | None) -> Window | None:
        """What `keep` was given last for this session (None: for all sessions); None if it is not there any more."""

    def keep(self, scope: Scope, session: str | None, window: Window) -> None: ...

    def clear(self, scope: Scope) -> bool:
        """Let go of all that is held of a scope. Whether it is certain that nothing of it is left."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Entry:
    """One memory as an index knows it: number, vector, a short print of the vector, and what a search may be narrowed by."""

    sequence: int
    vector: Vector
    vector_hash: str
    kind: str
    tag: str
    session: str | None


class NearestNeighbours(Protocol):
    """A search for the nearest vectors of a scope, by whoever does that best."""

    def search(
        self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()
    ) -> tuple[list[int], tuple[str, ...]]:
        """(sequences of the nearest records, nearest first; notes in words on what is weaker than usual)."""


class VectorIndex(Protocol):
    """Nearest vectors by another engine. It holds no text. Each scope's entries are apart from every other's.

    Every method raises `IndexUnavailable`, and nothing else, when the engine cannot be reached, refuses or answers nonsense.
    After `put` and `drop` have returned, `search`, `held` and `vector_hashes` see what they did."""

    @property
    def name(self) -> str:
        """What it is, for people: "chroma at /data/chroma", without keys."""

    def open(self, space: str, dimension: int) -> None:
        """Use a space of the engine, a name of letters, digits and hyphens, for vectors of this width; it is made if it is not
        there. Called before anything else, and again when the embedder changes."""

    def put(self, scope: Scope, entries: Sequence[Entry]) -> None:
        """Add or replace entries."""

    def drop(self, scope: Scope, sequences: Sequence[int]) -> None:
        """Take entries out; those that are not there are no error."""

    def clear(self, scope: Scope) -> None:
        """Take every entry of a scope out."""

    def held(self, scope: Scope, sequences: Sequence[int]) -> set[int]:
        """Which of these are there, asked of the engine."""

    def vector_hashes(self, scope: Scope) -> Iterator[tuple[int, str]]:
        """(sequence, print) of every entry of a scope."""

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> list[int]:
        """Sequences of the nearest entries by cosine, nearest first."""

    def close(self) -> None: ...
