"""Filters as SQL conditions: only fixed fragments and bound values, never a caller's text."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from keepstone.ports.filters import All, AnyOf, Condition, Filter, HasText, Not, Scalar

_COMPARISONS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
Operand = tuple[str, str]  # SQL expressions: the JSON type of a value, and the value


class Conditions(ABC):
    """Collects the bound values of one condition. Their names begin with `f`, so that they clash with no other parameter."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def bind(self, value: Any) -> str:
        name = f"f{len(self.values)}"
        self.values[name] = value
        return f":{name}"

    def of(self, filter: Filter | None) -> str:
        """The condition over `r.metadata` and `r.content`; TRUE without a filter."""
        match filter:
            case None:
                return "TRUE"
            case All(parts):
                return "(" + " AND ".join(self.of(part) for part in parts) + ")"
            case AnyOf(parts):
                return "(" + " OR ".join(self.of(part) for part in parts) + ")"
            case Not(part):
                return f"(NOT {self.of(part)})"
            case HasText(text):
                return self.has_text(text)
            case Condition():
                return f"coalesce({self._one(filter)}, FALSE)"

    def _one(self, condition: Condition) -> str:
        found = self.lookup(condition.path)
        value: Any = condition.value
        match condition.operator:
            case "eq":
                return self.equal(found, value)
            case "exists":
                return f"({found[0]} IS {'NOT ' if value else ''}NULL)"
            case "in":
                return self._one_of(found, value)
            case "ne" | "nin" | "not_contains":
                negated: dict[str, Callable[[Operand, Any], str]] = {
                    "ne": self.equal,
                    "nin": self._one_of,
                    "not_contains": self.contains,
                }
                held = negated[condition.operator](found, value)
                return f"({found[0]} IS NOT NULL AND NOT coalesce({held}, FALSE))"
            case "contains":
                return self.contains(found, value)
            case operator:
                return self.compare(found, _COMPARISONS[operator], value)

    def equal(self, found: Operand, value: Scalar) -> str:
        if value is None:
            return f"({found[0]} = 'null')"
        return self.is_bool(found, value) if isinstance(value, bool) else self.compare(found, "=", value)

    def _one_of(self, found: Operand, values: tuple[Scalar, ...]) -> str:
        """Equal to one of many: the values are bound as one list, so that a thousand of them are still one condition."""
        texts = [value for value in values if isinstance(value, str)]
        numbers = [value for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
        parts = [self.equal(found, value) for value in (None, True, False) if any(value is each for each in values)]
        parts += [self.any_of(found, chosen) for chosen in (texts, numbers) if chosen]
        return f"({' OR '.join(parts) or 'FALSE'})"

    @abstractmethod
    def lookup(self, path: tuple[str, ...]) -> Operand:
        """The value at a path of the metadata."""

    @abstractmethod
    def is_bool(self, found: Operand, value: bool) -> str: ...

    @abstractmethod
    def compare(self, found: Operand, operator: str, value: str | float) -> str:
        """A comparison with a value of the same type; NULL or FALSE for another type."""

    @abstractmethod
    def any_of(self, found: Operand, values: list[Any]) -> str:
        """Equal to one of these texts, or of these numbers."""

    @abstractmethod
    def has_text(self, text: str) -> str:
        """Whether `r.content` has a text inside, compared letter for letter."""

    @abstractmethod
    def contains(self, found: Operand, value: Scalar) -> str: ...
