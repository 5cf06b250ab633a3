"""Index rows made by hand, for the tests of ranking. No test lives here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from recollect.ports import Changes, IndexRows
from recollect.scopeindex.columns import ScopeIndex, View
from recollect.times import FOREVER
from recollect.words import term_hashes

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

    def with_(self, **changes: Any) -> Line:
        return replace(self, **changes)


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
        roles=[None] * count,
        names=[None] * count,
        importances=np.array([line.importance for line in lines], dtype=np.float32),
        trusts=np.full(count, 0.9, dtype=np.float32),
        occurred=np.array([line.sequence * 10 for line in lines], dtype=np.int64),
        valid_from=np.array([line.sequence * 10 for line in lines], dtype=np.int64),
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
