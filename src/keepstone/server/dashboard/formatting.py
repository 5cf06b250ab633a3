"""Template filters and functions: times, numbers, word differences; the texts of `texts.toml`. Pure."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
from markupsafe import Markup, escape

from keepstone.server.dashboard import charts
from keepstone.write.blocks import ORIGINAL

TEXTS: dict[str, Any] = tomllib.loads(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
_UNITS = (("year", 31_557_600), ("month", 2_629_800), ("day", 86_400), ("hour", 3600), ("minute", 60))
_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MAX_COMPARED_CHARS, _MAX_COMPARED_PAIRS = 20_000, 4_000_000


def when(at: datetime | None) -> Markup:
    """A time for people, with the exact time as a tooltip."""
    if at is None:
        return Markup('<span class="none">never</span>')
    text = f"{at:%d %b %Y}, {at:%H:%M}".lstrip("0")
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(at.isoformat(timespec="seconds"), text)


def ago(at: datetime | None) -> Markup:
    """A time as a distance from now."""
    if at is None:
        return Markup('<span class="none">never</span>')
    seconds = (datetime.now(UTC) - at).total_seconds()
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), f"{at:%d %b %Y, %H:%M:%S} UTC", distance(seconds)
    )


def distance(seconds: float) -> str:
    """
    >>> distance(7300), distance(-90_000), distance(3)
    ('2 hours ago', 'in 1 day', 'just now')
    """
    if abs(seconds) < _UNITS[-1][1]:
        return "just now"
    return f"{span_of(seconds)} ago" if seconds > 0 else f"in {span_of(seconds)}"


def span_of(seconds: float) -> str:
    """
    >>> span_of(7300), span_of(90), span_of(3)
    ('2 hours', '2 minutes', 'less than a minute')
    """
    for name, size in _UNITS:
        if abs(seconds) >= size:
            return plural(round(abs(seconds) / size), name)
    return "less than a minute"


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


def message_text(content: Any) -> str:
    """The text of a message; a block without text is shown as its type."""
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, dict) and block.get("type") != ORIGINAL]
    parts = [block.get("text") or block.get("action") or f"[{block.get('type', 'block')}]" for block in blocks]
    return "\n".join(str(part) for part in parts)


def pretty(value: Any) -> str:
    """Metadata and blocks as JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def difference(before: str, after: str) -> Markup:
    """Two texts as one, with deletions and insertions marked. The cost is bounded: long texts are shown one after the other."""
    old, new = _WORDS.findall(before[:_MAX_COMPARED_CHARS]), _WORDS.findall(after[:_MAX_COMPARED_CHARS])
    if max(len(before), len(after)) > _MAX_COMPARED_CHARS or len(old) * len(new) > _MAX_COMPARED_PAIRS:
        return Markup("<del>{}</del> <ins>{}</ins>").format(before, after)
    parts: list[str] = []  # escaped
    done_old = done_new = 0
    for at_old, at_new in [*_common_words(old, new), (len(old), len(new))]:
        deleted, inserted = "".join(old[done_old:at_old]), "".join(new[done_new:at_new])
        parts += [f"<del>{escape(deleted)}</del>"] if deleted else []
        parts += [f"<ins>{escape(inserted)}</ins>"] if inserted else []
        parts += [str(escape(old[at_old]))] if at_old < len(old) else []
        done_old, done_new = at_old + 1, at_new + 1
    return Markup("".join(parts))


def _common_words(old: list[str], new: list[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence in both lists, in time proportional to the product of their lengths."""
    codes = {word: code for code, word in enumerate({*old, *new})}
    columns = np.array([codes[word] for word in new], dtype=np.int32)
    lengths = np.zeros((len(old) + 1, len(new) + 1), dtype=np.int16)  # of the best for the first words of each
    for row, word in enumerate(old, start=1):
        above = lengths[row - 1]
        np.maximum.accumulate(np.maximum(above[1:], above[:-1] + (columns == codes[word])), out=lengths[row, 1:])
    row, column, places = len(old), len(new), []
    while row and column:
        if lengths[row, column] == lengths[row - 1, column]:
            row -= 1
        elif lengths[row, column] == lengths[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            places.append((row, column))
    return places[::-1]


def highlight(text: str, words: str | None) -> Markup:
    """A text with the searched words marked."""
    patterns = [re.escape(word) for word in (words or "").split()]
    if not patterns:
        return escape(text)
    parts = re.split(f"({'|'.join(patterns)})", text, flags=re.IGNORECASE)
    return Markup("").join(
        Markup("<mark>{}</mark>").format(part) if index % 2 else escape(part) for index, part in enumerate(parts)
    )


def label_reason(reason: str) -> str:
    """A reason of an explanation, with the label of the part of the score that it begins with.

    >>> label_reason("form +1.7: length, importance 0.8"), label_reason("it is archived")
    ('length and importance +1.7: length, importance 0.8', 'it is archived')
    """
    part, space, rest = reason.partition(" ")
    return f"{charts.SCORE_PARTS[part]}{space}{rest}" if part in charts.SCORE_PARTS and rest[:1] in "+-" else reason


def with_query(path: str, values: Mapping[str, Any], **changed: Any) -> str:
    """A path with these query parameters; empty ones are left out."""
    query = {name: value for name, value in {**values, **changed}.items() if value not in (None, "")}
    return f"{path}{'&' if '?' in path else '?'}{urlencode(query)}" if query else path


def parse_number(text: str) -> int | None:
    """A number of a form or a query; None for anything else."""
    return int(text) if text.isdecimal() and len(text) < 18 else None


FILTERS: dict[str, Any] = {
    "when": when, "ago": ago, "number": number, "clipped": clip, "pretty": pretty, "quoted": lambda text: quote(text, safe=""),
    "shell": shlex.quote, "plainly": label_reason,
}  # fmt: skip
GLOBALS: dict[str, Any] = {
    "plural": plural, "difference": difference, "highlight": highlight, "with_query": with_query, "charts": charts,
    "span_of": span_of,
}  # fmt: skip
