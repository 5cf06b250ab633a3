"""How values are written on pages: times, numbers, differences of words. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from keepstone.server.dashboard import plots

_UNITS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60))
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_LONGEST = 4000  # words of two texts that are compared


def when(at: datetime | None) -> Markup:
    """A time as a person reads it, with the whole of it for machines and on hovering."""
    if at is None:
        return Markup('<span class="none">never</span>')
    text = f"{at:%d %b %Y}, {at:%H:%M}".lstrip("0")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(at.isoformat(timespec="seconds"), text)


def ago(at: datetime | None, now: datetime | None = None) -> Markup:
    """The same as a distance from now."""
    if at is None:
        return Markup('<span class="none">never</span>')
    seconds = ((now or datetime.now(UTC)) - at).total_seconds()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), f"{at:%d %b %Y, %H:%M:%S} UTC", distance(seconds)
    )


def distance(seconds: float) -> str:
    """
    >>> distance(7300), distance(-90_000), distance(3)
    ('2 hours ago', 'in 1 day', 'just now')
    """
    for name, size in _UNITS:
        if abs(seconds) >= size:
            number = round(abs(seconds) / size)
            text = f"{number} {name}{'s' if number > 1 else ''}"
            return f"{text} ago" if seconds > 0 else f"in {text}"
    return "just now"


def number(value: float) -> str:
    """
    >>> number(12345), number(0.5)
    ('12,345', '0.50')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def plural(count: int, one: str, many: str | None = None) -> str:
    """
    >>> plural(1, "memory", "memories"), plural(1200, "job")
    ('1 memory', '1,200 jobs')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def clipped(text: str, most: int = 240) -> str:
    """A text in one line, cut where it is long."""
    flat = " ".join(text[: most * 4].split())
    return flat if len(flat) <= most else flat[: most - 1].rstrip() + "…"


def pretty(value: Any) -> str:
    """Metadata and blocks as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def difference(before: str, after: str) -> Markup:
    """Two texts as one, what went and what came marked."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _LONGEST:
        return Markup("<del>{}</del> <ins>{}</ins>").format(before, after)
    made: list[Markup] = []
    for action, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone, come = "".join(old[a:b]), "".join(new[c:d])
        if action == "equal":
            made.append(escape(gone))
            continue
        if gone:
            made.append(Markup("<del>{}</del>").format(gone))
        if come:
            made.append(Markup("<ins>{}</ins>").format(come))
    return Markup("").join(made)


def marked(text: str, words: str | None) -> Markup:
    """A text with the words that were looked for marked."""
    wanted = [re.escape(word) for word in (words or "").split()]
    if not wanted:
        return escape(text)
    parts = re.split(f"({'|'.join(wanted)})", text, flags=re.IGNORECASE)
    return Markup("").join(Markup("<mark>{}</mark>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts))


def with_query(path: str, values: Mapping[str, Any], **changed: Any) -> str:
    """An address with these fields, those that say nothing left out."""
    held = {name: value for name, value in {**values, **changed}.items() if value not in (None, "")}
    return f"{path}{'&' if '?' in path else '?'}{urlencode(held)}" if held else path


FILTERS: dict[str, Any] = {
    "when": when, "ago": ago, "number": number, "clipped": clipped, "pretty": pretty, "quoted": lambda text: quote(text, safe=""),
}  # fmt: skip
NAMES: dict[str, Any] = {
    "plural": plural, "difference": difference, "marked": marked, "with_query": with_query, "plots": plots,
}  # fmt: skip
