"""Several memories as one text: their own sentences without repeats, in the order of time.

Nothing is shortened or reworded: a digest holds every sentence of its originals or one that says the same. Where they are of more
than one day, each line begins with its date.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from keepstone.text.near_duplicates import compare, gist
from keepstone.text.sentences import split_sentences
from keepstone.text.token_count import estimate_tokens

MAX_CHARS = 1500
MAX_TOKENS = 350
_DATED = re.compile(r"(?P<day>\d{4}-\d{2}-\d{2}(?: to \d{4}-\d{2}-\d{2})?): ")
_DAY = len("2026-01-31")
_CONTINUATION = re.compile(r"\s|[-*•#>|]|\d+[.)]\s")  # a line of a list or a table belongs to the one before
_PREFIX = _DAY + 3  # a date, the signs behind it, a line break
_PREFIX_TOKENS = 10


@dataclass(frozen=True, slots=True)
class Original:
    """A memory to be condensed. `dated`: it is a digest itself, so lines that begin with a date are of that day."""

    text: str
    at: datetime
    dated: bool = False


@dataclass(slots=True)
class _Line:
    """What one original says of one day, in sentences with the white space behind them."""

    day: str
    sentences: list[str]


def extract(originals: Sequence[Original]) -> str:
    """The digest of some memories, however long it is.

    >>> extract([Original("Dana moved to Oslo.", datetime(2026, 3, 2)), Original("Dana lives in Rome.", datetime(2026, 3, 1))])
    '2026-03-01: Dana lives in Rome.\\n2026-03-02: Dana moved to Oslo.'
    """
    lines = [line for each in sorted(originals, key=lambda each: each.at) for line in _lines(each)]
    lines.sort(key=lambda line: line.day)
    several = len({line.day for line in lines}) > 1
    _drop_repeats(lines)
    said = [(line.day, "".join(line.sentences).strip()) for line in lines if line.sentences]
    return "\n".join(f"{day}: {text}" if several else text for day, text in said)


def compose(statements: Sequence[tuple[str, Sequence[int]]], originals: Sequence[Original]) -> str:
    """A digest of statements that a model made of some memories, each with the places of those it rests on.

    >>> oslo, rome = Original("Oslo.", datetime(2026, 3, 2)), Original("Rome.", datetime(2026, 3, 1))
    >>> compose([("Dana has lived in two cities.", [0, 1]), ("Dana lived in Rome.", [1])], [oslo, rome])
    '2026-03-01: Dana lived in Rome.\\n2026-03-01 to 2026-03-02: Dana has lived in two cities.'
    """
    days = [[day for line in _lines(each) for day in (line.day[:_DAY], line.day[-_DAY:])] for each in originals]
    if len({day for each in days for day in each}) == 1:
        return "\n".join(text for text, _ in statements)
    found = [(_span([day for place in places for day in days[place]]), text) for text, places in statements]
    return "\n".join(f"{span}: {text}" for span, text in sorted(found, key=lambda each: each[0]))


def _span(days: Sequence[str]) -> str:
    first, last = min(days), max(days)
    return first if first == last else f"{first} to {last}"


def share(text: str) -> float:
    """The share of a digest's maximum size that a text takes with a date before it."""
    return max((len(text) + _PREFIX) / MAX_CHARS, (estimate_tokens(text) + _PREFIX_TOKENS) / MAX_TOKENS)


def fits(text: str) -> bool:
    """Whether a digest is short enough to be recalled like any other memory."""
    return len(text) <= MAX_CHARS and estimate_tokens(text) <= MAX_TOKENS


def _lines(original: Original) -> list[_Line]:
    if not original.dated:
        return [_Line(original.at.date().isoformat(), _sentences(original.text))]
    found: list[_Line] = []
    day = original.at.date().isoformat()
    for row in original.text.splitlines(keepends=True):
        date = _DATED.match(row)
        if date:
            day = date["day"]
            found.append(_Line(day, _sentences(row[date.end() :])))
        elif found and _CONTINUATION.match(row):
            found[-1].sentences += _sentences(row)
        else:
            found.append(_Line(day, _sentences(row)))
    return found


def _sentences(text: str) -> list[str]:
    """The sentences of a text with the white space between them; joined again they are the same text."""
    return [sentence for line in text.splitlines(keepends=True) for sentence in split_sentences(line)]


def _drop_repeats(lines: Sequence[_Line]) -> None:
    """Remove sentences that a later one repeats: the latest statement shows until when it held."""
    said: dict[bytes, list[str]] = {}
    for line in reversed(lines):
        kept: list[str] = []
        for sentence in reversed(line.sentences):
            plain = sentence.strip()
            mark = gist(plain) or plain.encode("utf-8", "replace")
            if any(_holds(later, plain) for later in said.get(mark, ())):
                continue
            said.setdefault(mark, []).append(plain)
            kept.append(sentence)
        line.sentences[:] = reversed(kept)


def _holds(later: str, earlier: str) -> bool:
    """Whether one sentence says all that another does."""
    verdict = compare(later, earlier)
    return verdict.same and verdict.replace
