"""The filter language over metadata and text: a plain dictionary in, a small tree out.

    {"city": "Rome"}                              equal
    {"age": {"gte": 18, "lt": 65}}                ranges; also gt, lte
    {"city": {"in": ["Rome", "Oslo"]}}            one of; also nin
    {"city": {"ne": "Rome"}}                      set and different
    {"pets": {"contains": "cat"}}                 a list holds it, or a text has it inside; also not_contains
    {"email": {"exists": False}}                  not set
    {"address.city": "Rome"}                      inside a nested object
    {"contains": "tea", "not_contains": "milk"}   the memory's own text has it inside, letter for letter, or has not
    {"or": [{…}, {…}], "not": {…}}                also "and"; keys side by side all have to hold

Operators may carry a dollar sign ("$gte") and and/or/not/contains/not_contains any case. A metadata key with the name of a text
operator is compared by {"contains": {"eq": "tea"}}. Values of different types are never equal and
never ordered: 1 is not "1" and not True. Lists and objects are compared with `contains` and `exists` only.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from keepstone.errors import ValidationError

Scalar = str | int | float | bool | None
Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "not_contains", "exists"]
OPERATORS: tuple[str, ...] = ("eq", "ne", "gt", "gte", "lt", "lte", "in", "nin", "contains", "not_contains", "exists")
TEXT_OPERATORS = ("contains", "not_contains")
ORDERED = ("gt", "gte", "lt", "lte")
MAX_CONDITIONS = 64
MAX_DEPTH = 8
MAX_TEXT_CHARS = 1000


@dataclass(frozen=True, slots=True)
class Condition:
    """One test of one metadata key; `path` is the key split at its dots."""

    path: tuple[str, ...]
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class HasText:
    """Whether the content of a record has a text inside."""

    text: str


@dataclass(frozen=True, slots=True)
class All:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Filter


Filter = Condition | HasText | All | AnyOf | Not


def parse(raw: Mapping[str, Any] | Filter | None) -> Filter | None:
    """The tree for a filter dictionary; ValidationError says which part is wrong. None and {} filter nothing."""
    if raw is None or isinstance(raw, Filter):
        return raw
    if not isinstance(raw, Mapping):
        raise ValidationError(f"filter must be a dictionary such as {{'city': 'Rome'}}, got {type(raw).__name__}.")
    if not raw:
        return None
    tree, count = _tree(raw, 1)
    if count > MAX_CONDITIONS:
        raise ValidationError(f"filter has {count} conditions, the limit is {MAX_CONDITIONS}: split the query.")
    return tree


def _tree(raw: Any, depth: int) -> tuple[Filter, int]:
    if depth > MAX_DEPTH:
        raise ValidationError(f"filter is nested deeper than {MAX_DEPTH} levels: flatten it.")
    if not isinstance(raw, Mapping) or not raw:
        raise ValidationError(f"a filter part must be a non-empty dictionary, got {raw!r:.80}.")
    parts: list[Filter] = []
    count = 0
    for key, value in raw.items():
        if not isinstance(key, str) or not key:
            raise ValidationError(f"a filter key must be non-empty text, got {key!r:.80}.")
        word = key.removeprefix("$").lower()
        if word in ("and", "or") and isinstance(value, (list, tuple)):
            if not value:
                raise ValidationError(f"filter '{key}' has no parts: give it at least one, or leave it out.")
            inner = [_tree(part, depth + 1) for part in value]
            count += sum(number for _, number in inner)
            parts.append((All if word == "and" else AnyOf)(tuple(tree for tree, _ in inner)))
        elif word == "not" and isinstance(value, Mapping):
            tree, number = _tree(value, depth + 1)
            count += number
            parts.append(Not(tree))
        elif word in TEXT_OPERATORS and isinstance(value, str):
            count += 1
            held = HasText(_text(key, value))
            parts.append(held if word == "contains" else Not(held))
        else:
            conditions = _conditions(key, value)
            count += len(conditions)
            parts.extend(conditions)
    return (parts[0] if len(parts) == 1 else All(tuple(parts))), count


def _conditions(key: str, value: Any) -> list[Condition]:
    path = tuple(key.split("."))
    if not all(path) or len(path) > MAX_DEPTH or len(key) > 256 or any(ord(c) < 32 for c in key) or not _storable(key):
        raise ValidationError(f"filter key {key!r:.80} is not a metadata key: use 'name' or 'outer.inner'.")
    if not isinstance(value, Mapping):
        return [Condition(path, "eq", _scalar(key, value))]
    if not value:
        raise ValidationError(f"filter on '{key}' has no operator: use one of {', '.join(OPERATORS)}.")
    return [_condition(key, path, operator, operand) for operator, operand in value.items()]


def _condition(key: str, path: tuple[str, ...], operator: Any, operand: Any) -> Condition:
    word = str(operator).removeprefix("$").lower()
    if word not in OPERATORS:
        raise ValidationError(f"filter operator {operator!r:.80} on '{key}' is unknown: use one of {', '.join(OPERATORS)}.")
    if word in ("in", "nin"):
        if not isinstance(operand, (list, tuple, set, frozenset)) or len(operand) > 1000:
            raise ValidationError(f"filter '{key}.{word}' needs a list of at most 1000 values, got {operand!r:.80}.")
        return Condition(path, word, tuple(_scalar(key, each) for each in operand))  # type: ignore[arg-type]
    if word == "exists":
        if not isinstance(operand, bool):
            raise ValidationError(f"filter '{key}.exists' needs True or False, got {operand!r:.80}.")
        return Condition(path, "exists", operand)
    scalar = _scalar(key, operand)
    if word in ORDERED and (scalar is None or isinstance(scalar, bool)):
        raise ValidationError(f"filter '{key}.{word}' needs a number or a text to compare with, got {operand!r}.")
    return Condition(path, word, scalar)  # type: ignore[arg-type]


def _storable(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= character <= "\udfff" for character in text)


def _scalar(key: str, value: Any) -> Scalar:
    if value is None or isinstance(value, (bool, str)):
        if isinstance(value, str) and not _storable(value):
            raise ValidationError(f"filter on '{key}' compares with text that holds half a surrogate pair or NUL.")
        return value
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise ValidationError(f"filter on '{key}' compares with {value!r:.80}: use text, a finite number, True, False or None.")


def _text(key: str, value: str) -> str:
    """The text that a content is searched for."""
    if not value or len(value) > MAX_TEXT_CHARS:
        raise ValidationError(f"filter '{key}' has {len(value)} characters: use 1 to {MAX_TEXT_CHARS}.")
    _scalar(key, value)
    return value


_ABSENT = object()


def matches(filter: Filter, metadata: Mapping[str, Any], content: str = "") -> bool:
    """Whether a record satisfies a filter: the meaning that every store's own translation has to agree with."""
    match filter:
        case All(parts):
            return all(matches(part, metadata, content) for part in parts)
        case AnyOf(parts):
            return any(matches(part, metadata, content) for part in parts)
        case Not(part):
            return not matches(part, metadata, content)
        case HasText(text):
            return text in content
        case Condition(path, operator, value):
            return _holds(operator, _lookup(metadata, path), value)


def _lookup(metadata: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        if not isinstance(metadata, Mapping) or step not in metadata:
            return _ABSENT
        metadata = metadata[step]
    return metadata


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else "text" if isinstance(value, str) else "other"


def _same(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) != "other" and left == right


def _contains(found: Any, value: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return any(_same(each, value) for each in found)
    return isinstance(found, str) and isinstance(value, str) and value in found


def _holds(operator: str, found: Any, value: Any) -> bool:
    if operator == "exists":
        return (found is not _ABSENT) is value
    if found is _ABSENT:
        return False
    if operator in ("eq", "ne"):
        return _same(found, value) == (operator == "eq")
    if operator in ("in", "nin"):
        return any(_same(found, each) for each in value) == (operator == "in")
    if operator in TEXT_OPERATORS:
        return _contains(found, value) == (operator == "contains")
    if _kind(found) != _kind(value) or _kind(found) not in ("number", "text"):
        return False
    return bool({"gt": found > value, "gte": found >= value, "lt": found < value, "lte": found <= value}[operator])
