"""The first pass over a scope: measures every record by itself and chooses the candidates worth scoring. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Vector
from keepstone.recall.question import Question, QuestionWord
from keepstone.scope_index.columns import View
from keepstone.scope_index.postings import NO_POSTINGS, Counts, find_terms
from keepstone.text.words import term_hash

Column = NDArray[np.float32]
Slots = NDArray[np.int64]
Postings = dict[int, tuple[Slots, Counts]]  # hash of a term -> the slots that hold it, and its count in each
MAX_SCORED = 256  # candidates that are scored, besides their neighbours

_IDF_PSEUDO_COUNT = 20  # records without the word that IDF smoothing adds: in a scope of three, a common word still counts
_USUAL_DEVIATION = 0.09  # of the cosine of unrelated texts with the default embedder, for which the weights were fitted
_PRIOR_RECORDS = 30.0  # records with the usual deviation that are added to a scope's own statistics
_COMMON_RECORDS = 2000  # a related word in more records than this, and in more than every tenth, is ignored
_KEYWORDS_ONLY = (0.1, 0.45)  # similarity that a record without a vector is assumed to have: constant, and share of its coverage


class TermMatch(NamedTuple):
    """The records that hold one word of the question: for each slot a weight from 0 to 1, and a final 0 for no slot; None where
    no record holds it. `exact` and `counts` are the word itself, without related words."""

    rarity: float
    weights: Column | None
    exact: Slots
    counts: Counts


class FirstPass(NamedTuple):
    """Every slot by itself. similarity: cosine with the question, scaled to the default embedder's spread. keywords: BM25 as a
    share of the best possible. coverage: the share of the question's words, weighted by rarity, that a record holds; related
    words count in part."""

    similarity: Column
    keywords: Column
    coverage: Column
    matches: tuple[TermMatch, ...]
    weights: NDArray[np.float32]  # those of the matches, a row for each
    shares: Column  # of each match in the rarity of all
    total_rarity: float
    has_vector: bool
    shown: Slots | None = None  # of each slot the passage that its record is ranked by; None: every slot by itself


def choose_passages(view: View, first: FirstPass, estimates: Column) -> FirstPass:
    """The first pass with each record of a long text measured as the best of its passages, by the estimates."""
    heads = view.heads
    if heads is None:
        return first
    order = np.lexsort((-np.arange(view.size), estimates, heads))  # of each record the best passage last; of equals the first
    best = order[np.append(heads[order][1:] != heads[order][:-1], True)]
    shown = np.arange(view.size)
    shown[heads[best]] = best
    weights = first.weights[:, np.append(shown, -1)]
    matches = tuple(
        match if match.weights is None else match._replace(weights=row) for match, row in zip(first.matches, weights, strict=True)
    )
    return first._replace(
        similarity=first.similarity[shown],
        keywords=first.keywords[shown],
        coverage=first.coverage[shown],
        matches=matches,
        weights=weights,
        shown=shown,
    )


def first_pass(
    view: View,
    question: Question,
    vector: Vector | None,
    usable: NDArray[np.bool_],
    deviation: float | None = None,
    frequencies: Sequence[int] | None = None,
    population: int | None = None,
) -> FirstPass:
    """Measure every slot. `deviation` is the embedder's own; None: measured on the scope. `frequencies` and `population` are
    those of the scope, where the view is only a part of it."""
    count = _IDF_PSEUDO_COUNT + (view.live if population is None else population)
    hashes = [term_hash(word.term) for word in question.words]
    related = (hashed for word in question.words if not word.names for hashed in word.related.hashes)
    terms = list(dict.fromkeys([*hashes, *related]))
    postings = find_terms(view.runs, terms)
    weights = np.zeros((len(hashes), view.size + 1), dtype=np.float32)
    matches = tuple(
        _match_word(view, word, postings, hashed, count, None if frequencies is None else frequencies[at], weights[at])
        for at, (word, hashed) in enumerate(zip(question.words, hashes, strict=True))
    )
    rarities = [match.rarity for match in matches]
    total_rarity = sum(rarities) or 1.0
    shares = np.array([rarity / total_rarity for rarity in rarities], dtype=np.float32)
    coverage: Column = (weights[:, :-1] * shares[:, None]).sum(axis=0)
    keywords = _measure_keywords(view, matches, shares)
    has_vector = vector is not None and view.vectors.shape[1] == len(vector)
    if vector is None or not has_vector:
        return FirstPass(_assume_similarity(coverage), keywords, coverage, matches, weights, shares, total_rarity, False)
    similarity: Column = np.vecdot(view.vectors, vector)  # row by row, in one thread: the same whatever else is in the scope
    scale = _USUAL_DEVIATION / (deviation or _measure_deviation(similarity, usable & view.embedded))
    if scale != 1.0:
        similarity *= np.float32(scale)
    if not view.all_embedded:
        similarity = np.where(view.embedded, similarity, _assume_similarity(coverage))
    return FirstPass(similarity, keywords, coverage, matches, weights, shares, total_rarity, True)


def _assume_similarity(coverage: Column) -> Column:
    """The similarity that records without a vector are assumed to have, by their keywords."""
    assumed: Column = np.float32(_KEYWORDS_ONLY[0]) + np.float32(_KEYWORDS_ONLY[1]) * coverage
    return assumed


def _measure_deviation(similarity: Column, usable: NDArray[np.bool_]) -> float:
    """The standard deviation of the cosines of this scope."""
    counted = similarity[usable]
    size = len(counted)
    variance = float(counted.var()) if size else 0.0
    return float(np.sqrt((size * variance + _PRIOR_RECORDS * _USUAL_DEVIATION**2) / (size + _PRIOR_RECORDS)))


def _match_word(
    view: View, word: QuestionWord, postings: Postings, hashed: int, count: int, frequency: int | None, weights: Column
) -> TermMatch:
    """What holds a word; its weights are written into `weights`, which is 0."""
    has_inactive = view.live < view.size
    exact, counts = postings.get(hashed, NO_POSTINGS)
    if has_inactive:
        is_active = view.active[exact]
        exact, counts = exact[is_active], counts[is_active]
    parts: list[tuple[Slots, float]] = []
    if word.names:
        # The name of a speaker: the speaker's own messages count as holding it, and records without a speaker.
        unspoken = view.names[exact] == view.code(None)
        exact, counts = exact[unspoken], counts[unspoken]
        spoken = np.flatnonzero(np.isin(view.names, list(word.names)) & view.active)
        parts.append((spoken, 1.0))
        document_frequency = len(spoken) + len(exact)
    else:
        document_frequency = len(exact) if frequency is None else frequency
        for related_hash, similarity in zip(reversed(word.related.hashes), reversed(word.related.similarities), strict=True):
            slots, _ = postings.get(related_hash, NO_POSTINGS)
            slots = slots[view.active[slots]] if has_inactive else slots
            if len(slots) and (len(slots) < _COMMON_RECORDS or len(slots) * 10 < view.live):
                parts.append((slots, similarity))
    if len(exact):
        parts.append((exact, 1.0))
    for slots, weight in parts:  # weaker ones first, so that the best is left in each slot
        weights[slots] = weight
    return TermMatch(measure_rarity(count, document_frequency) * word.related.weight, weights if parts else None, exact, counts)


def measure_rarity(count: int, document_frequency: int) -> float:
    """The inverse document frequency of a word that so many of `count` records hold."""
    return math.log1p((max(count, document_frequency) - document_frequency + 0.5) / (document_frequency + 0.5))


def _measure_keywords(view: View, matches: Sequence[TermMatch], shares: Column) -> Column:
    """BM25 of every slot."""
    keywords = np.zeros(view.size, dtype=np.float32)
    if matches:
        slots = np.concatenate([match.exact for match in matches])
        counts = np.concatenate([match.counts for match in matches]).astype(np.float32)
        share = np.repeat(shares, [len(match.exact) for match in matches])
        np.add.at(keywords, slots, share * counts / (counts + view.length_norms[slots]))
    return keywords


def choose_candidates(estimates: Column, usable: NDArray[np.bool_], wanted: int, also: int | None) -> Slots:
    """The usable slots with the highest estimates, ascending; all of them where they are few."""
    count = int(np.count_nonzero(usable))
    if count <= 2 * wanted:
        slots = usable.nonzero()[0]
    else:
        values = estimates if count == len(estimates) else estimates[usable]
        bound = np.partition(values, count - wanted)[count - wanted]
        slots = (values >= bound).nonzero()[0]
        if len(slots) > wanted:  # of equals the newest
            better, equal = np.flatnonzero(values > bound), np.flatnonzero(values == bound)
            slots = np.sort(np.concatenate([better, equal[len(equal) - (wanted - len(better)) :]]))
        slots = slots if count == len(estimates) else np.flatnonzero(usable)[slots]
    return slots if also is None else np.union1d(slots, [also])
