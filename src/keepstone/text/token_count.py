"""Counting tokens without a tokenizer. Pure.

A text is cut into pieces as tokenizers cut it (a word with the space before it, a number, a run of signs, a run of white space),
and each piece is given a cost. The tables are fitted so that the sum is hardly ever low against cl100k, o200k and the tokenizer
of the first Claudes, whichever makes most; a newer tokenizer often makes fewer of a text that is neither English nor code.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from keepstone.text.patterns import lazy_pattern

Counter = Callable[[str], int]
"""What counts the tokens of a text."""

_LOWER = "a-zß-öø-ÿ\u0100-\u024f\u1e00-\u1eff"
_UPPER = "A-ZÀ-ÖØ-Þ"
_SIGNS = r"!-/:-@\[-`{-~"
_PIECES = lazy_pattern(
    rf" ?(?:[{_UPPER}]?[{_LOWER}]+|[{_UPPER}]+(?![{_LOWER}])|[0-9]+|[{_SIGNS}]+|[^\x00-\x7f\s{_UPPER}{_LOWER}]+)|\s+(?!\S)|\s+|."
)
_RUNS = lazy_pattern(r"((?:\r\n)|[\s\S])\1*")
_MAX_CACHED_CHARS = 30  # characters of the longest piece whose cost is remembered
_MAX_CACHED_PIECES = 20_000  # pieces whose costs are remembered

_TABLES = tomllib.loads(Path(__file__).with_name("token_costs.toml").read_text(encoding="utf-8"))
_KNOWN = frozenset(_TABLES["known"].split())
_ROWS = tuple(tuple((ord(each) - 48) / 10 for each in row) for row in _TABLES["breaks"].split())
_PAIRS: dict[str, str] = _TABLES["pairs"]
_COMMON = frozenset("".join(_TABLES["common"].split()))
_RANGES: list[tuple[int, float]] = [(last, cost) for last, cost in _TABLES["ranges"]]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"  # then those of Latin-1, of the other European languages, and of Vietnamese
_OFFSET, _UPPERCASE, _CAPITAL, _UPPERCASE_LETTER = -1.600, -0.380, 0.450, 0.117
_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_COLUMNS = {
    chr(code): 26 if code < 0x100 else 27 if code < 0x1E00 else 28
    for code in (*range(0xC0, 0x250), *range(0x1E00, 0x1F00))
    if code not in (0xD7, 0xF7)
}
_COLUMNS |= {each: at for at, letter in enumerate(_LETTERS) for each in (letter, letter.upper())}


def estimate_tokens(text: str) -> int:
    """About how many tokens a model's tokenizer makes of a text; leans to too many rather than too few.

    >>> estimate_tokens("Dana prefers dark mode.")
    7
    """
    return math.ceil(round(sum(map(_costs.__getitem__, _PIECES.findall(text))), 6))


class _Costs(dict[str, float]):
    """The costs of pieces seen before; others are counted as they come."""

    def __missing__(self, piece: str) -> float:
        cost = _cost(piece)
        if len(self) >= _MAX_CACHED_PIECES:
            self.clear()
        if len(piece) <= _MAX_CACHED_CHARS:
            self[piece] = cost
        return cost


_costs = _Costs()


def _cost(piece: str) -> float:
    """What a piece costs, by what it begins with."""
    bare = piece[1:] if piece[0] == " " else piece
    if not bare:
        return 1.0
    first = bare[0]
    if first in _COLUMNS:
        return _word(bare, len(bare) < len(piece))
    if "0" <= first <= "9":
        return max((len(piece) > len(bare)) + (len(bare) + 2) // 3, 0.43 * len(bare))
    if first.isspace():
        return _blank(piece)
    if first in _PUNCTUATION:
        return _signs(bare)
    return (0.6 if first.isalpha() else 0.1) + sum(map(_character, bare)) if first > "\x7f" else 1.0


def _word(word: str, spaced: bool) -> float:
    """A word of Latin letters: one token, and more the more unusual its pairs of letters are."""
    if len(word) == 1 and word < "\x7f":
        return 1.0
    upper = len(word) > 1 and word.isupper()
    total = _OFFSET + (_UPPERCASE + _UPPERCASE_LETTER * len(word) if upper else _CAPITAL if word[0].isupper() else 0.0)
    row = _ROWS[29 if spaced else 30]
    for letter in word:
        column = _COLUMNS[letter]
        total += row[column]
        row = _ROWS[column]
    cost = 1 + (math.log1p(math.exp(total)) if total < 30 else total)
    # Less by one, not one: a word that is nearly there must not cost much more than the whole.
    return max(1.0, cost - 1) if not upper and word.lower() in _KNOWN else cost


def _signs(run: str) -> float:
    """A run of ASCII signs: repeats and usual pairs are mostly one token, others are not."""
    total, usual = 1.0, 0
    for left, right in pairwise(run):
        if left == right:
            total += 0.04
        elif right in _PAIRS.get(left, ""):
            usual += 1
            total += 0.2 if usual < 3 else 0.5  # two or three signs are often one token, a long row of pairs never
        else:
            total += 1.06
    return total


def _blank(run: str) -> float:
    """White space: a token for each run of the same, and a third of one for blanks next to a line's end."""
    runs = [(each[1], each.end() - each.start()) for each in _RUNS.finditer(run)]
    total = sum(1 + length * (0.02 if kind == " " else 0.07 if kind == "\n" else 0.13) for kind, length in runs)
    return total - 0.7 if len(runs) == 2 and "\n" in run else total


def _character(each: str) -> float:
    """A character beyond Latin: by its script, and whether it is a common one."""
    if each in _COMMON:
        return 1.0
    code = ord(each)
    return next(cost for last, cost in _RANGES if code <= last)
