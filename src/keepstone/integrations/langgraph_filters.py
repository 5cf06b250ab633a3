"""Filters and namespaces of a LangGraph store. Pure."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from typing import Any

from langgraph.store.base import MatchCondition

Filter = Mapping[str, Any]

_KEY = re.compile(r"[\w.-]+")
_COMPARISONS = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}
_OPERATORS = ("$eq", "$ne", *_COMPARISONS)
_MAX_STORE_CONDITIONS = 10  # of a filter that the store itself applies


def check_filter(filter: Filter | None) -> None:
    """ValueError for a filter that LangGraph's stores refuse."""
    for key, wanted in (filter or {}).items():
        if not isinstance(key, str) or not _KEY.fullmatch(key):
            raise ValueError(
                f"Invalid filter key: {key!r:.80}. Use letters, digits, underscores, hyphens, and dots between names."
            )
        for sign in wanted if isinstance(wanted, Mapping) else ():
            if str(sign).startswith("$") and sign not in _OPERATORS:
                raise ValueError(f"Unsupported operator: {sign!r:.40} on {key!r:.80}. Use one of {', '.join(_OPERATORS)}.")


def matches_filter(filter: Filter | None, value: Mapping[str, Any]) -> bool:
    """Whether an item matches a filter: a key is a name in the item, or with dots a path in it."""
    return all(_equals(_lookup(value, key), wanted) for key, wanted in (filter or {}).items())


def to_store_filter(filter: Filter | None) -> dict[str, Any] | None:
    """The part of a filter that the store can apply; `matches_filter` decides."""
    parts: list[dict[str, Any]] = []
    for key, wanted in (filter or {}).items():
        if "." in key or len(key) > 200:
            continue
        name = f"value.item.{key}"
        if _searchable(wanted):
            parts.append({name: wanted})
        for sign, bound in wanted.items() if isinstance(wanted, Mapping) else ():
            if sign == "$eq" and _searchable(bound):
                parts.append({name: bound})
            elif sign in _COMPARISONS and _number(bound) and math.isfinite(bound) and abs(bound) < 2**62:
                other = [{name: {"gte": ""}}, {name: {"in": [True, False]}}]  # texts of numbers are compared as numbers
                parts.append({"or": [{name: {sign: bound}}, *other]})
    return {"and": parts[:_MAX_STORE_CONDITIONS]} if parts else None


def _searchable(wanted: Any) -> bool:
    """Whether a value equals only itself; 1 and True are equal."""
    if isinstance(wanted, str):
        return len(wanted) < 1000 and "\0" not in wanted and not any("\ud800" <= each <= "\udfff" for each in wanted)
    return isinstance(wanted, int) and not isinstance(wanted, bool) and 1 < abs(wanted) < 2**62


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _lookup(value: Any, key: str) -> Any:
    if isinstance(value, Mapping) and key in value:
        return value[key]
    for name in key.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _equals(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(str(sign).startswith("$") for sign in wanted):
            return all(_compare(found, str(sign), bound) for sign, bound in wanted.items())
        return isinstance(found, Mapping) and all(_equals(found.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, (list, tuple)):
        same = isinstance(found, (list, tuple)) and len(found) == len(wanted)
        return same and all(_equals(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


def _compare(found: Any, sign: str, bound: Any) -> bool:
    if sign in ("$eq", "$ne"):
        return bool(found == bound) is (sign == "$eq")
    left, right = _as_number(found), _as_number(bound)
    if left is not None and right is not None:
        return bool(_COMPARISONS[sign](left, right))
    return isinstance(found, str) and isinstance(bound, str) and bool(_COMPARISONS[sign](found, bound))


def _as_number(value: Any) -> float | None:
    if not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if int(value) > 0 else -math.inf
    except ValueError:
        return None


def matches_namespace(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends with a path; a star stands for any one label."""
    path = tuple(condition.path)
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type!r:.40}. Use 'prefix' or 'suffix'.")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))
