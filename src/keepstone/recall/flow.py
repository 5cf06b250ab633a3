"""The read path: embed the question, score candidates, apply the threshold, fetch the records, count the access."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import EmbedderError
from keepstone.guard.guard import Guard
from keepstone.ports.caches import NearestNeighbours
from keepstone.ports.filters import matches
from keepstone.ports.stores import Clock, Embedder, Reader, Reranker, Store
from keepstone.ports.values import SearchFilter, Snapshot, Vector
from keepstone.ports.vectors import embed_texts
from keepstone.recall import explain
from keepstone.recall.access import AccessCounter, describe_feedback
from keepstone.recall.candidate_generation import Candidates, generate_candidates
from keepstone.recall.candidates import choose_passages, first_pass
from keepstone.recall.confidence import ScoredCandidates
from keepstone.recall.features import score_candidates
from keepstone.recall.fusion import (
    RelevanceThreshold,
    estimate_scores,
    measure_own_relevance,
    measure_relevance,
    order_candidates,
    sum_features,
)
from keepstone.recall.query import RecallQuery
from keepstone.recall.question import Question, is_plainly_english, parse_question, weigh_world
from keepstone.recall.ranking import Ranking
from keepstone.recall.reading import MAX_READ, Reading
from keepstone.recall.selection import MAX_RERANKED, bury_last, fit_budget, group_by_subject, rerank
from keepstone.recall.standing import MAX_STANDING, asks_for_work, choose_standing, raise_standing, rank_in, standing_slots
from keepstone.recall.supersession import Supersession, supersede
from keepstone.recall.time_window import (
    describe_empty,
    measure_near,
    order_by_texts,
    outside_points,
    raise_relevance,
    resolve_event,
    weigh_time,
    window_of,
)
from keepstone.scope_index.cache import IndexCache
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.scope_index.mapped_index import MappedView
from keepstone.text.passages import record_number
from keepstone.text.revisions import load_model
from keepstone.text.times import micros
from keepstone.text.words import has_visible_text
from keepstone.types import MESSAGE, Explanation, Hit, Recall, Record, Scope, Version

MAX_SEARCH_HITS = 300  # records that each search of the store returns, where a scope is too large to be ranked in memory
NEIGHBOUR_MESSAGES = 2  # messages on either side that are fetched with them
Positioned = list[tuple[int, Hit]]


@dataclass(frozen=True, slots=True)
class _LoadedScope:
    """The records of a scope that are ranked for a query."""

    view: View
    notes: tuple[str, ...] = ()
    snapshot: Snapshot | None = None
    population: int | None = None
    candidates: Candidates | None = None  # of a mapped scope


class RecallFlow:
    """recall, why: ranks one scope's records for a question."""

    def __init__(
        self,
        store: Store,
        cache: IndexCache,
        embedder: Embedder | None,
        accesses: AccessCounter,
        clock: Clock,
        guard: Guard,
        min_similarity: float | None,
        min_confidence: float | None,
        reranker: Reranker | None = None,
        min_trust: float = 0.0,
        nearest: NearestNeighbours | None = None,
        read_notes: Callable[[], tuple[str, ...]] = tuple,
        reader: Reader | None = None,
        reads_always: bool = False,
    ) -> None:
        self._store = store
        self._read_notes = read_notes
        self._is_remote = not store.is_embedded
        self._nearest = nearest  # None: the store searches its own vectors
        self._cache = cache
        self.embedder = embedder
        self._accesses = accesses
        self._clock = clock
        self._guard = guard
        self._min_similarity = min_similarity
        self._reading = Reading(reader, reads_always, min_confidence)
        self._reranker = reranker
        self._min_trust = min_trust

    def recall(self, scope: Scope, query: RecallQuery, counts: bool = True) -> Recall:
        """The hits of a query; the hits that are returned count as read, unless `counts` is off."""
        ranking, hits = self._rank_and_fetch(scope, query)
        notes = ranking.notes + self._read_notes()
        if self._reranker is not None:
            hits, reranker_notes = rerank(self._reranker, query.text, hits)
            notes += reranker_notes
        hits = group_by_subject(query.text, hits[: query.limit]) if ranking.question.wants_all else hits[: query.limit]
        kept, cut = fit_budget([hit for _, hit in hits], query.max_tokens)
        if counts and ranking.snapshot is None:
            kept_ids = {hit.record.id for hit in kept}
            read = {hit.record.id: position for position, hit in hits if hit.record.id in kept_ids}
            sequences = ranking.sequences(np.array([*read.values()], dtype=np.int64))
            self._accesses.count_reads(scope, zip(read, sequences, strict=True), ranking.ranked_at)
        cut_ids = tuple(hit.record.id for hit in cut)
        considered = ranking.population or int(np.count_nonzero(ranking.usable))
        return Recall(query.text, tuple(kept), considered, len(cut), notes, cut_ids, ranking.sureness)

    def _read(self, scope: Scope, query: RecallQuery, ranking: Ranking) -> Ranking:
        """The ranking once the reader has read the first candidates, where it takes part: their order, what is true now, and
        whether any of them answers."""
        if not self._reading.takes_part(query, ranking.question) or not len(ranking.order):
            return ranking
        is_message = ranking.view.kinds[ranking.features.slots[ranking.order[0]]] == ranking.view.codes.get(MESSAGE, -1)
        first = ranking.order[:MAX_READ]
        fetch = partial(self._fetch_slots, scope, ranking.snapshot, ranking.view)
        fetched = zip(first.tolist(), fetch(ranking.features.slots[first]), strict=True)
        records = [(at, shown[0]) for at, record in fetched if (shown := ranking.show(at, record)) is not None]
        try:
            at_once = bool(is_message) or ranking.question.wants_all
            read = self._reading.read(query, ranking.confidence, ranking.sums, ranking.order, records, at_once)
            required = self._reading.required(query, is_read=True) * self._share_required(query, ranking.question)
            judged = replace(
                ranking,
                sums=read.sums,
                confidence=ranking.confidence._replace(any=read.confidence),
                notes=(*ranking.notes, f"a reader judged the first {len(read.logits)} hits"),
                read=read.logits,
            )
            if read.confidence < required:  # nothing is recalled, so it does not matter what replaces what
                return replace(judged, order=read.order[:0])
            superseded = supersede(
                ranking.view, ranking.question, ranking.vector, ranking.features, ranking.usable, read.sums, read.order,
                query.limit, fetch, self._reading.judge_pairs(query.text),
            )  # fmt: skip
        except EmbedderError as error:
            return replace(ranking, order=ranking.passed, notes=(*ranking.notes, f"no reader took part: {error}"))
        kept = {*ranking.passed.tolist(), *(at for at, logit in read.logits.items() if logit > 0), *superseded.moved_up()}
        order = superseded.order[np.isin(superseded.order, list(kept))]
        order = bury_last(ranking.view, ranking.features, order)
        return replace(judged, sums=superseded.sums, order=order, superseded=superseded)

    def _share_required(self, query: RecallQuery, question: Question) -> float:
        """How much of the usual confidence a question needs that is read: none where the caller set a threshold; little where it
        asks for a list or names a period, because the reader judges one text at a time and knows no dates."""
        if query.min_similarity is not None or self._min_similarity is not None:
            return 0.0
        return 0.05 if window_of(question) is not None else 0.5 if question.wants_all else 1.0

    def _rank_and_fetch(self, scope: Scope, query: RecallQuery) -> tuple[Ranking, Positioned]:
        """The ranking of a query and its best hits. A remote store is not asked whether the cached index is current: the stamp
        that comes with the records says so, and the query is ranked again if it was not."""
        count = query.limit if self._reranker is None else max(query.limit, MAX_RERANKED)
        is_present = query.as_of is None and query.known_at is None
        cached = self._cache.cached(scope) if self._is_remote and is_present else None
        renewed = None
        if cached is not None and isinstance(cached[0], View):
            ranking = self._read(scope, query, self.rank(scope, query, view=cached[0]))
            records, stamp = self._store.fetch_stamped(scope, ranking.sequences(ranking.order[:count]))
            if stamp == cached[1]:
                return ranking, self._build_hits(ranking, ranking.order[:count], records)
            renewed = self._cache.view(scope, stamp)
        ranking = self._read(scope, query, self.rank(scope, query, view=renewed if isinstance(renewed, View) else None))
        return ranking, self._fetch_hits(scope, ranking, ranking.order[:count])

    def search(self, scope: Scope, query: RecallQuery) -> Recall:
        """The hits of a query; they do not count as read, and no reranker is called."""
        ranking = self._read(scope, query, self.rank(scope, query))
        hits = self._fetch_hits(scope, ranking, ranking.order[: query.limit])
        return Recall(query.text, tuple(hit for _, hit in hits), 0, 0, ranking.notes, (), ranking.sureness)

    def search_records(self, scope: Scope, query: RecallQuery) -> list[Record]:
        """The records of a query's hits, for internal use."""
        return [hit.record for hit in self.search(scope, query)]

    def find_shown(self, scope: Scope, query: RecallQuery, ids: Collection[str]) -> frozenset[int]:
        """The sequences of what ranks high for a query and is known to whoever asks: `ids`, and the question itself, just
        said."""
        ranking = self.rank(scope, replace(query, read=False, min_confidence=0.0))
        found = self._fetch_hits(scope, ranking, ranking.order[: query.limit])
        shown = [position for position, hit in found if hit.id in ids or is_asked(hit.record, query.text)]
        return frozenset(ranking.sequences(np.array(shown, dtype=np.int64)))

    def find_standing(self, scope: Scope, query: RecallQuery) -> tuple[list[Record], set[str]]:
        """The standing instructions and preferences that may apply to a query, in order of precedence; without a query all that
        hold. And the ids of instructions that no longer hold. They do not count as read."""
        standing = replace(query, standing=True, limit=MAX_STANDING, min_similarity=0.0, max_tokens=None, read=False)
        return choose_standing(self.search(scope, standing), all_preferences=not query.text.strip())

    def history(self, scope: Scope, id: str) -> Sequence[Version]:
        """Every version of a record, oldest first."""
        return self._store.history(scope, id) or ()

    def has_kind(self, scope: Scope, kind: str) -> bool:
        """Whether there may be records of a kind: cheap, and wrong only by returning True."""
        view = self._cache.view(scope)
        if isinstance(view, MappedView):
            return view.has_kind(kind)
        return view is None or bool((view.kinds == view.code(kind)).any())

    def with_replies(self, scope: Scope, hits: Sequence[Hit]) -> list[Record]:
        """The records of hits, each message followed by the other half of its exchange: the reply, or what it replies to."""
        records: list[Record] = []
        for hit in hits:
            records.append(hit.record)
            sequence = self._store.sequence_of(scope, hit.id) if hit.record.kind == MESSAGE else None
            if sequence is None:
                continue
            neighbours = [number for number in self._store.neighbours(scope, [sequence], 1) if number != sequence]
            is_reply = hit.record.role == "assistant"
            records += [
                record
                for record in self._store.fetch(scope, neighbours)
                if record is not None
                and record.role != hit.record.role
                and (record.occurred_at <= hit.record.occurred_at) is is_reply
            ]
        return records

    def count_reads(self, scope: Scope, ids: Iterable[str]) -> None:
        """Count a read of records that were shown without `recall`."""
        self._accesses.count_reads(scope, [(id, None) for id in ids], self._clock())

    # -- explanations ---------------------------------------------------------------------------------------------
    def explain(self, scope: Scope, text: str, id: str, sequence: int) -> Explanation:
        """How one record ranks for a query with the default settings, whether it is recalled or not."""
        query = RecallQuery.parse(text)
        ranking = self.rank(scope, query, also=sequence)
        positions = np.flatnonzero(ranking.view.sequences[ranking.features.slots] == sequence)[-1:]
        if not len(positions):
            return Explanation(id, False, None, 0.0, {}, ("it was forgotten while this was computed",))
        position = int(positions[0])
        ranks = np.flatnonzero(ranking.order == position)
        rank = int(ranks[0]) + 1 if len(ranks) else None
        recalled = rank is not None and rank <= query.limit
        reasons = [
            *explain.explain_standing(ranking, position, rank, query.limit, micros(self._clock()), self._min_trust),
            *explain.explain_replacement(ranking.superseded, position),
            *explain.explain_score(ranking.features, position, ranking.question),
            *describe_feedback(self._store, scope, id),
            *ranking.notes,
            *(["a reranker is set: it may have changed the order of the best hits"] if self._reranker else []),
        ]
        score = float(ranking.confidence.scores(ranking.sums[position : position + 1])[0])
        return Explanation(id, recalled, rank, round(score, 4), ranking.signals(positions)[0], tuple(reasons))

    # -- ranking --------------------------------------------------------------------------------------------------
    def rank(self, scope: Scope, query: RecallQuery, also: int | None = None, view: View | None = None) -> Ranking:
        """Score the candidates of a query, the record with sequence `also` among them; in `view`, if one is given."""
        query = query.with_stored_names(self._guard.clean_name)
        if query.min_trust is None and self._min_trust:
            query = replace(query, min_trust=self._min_trust)
        now = self._clock()
        asked_at = query.asked_at or query.as_of or query.known_at or now
        loaded = self._load_scope(scope, query, asked_at, now, also) if view is None else _LoadedScope(view)
        view, candidates, population = loaded.view, loaded.candidates, loaded.population
        unexpired = _unexpired(view, micros(query.as_of or query.known_at or now))
        usable = self._usable(scope, query, view, unexpired, loaded.snapshot)
        deviation = getattr(self.embedder, "deviation", None)
        question = parse_question(query.text, view.speakers, asked_at) if candidates is None else candidates.question
        fetch = partial(self._fetch_slots, scope, loaded.snapshot, loaded.view)
        question = resolve_event(view, question, usable, lambda text: self._embed(text)[0], deviation, fetch, asked_at)
        if candidates is not None:
            frequencies: Sequence[int] | None = candidates.frequencies
            vector, notes = candidates.vector
        else:
            frequencies = None if population is None else self._store.document_frequencies(scope, question.terms)
            vector, notes = self._embed(question.embedding_text)
        question = weigh_world(weigh_time(question, view, usable), vector, getattr(self.embedder, "world_weights", None))
        live = population if candidates is None else candidates.live  # the rarity of a word is that of the whole scope
        first = first_pass(view, question, vector, usable, deviation, frequencies, live)
        # A record that changed has two slots in a mapped scope: the old one, and after it the current one.
        also_slots = np.flatnonzero((view.sequences == also) & (view.places == 0)) if also is not None else np.empty(0)
        slot = int(also_slots[-1]) if len(also_slots) else None
        estimates = estimate_scores(view, question, first)
        work = "" if query.standing else asks_for_work(query.text)
        if work:
            estimates = raise_standing(view, first, estimates)
        if view.is_record is not None:  # a long text is ranked by its best passage
            first = choose_passages(view, first, np.where(usable, estimates, -np.inf))
            estimates, usable = estimates[first.shown], usable & view.is_record
        features = score_candidates(view, question, first, usable, estimates, query.limit, slot, unexpired)
        relevance, sums = measure_relevance(features), sum_features(features)
        window = window_of(question)
        near = None if window is None else measure_near(window, view.occurred[features.slots])
        sums = sums if window is None or near is None else sums - outside_points(window, near)
        order = order_candidates(features.slots, sums, view.sequences)
        if slot is not None:
            order = order[usable[features.slots[order]]]
        notes = (*notes, *loaded.notes)
        if window is not None and near is not None:
            order, near = order_by_texts(question, window, view, features.slots, near, sums, order, fetch)
            relevance = raise_relevance(question, relevance, near)
            notes += describe_empty(window, near[order])
        is_fact = usable & (view.kinds != view.code(MESSAGE)) if view.session_count else usable
        fact_count = int(np.count_nonzero(is_fact)) if candidates is None else candidates.facts
        of_all = RelevanceThreshold.of(population or int(np.count_nonzero(usable)), question)
        of_facts = RelevanceThreshold.among_facts(fact_count, question)  # facts are few beside messages: chance reaches less
        scored = ScoredCandidates(view, question, first, features, relevance, sums, is_fact, of_all, of_facts)
        min_similarity = self._min_similarity if query.min_similarity is None else query.min_similarity
        is_read = self._reading.takes_part(query, question)
        if min_similarity is not None:  # the caller's own threshold applies to each record by itself, and nothing else does
            min_confidence = query.min_confidence or 0.0
            found = scored.select(order, measure_own_relevance(features), RelevanceThreshold(min_similarity), query.limit)
        else:
            # The reader decides whether anything answers; it may see an answer where the threshold does not.
            min_confidence = 0.0 if is_read else self._reading.required(query, is_read=False)
            found = scored.select(order, relevance, RelevanceThreshold(0.0) if is_read else of_all, query.limit)
            if not len(found.order) or found.confidence.any < min_confidence:
                facts = scored.select(order[is_fact[features.slots[order]]], relevance, of_facts, query.limit)
                found = facts if len(facts.order) and facts.confidence.any >= min_confidence else found
        if window is None and found.confidence.any < min_confidence:
            found = found._replace(order=order[:0])
        if work == "task" or (work and len(found.order)):
            standing, sums = rank_in(view, first, features.slots, usable, found.sums, found.order, query.limit)
            found = found._replace(order=standing, sums=sums)
        readable = vector if self.embedder is not None and self.embedder.id in load_model().embedders else None
        passed = found.order
        if is_read:
            superseded = Supersession(found.order, found.sums)
            if min_similarity is None:
                passed = of_all._replace(best_required=0.0).select(found.order, relevance, query.limit)
        else:
            superseded = supersede(view, question, readable, features, usable, found.sums, found.order, query.limit, fetch)
        return Ranking(
            view, question, features, usable, relevance, superseded.sums, bury_last(view, features, superseded.order),
            found.threshold, found.confidence, min_confidence, notes, now, loaded.snapshot, population, superseded, passed,
            readable,
        )  # fmt: skip

    def _fetch_slots(
        self, scope: Scope, snapshot: Snapshot | None, view: View, slots: NDArray[np.int64]
    ) -> Sequence[Record | None]:
        """The records of slots, as they were at the query's time."""
        if snapshot is not None:
            return [snapshot.records[slot] for slot in slots]
        return self._store.fetch(scope, view.sequences[slots].tolist())

    def _load_scope(self, scope: Scope, query: RecallQuery, asked_at: datetime, now: datetime, also: int | None) -> _LoadedScope:
        """The scope as of the query's time: whole, or the part of it that is worth ranking."""
        if query.as_of is not None or query.known_at is not None:
            snapshot = self._store.snapshot(scope, query.as_of, query.known_at)
            return _LoadedScope(ScopeIndex.of(snapshot.rows).view(), snapshot=snapshot)
        cached = self._cache.view(scope)
        if isinstance(cached, MappedView):
            candidates = self._generate_candidates(scope, query, cached, asked_at, now, also)
            return _LoadedScope(candidates.view, population=candidates.population, candidates=candidates)
        if cached is None:
            view, notes = self._search_store(scope, query, parse_question(query.text, {}, asked_at), also)
            return _LoadedScope(view, notes, population=self._store.count(scope))
        return _LoadedScope(cached)

    def _embed(self, text: str) -> tuple[Vector | None, tuple[str, ...]]:
        """The vector of a text, or None with a note on why there is none."""
        if self.embedder is None or not (text.strip() if text.isascii() else has_visible_text(text)):
            return None, ()
        knows = None if is_plainly_english(text) else getattr(self.embedder, "knows", None)
        if knows is not None and not knows(text):
            return None, (f"ranked by words only: the embedder {self.embedder.id} does not know the language of the question",)
        try:
            return embed_texts(self.embedder, [text], "query")[0], ()
        except EmbedderError as error:
            return None, (f"ranked by words only: {error}",)

    def _generate_candidates(
        self, scope: Scope, query: RecallQuery, mapped: MappedView, asked_at: datetime, now: datetime, also: int | None
    ) -> Candidates:
        """The part of a mapped scope that is worth ranking."""
        question = parse_question(query.text, mapped.speakers, asked_at)
        vector = self._embed(question.embedding_text)
        anchor = question.time.anchor if question.time is not None else None
        event_vector = self._embed(anchor)[0] if anchor else None

        any_kind = replace(query, standing=False, leave_out=frozenset())  # neither is told by the mapped columns

        def usable(view: View) -> NDArray[np.bool_]:
            return self._usable(scope, any_kind, view, _unexpired(view, micros(now)))

        filters = (query.kinds, query.tag, query.session, query.min_importance, query.min_trust)
        mask_key = filters if query.filter is None else None
        event_vectors = [] if event_vector is None else [event_vector]
        with_standing = query.standing or bool(asks_for_work(query.text))
        return generate_candidates(
            mapped, question, vector, event_vectors, usable, mask_key, micros(now), query.limit, also, with_standing
        )

    def _search_store(
        self, scope: Scope, query: RecallQuery, question: Question, also: int | None
    ) -> tuple[View, tuple[str, ...]]:
        """The candidates of a scope that does not fit in memory, with their neighbours; and notes on the search."""
        notes: tuple[str, ...] = ()
        vector, _ = self._embed(question.text)
        search_filter = SearchFilter(
            None if query.kinds is None else tuple(sorted(query.kinds)),
            query.tag,
            query.session,
            query.min_importance,
            query.min_trust or 0.0,
            query.filter,
            steps=query.tag is not None or query.session is not None,
        )
        found = list(self._store.search_words(scope, question.search_terms, MAX_SEARCH_HITS, search_filter))
        if vector is not None and self._nearest is not None:
            nearest, notes = self._nearest.search(scope, vector, MAX_SEARCH_HITS, search_filter)
            found += nearest
        elif vector is not None:
            found += self._store.search_vectors(scope, vector, MAX_SEARCH_HITS, search_filter)
        if len(found) < query.limit:  # the question has too few matches: the newest records are as good as any
            found += self._store.search_recent(scope, query.limit, search_filter)
        if also is not None:
            found.append(also)
        records = sorted(set(map(record_number, found)))
        with_neighbours = {*found, *self._store.neighbours(scope, records, NEIGHBOUR_MESSAGES)}
        return ScopeIndex.of(self._store.index_rows(scope, sorted(with_neighbours))).view(), notes

    def _usable(
        self,
        scope: Scope,
        query: RecallQuery,
        view: View,
        unexpired: NDArray[np.bool_],
        snapshot: Snapshot | None = None,
    ) -> NDArray[np.bool_]:
        """Which of the unexpired records match the query's filters; those of a past view by what they said then."""
        usable = unexpired
        if query.tag is None and query.session is None:  # steps of a task are recalled only by tag or session
            usable = view.outcomes if unexpired is view.active else unexpired & view.outcomes
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
        if query.standing:
            usable = usable & standing_slots(view)
        if query.leave_out:
            usable = usable & ~np.isin(view.sequences, list(query.leave_out))
        if query.filter is not None and snapshot is not None:
            past = [matches(query.filter, record.metadata, record.content) for record in snapshot.records]
            usable = usable & np.array(past, dtype=np.bool_)
        elif query.filter is not None:
            usable = usable & np.isin(view.sequences, self._store.matching(scope, query.filter))
        return usable

    # -- hits -----------------------------------------------------------------------------------------------------
    def _fetch_hits(self, scope: Scope, ranking: Ranking, positions: NDArray[np.int64]) -> Positioned:
        read = {} if ranking.superseded is None else ranking.superseded.records
        if all(position in read for position in positions.tolist()):
            return self._build_hits(ranking, positions, [read[position] for position in positions.tolist()])
        records = self._fetch_slots(scope, ranking.snapshot, ranking.view, ranking.features.slots[positions])
        return self._build_hits(ranking, positions, records)

    def _build_hits(self, ranking: Ranking, positions: NDArray[np.int64], records: Sequence[Record | None]) -> Positioned:
        """Hits with their positions; a record that was forgotten meanwhile is None and has no hit."""
        scores, signals = ranking.confidence.scores(ranking.sums[positions]).tolist(), ranking.signals(positions)
        hits = []
        for at, position in enumerate(positions.tolist()):
            shown = ranking.show(position, records[at])
            if shown is not None:
                record, passage = shown
                replaced_by = ranking.superseded_by(position)
                hit = Hit(self._accesses.with_pending(record), round(scores[at], 4), signals[at], passage, replaced_by)
                hits.append((position, hit))
        return hits


def is_asked(record: Record, query: str) -> bool:
    """Whether a record is the question itself, said a moment ago: it answers nothing."""
    return record.kind == MESSAGE and record.role in (None, "user") and record.content.strip() == query.strip()


def _unexpired(view: View, now_micros: int) -> NDArray[np.bool_]:
    """Which records are active and have not expired; the view's own column where that is every active record."""
    unexpired: NDArray[np.bool_] = view.active if view.first_expiry > now_micros else view.active & (view.expires > now_micros)
    return unexpired
