"""Filters as PostgreSQL conditions: only fixed fragments and bound values, never a caller's text."""

from __future__ import annotations

from typing import Any

from keepstone.ports.filters import All, AnyOf, Condition, Filter, Not, Scalar

_COMPARE = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Conditions:
    """Collects the bound values of one condition; names begin with `f` so that they clash with no other parameter."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def _bind(self, value: Any, type: str) -> str:
        name = f"f{len(self.values)}"
        self.values[name] = value
        return f":{name}::{type}"

    def of(self, filter: Filter | None) -> str:
        """The condition over `r.metadata`; TRUE where there is no filter."""
        match filter:
            case None:
                return "TRUE"
            case All(parts):
                return "(" + " AND ".join(self.of(part) for part in parts) + ")"
            case AnyOf(parts):
                return "(" + " OR ".join(self.of(part) for part in parts) + ")"
            case Not(part):
                return f"(NOT {self.of(part)})"
            case Condition():
                return f"coalesce({self._one(filter)}, FALSE)"

    def _one(self, condition: Condition) -> str:
        # By name step for step: a number among the steps never means a place in an array.
        found = "(r.metadata::jsonb" + "".join(f" -> {self._bind(step, 'text')}" for step in condition.path) + ")"
        kind = f"jsonb_typeof({found})"
        value: Any = condition.value
        match condition.operator:
            case "exists":
                return f"({kind} IS {'NOT ' if value else ''}NULL)"
            case "eq":
                return self._equal(found, value)
            case "ne":
                return f"({kind} IS NOT NULL AND NOT coalesce({self._equal(found, value)}, FALSE))"
            case "in" | "nin":
                held = " OR ".join(self._among(found, value)) or "FALSE"
                return f"({held})" if condition.operator == "in" else f"({kind} IS NOT NULL AND NOT coalesce(({held}), FALSE))"
            case "contains":
                held = (
                    f"EXISTS (SELECT 1 FROM jsonb_array_elements(CASE WHEN {kind} = 'array' THEN {found} ELSE '[]'::jsonb END) "
                    f"AS e (value) WHERE {self._equal('e.value', value)})"
                )
                inside = f" OR strpos({_text(found)}, {self._bind(value, 'text')}) > 0" if isinstance(value, str) else ""
                return f"({held}{inside})"
        if isinstance(value, str):
            return f'({_text(found)} {_COMPARE[condition.operator]} {self._bind(value, "text")} COLLATE "C")'
        return f"({_number(found)} {_COMPARE[condition.operator]} {self._bind(repr(value), 'numeric')})"

    def _equal(self, found: str, value: Scalar) -> str:
        if value is None:
            return f"(jsonb_typeof({found}) = 'null')"
        if isinstance(value, bool):
            return f"({found} = '{'true' if value else 'false'}'::jsonb)"
        if isinstance(value, str):
            return f"({_text(found)} = {self._bind(value, 'text')})"
        return f"({_number(found)} = {self._bind(repr(value), 'numeric')})"

    def _among(self, found: str, values: tuple[Scalar, ...]) -> list[str]:
        """Equal to one of many: the values travel as an array, so that a thousand of them are still one condition."""
        texts = [value for value in values if isinstance(value, str)]
        numbers = [repr(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        parts = [self._equal(found, value) for value in (None, True, False) if any(value is each for each in values)]
        if texts:
            parts.append(f"{_text(found)} = ANY ({self._bind(texts, 'text[]')})")
        if numbers:
            parts.append(f"{_number(found)} = ANY ({self._bind(numbers, 'numeric[]')})")
        return parts


def _text(found: str) -> str:
    """A value as a text; NULL if it is none. A CASE, because conditions are not checked in the order they are written."""
    return f"(CASE WHEN jsonb_typeof({found}) = 'string' THEN {found} #>> '{{}}' END)"


def _number(found: str) -> str:
    return f"(CASE WHEN jsonb_typeof({found}) = 'number' THEN ({found})::numeric END)"
