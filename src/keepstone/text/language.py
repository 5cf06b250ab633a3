"""What text analysis needs to know of a language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """The words of one language, in lower case. One module per language makes one of these."""

    code: str
    months: Mapping[str, int]  # names and abbreviations, from 1
    weekdays: tuple[str, ...]  # from Monday
    cardinals: Mapping[str, int]
    stop_words: frozenset[str]
    negations: frozenset[str]
    first_person: frozenset[str]
    abbreviations: frozenset[str]  # a full stop after one does not end a sentence
    final_abbreviations: frozenset[str]  # a full stop after one ends a sentence only before a capital
