"""Candidate generation in a mapped scope: by vector, words, named speakers and time, with the neighbours of each."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Vector
from keepstone.recall.candidates import measure_rarity
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.scope_index.mapped_index import MappedView, PostingList
from keepstone.text.times import micros
from keepstone.text.words import INSTRUCTS, MARKS, NUMBERED, PREFERS, TIMED, term_hash, term_hashes

_MARK_HASHES = tuple(term_hashes(sorted(MARKS - {NUMBERED, TIMED})).tolist())
_NUMBERED, _TIMED = term_hashes((NUMBERED, TIMED)).tolist()  # most records have them: read only if they count
_STANDING_HASHES = tuple(term_hashes((INSTRUCTS, PREFERS)).tolist())
_MIN_CANDIDATES = 160  # by vector, and by words
_MAX_BY_HINT = 64  # candidates of the named speakers, and of the time that is meant

Filter = Callable[[View], NDArray[np.bool_]]


@dataclass(frozen=True, slots=True)
class Candidates:
    """The part of a mapped scope that is worth ranking for a question, and figures of the whole scope: how many records hold each
    word of the question, how many are active, how many match the query's filters, and how many of those are facts."""

    view: View
    question: Question
    vector: tuple[Vector | None, tuple[str, ...]]  # with notes on it
    frequencies: list[int]
    live: int
    population: int
    facts: int


def generate_candidates(
    mapped: MappedView,
    question: Question,
    vector: tuple[Vector | None, tuple[str, ...]],
    event_vectors: Sequence[Vector],
    usable: Filter,
    mask_key: Hashable,
    now_micros: int,
    limit: int,
    also: int | None,
    with_standing: bool = False,
) -> Candidates:
    """Find the records that may answer a question. `usable` says which slots may, and is cached under `mask_key`; `also` is the
    sequence of a record that is always included. `with_standing`: standing instructions are among them."""
    wanted = mapped.wanted(mask_key, now_micros, usable)
    hashes = [term_hash(word.term) for word in question.words]
    related = (hashed for word in question.words for hashed in word.related.hashes)
    marks = (*_MARK_HASHES, *(_NUMBERED,) * question.wants_number, *(_TIMED,) * question.wants_time)
    terms = list(dict.fromkeys([*hashes, *related, *marks]))
    postings = dict(zip(terms, mapped.posting_lists(terms), strict=True))
    frequencies = [len(postings[hashed][0][0]) + len(postings[hashed][1][0]) for hashed in hashes]
    count = max(_MIN_CANDIDATES, 2 * limit)
    live = mapped.live()
    found = [mapped.sharing(_weigh_terms(question, hashes, postings, frequencies, live), count, wanted)]
    if vector[0] is not None:
        found.append(mapped.nearest(vector[0], count, wanted))
        found += [mapped.nearest(vector[0], _MAX_BY_HINT, wanted, within) for within in _hint_filters(question)]
    found += [mapped.nearest(event_vector, _MAX_BY_HINT, wanted) for event_vector in event_vectors]
    if with_standing:
        found.append(mapped.sharing([(1.0, *postings[mark]) for mark in _STANDING_HASHES], _MAX_BY_HINT, wanted))
    if sum(map(len, found)) < limit:
        found.append(mapped.newest(limit, wanted))  # the question has too few matches: the newest records are as good as any
    if also is not None:
        found.append(mapped.slot_of(also))
    slots = mapped.with_neighbours(np.concatenate(found))
    view = mapped.view(slots, terms, [postings[term] for term in terms])
    return Candidates(view, question, vector, frequencies, live, wanted.count, wanted.facts)


def _weigh_terms(
    question: Question,
    hashes: list[int],
    postings: Mapping[int, tuple[PostingList, PostingList]],
    frequencies: list[int],
    count: int,
) -> list[tuple[float, PostingList, PostingList]]:
    """The weight of each word that some record holds: its rarity; related words count in part."""
    weighted: list[tuple[float, PostingList, PostingList]] = []
    for word, hashed, frequency in zip(question.words, hashes, frequencies, strict=True):
        weight = measure_rarity(count, frequency) * word.related.weight
        weighted.append((weight, *postings[hashed]))
        weighted += [
            (weight * similarity, *postings[related])
            for related, similarity in zip(word.related.hashes, word.related.similarities, strict=True)
        ]
    return [entry for entry in weighted if entry[0] > 0 and len(entry[1][0]) + len(entry[2][0])]


def _hint_filters(question: Question) -> list[Filter]:
    """Filters for the speakers and the times that a question names."""
    filters: list[Filter] = []
    if question.names:
        filters.append(lambda view: np.isin(view.names, list(question.names)))
    for hint in (question.time, question.event):
        if hint is not None and (hint.start is not None or hint.end is not None):
            start = np.iinfo(np.int64).min if hint.start is None else micros(hint.start)
            end = np.iinfo(np.int64).max if hint.end is None else micros(hint.end)
            filters.append(lambda view, start=start, end=end: (view.occurred >= start) & (view.occurred <= end))  # type: ignore[misc]
    return filters
