"""Escape JSON data that message blocks cannot hold, and restore it.

NUL and lone surrogates are escaped within texts, objects with empty or long keys become lists of pairs, integers beyond 64 bits
become text, and deep levels move to separate trees. Texts stay texts under their keys, so that sensitive data in them is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MARK = "\x01"  # begins every escape, and is escaped itself
_PAIRS, _NUMBER, _BESIDE = f"{_MARK}pairs", f"{_MARK}number", f"{_MARK}beside"
_UNSTORABLE = re.compile("[\0\x01\ud800-\udfff]")
_ESCAPED = re.compile("\x01([0-9a-f]{4})")
_MAX_KEY_CHARS = 256


def is_storable(value: Any, depth: int) -> bool:
    """Whether a block can hold a value unchanged, with at most `depth` levels."""
    if depth <= 0:
        return False
    if isinstance(value, Mapping):
        keys = all(isinstance(key, str) and 0 < len(key) <= _MAX_KEY_CHARS and is_storable(key, depth) for key in value)
        return keys and all(is_storable(each, depth - 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return all(is_storable(each, depth - 1) for each in value)
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def escape(value: Any, depth: int) -> list[Any]:
    """JSON data as trees of at most `depth` levels that blocks can hold; the first is the root."""
    trees: list[Any] = []
    waiting = [value]
    while len(trees) < len(waiting):
        trees.append(_escape(waiting[len(trees)], depth, waiting))
    return trees


def unescape(trees: list[Any]) -> Any:
    """The data that `escape` was given."""
    found: dict[int, Any] = {}
    for at in reversed(range(len(trees))):  # a tree refers only to later ones
        found[at] = _unescape(trees[at], found)
    return found[0]


def _escape(value: Any, depth: int, waiting: list[Any]) -> Any:
    if isinstance(value, str):
        return _UNSTORABLE.sub(lambda match: f"{_MARK}{ord(match[0]):04x}", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return {_NUMBER: str(value)}
    if not isinstance(value, (dict, list)):
        return value
    if depth < 5:  # pairs take three levels, a reference two
        waiting.append(value)
        return {_BESIDE: len(waiting) - 1}
    if isinstance(value, list):
        return [_escape(each, depth - 1, waiting) for each in value]
    keys = [_escape(key, 0, waiting) for key in value]
    if all(0 < len(key) <= _MAX_KEY_CHARS for key in keys):
        return {key: _escape(each, depth - 1, waiting) for key, each in zip(keys, value.values(), strict=True)}
    return {_PAIRS: [[key, _escape(each, depth - 3, waiting)] for key, each in zip(keys, value.values(), strict=True)]}


def _unescape(value: Any, found: Mapping[int, Any]) -> Any:
    if isinstance(value, str):
        return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), value)
    if isinstance(value, list):
        return [_unescape(each, found) for each in value]
    if not isinstance(value, dict):
        return value
    if _NUMBER in value:
        return _number(value[_NUMBER])
    if _BESIDE in value:
        return found[value[_BESIDE]]
    if _PAIRS in value:
        return {_unescape(key, found): _unescape(each, found) for key, each in value[_PAIRS]}
    return {_unescape(key, found): _unescape(each, found) for key, each in value.items()}


def _number(text: str) -> Any:
    """A number, or the mark that replaced it if it was redacted."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text
