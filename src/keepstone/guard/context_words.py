"""Words next to a number that say what it is: a card, an order, a phone."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from functools import cached_property, lru_cache

from keepstone.guard.normalize import TABLES, pattern

_REACH_CHARS = {"card": 70, "money": 50, "ssn": 60, "iban": 60, "phone": 60, "other": 32, "version": 16}
_REACH_AFTER_CHARS = 28
_KINDS = {word: kind for kind, words in TABLES["context"].items() for word in words.split()}
# Two words that mean something else together: the second -> the first ones -> the kind of both ("" for none).
_PAIRS: dict[str, dict[str, str]] = {
    "card": dict.fromkeys(TABLES["context_pairs"]["other_cards"].split(), "other"),
    "number": dict.fromkeys(TABLES["context_pairs"]["numbered"].split(), "other") | {"social": "ssn", "ss": "ssn"},
    "is": {"social": "ssn"},
    "security": {"social": "ssn"},
    "sec": {"social": "ssn"},
    "case": {"in": ""},
    "express": {"american": "card"},
    "account": {"bank": "iban"},
    "id": {"taxpayer": "ssn"},
    "identification": {"taxpayer": "ssn"},
}
_PAIRS["cards"] = _PAIRS["card"]
_PAIRS["no"] = _PAIRS["nr"] = _PAIRS["code"] = _PAIRS["number"]
_TELLING = dict.fromkeys(_PAIRS, "") | _KINDS
_PARTS = {part: kind for kind, parts in TABLES["context_parts"].items() for part in parts.split()}  # of words in other scripts
_WORD = pattern(r"[^\W\d_]+")
_HUMP = pattern(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=1024)
def _field_kind(context: str) -> str:
    """What the name of a field calls its value: its last telling word, though the id of a card may yet be the card."""
    kinds = [kind for _, _, kind in _find_words(_HUMP().sub(" ", context).lower(), 0, 1_000)]
    if kinds and kinds[-1] in ("other", "version"):
        return "ssn" if "ssn" in kinds else "money" if "card" in kinds else "other"
    return kinds[-1] if kinds else ""


def _find_words(low: str, start: int, end: int) -> list[tuple[int, int, str]]:
    """The telling words between two positions, with where they begin and end."""
    found: list[tuple[int, int, str]] = []
    last = ""
    for each in _WORD().finditer(low, start, end):
        word = each.group()
        kind = _TELLING.get(word)
        if kind is None:
            if not word.isascii():
                kind = next((meaning for part, meaning in _PARTS.items() if part in word), "")
        elif last == "redacted" and low[each.start() - 1] == ":":  # a marker is no context
            kind = ""
        elif word in _PAIRS and last in _PAIRS[word]:
            kind = _PAIRS[word][last]
        if kind:
            found.append((each.start(), each.end(), kind))
        last = word
    return found


class ContextWords:
    """The telling words of a text, read when a number needs them; `context` stands in front of every number."""

    def __init__(self, low: str, context: str = "") -> None:
        self._low = low
        self._context = _field_kind(context) if context else ""

    @cached_property
    def _words(self) -> tuple[list[int], list[int], list[str]]:
        """(starts, ends, kinds) of the telling words."""
        found = _find_words(self._low, 0, len(self._low))
        return [start for start, _, _ in found], [end for _, end, _ in found], [kind for _, _, kind in found]

    def before(self, start: int) -> str:
        """The kind of the nearest telling word in front, or that of the context."""
        _, ends, kinds = self._words
        at = bisect_right(ends, start) - 1
        return kinds[at] if at >= 0 and start - ends[at] <= _REACH_CHARS[kinds[at]] else self._context

    def after(self, end: int) -> str:
        """The kind of the first telling word behind."""
        starts, _, kinds = self._words
        at = bisect_left(starts, end)
        return kinds[at] if at < len(starts) and starts[at] - end <= _REACH_AFTER_CHARS else ""

    @property
    def by_field(self) -> bool:
        """Whether nothing but the name of a field tells what numbers here are."""
        return not self._words[0]

    def word(self, start: int, end: int) -> str:
        """What the words around a number call it; the word in front counts before the one behind."""
        return self.before(start) or self.after(end)
