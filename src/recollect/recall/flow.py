"""The read path end to end: embed the query, measure, fuse, keep what is relevant, fetch, note the access.
Imports: ports, types and the pure rooms beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from recollect.errors import EmbedderError, NotFound
from recollect.ports import Clock, Embedder, Narrow, Snapshot, Store, Vector
from recollect.recall import explain
from recollect.recall.access import AccessLog
from recollect.recall.budget import within
from recollect.recall.fusion import chance, fused, score, similarity
from recollect.recall.query import RecallQuery
from recollect.recall.render import context_block
from recollect.recall.signals import Column, Signals, measure
from recollect.scopeindex.cache import IndexCache
from recollect.scopeindex.columns import ScopeIndex, View
from recollect.times import micros
from recollect.types import Explanation, Hit, Recall, Record, Scope, clean_name
from recollect.vectors import embedded
from recollect.words import terms, unique

CANDIDATES = 300  # of each search, where a scope is too large to be ranked whole
MAX_QUERY_TERMS = 64
_CONTEXT_HITS = 50


@dataclass(frozen=True, slots=True)
class Ranking:
    """Every slot of a view measured for one query; `order` lists those that passed, best first."""

    view: View
    signals: Signals
    usable: NDArray[np.bool_]
    similarities: Column
    deviations: Column
    order: NDArray[np.int64]
    threshold: float
    notes: tuple[str, ...]
    snapshot: Snapshot | None = None

    def parts(self, slot: int) -> dict[str, float]:
        """The parts of a slot's score by name."""
        return {
            "meaning": round(float(self.signals.meaning[slot]), 4),
            "words": round(float(self.signals.words[slot]), 4),
            "coverage": round(float(self.signals.coverage[slot]), 4),
            "similarity": round(float(self.similarities[slot]), 4),
            "importance": round(float(self.view.importances[slot]), 4),
        }


