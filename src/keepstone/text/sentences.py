"""Sentence boundaries."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstone.text.english import ABBREVIATIONS, FINAL_ABBREVIATIONS

_MARKED = re.compile(r"[^.!?\n]*[.!?\n]+|[^.!?\n]+\Z")
_END = re.compile(r"[。！？｡।۔؟]+[」』”’）】)]*|[.!?…]+[\"'”’»)\]*_]*(?=\s)")
_ORDINAL = re.compile(r"\d{1,2}\.\s+(?:[a-zäöü]|Jan|Feb|M[aä]|Apr|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])")


def split_at_marks(text: str) -> list[str]:
    """The pieces of a text between its full stops, question marks, exclamation marks and line breaks, whatever they end."""
    return _MARKED.findall(text)


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of a text with the white space between them; a full stop after an abbreviation ends none.

    >>> [sentence.strip() for sentence in split_sentences("Dr. Lee is in. Call e.g. at 5.")]
    ['Dr. Lee is in.', 'Call e.g. at 5.']
    """
    start = 0
    for end in _END.finditer(text):
        if not _continues(text, end):
            yield text[start : end.end()]
            start = end.end()
    if start < len(text):
        yield text[start:]


def _continues(text: str, end: re.Match[str]) -> bool:
    """Whether a full stop only ends an abbreviation, an initial or an ordinal."""
    if end[0] != ".":
        return False
    word = text[max(0, end.start() - 12) : end.start()].split(" ")[-1].lstrip("(\"'“")
    rest = text[end.end() : end.end() + 12].lstrip()
    if word.lower() in ABBREVIATIONS or (len(word) == 1 and word.isupper() and word != "I"):
        return True
    if word.isdigit():
        return _ORDINAL.match(f"{word}. {rest}") is not None
    return word.lower() in FINAL_ABBREVIATIONS and not rest[:1].isupper()
