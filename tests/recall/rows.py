"""Index rows made by hand, for the tests of ranking. No test lives here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from keepstone.ports.values import Changes, IndexRows
from keepstone.recall.question import Question, parse_question
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.text.times import FOREVER, instant
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import MESSAGE

DIMENSION = 4


@dataclass(frozen=True)
class Line:
    """One row in plain values."""

    sequence: int
    words: tuple[str, ...] = ()
    vector: tuple[float, ...] | None = None
    kind: str = "fact"
    tag: str = "general"
    session: str | None = None
    importance: float = 0.5
    active: bool = True
    expires: int = FOREVER
    role: str | None = None
    name: str | None = None
    occurred: int | None = None  # ten times the sequence, unless it is given

    def with_(self, **changes: Any) -> Line:
        return replace(self, **changes)


def _occurred(line: Line) -> int:
    return line.sequence * 10 if line.occurred is None else line.occurred


def told(sequence: int, content: str, **rest: Any) -> Line:
    """A record with the terms that this content is stored under."""
    return Line(sequence, record_terms(content, None), **rest)


def said(sequence: int, content: str, session: str | None = "s", **rest: Any) -> Line:
    """A message of a session."""
    return told(sequence, content, session=session, kind=MESSAGE, **rest)


def unit(*parts: float, dimension: int = DIMENSION) -> tuple[float, ...]:
    """A vector of length 1 in this direction."""
    vector = np.zeros(dimension)
    vector[: len(parts)] = parts
    return tuple((vector / np.linalg.norm(vector)).tolist())


def asked(text: str, over: View | None = None, now: int = 0) -> Question:
    """A question to a scope with this view's speakers."""
    return parse_question(text, {} if over is None else over.speakers, instant(now))


def everywhere(over: View) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Every slot that is active."""
    return np.array(over.active, dtype=np.bool_)


def rows(lines: Sequence[Line], dimension: int = DIMENSION) -> IndexRows:
    """The columns of some rows."""
    terms = [term_hashes(line.words) for line in lines]
    vectors = [line.vector or (0.0,) * dimension for line in lines]
    count = len(lines)
    return IndexRows(
        sequences=np.array([line.sequence for line in lines], dtype=np.int64),
        kinds=[line.kind for line in lines],
        tags=[line.tag for line in lines],
        sessions=[line.session for line in lines],
        roles=[line.role for line in lines],
        names=[line.name for line in lines],
        importances=np.array([line.importance for line in lines], dtype=np.float32),
        trusts=np.full(count, 0.9, dtype=np.float32),
        occurred=np.array([_occurred(line) for line in lines], dtype=np.int64),
        valid_from=np.array([_occurred(line) for line in lines], dtype=np.int64),
        expires=np.array([line.expires for line in lines], dtype=np.int64),
        active=np.array([line.active for line in lines], dtype=np.bool_),
        terms=np.concatenate(terms) if terms else np.empty(0, dtype=np.uint32),
        ends=np.cumsum([len(each) for each in terms], dtype=np.int64),
        embedded=np.array([line.vector is not None for line in lines], dtype=np.bool_),
        vectors=np.array(vectors, dtype=np.float32).reshape(count, dimension),
    )


def changes(latest: int, lines: Sequence[Line], removed: Iterable[int] = (), dimension: int = DIMENSION) -> Changes:
    """What a store's change feed would say."""
    return Changes(latest, rows(lines, dimension), tuple(removed))


def view(*lines: Line, dimension: int = DIMENSION) -> View:
    """A view in which slot i is line i."""
    return ScopeIndex.of(rows(lines, dimension)).view()
