"""Weights of English words, and which words mean nearly the same.

`training/related_words.py` makes the tables in `related_words/` from the rows of the static model. A word that is not in them has
the weight 1 and no related words.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keepstone.text.words import stem, term_hash

_FOLDER = Path(__file__).parent / "related_words"
_MAX_WEIGHT = 1.3  # the weight that is stored as 255


class RelatedWords(NamedTuple):
    """A word's weight (1 is usual), and the hashes of related terms with their similarities from 0 to 1, best first."""

    weight: float
    hashes: tuple[int, ...]
    similarities: tuple[float, ...]


class _Tables:
    def __init__(self) -> None:
        self.words = (_FOLDER / "words.txt").read_text(encoding="utf-8").split("\n")
        self.places = {word: place for place, word in enumerate(self.words)}
        # As plain arrays: an index into a memmap takes ten times as long.
        self.related = np.asarray(np.load(_FOLDER / "related.npy", mmap_mode="r"))
        self.similarity = np.asarray(np.load(_FOLDER / "similarity.npy", mmap_mode="r"))
        self.weights = np.load(_FOLDER / "weights.npy")


_tables = cache(_Tables)


@lru_cache(maxsize=16384)
def related_words(word: str) -> RelatedWords:
    """The weight and the related words of a word as it is spelled.

    >>> related_words("like").weight < related_words("cello").weight
    True
    """
    tables = _tables()
    place = tables.places.get(word)
    if place is None or not word:
        return RelatedWords(1.0, (), ())
    related, similarity = tables.related[place].tolist(), tables.similarity[place].tolist()
    kept = [(each, value / 255) for each, value in zip(related, similarity, strict=True) if value]
    hashes = tuple(term_hash(stem(tables.words[each])) for each, _ in kept)
    return RelatedWords(_MAX_WEIGHT * float(tables.weights[place]) / 255, hashes, tuple(value for _, value in kept))
