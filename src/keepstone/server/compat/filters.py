"""mem0's filters as keepstone's: a dictionary in, a tree over `shapes.document` out. Pure.

{"user_id": "dana"}                                  equal; "*" is any that is set, a list is one of
{"AND": [{…}, {…}]}, {"OR": […]}, {"NOT": […]}       none of them for NOT
{"created_at": {"gte": "2026-01-01", "lt": "…"}}     dates and times
{"categories": {"in": ["profile"]}}                  also contains
{"metadata": {"city": "Rome"}}                       with the operators of keepstone's own filters
{"keywords": {"contains": "tea"}}                    words of the memory itself
{"memory_ids": ["m_…"]}
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from keepstone.errors import ValidationError
from keepstone.ports.filters import OPERATORS, All, AnyOf, Condition, Filter, Not, parse
from keepstone.text.times import parse_time
from keepstone.types import clean_name

OWN = ""  # stands for whoever the key is of, in a set of names
ENTITIES = ("user_id", "agent_id", "app_id", "run_id")
_TIMES = ("created_at", "updated_at")
_FIELDS = (*ENTITIES, *_TIMES, "categories", "metadata", "keywords", "memory_ids", "id")
_DAY = len("2026-01-01")
_DEEP = 8


def translated(raw: Mapping[str, Any] | None) -> Filter | None:
    """The tree of a filter; ValidationError says which part cannot be taken."""
    return parse(_part(raw, 1)) if raw else None


def every(parts: Iterable[Filter | None]) -> Filter | None:
    """All of these have to hold."""
    there = tuple(part for part in parts if part is not None)
    return None if not there else there[0] if len(there) == 1 else All(there)


def _part(raw: Any, depth: int) -> dict[str, Any]:
    if not isinstance(raw, Mapping) or not raw:
        raise ValidationError("a part of filters must be an object that is not empty: {'user_id': 'dana'}.")
    if depth > _DEEP:
        raise ValidationError(f"filters are nested deeper than {_DEEP} levels: flatten them.")
    parts = [_one(str(name), value, depth) for name, value in raw.items()]
    return parts[0] if len(parts) == 1 else {"and": parts}


def _one(name: str, value: Any, depth: int) -> dict[str, Any]:
    word = name.upper()
    if word in ("AND", "OR", "NOT"):
        parts = [value] if isinstance(value, Mapping) else value
        if not isinstance(parts, list) or not parts:
            raise ValidationError(f"filters: {word} needs a list of parts.")
        inner = [_part(each, depth + 1) for each in parts]
        return {"not": {"or": inner}} if word == "NOT" else {word.lower(): inner}
    if name not in _FIELDS:
        raise ValidationError(f"filters know no field {name!r:.60}: use {', '.join(_FIELDS)}; your own stand under metadata.")
    if name == "metadata":
        if not isinstance(value, Mapping) or not value:
            raise ValidationError("filters: metadata needs an object that is not empty: {'metadata': {'city': 'Rome'}}.")
        return {"and": [_tested(f"metadata.{key}", each) for key, each in value.items()]}
    if name == "categories":
        return _categories(value)
    if name == "keywords":
        return _keywords(value)
    if name in _TIMES:
        return {name: {operator: _moment(name, operator, each) for operator, each in _operators(name, value).items()}}
    if name in ("user_id", "agent_id", "run_id"):
        return _tested(name, _named(name, value))
    return _tested("id" if name == "memory_ids" else name, value)


def _tested(field: str, value: Any) -> dict[str, Any]:
    """One field against a value, a list of them, or operators."""
    if value is None:
        return {"not": {field: {"exists": True}}}
    found = _operators(field, value)
    if found == {"eq": None}:
        return _tested(field, None)
    if isinstance(found.get("in"), list) and None in found["in"]:  # one of them, or none that is set
        others = {**found, "in": [each for each in found["in"] if each is not None]}
        return {"or": [_tested(field, None), {field: others}]}
    return {field: {"exists": True} if found == {"eq": "*"} else found}


def _operators(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"in": value}
    if not isinstance(value, Mapping):
        return {"eq": value}
    for operator in value:
        if str(operator).removeprefix("$") not in OPERATORS:
            raise ValidationError(f"filters: {field:.60} has no {operator!r:.40} here: use {', '.join(OPERATORS)}.")
    return {str(operator).removeprefix("$"): each for operator, each in value.items()}


def _named(field: str, value: Any) -> Any:
    """Names as they are compared; the agent that is no agent in particular has none."""
    if isinstance(value, Mapping):
        return {how: each if str(how).removeprefix("$") == "exists" else _named(field, each) for how, each in value.items()}
    if isinstance(value, list):
        return [_named(field, each) for each in value]
    if value is None:
        return None
    name = clean_name(value, field)
    return None if (field, name) == ("agent_id", "default") else name


def _categories(value: Any) -> dict[str, Any]:
    if value is None or value == "*":
        return _tested("categories", value)
    made: list[dict[str, Any]] = []
    for operator, each in _operators("categories", value).items():
        wanted = each if isinstance(each, list) else [each]
        among = {"or": [{"categories": {"contains": name}} for name in wanted]}
        if not wanted or operator not in ("eq", "in", "contains", "ne", "nin"):
            raise ValidationError("filters: categories take contains, or in with a list that is not empty.")
        made.append({"not": among} if operator in ("ne", "nin") else among)
    return {"and": made}


def _keywords(value: Any) -> dict[str, Any]:
    found = _operators("keywords", value)
    if set(found) - {"contains", "eq"} or not all(isinstance(each, str) for each in found.values()):
        raise ValidationError("filters: keywords take contains with a text.")
    return {"and": [{"memory": {"contains": each}} for each in found.values()]}


def _moment(field: str, operator: str, value: Any) -> str:
    """A time as `shapes` writes it; a day without an hour is all of that day."""
    if operator not in ("eq", "ne", "gt", "gte", "lt", "lte") or not isinstance(value, str):
        raise ValidationError(f"filters: {field} takes gt, gte, lt or lte with a date: {{'{field}': {{'gte': '2026-01-01'}}}}.")
    late = operator in ("gt", "lte") and len(value.strip()) == _DAY
    at = parse_time(value, field)
    return (at.replace(hour=23, minute=59, second=59, microsecond=999_999) if late else at).isoformat(timespec="microseconds")


# -- what of a tree can be asked of the store itself -------------------------------------------------------------------
def names(tree: Filter | None, field: str) -> frozenset[str] | None:
    """Of which users (or agents) a match can be: names, "*" for any, OWN for whoever asks; None where nothing is said."""
    match tree:
        case Condition((first,), operator, value) if first == field:
            if operator == "eq" and isinstance(value, str):
                return frozenset((value,))
            if operator == "in" and isinstance(value, tuple):
                return frozenset(each for each in value if isinstance(each, str))
            return frozenset("*") if (operator, value) == ("exists", True) else None
        case All(parts):
            found = [each for each in (names(part, field) for part in parts) if each is not None]
            return frozenset().union(*found) if found else None
        case AnyOf(parts):
            each_of = [names(part, field) for part in parts]
            if all(each is None for each in each_of):
                return None
            return frozenset().union(*({OWN} if each is None else each for each in each_of))
    return None


def only(tree: Filter | None, field: str, operator: str = "eq") -> str | None:
    """What a field has to be in every match, where the tree says so plainly."""
    match tree:
        case Condition((first,), how, str(value)) if (first, how) == (field, operator):
            return value
        case All(parts):
            return next((found for found in (only(part, field, operator) for part in parts) if found is not None), None)
        case AnyOf((part,)):
            return only(part, field, operator)
    return None


def stored(tree: Filter | None) -> Filter | None:
    """As much of a tree as speaks of metadata, for the store to look for: every match of the whole is one of this."""
    match tree:
        case Condition(("metadata", *rest), operator, value):
            return Condition(tuple(rest), operator, value)
        case Condition(("app_id",), _, _):
            return tree
        case All(parts):
            return every(stored(part) for part in parts)
        case AnyOf(parts):
            inner = [stored(part) for part in parts]
            whole = all(_whole(part) for part in parts)
            return AnyOf(tuple(part for part in inner if part is not None)) if whole else None
        case Not(part):
            inside = stored(part)
            return Not(inside) if inside is not None and _whole(part) else None
    return None


def exact(tree: Filter | None) -> bool:
    """Whether all of a tree is asked of the store: then whatever it finds fits."""
    match tree:
        case None:
            return True
        case Condition(("user_id" | "agent_id" | "run_id",), "eq", _) | Condition(("categories",), "contains", _):
            return True
        case All(parts):
            return all(exact(part) for part in parts)
        case AnyOf((part,)):
            return exact(part)
    return _whole(tree)


def _whole(tree: Filter) -> bool:
    """Whether a tree speaks of metadata alone."""
    match tree:
        case Condition((first, *_), _, _):
            return first in ("metadata", "app_id")
        case All(parts) | AnyOf(parts):
            return all(_whole(part) for part in parts)
        case Not(part):
            return _whole(part)
    return False
