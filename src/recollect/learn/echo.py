"""The echo guard: what memory itself put into a prompt is never learned again as something new. Pure. Imports: words.

An echo is a fact that the user did not say: its words stand in a recalled memory, or in what the assistant said, and hardly in
the user's own turns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from recollect.words import STOP_WORDS, terms

_FENCES = re.compile(r"<(memory|summary|recalled|context)\b[^>]{0,300}>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_SUBJECT = frozenset(terms("user users the they their his her"))
_EXACT = re.compile(r"[^\W\d_]*\d[\w.,:/-]*|[A-ZÀ-ÖØ-Þ][\w'’-]+")  # what has a digit, or begins with a capital
_DATE = re.compile(r"(19|20)\d\d([-/.]\d\d?){0,2}|\d{1,2}(st|nd|rd|th)?|\d{1,2}:\d\d")
_KNOWN = frozenset(
    "user users the monday tuesday wednesday thursday friday saturday sunday january february march april may june july august "
    "september october november december english".split()
)
_COVERED, _SAID = 0.6, 0.34  # of a fact's words: in one other text at least, in the user's own turns less than


def without_fences(text: str) -> str:
    """A text without the blocks that memory was fenced in: they are what we said, not what the user said.

    >>> without_fences("<memory note='x'>- likes tea</memory> I moved to Porto.").strip()
    'I moved to Porto.'
    """
    return _FENCES.sub(" ", text) if "<" in text else text


def is_echo(fact: str, said: Sequence[str], others: Iterable[str]) -> bool:
    """Whether a fact only repeats what others (recalled memories, the assistant) had said before the user's turns `said`.

    >>> is_echo("The user prefers dark mode.", ["Which theme should I use?"], ["You prefer dark mode, so take the dark one."])
    True
    >>> is_echo("The user prefers dark mode.", ["I do prefer dark mode."], ["You prefer dark mode."])
    False
    """
    words = _meant(fact)
    if not words:
        return False
    own = set().union(*map(_meant, said)) if said else set()
    if len(words & own) >= _SAID * len(words):
        return False
    return any(len(words & _meant(other)) >= _COVERED * len(words) for other in others)


def invented(fact: str, shown: Iterable[str]) -> str | None:
    """A name or a number in a fact that stands in none of the texts a model was shown: it was made up, or copied from the
    prompt's own examples. Dates are left alone: a model turns "last week" into one.

    >>> invented("The user moved to Porto.", ["I moved house."])
    'Porto'
    """
    told = " ".join(shown).casefold()
    for found in _EXACT.finditer(fact):
        word = found[0].rstrip(".,;:!?'")
        first = found.start() == 0 and not any(letter.isdigit() for letter in word)
        if not first and not _DATE.fullmatch(word) and word.casefold() not in _KNOWN and not _stands(word.casefold(), told):
            return word
    return None


def _stands(word: str, told: str) -> bool:
    return word in told or word.removesuffix("'s").removesuffix("’s") in told


def _meant(text: str) -> set[str]:
    return {term for term in terms(without_fences(text)) if term not in STOP_WORDS} - _SUBJECT
