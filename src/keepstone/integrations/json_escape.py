"""Spelling: JSON data that blocks cannot hold, as JSON data that they can, and back. Pure; imports nothing of ours.

NUL and halves of surrogate pairs are escaped in their texts, keys that are empty or too long stand in pairs, numbers past 64 bits
are text, and what is nested too deep stands beside it. Texts stay texts, under the keys they have: what is sensitive in them is
found as in any other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_MARK = "\x01"  # begins what is spelled in another way; itself spelled too
_PAIRS, _NUMBER, _BESIDE = f"{_MARK}pairs", f"{_MARK}number", f"{_MARK}beside"
_ODD = re.compile("[\0\x01\ud800-\udfff]")
_SPELLED = re.compile("\x01([0-9a-f]{4})")
_MAX_KEY = 256


def storable(value: Any, depth: int) -> bool:
    """Whether blocks can hold a value as it is, so many levels deep."""
    if depth <= 0:
        return False
    if isinstance(value, Mapping):
        keys = all(isinstance(key, str) and 0 < len(key) <= _MAX_KEY and storable(key, depth) for key in value)
        return keys and all(storable(each, depth - 1) for each in value.values())
    if isinstance(value, (list, tuple)):
        return all(storable(each, depth - 1) for each in value)
    if isinstance(value, str):
        return "\0" not in value and not any("\ud800" <= character <= "\udfff" for character in value)
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def spelled(value: Any, depth: int) -> list[Any]:
    """JSON data as trees that blocks can hold, none deeper than so many levels; the first is the whole."""
    trees: list[Any] = []
    waiting = [value]
    while len(trees) < len(waiting):
        trees.append(_spelled(waiting[len(trees)], depth, waiting))
    return trees


def read(trees: list[Any]) -> Any:
    """The data that was spelled so."""
    found: dict[int, Any] = {}
    for at in reversed(range(len(trees))):  # what stands beside a tree comes after it
        found[at] = _read(trees[at], found)
    return found[0]


def _spelled(value: Any, depth: int, waiting: list[Any]) -> Any:
    if isinstance(value, str):
        return _ODD.sub(lambda match: f"{_MARK}{ord(match[0]):04x}", value)
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return {_NUMBER: str(value)}
    if not isinstance(value, (dict, list)):
        return value
    if depth < 5:  # pairs take three levels, and what stands for another tree two
        waiting.append(value)
        return {_BESIDE: len(waiting) - 1}
    if isinstance(value, list):
        return [_spelled(each, depth - 1, waiting) for each in value]
    keys = [_spelled(key, 0, waiting) for key in value]
    if all(0 < len(key) <= _MAX_KEY for key in keys):
        return {key: _spelled(each, depth - 1, waiting) for key, each in zip(keys, value.values(), strict=True)}
    return {_PAIRS: [[key, _spelled(each, depth - 3, waiting)] for key, each in zip(keys, value.values(), strict=True)]}


def _read(value: Any, found: Mapping[int, Any]) -> Any:
    if isinstance(value, str):
        return _SPELLED.sub(lambda match: chr(int(match[1], 16)), value)
    if isinstance(value, list):
        return [_read(each, found) for each in value]
    if not isinstance(value, dict):
        return value
    if _NUMBER in value:
        return _number(value[_NUMBER])
    if _BESIDE in value:
        return found[value[_BESIDE]]
    if _PAIRS in value:
        return {_read(key, found): _read(each, found) for key, each in value[_PAIRS]}
    return {_read(key, found): _read(each, found) for key, each in value.items()}


def _number(text: str) -> Any:
    """A number, or what stands in its place where it was taken out."""
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else text
