"""The nearest vectors of a scope, by an index or by the store.

An index returns numbers of records and passages and nothing more. It may be outdated or wrong: what the store does not have in
this scope is left out when the records are read, and ranking uses the store's own vector. The index decides which records are
looked at, never what is returned of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from keepstone.errors import IndexUnavailable
from keepstone.ports.stores import Store
from keepstone.ports.values import SearchFilter, Vector
from keepstone.text.passages import record_number
from keepstone.types import MESSAGE, STEP, Scope
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.sync import FedElsewhere, IndexSync

SearchResult = tuple[list[int], tuple[str, ...]]
PAUSE_SECONDS = 5.0  # without requests to an index after it failed
_WIDER = 4  # times the limit, where conditions that the index does not know leave out some entries
_WAIT_SECONDS = 1.0  # for another feeder
_INSTEAD = "searched in the store instead"


class IndexSearch:
    """The index, brought up to date first; the store if the index cannot be used, with a note that says so.

    After a failure the index is not asked for a few seconds, so that not every recall waits for it. A scope that is far behind is
    fed in the background, and searched in the store until then."""

    def __init__(
        self,
        store: Store,
        sync: IndexSync,
        worker: FeedWorker | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._sync = store, sync
        self._worker = worker or FeedWorker(sync)
        self._clock = clock
        self._failure: tuple[float, str] | None = None  # (end of the pause, reason)

    def search(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter = SearchFilter()) -> SearchResult:
        """(sequences of the nearest records, nearest first; notes on what is weaker than usual)."""
        if limit <= 0:
            return [], ()
        result, note = None, self._pause_note()
        if note is None:
            try:
                note = self._update(scope)
                result = self._search_index(scope, vector, limit, search_filter) if note is None else None
                self._failure = None
            except FedElsewhere as error:
                note = f"the index {self._sync.name}: {error}; {_INSTEAD}"
            except IndexUnavailable as error:
                self._failure = (self._clock() + PAUSE_SECONDS, str(error))
                note = self._pause_note()
        if result is not None:
            return result
        return list(self._store.search_vectors(scope, vector, limit, search_filter)), () if note is None else (note,)

    def _pause_note(self) -> str | None:
        """Why the index is not asked at present; None if it is."""
        failure = self._failure
        if failure is None or self._clock() >= failure[0]:
            return None
        return f"the index {self._sync.name} cannot be reached ({failure[1].rstrip('.')}): {_INSTEAD}"

    def _update(self, scope: Scope) -> str | None:
        """Feed the index; if that would take long, a note that it was not done."""
        if not self._sync.is_behind(scope):
            return None
        if self._sync.is_far_behind(scope):
            self._worker.tell(scope)
            return f"the index {self._sync.name} lacks more than {self._sync.large_gap:,} changes and is being fed: {_INSTEAD}"
        self._sync.feed(scope, patience=_WAIT_SECONDS)
        return None

    def _search_index(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter) -> SearchResult | None:
        """The entries that meet the conditions. None if the store has to be searched: the vector is of another embedder, or so
        few entries meet the conditions that too many would have to be requested."""
        store_only = search_filter.filter is not None or search_filter.min_importance > 0 or search_filter.min_trust > 0
        factors = (_WIDER,) if store_only else (1,) if search_filter.steps else (1, _WIDER)  # few scopes have many steps
        for factor in factors:
            sequences = self._sync.search(scope, vector, limit * factor, search_filter)
            if sequences is None or not self._is_same_width(scope, vector, sequences):
                return None
            if not sequences:
                return self._check_empty(scope, vector, limit, search_filter)
            matches = self._apply_filter(scope, sequences, search_filter, store_only)
            if len(matches) >= limit or len(sequences) < limit * factor:
                return matches[:limit], ()
        return None

    def _is_same_width(self, scope: Scope, vector: Vector, sequences: list[int]) -> bool:
        """Whether the store returns vectors of the embedder it was opened with."""
        first = self._store.index_rows(scope, sequences[:1])
        return not len(first) or first.vectors.shape[1] == len(vector)

    def _apply_filter(self, scope: Scope, sequences: list[int], search_filter: SearchFilter, store_only: bool) -> list[int]:
        """The sequences that meet the conditions an index does not know, in order."""
        if search_filter.steps and not store_only:
            return sequences
        rows = self._store.index_rows(scope, sequences)
        matching = (rows.importances >= np.float32(search_filter.min_importance)) & (
            rows.trusts >= np.float32(search_filter.min_trust)
        )
        if not search_filter.steps:
            matching &= np.array(
                [kind != MESSAGE or tag != STEP for kind, tag in zip(rows.kinds, rows.tags, strict=True)], dtype=np.bool_
            )
        if search_filter.filter is not None:
            matching &= np.isin(rows.sequences, self._store.matching(scope, search_filter.filter))
        kept = {int(sequence) for sequence in rows.sequences[matching]}
        return [number for number in sequences if record_number(number) in kept]

    def _check_empty(self, scope: Scope, vector: Vector, limit: int, search_filter: SearchFilter) -> SearchResult:
        """An index that is up to date and returns nothing has lost its entries if the store finds some."""
        sequences = list(self._store.search_vectors(scope, vector, limit, search_filter))
        if not sequences:
            return [], ()
        return sequences, (f"the index {self._sync.name} has lost entries ({_INSTEAD}): run 'keepstone index repair'",)

    def close(self) -> None:
        """End feeding in the background."""
        self._worker.close()
