"""Passages of a long text: the parts of a few hundred words that have words and a vector of their own. Pure.

A text of at most `MAX_PASSAGE_CHARS` is one passage. The passages of a longer one follow each other without a gap. The first has
the number of its record; each further one has a negative number that is made of the record's number and its place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from keepstone.text.sentences import is_long, split_passages
from keepstone.text.words import index_text, record_terms, term_hashes

_PLACE_BITS = 14  # 8 MB have at most 8,389 passages; the .sql files have the same number
_MAX_PLACE = (1 << _PLACE_BITS) - 1


class Passage(NamedTuple):
    """A passage after the first: where it stands, its words for the full-text index and for ranking, its vector."""

    start: int
    stop: int
    words: str
    hashes: bytes
    vector: NDArray[np.float32] | None = None


def embedding_texts(content: str, key: str | None) -> list[str]:
    """What is embedded of a record: a text for each passage."""
    if not is_long(content):
        return [index_text(content, key)]
    return [index_text(content[start:stop], key) for start, stop in split_passages(content)]


def further_passages(content: str, key: str | None) -> tuple[Passage, ...]:
    """The passages of a record after the first; none of a short one."""
    if not is_long(content):
        return ()
    found = []
    for start, stop in split_passages(content):
        if start:
            terms = record_terms(content[start:stop], key)
            found.append(Passage(start, stop, " ".join(terms), term_hashes(terms).tobytes()))
    return tuple(found)


def passage_number(sequence: int, place: int) -> int:
    """The number of a record's passage.

    >>> passage_number(7, 0), passage_number(7, 1), record_number(passage_number(7, 1))
    (7, -114689, 7)
    """
    return sequence if not place else -(sequence << _PLACE_BITS | place)


def record_number(number: int) -> int:
    """The number of the record that a passage, or the record itself, belongs to."""
    return number if number > 0 else -number >> _PLACE_BITS


def place_of(number: int) -> int:
    """The place of a passage in its record, 0 for the first."""
    return 0 if number > 0 else -number & _MAX_PLACE


def passage_range(sequence: int) -> tuple[int, int]:
    """The lowest and the highest number of a record's further passages."""
    return passage_number(sequence, _MAX_PLACE), passage_number(sequence, 1)
