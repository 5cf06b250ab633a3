"""Nearest vectors of a scope, by an index where there is one and by the store where there is none or it is away.

What an index gives are numbers of records and nothing more. It may be old (a record was changed or forgotten a moment ago) or
wrong (another hand wrote into the engine): a number that the store does not have in this scope is left out when the records are
read, since every read of the store names the scope; one that is no longer near is ranked anew from the store's own vector; one
that has expired or is not wanted is sorted out by the ranking. So the index decides which records are looked at, and never what
is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from keepstone.errors import IndexUnavailable
from keepstone.ports.stores import Store
from keepstone.ports.values import SearchFilter, Vector
from keepstone.types import MESSAGE, STEP, Scope
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.cursor import FedElsewhere
from keepstone.vector_sync.sync import IndexSync

Found = tuple[list[int], tuple[str, ...]]
REST = 5.0  # seconds that an index is left alone after it failed
_WIDER = 4  # how many times as many are asked for when some will be sorted out
_PATIENCE = 1.0  # seconds that a recall waits for somebody else who feeds
_INSTEAD = "searched in the store instead"


class StoreNearest:
    """The store's own search: exact, and slower the larger the scope."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> Found:
        """(sequences of the nearest records, nearest first; notes in words on what is weaker than usual: none)."""
        return list(self._store.search_vectors(scope, vector, limit, search_filter)), ()

    def close(self) -> None:
        """Nothing is held."""


class Nearest:
    """The index, brought up to date first; the store when the index cannot be used, with a note that says so.

    After a failure the index is left alone for a few seconds, so that not every recall waits for it in vain. A scope of which
    very much is not in the index yet is fed in the background, and searched in the store until it is."""

    def __init__(
        self,
        store: Store,
        feeder: IndexSync,
        worker: FeedWorker | None = None,
        *,
        rest: float = REST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._feeder = store, feeder
        self._worker = worker or FeedWorker(feeder)
        self._rest, self._clock = rest, clock
        self._failed: tuple[float, str] | None = None  # (until when it is left alone, why)

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> Found:
        """(sequences of the nearest records, nearest first; notes in words on what is weaker than usual)."""
        if limit <= 0:
            return [], ()
        resting = self._resting()
        if resting is not None:
            return self._by_the_store(scope, vector, limit, search_filter, self._away(resting))
        try:
            late = self._up_to_date(scope)
            if late is not None:
                return self._by_the_store(scope, vector, limit, search_filter, late)
            found = self._asked(scope, vector, limit, search_filter)
        except FedElsewhere as error:
            return self._by_the_store(scope, vector, limit, search_filter, f"the index {self._feeder.name}: {error}; {_INSTEAD}")
        except IndexUnavailable as error:
            self._failed = (self._clock() + self._rest, str(error))
            return self._by_the_store(scope, vector, limit, search_filter, self._away(str(error)))
        self._failed = None
        return self._by_the_store(scope, vector, limit, search_filter, None) if found is None else found

    def _resting(self) -> str | None:
        """Why the index is left alone at the moment; None if it is not."""
        failed = self._failed
        return failed[1] if failed is not None and self._clock() < failed[0] else None

    def _away(self, why: str) -> str:
        return f"the index {self._feeder.name} cannot be reached ({why.rstrip('.')}): {_INSTEAD}"

    def _by_the_store(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter, note: str | None) -> Found:
        found = list(self._store.search_vectors(scope, vector, limit, search_filter))
        return found, () if note is None else (note,)

    def _up_to_date(self, scope: Scope) -> str | None:
        """Feed the index with what it lacks; where that would take long, why it was not done."""
        if not self._feeder.behind(scope):
            return None
        if self._feeder.far(scope):
            self._worker.tell(scope)
            return f"the index {self._feeder.name} lacks more than {self._feeder.large:,} changes and is being fed: {_INSTEAD}"
        self._feeder.feed(scope, patience=_PATIENCE)
        return None

    def _asked(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter) -> Found | None:
        """What the index gives that meets the conditions; None where the store has to be asked: the vector is not of its
        embedder, or so few meet the conditions that more would have to be fetched than is worth it."""
        hard = search_filter.filter is not None or search_filter.min_importance > 0 or search_filter.min_trust > 0
        widths = (_WIDER,) if hard else (1,) if search_filter.steps else (1, _WIDER)  # few scopes have many steps
        for width in widths:
            given = self._feeder.search(scope, vector, limit * width, search_filter)
            if given is None or not self._same_embedder(scope, vector, given):
                return None
            if not given:
                return self._nothing(scope, vector, limit, search_filter)
            found = self._meeting(scope, given, search_filter, hard)
            if len(found) >= limit or len(given) < limit * width:
                return found[:limit], ()
        return None

    def _same_embedder(self, scope: Scope, vector: Vector, given: list[int]) -> bool:
        """Whether the store still gives out vectors of the embedder it was opened with; if not, this vector is of another."""
        first = self._store.index_rows(scope, given[:1])
        return not len(first) or first.vectors.shape[1] == len(vector)

    def _meeting(self, scope: Scope, given: list[int], search_filter: SearchFilter, hard: bool) -> list[int]:
        """Those that meet the conditions an index does not know, in the order they were given."""
        if search_filter.steps and not hard:
            return given
        rows = self._store.index_rows(scope, given)
        good = (rows.importances >= np.float32(search_filter.min_importance)) & (
            rows.trusts >= np.float32(search_filter.min_trust)
        )
        if not search_filter.steps:
            good &= np.array(
                [kind != MESSAGE or tag != STEP for kind, tag in zip(rows.kinds, rows.tags, strict=True)], dtype=np.bool_
            )
        if search_filter.filter is not None:
            good &= np.isin(rows.sequences, self._store.matching(scope, search_filter.filter))
        meeting = {int(sequence) for sequence in rows.sequences[good]}
        return [sequence for sequence in given if sequence in meeting]

    def _nothing(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter) -> Found:
        """The index is up to date and gives nothing: so should the store, or the engine has lost its entries."""
        found = list(self._store.search_vectors(scope, vector, limit, search_filter))
        if not found:
            return [], ()
        return found, (f"the index {self._feeder.name} has lost entries ({_INSTEAD}): run 'keepstone index repair'",)

    def close(self) -> None:
        """Stop feeding in the background."""
        self._worker.close()
