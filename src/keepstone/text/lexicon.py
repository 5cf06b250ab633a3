"""Word lists and patterns of a language, read from a TOML file in `lexicons/`.

A file has `[words]` (lists of words), `[pieces]` and `[patterns]` (regular expressions: a text, or a list of alternatives). A
space in an expression matches any one white space, a line break nothing. `{{name}}` stands for a piece, or for any word of a
list; in such a list an underscore stands for a space.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from keepstone.text import english

_FOLDER = Path(__file__).parent / "lexicons"
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def join_words(words: Iterable[str]) -> str:
    """An expression for the shortest of these words at a place; beginnings that they share stand in it once."""
    rests: dict[str, list[str]] = {}
    for word in words:
        rests.setdefault(word[0], []).append(word[1:])
    return "|".join(re.escape(first) + ("" if "" in rest else f"(?:{join_words(rest)})") for first, rest in rests.items())


class _Patterns(dict[str, re.Pattern[str]]):
    """The patterns of a file by name, compiled at their first use: most programs need few of them."""

    def __init__(self, lexicon: Lexicon) -> None:
        self._lexicon = lexicon

    def __missing__(self, name: str) -> re.Pattern[str]:
        data = self._lexicon.data
        self[name] = self._lexicon.compile(data["patterns"][name], re.IGNORECASE if data.get("ignore_case", True) else 0)
        return self[name]


class Lexicon:
    """The word lists and compiled patterns of one file; `data` has all that the file holds."""

    def __init__(self, name: str) -> None:
        self.data: dict[str, Any] = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
        self.words: dict[str, frozenset[str]] = {key: frozenset(text.split()) for key, text in self.data.get("words", {}).items()}
        self._pieces = {
            "month": english.MONTH_PATTERN,
            "clear_month": english.CLEAR_MONTH_PATTERN,
            "weekday": english.WEEKDAY_PATTERN,
            **self.data.get("pieces", {}),
        }
        self.patterns = _Patterns(self)

    def compile(self, text: str | list[str], flags: int = re.IGNORECASE) -> re.Pattern[str]:
        """An expression of the file as a pattern."""
        return re.compile(self._expand(text).replace(" ", r"\s"), flags)

    def _expand(self, text: str | list[str]) -> str:
        joined = text if isinstance(text, str) else "|".join(text)
        return _SLOT.sub(self._fill, joined.replace("\n", ""))

    def _fill(self, slot: re.Match[str]) -> str:
        if slot[1] in self._pieces:
            return self._expand(self._pieces[slot[1]])
        longest_first = sorted(self.words[slot[1]], key=lambda word: (-len(word), word))
        return "(?:" + "|".join(re.escape(word).replace("_", r"\s") for word in longest_first) + ")"
