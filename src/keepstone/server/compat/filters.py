"""mem0's filters as keepstone's: from a dictionary to a tree over `entries.filter_document`. Pure.

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

OWN = ""  # in a set of names: the key's own user or agent
ENTITIES = ("user_id", "agent_id", "app_id", "run_id")
_TIMES = ("created_at", "updated_at")
_FIELDS = (*ENTITIES, *_TIMES, "categories", "metadata", "keywords", "memory_ids", "id")
_DATE_CHARS = len("2026-01-01")
_MAX_DEPTH = 8


def translate(raw: Mapping[str, Any] | None) -> Filter | None:
    """The tree of a filter; ValidationError names the invalid part."""
    return parse(_translate_object(raw, 1)) if raw else None


def join(parts: Iterable[Filter | None]) -> Filter | None:
    """A filter that requires all of these."""
    present = tuple(part for part in parts if part is not None)
    return None if not present else present[0] if len(present) == 1 else All(present)


def _translate_object(raw: Any, depth: int) -> dict[str, Any]:
    if not isinstance(raw, Mapping) or not raw:
        raise ValidationError("a part of the filters must be a non-empty object: {'user_id': 'dana'}.")
    if depth > _MAX_DEPTH:
        raise ValidationError(f"filters are nested deeper than {_MAX_DEPTH} levels: flatten them.")
    parts = [_translate_field(str(name), value, depth) for name, value in raw.items()]
    return parts[0] if len(parts) == 1 else {"and": parts}


def _translate_field(name: str, value: Any, depth: int) -> dict[str, Any]:
    word = name.upper()
    if word in ("AND", "OR", "NOT"):
        parts = [value] if isinstance(value, Mapping) else value
        if not isinstance(parts, list) or not parts:
            raise ValidationError(f"filters: {word} needs a list of parts.")
        inner = [_translate_object(part, depth + 1) for part in parts]
        return {"not": {"or": inner}} if word == "NOT" else {word.lower(): inner}
    if name not in _FIELDS:
        raise ValidationError(f"filters have no field {name!r:.60}: use {', '.join(_FIELDS)}; your own fields go under metadata.")
    if name == "metadata":
        if not isinstance(value, Mapping) or not value:
            raise ValidationError("filters: metadata needs a non-empty object: {'metadata': {'city': 'Rome'}}.")
        return {"and": [_compare(f"metadata.{key}", item) for key, item in value.items()]}
    if name == "categories":
        return _categories(value)
    if name == "keywords":
        return _keywords(value)
    if name in _TIMES:
        return {name: {operator: _moment(name, operator, item) for operator, item in _operators(name, value).items()}}
    if name in ("user_id", "agent_id", "run_id"):
        return _compare(name, _clean_names(name, value))
    return _compare("id" if name == "memory_ids" else name, value)


def _compare(field: str, value: Any) -> dict[str, Any]:
    """A field compared with a value, a list of values, or by operators."""
    if value is None:
        return {"not": {field: {"exists": True}}}
    found = _operators(field, value)
    if found == {"eq": None}:
        return _compare(field, None)
    if isinstance(found.get("in"), list) and None in found["in"]:  # one of them, or unset
        others = {**found, "in": [item for item in found["in"] if item is not None]}
        return {"or": [_compare(field, None), {field: others}]}
    return {field: {"exists": True} if found == {"eq": "*"} else found}


def _operators(field: str, value: Any) -> dict[str, Any]:
    if isinstance(value, list):
        return {"in": value}
    if not isinstance(value, Mapping):
        return {"eq": value}
    for operator in value:
        if str(operator).removeprefix("$") not in OPERATORS:
            raise ValidationError(f"filters: {field:.60} has no {operator!r:.40} here: use {', '.join(OPERATORS)}.")
    return {str(operator).removeprefix("$"): item for operator, item in value.items()}


def _clean_names(field: str, value: Any) -> Any:
    """Names in their normal form; the default agent is none."""
    if isinstance(value, Mapping):
        return {how: item if str(how).removeprefix("$") == "exists" else _clean_names(field, item) for how, item in value.items()}
    if isinstance(value, list):
        return [_clean_names(field, item) for item in value]
    if value is None:
        return None
    name = clean_name(value, field)
    return None if (field, name) == ("agent_id", "default") else name


def _categories(value: Any) -> dict[str, Any]:
    if value is None or value == "*":
        return _compare("categories", value)
    made: list[dict[str, Any]] = []
    for operator, item in _operators("categories", value).items():
        wanted = item if isinstance(item, list) else [item]
        among = {"or": [{"categories": {"contains": name}} for name in wanted]}
        if not wanted or operator not in ("eq", "in", "contains", "ne", "nin"):
            raise ValidationError("filters: categories take contains, or in with a non-empty list.")
        made.append({"not": among} if operator in ("ne", "nin") else among)
    return {"and": made}


def _keywords(value: Any) -> dict[str, Any]:
    found = _operators("keywords", value)
    if set(found) - {"contains", "eq"} or not all(isinstance(item, str) for item in found.values()):
        raise ValidationError("filters: keywords take contains with a text.")
    return {"and": [{"memory": {"contains": item}} for item in found.values()]}


def _moment(field: str, operator: str, value: Any) -> str:
    """A time in the form of entries; a date without a time means the whole day."""
    if operator not in ("eq", "ne", "gt", "gte", "lt", "lte") or not isinstance(value, str):
        raise ValidationError(f"filters: {field} takes gt, gte, lt or lte with a date: {{'{field}': {{'gte': '2026-01-01'}}}}.")
    late = operator in ("gt", "lte") and len(value.strip()) == _DATE_CHARS
    at = parse_time(value, field)
    return (at.replace(hour=23, minute=59, second=59, microsecond=999_999) if late else at).isoformat(timespec="microseconds")


# -- the part of a filter that the store can apply -------------------------------------------------------------------
def matched_names(tree: Filter | None, field: str) -> frozenset[str] | None:
    """The users (or agents) that a match can have: names, "*" for any, OWN for the caller's; None if the filter names none."""
    match tree:
        case Condition((first,), operator, value) if first == field:
            if operator == "eq" and isinstance(value, str):
                return frozenset((value,))
            if operator == "in" and isinstance(value, tuple):
                return frozenset(item for item in value if isinstance(item, str))
            return frozenset("*") if (operator, value) == ("exists", True) else None
        case All(parts):
            found = [item for item in (matched_names(part, field) for part in parts) if item is not None]
            return frozenset().union(*found) if found else None
        case AnyOf(parts):
            names_by_part = [matched_names(part, field) for part in parts]
            if all(item is None for item in names_by_part):
                return None
            return frozenset().union(*({OWN} if item is None else item for item in names_by_part))
    return None


