"""Cutting a text to a room of tokens. Pure."""

from __future__ import annotations

from collections.abc import Callable

CUT = " … [cut]"


def cut(text: str, room: int, count: Callable[[str], int]) -> str:
    """The beginning of a text that fits a room, with a mark if anything is missing.

    >>> cut("one two three four", 12, len)
    'one … [cut]'
    """
    if count(text) <= room:
        return text
    low, high = 0, len(text)
    while low < high:  # the longest beginning that fits, to a character
        middle = (low + high + 1) // 2
        if count(text[:middle] + CUT) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low].rstrip() + CUT if low else CUT.strip()
