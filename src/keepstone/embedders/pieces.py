"""Cuts text of many languages into the pieces of one vocabulary, in plain Python.

Words of scripts with spaces are cut like WordPiece does, the longest piece first and "##" before what continues a word; runs of
Han, kana, Hangul and Thai are cut from left to right without that mark. Case, accents and vowel signs do not count. The
vocabulary is a hash table in mapped files: it takes no time to load and is shared between processes.
"""

from __future__ import annotations

import mmap
import re
import unicodedata
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from keepstone.text.patterns import lazy_pattern

UNKNOWN: Final = "[UNK]"
MAX_PIECE_CHARS = 24
MAX_RUN_PIECE_CHARS = 12
MAX_WORD_CHARS = 100
MAX_RUN_CHARS = 2_000
# The limits bound the memory that hostile text can take.
MAX_CACHED_WORDS = 32_768
MAX_CACHED_WORD_CHARS = 32
MAX_CACHED_CHARACTERS = 16_384

_ID_BITS = 18  # of an entry of the hash table; the others are the highest bits of the hash
_ID_MASK = (1 << _ID_BITS) - 1
_RUN = r"\u0e00-\u0e7f\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
_MARKS = r"\u0900-\u0963\u0966-\u0dff\u0f71-\u0f84\u102b-\u103e\u17b4-\u17d3"  # of Indic scripts, part of their letters
_ASCII_WORDS = re.compile(r"[a-z0-9]+|[!-/:-@\[-`{-~]").findall
_IS_RUN = re.compile(rf"[{_RUN}]").match
_IGNORED = lazy_pattern(
    r"[\u0300-\u036f\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0640\u00ad\u200b-\u200f\u2060\ufe00-\ufe0f\ufeff\ud800-\udfff]"
)
_FOLDED = {"ı": "i", "ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "ى": "ي", "ة": "ه"}
_FORMS = lazy_pattern(r"[\uff00-\uffef\ufb00-\ufb4f\ufb50-\ufdff\ufe70-\ufeff\uf900-\ufaff\u3300-\u33ff]")  # of other characters


@cache
def _words() -> Callable[[str], list[str]]:
    """Splits a folded text; compiled in 5 ms, which English never needs."""
    return re.compile(rf"[{_RUN}]+|(?:[^\W_{_RUN}]|[{_MARKS}])+|[^\w\s]|_").findall


class Pieces:
    """Splits text into the ids of a vocabulary.

    Thread-safe: the caches only gain equal entries or are replaced as a whole.
    """

    def __init__(self, text: Any, offsets: Any, table: Any) -> None:
        """`text` holds the pieces, one a line; `offsets` where each begins, and the end; `table` is made by `hash_table`."""
        self._text = text
        self._offsets = offsets
        self._table = table
        self._slot_mask = len(table) - 1
        self.unknown_id = self.find(UNKNOWN)
        self._cache: dict[str, tuple[int, ...]] = {}
        self._folded = _Characters()

    @classmethod
    def map(cls, folder: Path) -> Pieces:
        """The vocabulary in a folder. Raises OSError or ValueError where it cannot be read."""
        with (folder / "pieces.txt").open("rb") as file:
            text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        offsets: Any = np.load(folder / "offsets.npy", mmap_mode="r")
        table: Any = np.load(folder / "table.npy", mmap_mode="r")
        if offsets.dtype != np.uint32 or table.dtype != np.uint32 or int(offsets[-1]) != len(text) or len(table) & len(table) - 1:
            raise ValueError("pieces.txt, offsets.npy and table.npy do not belong together")
        return cls(text, memoryview(offsets), memoryview(table))

    @classmethod
    def of(cls, vocabulary: Sequence[str]) -> Pieces:
        """A vocabulary in memory, as training has it."""
        offsets: Any
        text, offsets = pieces_file(vocabulary)
        table: Any = hash_table(vocabulary)
        return cls(text, memoryview(offsets), memoryview(table))

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def find(self, piece: str) -> int:
        """The id of a piece, or -1."""
        key = piece.encode("utf-8", "surrogatepass")
        hashed = zlib.crc32(key)
        slot, table = hashed & self._slot_mask, self._table
        while entry := table[slot]:
            if entry >> _ID_BITS == hashed >> _ID_BITS:
                id: int = (entry & _ID_MASK) - 1
                if self._text[self._offsets[id] : self._offsets[id + 1] - 1] == key:
                    return id
            slot = (slot + 1) & self._slot_mask
        return -1

    def encode(self, text: str) -> list[int]:
        """The ids of the text's pieces, in order. Signs that the vocabulary does not have are left out."""
        words = _ASCII_WORDS(text.lower()) if text.isascii() else _words()(self.fold(text))
        ids: list[int] = []
        cache = self._cache
        for word in words:
            found = cache.get(word)
            ids += self._cut(word) if found is None else found
        return ids

    def unknown_share(self, text: str) -> float:
        """The share of a text's letters in words that the vocabulary does not know."""
        letters = unknown = 0
        for word in () if text.isascii() else _words()(self.fold(text)):
            if not word[0].isalpha():
                continue
            found = self._cache.get(word)
            ids = self._cut(word) if found is None else found
            letters += len(word)
            if _IS_RUN(word):
                unknown += ids.count(self.unknown_id)
            elif ids == (self.unknown_id,):
                unknown += len(word)
        return unknown / letters if letters else 0.0

    def fold(self, text: str) -> str:
        """A text in lower case without accents."""
        return unicodedata.normalize("NFC", text).translate(self._folded)

    def _cut(self, word: str) -> tuple[int, ...]:
        """The longest pieces that spell the word, from the left; one unknown id when none do."""
        is_run = _IS_RUN(word) is not None
        mark, longest = ("", MAX_RUN_PIECE_CHARS) if is_run else ("##", MAX_PIECE_CHARS)
        length = min(len(word), MAX_RUN_CHARS) if is_run else len(word)
        pieces: list[int] = []
        start = 0
        while start < length and length <= (MAX_RUN_CHARS if is_run else MAX_WORD_CHARS):
            prefix = mark if start else ""
            for end in range(min(length, start + longest), start, -1):
                found = self.find(prefix + word[start:end])
                if found >= 0:
                    pieces.append(found)
                    start = end
                    break
            else:
                if not is_run:
                    pieces.clear()
                    break
                pieces.append(self.unknown_id)
                start += 1
        result = tuple(pieces) or ((self.unknown_id,) if word[0].isalnum() else ())
        if length <= MAX_CACHED_WORD_CHARS:
            if len(self._cache) >= MAX_CACHED_WORDS:
                self._cache = {}
            self._cache[word] = result
        return result


def hash_table(vocabulary: Sequence[str]) -> NDArray[np.uint32]:
    """Where each piece is: its id plus one, and bits of its hash, at the first free slot from the slot that its hash names."""
    size = 1 << max(3, (2 * len(vocabulary)).bit_length())
    table = np.zeros(size, dtype=np.uint32)
    for id, piece in enumerate(vocabulary):
        hashed = zlib.crc32(piece.encode())
        slot = hashed & size - 1
        while table[slot]:
            slot = slot + 1 & size - 1
        table[slot] = hashed >> _ID_BITS << _ID_BITS | id + 1
    return table


def pieces_file(vocabulary: Sequence[str]) -> tuple[bytes, NDArray[np.uint32]]:
    """The pieces one a line, and where each begins, and the end."""
    lines = [f"{piece}\n".encode() for piece in vocabulary]
    return b"".join(lines), np.cumsum([0, *map(len, lines)]).astype(np.uint32)


class _Characters(dict[int, str]):
    """A `str.translate` table that is filled when a character first occurs."""

    def __missing__(self, code: int) -> str:
        result = self._fold(chr(code))
        if len(self) < MAX_CACHED_CHARACTERS:
            self[code] = result
        return result

    @staticmethod
    def _fold(character: str) -> str:
        if _FORMS.match(character):
            character = unicodedata.normalize("NFKC", character)
        plain = unicodedata.normalize("NFD", character.lower())
        plain = unicodedata.normalize("NFC", _IGNORED.sub("", plain))
        return "".join(_FOLDED.get(each, each) for each in plain)
