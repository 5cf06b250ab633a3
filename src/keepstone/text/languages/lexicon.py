"""The data file of a language, and the normal form in which its patterns and a text are compared.

A file holds regular expressions with slots such as `{month}`. A slot of the calendar stands for the file's own words and is
resolved to the English word that they mean.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from keepstone.text.english import MONTH_NAMES, WEEKDAYS

CODES = frozenset("de fr es pt it nl pl ru tr zh ja ko ar".split())
_FOLDER = Path(__file__).parent
_SEASONS = "spring summer autumn winter".split()
_DIGITS = {"n": r"\d{1,3}", "d": r"(?:0?[1-9]|[12]\d|3[01])(?!\d)", "m": r"(?:0?[1-9]|1[0-2])(?!\d)", "y": r"(?:19|20)\d\d(?!\d)"}
_SLOT = re.compile(r"\{([a-z]+)\}")
_ACCENTS = frozenset(map(chr, (*range(0x300, 0x370), *range(0x653, 0x656))))
_ALIKE = dict(zip("ıİłŁøØىةکی０１２３４５６７８９٠١٢٣٤٥٦٧٨٩", "iIlLoOيهكي01234567890123456789", strict=True))
_INVISIBLE = re.compile("[\u064b-\u0652\u0640\u200b-\u200f\u2060\ufeff]")  # Arabic vowel signs, the stretching line, marks
_SPACES = re.compile(r"[^\S\n]+")


class _Folding(dict[int, str]):
    """For `str.translate`: a letter without its accent, a digit as 0 to 9. Never changes the length of a text."""

    def __missing__(self, code: int) -> str:
        letter = chr(code)
        first, *marks = list(unicodedata.normalize("NFD", letter))
        folded = first if _ACCENTS.issuperset(marks) else letter
        self[code] = _ALIKE.get(letter, _ALIKE.get(folded, folded))
        return self[code]


_FOLDING = _Folding()


def normalize(text: str) -> str:
    """A text in composed letters, with straight apostrophes and single spaces."""
    composed = _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).replace("’", "'").replace("ʼ", "'")
    return _SPACES.sub(" ", composed)


def fold(text: str) -> str:
    """A text without accents, of the same length.

    >>> fold("Übermorgen, İki gün önce, أمس")
    'Ubermorgen, Iki gun once, امس'
    """
    return text.translate(_FOLDING)


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What one file says. `slots` has the alternatives of each slot: a meaning and a pattern."""

    code: str
    data: dict[str, Any]
    slots: dict[str, list[tuple[str, str]]]
    spaced: bool  # whether spaces separate words

    def expand(self, pattern: str) -> str:
        """A pattern with its slots filled in as named groups."""
        return _SLOT.sub(lambda slot: f"(?P<{slot[1]}>{self._alternatives(slot[1])})", pattern)

    def _alternatives(self, slot: str) -> str:
        words = [pattern for _, pattern in self.slots.get(slot, ())]
        return "|".join([_DIGITS[slot], *words] if slot in _DIGITS else words)

    def resolve(self, slot: str, said: str) -> str:
        """The English word or number that the text of a slot means."""
        if said.isdigit():
            return MONTH_NAMES[int(said) - 1] if slot == "m" else str(int(said))
        return next((meaning for meaning, pattern in self.slots[slot] if re.fullmatch(pattern, said, re.IGNORECASE)), said)

    def bound(self, pattern: str) -> str:
        """A pattern that matches whole words only; where no spaces separate words, whole numbers."""
        return rf"(?<!\w)(?:{pattern})(?!\w)" if self.spaced else rf"(?<!\d)(?:{pattern})(?![\d:])"


@cache
def pattern(code: str, table: str, name: str) -> re.Pattern[str]:
    """An expression of a language's file, for whole words of a folded text."""
    lexicon = load(code)
    return re.compile(lexicon.bound(lexicon.data[table][name]), re.IGNORECASE)


@cache
def load_exactly(code: str) -> dict[str, Any]:
    """The data of a file as it is written, accents included: for what is shown."""
    return tomllib.loads((_FOLDER / f"{code}.toml").read_text(encoding="utf-8"))


@cache
def load(code: str) -> Lexicon:
    """The lexicon of one of CODES."""
    data = tomllib.loads(fold((_FOLDER / f"{code}.toml").read_text(encoding="utf-8")))
    slots = {name: list(data[table].items()) for name, table in (("n", "numbers"), ("unit", "units"), ("turn", "turns"))}
    for name, meanings in (("month", MONTH_NAMES), ("weekday", WEEKDAYS), ("season", _SEASONS)):
        slots[name] = list(zip(meanings, data[name + "s"], strict=True))
    slots["relation"] = list(data.get("relations", {}).items())
    for name, pattern in data.get("values", {}).items():
        slots[name] = [("", pattern)]
    return Lexicon(code, data, slots, data.get("spaced", True))
