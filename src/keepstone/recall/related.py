"""What recall knows about English words: how much one says, and which mean nearly the same.

The tables in `related_words/` are made from the static model's rows by `training/related_words.py`. A word that is not in
them counts in full and has no relatives.
"""

from __future__ import annotations

from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keepstone.text.words import stem, term_hashes

_FOLDER = Path(__file__).parent / "related_words"
_HEAVIEST = 1.3  # what the largest stored weight stands for


class Relatives(NamedTuple):
    """A word's weight (1 is usual), and the hashes of related terms with their likeness from 0 to 1, best first."""

    weight: float
    hashes: tuple[int, ...]
    likeness: tuple[float, ...]


class _Tables:
    def __init__(self) -> None:
        self.words = (_FOLDER / "words.txt").read_text(encoding="utf-8").split("\n")
        self.places = {word: place for place, word in enumerate(self.words)}
        self.related = np.load(_FOLDER / "related.npy", mmap_mode="r")
        self.likeness = np.load(_FOLDER / "likeness.npy", mmap_mode="r")
        self.weights = np.load(_FOLDER / "weights.npy")


_tables = cache(_Tables)


@lru_cache(maxsize=16384)
def relatives(word: str) -> Relatives:
    """What is known about a word as it is written.

    >>> relatives("like").weight < relatives("cello").weight
    True
    """
    tables = _tables()
    place = tables.places.get(word)
    if place is None or not word:
        return Relatives(1.0, (), ())
    kept = [at for at, value in enumerate(tables.likeness[place].tolist()) if value]
    hashes = term_hashes(stem(tables.words[int(tables.related[place, at])]) for at in kept).tolist()
    likeness = tuple(float(tables.likeness[place, at]) / 255 for at in kept)
    return Relatives(_HEAVIEST * float(tables.weights[place]) / 255, tuple(hashes), likeness)
