"""Numbers as they are shown on pages and in charts. Every figure of a page goes through here. Pure."""

from __future__ import annotations

from typing import Any


def ms(value: float) -> str:
    """A time in milliseconds, with its unit.

    >>> [ms(value) for value in (0.0212, 0.944, 4.63, 42.3, 999.7, 12_345)]
    ['0.021 ms', '0.94 ms', '4.6 ms', '42 ms', '1.0 s', '12.3 s']
    """
    if value < 0.1:
        return f"{value:.3f} ms"
    if value < 1:
        return f"{value:.2f} ms"
    if value < 9.95:
        return f"{value:.1f} ms"
    return f"{value:.0f} ms" if value < 999.5 else f"{value / 1000:.1f} s"


def mb(value: float) -> str:
    """Megabytes, from a thousand on gigabytes.

    >>> [mb(value) for value in (2.21, 58.3, 999, 2200)]
    ['2.2 MB', '58 MB', '999 MB', '2.2 GB']
    """
    return f"{value:.1f} MB" if value < 9.95 else f"{value:.0f} MB" if value < 1000 else f"{value / 1000:,.1f} GB"


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}×" if value < 9.995 else f"{value:,.0f}×"


def share(value: float) -> str:
    """A share as the tables of others have it.

    >>> [share(value) for value in (0.996, 1.0, 0)]
    ['.996', '1.000', '.000']
    """
    return f"{value:.3f}".removeprefix("0")


def count(value: float) -> str:
    """A whole number."""
    return f"{round(value):,}"


def memories(size: int | str) -> str:
    """The size of a scope."""
    number = int(size)
    return "1 million" if number == 1_000_000 else f"{number:,}"


def plain(value: Any) -> str:
    """Anything else as it is."""
    return f"{value:g}" if isinstance(value, float) else str(value)