class Recalling:
    """recall, context, why: one scope's question to a store."""

    def __init__(
        self,
        store: Store,
        cache: IndexCache,
        embedder: Embedder | None,
        accesses: AccessLog,
        clock: Clock,
        min_similarity: float | None,
    ) -> None:
        self._store = store
        self._cache = cache
        self.embedder = embedder
        self._accesses = accesses
        self._clock = clock
        self._min_similarity = min_similarity

    def recall(self, scope: Scope, query: RecallQuery) -> Recall:
        """The hits of a query; what was returned is noted as read."""
        ranking = self._rank(scope, query)
        found = self._hits(scope, ranking, ranking.order[: query.limit])
        kept, left_out = within([hit for _, hit in found], query.max_tokens)
        if ranking.snapshot is None:
            self._note(scope, ranking, found, {hit.id for hit in kept})
        return Recall(query.text, tuple(kept), int(ranking.usable.sum()), left_out, ranking.notes)

    def context(self, scope: Scope, text: str, max_tokens: int) -> str:
        """What is known about a query, as a block for a prompt."""
        ranking = self._rank(scope, RecallQuery.checked(text, limit=_CONTEXT_HITS, max_tokens=max_tokens))
        found = self._hits(scope, ranking, ranking.order[:_CONTEXT_HITS])
        block, used = context_block([hit for _, hit in found], max_tokens)
        self._note(scope, ranking, found, used)
        return block

    def _note(self, scope: Scope, ranking: Ranking, found: Sequence[tuple[int, Hit]], returned: set[str]) -> None:
        """Count a read of the hits that were returned."""
        read = [(hit.id, int(ranking.view.sequences[slot])) for slot, hit in found if hit.id in returned]
        self._accesses.note(scope, read, self._clock())

    def explain(self, scope: Scope, text: str, id: str) -> Explanation:
        """How one record fares for a query with the default settings."""
        sequence = self._store.sequence_of(scope, clean_name(id, "id"))
        if sequence is None:
            raise NotFound(f"there is no record {id!r:.80} in this scope: it was never stored here, or it was forgotten.")
        query = RecallQuery.checked(text)
        ranking = self._rank(scope, query, also=sequence)
        found = np.flatnonzero(ranking.view.sequences == sequence)
        if not len(found):
            return Explanation(id, False, None, 0.0, {}, ("it was forgotten a moment ago",))
        slot = int(found[0])
        place = np.flatnonzero(ranking.order == slot)
        rank = int(place[0]) + 1 if len(place) else None
        recalled = rank is not None and rank <= query.limit
        reasons = [
            *self._obstacles(ranking, slot, rank, query.limit),
            *explain.signal_lines(ranking.parts(slot)),
            *ranking.notes,
        ]
        value = float(score(ranking.deviations[slot : slot + 1])[0])
        return Explanation(id, recalled, rank, round(value, 4), ranking.parts(slot), tuple(reasons))

    def _obstacles(self, ranking: Ranking, slot: int, rank: int | None, limit: int) -> list[str]:
        if rank is not None:
            return [explain.placed(rank, len(ranking.order), limit)]
        if not ranking.view.active[slot]:
            return ["it is not active: it was quarantined, or it expired and another took its place"]
        if ranking.view.expires[slot] <= micros(self._clock()):
            return ["it has expired"]
        reasons = [
            f"its relevance {ranking.similarities[slot]:.2f} is below the threshold {ranking.threshold:.2f}: "
            "ask with min_similarity=0 to see it all the same"
        ]
        if not ranking.view.embedded[slot]:
            reasons.append("it has no vector yet, so only its words count: run upkeep.reembed()")
        return reasons

    # -- ranking --------------------------------------------------------------------------------------------------
    def _rank(self, scope: Scope, query: RecallQuery, also: int | None = None) -> Ranking:
        asked = unique(terms(query.text))[:MAX_QUERY_TERMS]
        vector, notes = self._embedded(query.text)
        wanted = self._min_similarity if query.min_similarity is None else query.min_similarity
        snapshot: Snapshot | None = None
        frequencies: Sequence[int] | None = None
        population: int | None = None
        now = self._clock()
        if query.as_of is not None or query.known_at is not None:
            snapshot = self._store.snapshot(scope, query.as_of, query.known_at)
            view = ScopeIndex.of(snapshot.rows).view()
        else:
            held = self._cache.view(scope)
            if held is None:
                frequencies = self._store.document_frequencies(scope, asked)
                population = self._store.count(scope)
                held = self._narrowed(scope, query, asked, vector, also)
            view = held
        usable = self._usable(scope, query, view, query.as_of or query.known_at or now)
        signals = measure(view, asked, vector, frequencies, population)
        likeness = similarity(signals)
        threshold = chance(population or int(usable.sum())) if wanted is None else wanted
        deviations = fused(signals, usable)
        passed = np.flatnonzero(usable & (likeness >= threshold)) if threshold > 0 else np.flatnonzero(usable)
        order = _best(passed, deviations, view.sequences, query.limit if also is None else max(1, len(passed)))
        return Ranking(view, signals, usable, likeness, deviations, order, threshold, tuple(notes), snapshot)

    def _embedded(self, text: str) -> tuple[Vector | None, list[str]]:
        if self.embedder is None or not text.strip():
            return None, []
        try:
            return embedded(self.embedder, [text], "query")[0], []
        except EmbedderError as error:
            return None, [f"ranked by words only: {error}"]

    def _narrowed(self, scope: Scope, query: RecallQuery, asked: Sequence[str], vector: Vector | None, also: int | None) -> View:
        """The candidates of a scope that is too large to be ranked whole."""
        narrow = Narrow(
            None if query.kinds is None else tuple(sorted(query.kinds)),
            query.tag,
            query.session,
            query.min_importance,
            query.min_trust or 0.0,
            query.filter,
        )
        found = list(self._store.search_words(scope, asked, CANDIDATES, narrow))
        if vector is not None:
            found += self._store.search_vectors(scope, vector, CANDIDATES, narrow)
        if len(found) < query.limit:  # nothing to go by: the newest are as good as any
            found += self._store.search_recent(scope, query.limit, narrow)
        if also is not None:
            found.append(also)
        return ScopeIndex.of(self._store.index_rows(scope, list(dict.fromkeys(found)))).view()

    def _usable(self, scope: Scope, query: RecallQuery, view: View, at: datetime) -> NDArray[np.bool_]:
        usable: NDArray[np.bool_] = view.active & (view.expires > micros(at))
        if query.kinds is not None:
            usable &= np.isin(view.kinds, [view.code(kind) for kind in query.kinds])
        if query.tag is not None:
            usable &= view.tags == view.code(query.tag)
        if query.session is not None:
            usable &= view.sessions == view.code(query.session)
        if query.min_importance > 0:
            usable &= view.importances >= np.float32(query.min_importance)
        if query.min_trust is not None:
            usable &= view.trusts >= np.float32(query.min_trust)
        if query.filter is not None:
            usable &= np.isin(view.sequences, self._store.matching(scope, query.filter))
        return usable

    def _hits(self, scope: Scope, ranking: Ranking, slots: NDArray[np.int64]) -> list[tuple[int, Hit]]:
        records: Sequence[Record | None]  # those forgotten a moment ago are None
        if ranking.snapshot is not None:
            records = [ranking.snapshot.records[slot] for slot in slots]
        else:
            records = self._store.fetch(scope, [int(ranking.view.sequences[slot]) for slot in slots])
        scores = score(ranking.deviations[slots])
        return [
            (int(slot), Hit(self._accesses.with_waiting(record), round(float(value), 4), ranking.parts(int(slot))))
            for slot, record, value in zip(slots, records, scores, strict=True)
            if record is not None
        ]


def _best(slots: NDArray[np.int64], deviations: Column, sequences: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """The best of some slots in order; of equals the newer comes first."""
    if len(slots) > 4 * limit:
        values = deviations[slots]
        bound = np.partition(values, len(values) - limit)[len(values) - limit]
        slots = slots[values >= bound]
    return slots[np.lexsort((-sequences[slots], -deviations[slots]))]
