"""Filters as SQL conditions: only fixed fragments and bound values, never a caller's text."""

from __future__ import annotations

import json

from keepstone.ports.filters import All, AnyOf, Condition, Filter, Not, Scalar

_COMPARE = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


class Conditions:
    """Collects the bound values of one condition; names begin with `f` so that they clash with no other parameter."""

    def __init__(self) -> None:
        self.values: dict[str, Scalar] = {}

    def _bind(self, value: Scalar) -> str:
        name = f"f{len(self.values)}"
        self.values[name] = value
        return f":{name}"

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
        path = self._bind("$" + "".join("." + json.dumps(step, ensure_ascii=False) for step in condition.path))
        kind = f"json_type(r.metadata, {path})"
        found = f"json_extract(r.metadata, {path})"
        value = condition.value
        match condition.operator:
            case "exists":
                return f"{kind} IS {'NOT ' if value else ''}NULL"
            case "eq":
                return self._equal(kind, found, value)  # type: ignore[arg-type]
            case "ne":
                return f"({kind} IS NOT NULL AND NOT {self._equal(kind, found, value)})"  # type: ignore[arg-type]
            case "in" | "nin":
                held = self._among(kind, found, value)  # type: ignore[arg-type]
                return held if condition.operator == "in" else f"({kind} IS NOT NULL AND NOT {held})"
            case "contains":
                bound = self._bind(value) if isinstance(value, str) else "''"
                held = (
                    f"EXISTS (SELECT 1 FROM json_each(r.metadata, {path}) AS e WHERE {self._equal('e.type', 'e.value', value)})"  # type: ignore[arg-type]
                )
                inside = f"({kind} = 'text' AND instr({found}, {bound}) > 0)" if isinstance(value, str) else "FALSE"
                return f"(({kind} = 'array' AND {held}) OR {inside})"
        types = "'text'" if isinstance(value, str) else "'integer', 'real'"
        return f"({kind} IN ({types}) AND {found} {_COMPARE[condition.operator]} {self._bind(value)})"  # type: ignore[arg-type]

    def _equal(self, kind: str, found: str, value: Scalar) -> str:
        if value is None:
            return f"({kind} = 'null')"
        if isinstance(value, bool):
            return f"({kind} = '{'true' if value else 'false'}')"
        types = "'text'" if isinstance(value, str) else "'integer', 'real'"
        return f"({kind} IN ({types}) AND {found} = {self._bind(value)})"

    def _among(self, kind: str, found: str, values: tuple[Scalar, ...]) -> str:
        """Equal to one of many: the values travel as JSON, so that a thousand of them are still one condition."""
        texts = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        parts = [self._equal(kind, found, value) for value in (None, True, False) if any(value is each for each in values)]
        for types, chosen in (("'text'", texts), ("'integer', 'real'", numbers)):
            if chosen:
                listed = self._bind(json.dumps(chosen))
                parts.append(f"({kind} IN ({types}) AND {found} IN (SELECT value FROM json_each({listed})))")
        return f"({' OR '.join(parts) or 'FALSE'})"
