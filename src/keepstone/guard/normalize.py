"""Text as the detectors read it: full-width letters, other scripts' digits, odd spaces and dashes become plain ASCII, and
characters that are not seen disappear; every position leads back to the text as it was."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

TABLES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("sensitive.toml").read_text(encoding="utf-8"))

_COMPATIBLE = ((0xFF01, 0xFF5E), (0x2070, 0x209C), (0x2460, 0x2468), (0x24B6, 0x24EA), (0x1D400, 0x1D7FF))
_UNSEEN = (
    (0xAD, 0xAD), (0x300, 0x36F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x20D0, 0x20F0), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xE0000, 0xE01EF),
)  # fmt: skip
_SPACES = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x85)
_DASHES = (*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63, 0x30FC)
_ALIKE = {0xB2: "2", 0xB3: "3", 0xB9: "1", 0xB7: ".", 0x2022: ".", 0x2024: ".", 0x2044: "/", 0x2215: "/", 0x3002: ".", 0x130: "I"}
_MAX_CACHED_CHARS = 20_000


def pattern(source: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A regular expression that is compiled when it is first asked for: most texts need none, and the import stays quick."""
    return cache(lambda: re.compile(source, flags))


class _Table(dict[int, "int | str | None"]):
    """A table for str.translate that remembers, up to a bound, the digits of other scripts and what stays as it is."""

    def __missing__(self, key: int) -> int | str:
        digit = unicodedata.decimal(chr(key), None)
        value = key if digit is None else str(digit)
        if len(self) < _MAX_CACHED_CHARS:
            self[key] = value
        return value


@cache
def _table() -> _Table:
    table = _Table(_ALIKE)
    for first, last in _COMPATIBLE:
        for point in range(first, last + 1):
            same = unicodedata.normalize("NFKC", chr(point))
            if len(same) == 1 and same.isascii():
                table[point] = same
    table.update(dict.fromkeys(_SPACES, " "))
    table.update(dict.fromkeys(_DASHES, "-"))
    for first, last in _UNSEEN:
        table.update(dict.fromkeys(range(first, last + 1)))
    return table


class Plain:
    """A text in plain characters, and where each of them stood."""

    __slots__ = ("_at", "given", "text")

    def __init__(self, given: str) -> None:
        self.given = given
        self.text = given
        self._at: list[int] | None = None
        if not given.isascii():
            plain = given.translate(_table())
            if plain != given:
                self.text = plain

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The same stretch in the text that was given."""
        if len(self.text) == len(self.given):
            return start, end
        if self._at is None:
            table = _table()
            self._at = [at for at, character in enumerate(self.given) if table[ord(character)] is not None]
        return self._at[start], self._at[end - 1] + 1
