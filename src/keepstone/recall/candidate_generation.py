"""What of a large scope is looked at for a question: the nearest by meaning, those that share its words, those of its time or
by whom it names, with their neighbours."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from keepstone.ports.values import Vector
from keepstone.recall.question import Question
from keepstone.scope_index.columns import View
from keepstone.scope_index.mapped_index import LargeView, List
from keepstone.text.times import micros
from keepstone.text.words import ASKS, NUMBERED, TIMED, term_hashes

_MARKS = tuple(term_hashes([ASKS, TIMED, NUMBERED]).tolist())
_OF_EACH = 160  # by meaning, and by words
_ASIDE = 64  # of those who are named, and of the time that is meant


@dataclass(frozen=True, slots=True)
class Proposed:
    """The part of a large scope that is worth ranking for a question with a vector, and what the whole has: how many records
    hold each word of the question, how many there are, how many of them are wanted, and how many of those are facts."""

    view: View
    question: Question
    vector: tuple[Vector | None, list[str]]  # and what is to be said about it
    frequencies: list[int]
    live: int
    population: int
    facts: int


def proposed(
    large: LargeView,
    question: Question,
    vector: tuple[Vector | None, list[str]],
    others: Sequence[Vector],
    usable: Callable[[View], NDArray[np.bool_]],
    key: Hashable,
    now: int,
    limit: int,
    also: int | None,
) -> Proposed:
    """Look for what may answer a question. `usable` says which slots may, `key` what it depends on; `also` is the sequence of a
    record that is wanted whatever it says."""
    wanted = large.wanted(key, now, usable)
    asked = term_hashes(question.terms).tolist()
    terms = list(dict.fromkeys([*asked, *(each for word in question.words for each in word.relatives.hashes), *_MARKS]))
    held = dict(zip(terms, large.lists(terms), strict=True))
    frequencies = [len(held[term][0][0]) + len(held[term][1][0]) for term in asked]
    most = max(_OF_EACH, 2 * limit)
    live = large.live()
    found = [large.sharing(_worth(question, asked, held, frequencies, live), most, wanted)]
    if vector[0] is not None:
        found.append(large.nearest(vector[0], most, wanted))
        found += [large.nearest(vector[0], _ASIDE, wanted, within) for within in _asides(question)]
    found += [large.nearest(other, _ASIDE, wanted) for other in others]  # what the question dates itself by
    if sum(map(len, found)) < limit:
        found.append(large.newest(limit, wanted))  # nothing to go by: the newest are as good as any
    if also is not None:
        found.append(large.slot_of(also))
    slots = large.around(np.concatenate(found))
    view = large.view(slots, terms, [held[term] for term in terms])
    return Proposed(view, question, vector, frequencies, live, wanted.count, wanted.facts)


def _worth(
    question: Question, asked: list[int], held: Mapping[int, tuple[List, List]], frequencies: list[int], count: int
) -> list[tuple[float, List, List]]:
    """What each word that stands somewhere is worth: the rarer, the more; related words in part."""
    found: list[tuple[float, List, List]] = []
    for word, hashed, frequency in zip(question.words, asked, frequencies, strict=True):
        rarity = float(np.log1p((max(count, frequency) - frequency + 0.5) / (frequency + 0.5))) * word.relatives.weight
        found.append((rarity, *held[hashed]))
        found += [
            (rarity * likeness, *held[related])
            for related, likeness in zip(word.relatives.hashes, word.relatives.likeness, strict=True)
        ]
    return [each for each in found if each[0] > 0 and len(each[1][0]) + len(each[2][0])]


def _asides(question: Question) -> list[Callable[[View], NDArray[np.bool_]]]:
    """Parts of the scope that a question speaks of by itself."""
    found: list[Callable[[View], NDArray[np.bool_]]] = []
    if question.names:
        found.append(lambda view: np.isin(view.names, list(question.names)))
    for hint in (question.time, question.event):
        if hint is not None and (hint.start is not None or hint.end is not None):
            start = np.iinfo(np.int64).min if hint.start is None else micros(hint.start)
            end = np.iinfo(np.int64).max if hint.end is None else micros(hint.end)
            found.append(lambda view, start=start, end=end: (view.occurred >= start) & (view.occurred <= end))  # type: ignore[misc]
    return found
