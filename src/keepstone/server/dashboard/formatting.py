"""Template filters and functions: times, numbers, word differences. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape

from keepstone.server.dashboard import charts

_UNITS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60))
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MAX_COMPARED_WORDS = 4000


def when(at: datetime | None) -> Markup:
    """A time for people, with the exact time as a tooltip."""
    if at is None:
        return Markup('<span class="none">never</span>')
    text = f"{at:%d %b %Y}, {at:%H:%M}".lstrip("0")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(at.isoformat(timespec="seconds"), text)


def ago(at: datetime | None, now: datetime | None = None) -> Markup:
    """A time as a distance from now."""
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


def clip(text: str, max_chars: int = 240) -> str:
    """A text on one line, shortened to a number of characters."""
    flat = " ".join(text[: max_chars * 4].split())
    return flat if len(flat) <= max_chars else flat[: max_chars - 1].rstrip() + "…"


def pretty(value: Any) -> str:
    """Metadata and blocks as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def difference(before: str, after: str) -> Markup:
    """Two texts as one, with deletions and insertions marked."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _MAX_COMPARED_WORDS:
        return Markup("<del>{}</del> <ins>{}</ins>").format(before, after)
    parts: list[Markup] = []
    for action, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        deleted, inserted = "".join(old[a:b]), "".join(new[c:d])
        if action == "equal":
            parts.append(escape(deleted))
            continue
        if deleted:
            parts.append(Markup("<del>{}</del>").format(deleted))
        if inserted:
            parts.append(Markup("<ins>{}</ins>").format(inserted))
    return Markup("").join(parts)


def highlight(text: str, words: str | None) -> Markup:
    """A text with the searched words marked."""
    patterns = [re.escape(word) for word in (words or "").split()]
    if not patterns:
        return escape(text)
    parts = re.split(f"({'|'.join(patterns)})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def with_query(path: str, values: Mapping[str, Any], **changed: Any) -> str:
    """A path with these query parameters; empty ones are left out."""
    query = {name: value for name, value in {**values, **changed}.items() if value not in (None, "")}
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path


FILTERS: dict[str, Any] = {
    "when": when, "ago": ago, "number": number, "clipped": clip, "pretty": pretty, "quoted": lambda text: quote(text, safe=""),
}  # fmt: skip
GLOBALS: dict[str, Any] = {
    "plural": plural, "difference": difference, "highlight": highlight, "with_query": with_query, "charts": charts,
}  # fmt: skip
