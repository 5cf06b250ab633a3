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


def _meant(text: str) -> set[str]:
    return {term for term in terms(without_fences(text)) if term not in STOP_WORDS} - _SUBJECT
