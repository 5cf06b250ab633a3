"""The read path end to end: embed the query, measure, fuse, keep what is relevant, fetch, note the access."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import EmbedderError, NotFound
from keepstone.guard.guard import Guard
from keepstone.ports.caches import NearestNeighbours
from keepstone.ports.stores import Clock, Embedder, Reranker, Store
from keepstone.ports.values import SearchFilter, Snapshot, Vector
from keepstone.ports.vectors import embed_texts
from keepstone.recall import explain
from keepstone.recall.access import AccessCounter
from keepstone.recall.anchors import anchored
from keepstone.recall.budget import within
from keepstone.recall.candidate_generation import Proposed, proposed
from keepstone.recall.candidates import Column, glance
from keepstone.recall.fusion import RelevanceThreshold, best, fused, highest, promise, score, similarity
from keepstone.recall.query import RecallQuery
from keepstone.recall.question import Question, read
from keepstone.recall.reranking import READ, reranked
from keepstone.recall.selection import arranged
from keepstone.recall.signals import Features, closer
from keepstone.scope_index.cache import IndexCache
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.scope_index.mapped_index import LargeView
from keepstone.text.times import micros
from keepstone.types import MESSAGE, Explanation, Hit, Recall, Record, Scope, clean_name

CANDIDATES = 300  # of each search, where a scope is too large to be ranked whole
NEIGHBOURS = 2  # messages on either side that are fetched with them


@dataclass(frozen=True, slots=True)
class Ranking:
    """The candidates of one question measured; `order` lists the places of those that passed, best first."""

    view: View
    question: Question
    near: Features
    usable: NDArray[np.bool_]
    similarities: Column
    sums: Column
    order: NDArray[np.int64]
    gate: RelevanceThreshold
    best: float  # the relevance of the best of the first, before the gate
    notes: tuple[str, ...]
    snapshot: Snapshot | None = None
    population: int | None = None  # of the scope, where only a part of it was looked at

    def first(self, count: int) -> list[int]:
        """The sequences of the best."""
        return [int(each) for each in self.view.sequences[self.near.slots[self.order[:count]]]]

    def parts(self, places: NDArray[np.int64]) -> list[dict[str, float]]:
        """The parts of candidates' scores by name."""
        return explain.parts(self.near, places, self.similarities)


