"""The echo guard: what memory itself put into a prompt is never learned again as something new. Pure.

An echo is a fact that the user did not say: its words stand in a recalled memory, or in what the assistant or a tool had said,
and hardly in the user's own statements. A question states nothing, whoever asks it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from keepstone.text.english import STOP_WORDS
from keepstone.text.sentences import split_at_marks
from keepstone.text.words import terms

_FENCES = re.compile(r"<(memory|summary|recalled|context)\b[^>]{0,300}>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
_SUBJECT = frozenset(terms("user users the they their his her"))
_NAME = re.compile(r"(?<=[\w,;:] )[A-ZÀ-ÖØ-Þ][\w'’-]+|\d[\d.,:/-]*\d|\d")  # inside a sentence: a name, or a number
_LONG_NUMBER = re.compile(r"\d[\d .,-]{3,}\d")
_COVERED, _SAID = 0.6, 0.34  # of a fact's words: in one other text at least, in the user's own statements less than


def without_fences(text: str) -> str:
    """A text without the blocks that memory was fenced in: they are what we said, not what the user said.

    >>> without_fences("<memory note='x'>- likes tea</memory> I moved to Porto.").strip()
    'I moved to Porto.'
    """
    return _FENCES.sub(" ", text) if "<" in text else text


def parts(text: str) -> tuple[str, str]:
    """(what a text states, what it asks).

    >>> parts("I moved. Where do I live?")
    ('I moved.', 'Where do I live?')
    """
    sentences = [each.strip() for each in split_at_marks(text)]
    return " ".join(each for each in sentences if not each.endswith("?")), " ".join(
        each for each in sentences if each.endswith("?")
    )


def is_echo(fact: str, said: Sequence[str], others: Iterable[str]) -> bool:
    """Whether a fact only repeats what others (recalled memories, the assistant, tools) had said before the user's statements.

    >>> is_echo("The user prefers dark mode.", [], ["You prefer dark mode, so take the dark one."])
    True
    >>> is_echo("The user prefers dark mode.", ["I do prefer dark mode."], ["You prefer dark mode."])
    False
    """
    words = _meant(fact)
    if not words:
        return False
    own = set().union(*map(_meant, said)) if said else set()
    told = " ".join(said).casefold()
    names = {found[0].casefold() for found in _NAME.finditer(fact)} - _SUBJECT
    missing = {name for name in names if name not in told}
    enough = len(words & own) >= _SAID * len(words)
    for other in others:
        if any(name in other.casefold() for name in missing):
            return True  # the name or the number in it is somebody else's word
        if not enough and len(words & _meant(other)) >= _COVERED * len(words):
            return True
    return False


def invented(fact: str, shown: Iterable[str], examples: Collection[str]) -> bool:
    """Whether a fact holds what nobody said: a name out of the prompt's own examples, or a long number.

    >>> invented("The user moved to Porto.", ["I moved house."], {"Porto"}), invented("It costs $1,200.", ["1200 dollars"], ())
    (True, False)
    """
    told = " ".join(shown)
    if any(re.search(rf"\b{re.escape(name)}\b", fact) and name.casefold() not in told.casefold() for name in examples):
        return True
    digits = "".join(letter for letter in told if letter.isdigit())
    numbers = ("".join(letter for letter in found[0] if letter.isdigit()) for found in _LONG_NUMBER.finditer(fact))
    return any(len(number) >= 5 and not _date(number) and number not in digits for number in numbers)


def _date(number: str) -> bool:
    return len(number) in (6, 8) and (number.startswith(("19", "20")) or number[-4:-2] in ("19", "20"))


def _meant(text: str) -> set[str]:
    return {term for term in terms(without_fences(text)) if term not in STOP_WORDS} - _SUBJECT