def required_value(tree: Filter | None, field: str, operator: str = "eq") -> str | None:
    """The value that a field has in every match, if the filter states it directly."""
    match tree:
        case Condition((first,), how, str(value)) if (first, how) == (field, operator):
            return value
        case All(parts):
            return next((found for found in (required_value(part, field, operator) for part in parts) if found is not None), None)
        case AnyOf((part,)):
            return required_value(part, field, operator)
    return None


def metadata_filter(tree: Filter | None) -> Filter | None:
    """The part of a filter about metadata, for the store: every match of the filter matches it too."""
    match tree:
        case Condition(("metadata", *rest), operator, value):
            return Condition(tuple(rest), operator, value)
        case Condition(("app_id",), _, _):
            return tree
        case All(parts):
            return join(metadata_filter(part) for part in parts)
        case AnyOf(parts):
            inner = [metadata_filter(part) for part in parts]
            whole = all(_only_metadata(part) for part in parts)
            return AnyOf(tuple(part for part in inner if part is not None)) if whole else None
        case Not(part):
            inside = metadata_filter(part)
            return Not(inside) if inside is not None and _only_metadata(part) else None
    return None


def store_decides(tree: Filter | None) -> bool:
    """Whether the store applies the whole filter, so that every result matches."""
    match tree:
        case None:
            return True
        case Condition(("user_id" | "agent_id" | "run_id",), "eq", _) | Condition(("categories",), "contains", _):
            return True
        case All(parts):
            return all(store_decides(part) for part in parts)
        case AnyOf((part,)):
            return store_decides(part)
    return _only_metadata(tree)


def _only_metadata(tree: Filter) -> bool:
    """Whether a filter is about metadata only."""
    match tree:
        case Condition((first, *_), _, _):
            return first in ("metadata", "app_id")
        case All(parts) | AnyOf(parts):
            return all(_only_metadata(part) for part in parts)
        case Not(part):
            return _only_metadata(part)
    return False
