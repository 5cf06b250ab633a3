"""Text as the detectors read it: full-width letters, other scripts' digits, odd spaces and dashes become plain ASCII, and
characters that are not seen disappear; every position leads back to the text as it was."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache

# The zero of each run of ten decimal digits that stand for 0 to 9, by script.
_ZEROS = (
    0x660, 0x6F0, 0x7C0, 0x966, 0x9E6, 0xA66, 0xAE6, 0xB66, 0xBE6, 0xC66, 0xCE6, 0xD66, 0xDE6, 0xE50, 0xED0, 0xF20, 0x1040,
    0x1090, 0x17E0, 0x1810, 0x1946, 0x19D0, 0x1A80, 0x1A90, 0x1B50, 0x1BB0, 0x1C40, 0x1C50, 0xA620, 0xA8D0, 0xA900, 0xA9D0,
    0xA9F0, 0xAA50, 0xABF0, 0x104A0, 0x11066, 0x110F0, 0x11136, 0x111D0, 0x112F0, 0x11450, 0x114D0, 0x11650, 0x116C0, 0x11730,
    0x118E0, 0x11C50, 0x11D50, 0x11DA0, 0x16A60, 0x16AC0, 0x16B50, 0x1E140, 0x1E2F0, 0x1E950, 0x1FBF0,
)  # fmt: skip
_COMPATIBLE = ((0xFF01, 0xFF5E), (0x2070, 0x209C), (0x2460, 0x2468), (0x24B6, 0x24EA), (0x1D400, 0x1D7FF))
_UNSEEN = (
    (0xAD, 0xAD), (0x300, 0x36F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x200B, 0x200F),
    (0x202A, 0x202E), (0x2060, 0x206F), (0x20D0, 0x20F0), (0x3164, 0x3164), (0xFE00, 0xFE0F), (0xFEFF, 0xFEFF), (0xFFA0, 0xFFA0),
    (0xE0000, 0xE01EF),
)  # fmt: skip
_SPACES = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000, 0x85)
_DASHES = (*range(0x2010, 0x2016), 0x2043, 0x2212, 0xFE58, 0xFE63, 0x30FC)
_ALIKE = {0xB2: "2", 0xB3: "3", 0xB9: "1", 0xB7: ".", 0x2022: ".", 0x2024: ".", 0x2044: "/", 0x2215: "/", 0x3002: ".", 0x130: "I"}
_CACHED = 20_000


def pattern(source: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A regular expression that is compiled when it is first asked for: most texts need none, and the import stays quick."""
    return cache(lambda: re.compile(source, flags))


class _Table(dict[int, "int | str | None"]):
    """A table for str.translate that also remembers, up to a bound, which characters stay as they are."""

    def __missing__(self, key: int) -> int:
        if len(self) < _CACHED:
            self[key] = key
        return key


@cache
def _table() -> _Table:
    table = _Table(_ALIKE)
    for first, last in _COMPATIBLE:
        for point in range(first, last + 1):
            same = unicodedata.normalize("NFKC", chr(point))
            if len(same) == 1 and same.isascii():
                table[point] = same
    table.update({zero + value: str(value) for zero in _ZEROS for value in range(10)})
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
