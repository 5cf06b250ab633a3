"""BERT's lower-case WordPiece tokenizer in plain Python.

Its ids are those of the `tokenizers` package for all-MiniLM-L6-v2, which a test checks for every character and for generated
text. One difference is intended: special tokens in a text ("[MASK]") are ordinary characters, because a memory's text must not
reach the model as a command.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from keepstone.embedders import characters

UNKNOWN = "[UNK]"
MAX_WORD_CHARS = 100
# A few thousand words cover nearly all text. The limits bound the memory that hostile text can take.
MAX_CACHED_WORDS = 32_768
MAX_CACHED_WORD_CHARS = 32
MAX_CACHED_CHARACTERS = 16_384

_ASCII_WORDS = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]").findall
_ASCII_DROPPED = dict.fromkeys((*range(0x09), 0x0B, 0x0C, *range(0x0E, 0x20), 0x7F))


class WordPiece:
    """Splits text into the ids of a WordPiece vocabulary.

    Thread-safe: the caches only gain equal entries or are replaced as a whole.

    Example: `WordPiece(["[UNK]", "play", "##ing"]).encode("Playing!")` gives `[1, 2, 0]`.
    """

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self._ids = {piece: index for index, piece in enumerate(vocabulary)}
        self._max_piece_chars = max(map(len, self._ids))
        self.unknown_id = self._ids[UNKNOWN]
        self._cache: dict[str, tuple[int, ...]] = {}
        self._normal = _Characters()

    def encode(self, text: str) -> list[int]:
        """The ids of the text's pieces, in order, without [CLS] and [SEP]."""
        words: Iterable[str]
        if text.isascii():
            if not text.isprintable():
                text = text.translate(_ASCII_DROPPED)
            words = _ASCII_WORDS(text.lower())
        else:
            words = text.translate(self._normal).split()
        ids: list[int] = []
        cache = self._cache
        for word in words:
            ids += cache.get(word) or self._pieces(word)
        return ids

    def _pieces(self, word: str) -> tuple[int, ...]:
        """The longest pieces that spell the word, from the left; one unknown id when none do."""
        length = len(word)
        if length > MAX_WORD_CHARS:
            return (self.unknown_id,)
        pieces: list[int] = []
        start = 0
        while start < length:
            prefix = "##" if start else ""
            for end in range(min(length, start + self._max_piece_chars), start, -1):
                found = self._ids.get(prefix + word[start:end])
                if found is not None:
                    pieces.append(found)
                    start = end
                    break
            else:
                pieces = [self.unknown_id]
                break
        result = tuple(pieces)
        if length <= MAX_CACHED_WORD_CHARS:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache = {}
            self._cache[word] = result
        return result


class _Characters(dict[int, str]):
    """A `str.translate` table that is filled when a character first occurs.

    One character at a time is exact: the only step of the reference with context is the reordering of combining marks, and those
    are removed, or not in the vocabulary.
    """

    def __init__(self) -> None:
        super().__init__()
        self._dropped = _Ranges(characters.DROPPED)
        self._spaces = _Ranges(characters.SPACES)
        self._marks = _Ranges(characters.MARKS)
        self._ideographs = _Ranges(characters.IDEOGRAPHS)
        self._punctuation = _Ranges(characters.PUNCTUATION)

    def __missing__(self, code: int) -> str:
        result = self._normalise(code)
        if len(self) < MAX_CACHED_CHARACTERS:
            self[code] = result
        return result

    def _normalise(self, code: int) -> str:
        if 0xD800 <= code < 0xE000 or code in self._dropped:  # half a surrogate pair is not a character
            return ""
        if code in self._spaces:
            return " "
        plain = "".join(c for c in unicodedata.normalize("NFD", chr(code)) if ord(c) not in self._marks)
        lower = "".join(c.lower() for c in plain)
        spaced = "".join(f" {c} " if ord(c) in self._punctuation else c for c in lower)
        return f" {spaced} " if code in self._ideographs else spaced


class _Ranges:
    """A set of code points given as hexadecimal ranges."""

    def __init__(self, text: str) -> None:
        pairs = [item.partition("-") for item in text.split()]
        self._firsts = [int(first, 16) for first, _, _ in pairs]
        self._lasts = [int(last or first, 16) for first, _, last in pairs]

    def __contains__(self, code: int) -> bool:
        at = bisect_right(self._firsts, code) - 1
        return at >= 0 and code <= self._lasts[at]