class RecallFlow:
    """recall, why: one scope's question to a store."""

    def __init__(
        self,
        store: Store,
        cache: IndexCache,
        embedder: Embedder | None,
        accesses: AccessCounter,
        clock: Clock,
        guard: Guard,
        min_similarity: float | None,
        reranker: Reranker | None = None,
        min_trust: float = 0.0,
        nearest: NearestNeighbours | None = None,
    ) -> None:
        self._store = store
        self._nearest = nearest  # None: the store itself
        self._cache = cache
        self.embedder = embedder
        self._accesses = accesses
        self._clock = clock
        self._guard = guard
        self._min_similarity = min_similarity
        self._reranker = reranker
        self._min_trust = min_trust

    def recall(self, scope: Scope, query: RecallQuery) -> Recall:
        """The hits of a query; what was returned is noted as read."""
        ranking, found = self._answered(scope, query)
        notes = ranking.notes
        if self._reranker is not None:
            again, said = reranked(self._reranker, query.text, found)
            found, notes = list(again), notes + said
        found = found[: query.limit]
        kept, cut = within([hit for _, hit in found], query.max_tokens)
        if ranking.snapshot is None:
            self._note(scope, ranking, found, {hit.id for hit in kept})
        left_out = tuple(hit.id for hit in cut)
        searched = ranking.population or int(np.count_nonzero(ranking.usable))
        return Recall(query.text, tuple(kept), searched, len(cut), notes, left_out)

    def _answered(self, scope: Scope, query: RecallQuery) -> tuple[Ranking, list[tuple[int, Hit]]]:
        """The ranking of a query and its best hits. Where asking the store is a journey, a scope that is in memory is ranked as
        it is there; the stamp that comes with the records tells whether that was still true, and if not it is done again."""
        wanted = query.limit if self._reranker is None else max(query.limit, READ)
        present = query.as_of is None and query.known_at is None
        held = self._cache.held(scope) if present and not self._store.is_embedded else None
        if held is not None and isinstance(held[0], View):
            ranking = self.rank(scope, query, view=held[0])
            records, stamp = self._store.fetch_stamped(scope, ranking.first(wanted))
            if stamp == held[1]:
                return ranking, self._made(ranking, ranking.order[:wanted], records)
        ranking = self.rank(scope, query)
        return ranking, self._hits(scope, ranking, ranking.order[:wanted])

    def found(self, scope: Scope, query: RecallQuery) -> list[Hit]:
        """The hits of a query without noting that they were read, and without a second reader."""
        ranking = self.rank(scope, query)
        return [hit for _, hit in self._hits(scope, ranking, ranking.order[: query.limit])]

    def has_kind(self, scope: Scope, kind: str) -> bool:
        """Whether there may be records of a kind: cheap, and only ever wrong by saying yes."""
        view = self._cache.view(scope)
        if isinstance(view, LargeView):
            return view.has(kind)
        return view is None or bool((view.kinds == view.code(kind)).any())

    def exchanges(self, scope: Scope, hits: Sequence[Hit]) -> list[Record]:
        """The records of hits, each message followed by its other half: the answer to what was asked, or what was answered."""
        said = {hit.id: self._store.sequence_of(scope, hit.id) for hit in hits if hit.record.kind == MESSAGE}
        found: list[Record] = []
        for hit in hits:
            found.append(hit.record)
            sequence = said.get(hit.id)
            if sequence is not None:
                near = self._store.fetch(
                    scope, [each for each in self._store.neighbours(scope, [sequence], 1) if each != sequence]
                )
                asked = hit.record.role == "assistant"
                found += [
                    each
                    for each in near
                    if each is not None and each.role != hit.record.role and (each.occurred_at <= hit.record.occurred_at) is asked
                ]
        return found

    def looked_up(self, scope: Scope, query: RecallQuery) -> list[Record]:
        """The records of a query's hits, for the house's own use."""
        return [hit.record for hit in self.found(scope, query)]

    def note(self, scope: Scope, hits: Sequence[Hit]) -> None:
        """Count a read of hits that were found."""
        numbered = ((hit.id, self._store.sequence_of(scope, hit.id)) for hit in hits)
        self._accesses.note(scope, [(id, sequence) for id, sequence in numbered if sequence is not None], self._clock())

    def _note(self, scope: Scope, ranking: Ranking, found: Sequence[tuple[int, Hit]], returned: set[str]) -> None:
        """Count a read of the hits that were returned."""
        sequences = ranking.view.sequences[ranking.near.slots]
        read = [(hit.id, int(sequences[place])) for place, hit in found if hit.id in returned]
        self._accesses.note(scope, read, self._clock())

    def explain(self, scope: Scope, text: str, id: str) -> Explanation:
        """How one record fares for a query with the default settings."""
        sequence = self._store.sequence_of(scope, clean_name(id, "id"))
        if sequence is None:
            raise NotFound(f"there is no record {id!r:.80} in this scope: it was never stored here, or it was forgotten.")
        query = RecallQuery.parse(text)
        ranking = self.rank(scope, query, also=sequence)
        found = np.flatnonzero(ranking.view.sequences[ranking.near.slots] == sequence)
        if not len(found):
            return Explanation(id, False, None, 0.0, {}, ("it was forgotten a moment ago",))
        place = int(found[-1])
        standing = np.flatnonzero(ranking.order == place)
        rank = int(standing[0]) + 1 if len(standing) else None
        recalled = rank is not None and rank <= query.limit
        reasons = [
            *self._obstacles(ranking, place, rank, query.limit),
            *explain.lines(ranking.near, place, ranking.question),
            *ranking.notes,
            *(["a reranker is set: it may have changed the order of the best after this"] if self._reranker else []),
        ]
        value = float(score(ranking.sums[place : place + 1])[0])
        return Explanation(id, recalled, rank, round(value, 4), ranking.parts(found[-1:])[0], tuple(reasons))

    def _obstacles(self, ranking: Ranking, place: int, rank: int | None, limit: int) -> list[str]:
        if rank is not None:
            return [explain.placed(rank, len(ranking.order), limit)]
        slot = int(ranking.near.slots[place])
        if not ranking.view.active[slot]:
            return ["it is not active: it was quarantined or put aside, or it expired and another took its place"]
        if ranking.view.expires[slot] <= micros(self._clock()):
            return ["it has expired"]
        if ranking.view.trusts[slot] < np.float32(self._min_trust):
            trust = float(ranking.view.trusts[slot])
            return [f"its source is trusted {trust:.1f}, below the setting min_trust={self._min_trust:g}: ask with min_trust=0"]
        if ranking.view.steps[slot]:
            return ["it is a step of a task: ask with tag='step', or with the task's session"]
        relevance, gate = float(ranking.similarities[place]), ranking.gate
        best = ranking.best
        if best < gate.found:
            reasons = [
                f"nothing is recalled: the best relevance is {best:.2f}, and among so many memories chance alone reaches "
                f"{gate.found:.2f}, which is the threshold: ask with min_similarity=0 to see it all the same"
            ]
        else:
            reasons = [
                f"its relevance {relevance:.2f} is below the threshold {gate.needed(best):.2f}: "
                "ask with min_similarity=0 to see it all the same"
            ]
        if not ranking.view.embedded[slot]:
            reasons.append("it has no vector yet, so only its words count: run upkeep.reembed()")
        return reasons

    # -- ranking --------------------------------------------------------------------------------------------------
    def rank(self, scope: Scope, query: RecallQuery, also: int | None = None, view: View | None = None) -> Ranking:
        """Measure the candidates of a question, the record with sequence `also` among them; in `view`, if one is given."""
        query = query.with_stored_names(self._guard.clean_name)
        now = self._clock()
        asked = query.asked_at or query.as_of or query.known_at or now
        wanted = self._min_similarity if query.min_similarity is None else query.min_similarity
        if query.min_trust is None and self._min_trust:
            query = replace(query, min_trust=self._min_trust)
        snapshot: Snapshot | None = None
        frequencies: Sequence[int] | None = None
        population: int | None = None
        part: Proposed | None = None  # of a large scope
        weaker: tuple[str, ...] = ()
        if query.as_of is not None or query.known_at is not None:
            snapshot = self._store.snapshot(scope, query.as_of, query.known_at)
            view = ScopeIndex.of(snapshot.rows).view()
        elif view is None:
            held = self._cache.view(scope)
            if isinstance(held, LargeView):
                part = self._proposed(scope, query, held, asked, now, also)
                view, frequencies, population = part.view, part.frequencies, part.population
            elif held is None:
                view, weaker = self._narrowed(scope, query, read(query.text, {}, asked), also)
                population = self._store.count(scope)
            else:
                view = held
        alive = _alive(view, micros(query.as_of or query.known_at or now))
        usable = self._usable(scope, query, view, alive)
        deviation = getattr(self.embedder, "deviation", None)
        question = part.question if part is not None else read(query.text, view.speakers, asked)
        question = anchored(view, question, usable, lambda text: self._embedded(text)[0], deviation)
        if population is not None and frequencies is None:
            frequencies = self._store.document_frequencies(scope, question.terms)
        vector, notes = part.vector if part is not None else self._embedded(question.meant)
        every = population if part is None else part.live  # a word is as rare as it is in the scope, whatever is asked for
        seen = glance(view, question, vector, usable, deviation, frequencies, every)
        # Of a large scope a record that changed is there twice: as it was, and after that as it is.
        slot = None if also is None else next(reversed(np.flatnonzero(view.sequences == also).tolist()), None)
        near = closer(view, question, seen, usable, promise(view, question, seen), query.limit, slot, alive)
        likeness = similarity(near)
        gate = RelevanceThreshold.of(wanted, population or int(np.count_nonzero(usable)))
        sums = fused(near)
        order = best(near.slots, sums, view.sequences)
        order = order[usable[near.slots[order]]]
        top = highest(order, likeness, query.limit)
        passed = gate.passed(order, likeness, query.limit)
        if wanted is None and not len(passed):  # facts are few beside what was said: chance reaches less among them alone
            facts = usable & (view.kinds != view.code(MESSAGE))
            there = int(np.count_nonzero(facts)) if part is None else part.facts
            few, alone = RelevanceThreshold.among_facts(there, question.of_user), order[facts[near.slots[order]]]
            passed = few.passed(alone, likeness, query.limit)
            if len(passed):
                gate, top = few, highest(alone, likeness, query.limit)
        order = passed
        order, sums = arranged(view, question, near.slots, sums, order, query.limit, near.column("coverage"))
        return Ranking(view, question, near, usable, likeness, sums, order, gate, top, (*notes, *weaker), snapshot, population)

    def _embedded(self, text: str) -> tuple[Vector | None, list[str]]:
        if self.embedder is None or not text.strip():
            return None, []
        try:
            return embed_texts(self.embedder, [text], "query")[0], []
        except EmbedderError as error:
            return None, [f"ranked by words only: {error}"]

    def _proposed(
        self, scope: Scope, query: RecallQuery, large: LargeView, asked: datetime, now: datetime, also: int | None
    ) -> Proposed:
        """The part of a large scope that is worth ranking."""
        question = read(query.text, large.speakers, asked)
        vector = self._embedded(question.meant)
        anchor = question.time.anchor if question.time is not None else None
        event = None if not anchor else self._embedded(anchor)[0]

        def usable(view: View) -> NDArray[np.bool_]:
            return self._usable(scope, query, view, _alive(view, micros(now)))

        chosen = (query.kinds, query.tag, query.session, query.min_importance, query.min_trust)
        key = chosen if query.filter is None else None
        others = [] if event is None else [event]
        return proposed(large, question, vector, others, usable, key, micros(now), query.limit, also)

    def _narrowed(self, scope: Scope, query: RecallQuery, question: Question, also: int | None) -> tuple[View, tuple[str, ...]]:
        """The candidates of a scope that is too large to be ranked whole, with their neighbours; and notes on the search."""
        notes: tuple[str, ...] = ()
        vector, _ = self._embedded(question.text)
        search_filter = SearchFilter(
            None if query.kinds is None else tuple(sorted(query.kinds)),
            query.tag,
            query.session,
            query.min_importance,
            query.min_trust or 0.0,
            query.filter,
            steps=query.tag is not None or query.session is not None,
        )
        found = list(self._store.search_words(scope, question.terms, CANDIDATES, search_filter))
        if vector is not None and self._nearest is not None:
            near, notes = self._nearest.search(scope, vector, CANDIDATES, search_filter)
            found += near
        elif vector is not None:
            found += self._store.search_vectors(scope, vector, CANDIDATES, search_filter)
        if len(found) < query.limit:  # nothing to go by: the newest are as good as any
            found += self._store.search_recent(scope, query.limit, search_filter)
        if also is not None:
            found.append(also)
        with_neighbours = {*found, *self._store.neighbours(scope, sorted(set(found)), NEIGHBOURS)}
        return ScopeIndex.of(self._store.index_rows(scope, sorted(with_neighbours))).view(), notes

    def _usable(self, scope: Scope, query: RecallQuery, view: View, alive: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the records that are alive the caller wants to hear of."""
        usable = alive
        if query.tag is None and query.session is None:  # a task's episode tells of its steps; they come when asked for
            usable = view.outcomes if alive is view.active else alive & view.outcomes
        if query.kinds is not None:
            usable = usable & np.isin(view.kinds, [view.code(kind) for kind in query.kinds])
        if query.tag is not None:
            usable = usable & (view.tags == view.code(query.tag))
        if query.session is not None:
            usable = usable & (view.sessions == view.code(query.session))
        if query.min_importance > 0:
            usable = usable & (view.importances >= np.float32(query.min_importance))
        if query.min_trust is not None:
            usable = usable & (view.trusts >= np.float32(query.min_trust))
        if query.filter is not None:
            usable = usable & np.isin(view.sequences, self._store.matching(scope, query.filter))
        return usable

    def _hits(self, scope: Scope, ranking: Ranking, places: NDArray[np.int64]) -> list[tuple[int, Hit]]:
        records: Sequence[Record | None]  # those forgotten a moment ago are None
        slots = ranking.near.slots[places]
        if ranking.snapshot is not None:
            records = [ranking.snapshot.records[slot] for slot in slots]
        else:
            records = self._store.fetch(scope, [int(ranking.view.sequences[slot]) for slot in slots])
        return self._made(ranking, places, records)

    def _made(self, ranking: Ranking, places: NDArray[np.int64], records: Sequence[Record | None]) -> list[tuple[int, Hit]]:
        scores = score(ranking.sums[places])
        return [
            (int(place), Hit(self._accesses.with_waiting(record), round(float(value), 4), parts))
            for place, record, value, parts in zip(places, records, scores, ranking.parts(places), strict=True)
            if record is not None
        ]


def _alive(view: View, now: int) -> NDArray[np.bool_]:
    """Which records are active and have not expired; the view's own column where that is all of the active ones."""
    found: NDArray[np.bool_] = view.active if view.soonest > now else view.active & (view.expires > now)
    return found
