"""Boundaries of sentences, and of the passages of a long text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from keepstone.text.english import ABBREVIATIONS, FINAL_ABBREVIATIONS
from keepstone.text.patterns import lazy_pattern

_MARKED = lazy_pattern(r"[^.!?\n]*[.!?\n]+|[^.!?\n]+\Z")
_STOP = lazy_pattern(r"[。！？｡।۔؟.!?…]")
_END = lazy_pattern(r"[。！？｡।۔؟]+[」』”’）】)]*|[.!?…]+[\"'”’»)\]*_]*(?=\s)")
_ORDINAL = lazy_pattern(r"\d{1,2}\.\s+(?:[a-zäöü]|Jan|Feb|M[aä]|Apr|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])")

MAX_PASSAGE_CHARS = 2000  # some 350 words of English; raise words.ANALYSER with it
_MIN_PASSAGE_CHARS = 1000
_SENTENCE_END = lazy_pattern(r"[.!?]['\"”’)\]]*\s|[。！？]")
_SPACE = lazy_pattern(r"\s")


def split_at_marks(text: str) -> list[str]:
    """The pieces of a text between its full stops, question marks, exclamation marks and line breaks, whatever they end."""
    return _MARKED.findall(text)


def split_sentences(text: str) -> Iterator[str]:
    """The sentences of a text with the white space between them; a full stop after an abbreviation ends none.

    >>> [sentence.strip() for sentence in split_sentences("Dr. Lee is in. Call e.g. at 5.")]
    ['Dr. Lee is in.', 'Call e.g. at 5.']
    """
    start = 0
    for end in _END.finditer(text) if _STOP.search(text, 0, len(text) - 1) else ():
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


def is_long(text: str) -> bool:
    """Whether a text has more than one passage."""
    return len(text) > MAX_PASSAGE_CHARS


def first_stop(text: str, start: int = 0) -> int:
    """Where the passage that begins at `start` ends: after a paragraph, a line, a sentence or a word, in this order."""
    left = len(text) - start
    if left <= MAX_PASSAGE_CHARS:
        return len(text)
    low, high = start + _MIN_PASSAGE_CHARS, start + min(MAX_PASSAGE_CHARS, left - _MIN_PASSAGE_CHARS)
    for mark in ("\n\n", "\n"):
        at = text.rfind(mark, low, high)
        if at >= 0:
            return at + len(mark)
    window = text[low:high]
    for pattern in (_SENTENCE_END, _SPACE):
        end = max((match.end() for match in pattern.finditer(window)), default=0)
        if end:
            return low + end
    return high


def split_passages(text: str) -> Iterator[tuple[int, int]]:
    """(start, stop) of each passage.

    >>> list(split_passages("short")), [stop - start for start, stop in split_passages("word " * 600)]
    ([(0, 5)], [2000, 1000])
    """
    start = 0
    while True:
        stop = first_stop(text, start)
        yield start, stop
        if stop >= len(text):
            return
        start = stop
