"""The echo guard: a fact that memory itself put into a prompt is not learned again.

An echo is a fact that the user did not state: its words stand in a recalled memory or in an assistant's or tool's message, and
hardly in the user's own statements. Questions state nothing.
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
_MIN_ECHOED_SHARE = 0.6  # of a fact's words in one other text
_MAX_STATED_SHARE = 0.34  # of a fact's words in the user's own statements


def strip_fences(text: str) -> str:
    """A text without fenced memory blocks: keepstone wrote them, not the user.

    >>> strip_fences("<memory note='x'>- likes tea</memory> I moved to Porto.").strip()
    'I moved to Porto.'
    """
    return _FENCES.sub(" ", text) if "<" in text else text


def split_questions(text: str) -> tuple[str, str]:
    """The statements and the questions of a text.

    >>> split_questions("I moved. Where do I live?")
    ('I moved.', 'Where do I live?')
    """
    sentences = [sentence.strip() for sentence in split_at_marks(text)]
    stated = " ".join(sentence for sentence in sentences if not sentence.endswith("?"))
    return stated, " ".join(sentence for sentence in sentences if sentence.endswith("?"))


def is_echo(fact: str, said: Sequence[str], others: Iterable[str]) -> bool:
    """Whether a fact only repeats recalled memories, the assistant or tools, and not the user's statements.

    >>> is_echo("The user prefers dark mode.", [], ["You prefer dark mode, so take the dark one."])
    True
    >>> is_echo("The user prefers dark mode.", ["I do prefer dark mode."], ["You prefer dark mode."])
    False
    """
    words = _content_terms(fact)
    if not words:
        return False
    own = set().union(*map(_content_terms, said)) if said else set()
    stated = " ".join(said).casefold()
    names = {name[0].casefold() for name in _NAME.finditer(fact)} - _SUBJECT
    missing = {name for name in names if name not in stated}
    is_stated = len(words & own) >= _MAX_STATED_SHARE * len(words)
    for other in others:
        if any(name in other.casefold() for name in missing):
            return True  # the name or number came from another speaker
        if not is_stated and len(words & _content_terms(other)) >= _MIN_ECHOED_SHARE * len(words):
            return True
    return False


def is_invented(fact: str, shown: Iterable[str], examples: Collection[str]) -> bool:
    """Whether a fact holds what was not said: a name of the prompt's own examples, or a long number.

    >>> is_invented("The user moved to Porto.", ["I moved house."], {"Porto"})
    True
    >>> is_invented("It costs $1,200.", ["1200 dollars"], ())
    False
    """
    text = " ".join(shown)
    if any(re.search(rf"\b{re.escape(name)}\b", fact) and name.casefold() not in text.casefold() for name in examples):
        return True
    digits = "".join(letter for letter in text if letter.isdigit())
    numbers = ("".join(letter for letter in number[0] if letter.isdigit()) for number in _LONG_NUMBER.finditer(fact))
    return any(len(number) >= 5 and not _is_date(number) and number not in digits for number in numbers)


def _is_date(number: str) -> bool:
    return len(number) in (6, 8) and (number.startswith(("19", "20")) or number[-4:-2] in ("19", "20"))


def _content_terms(text: str) -> set[str]:
    return {term for term in terms(strip_fences(text)) if term not in STOP_WORDS} - _SUBJECT
