"""Python functions as tools: what a model is told of them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import pytest

from keepstone.agent.functions import Tool, ToolFailed, tool_of, tools_of
from keepstone.errors import ConfigurationError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: float
    y: float = 0.0
    seen: list[date] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise LookupError("x must not be negative")


class Address(TypedDict):
    street: str
    number: NotRequired[int]


@dataclass
class Node:
    below: list[Node]


def parameter(annotation: Any) -> Callable[..., Any]:
    """A function with one argument of this type, that gives it back."""

    def echo(value: Any) -> Any:
        echo.got = value  # type: ignore[attr-defined]
        return "done"

    echo.__annotations__ = {"value": annotation}
    return echo


def schema_of(annotation: Any) -> Any:
    return tool_of(parameter(annotation)).input_schema["properties"]["value"]


def weather(city: str, days: int = 3, *, unit: Literal["c", "f"] = "c") -> str:
    """The weather of the coming
    days in a city.

    It comes from nowhere.

    Args:
        city: Where, as people
            call it.
        days (int): How many days.
        unit: Celsius or Fahrenheit.

    Returns:
        text: words
    """
    return f"{city} {days} {unit}"


def test_a_function_becomes_a_tool() -> None:
    tool = tool_of(weather)
    assert tool.schema == {
        "name": "weather",
        "description": "The weather of the coming days in a city.",
        "input_schema": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Where, as people call it."},
                "days": {"type": "integer", "description": "How many days.", "default": 3},
                "unit": {"type": "string", "enum": ["c", "f"], "description": "Celsius or Fahrenheit.", "default": "c"},
            },
            "required": ["city"],
            "additionalProperties": False,
        },
    }
    assert tool.function is weather
    assert tool_of(tool) is tool
    assert tool.call({"city": "Oslo", "unit": "f"}) == "Oslo 3 f"


def test_a_schema_handed_out_is_a_copy() -> None:
    tool = tool_of(weather)
    tool.schema["input_schema"]["properties"].clear()
    assert "city" in tool.input_schema["properties"]


def numpy_style(a: int, b: str = "") -> None:
    """Adds.

    Parameters
    ----------
    a : int
        The first,
        of two.
    b
        The second.

    Returns
    -------
    None
        nothing
    """


def sphinx_style(a: int, b: str = "") -> None:
    """Adds.
    :param int a: The first,
        of two.
    :param b: The second.
    :returns: nothing
    """


@pytest.mark.parametrize("function", [numpy_style, sphinx_style])
def test_other_styles_of_docstring(function: Callable[..., Any]) -> None:
    tool = tool_of(function)
    assert tool.description == "Adds."
    assert {key: each["description"] for key, each in tool.input_schema["properties"].items()} == {
        "a": "The first, of two.",
        "b": "The second.",
    }


def test_no_docstring_is_no_description() -> None:
    assert tool_of(parameter(str)).description == ""


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (float, {"type": "number"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list, {"type": "array"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict, {"type": "object"}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (Mapping[str, Any], {"type": "object", "additionalProperties": {}}),
        (Literal["a", 1], {"enum": ["a", 1]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (datetime, {"type": "string", "format": "date-time"}),
        (date, {"type": "string", "format": "date"}),
        (Annotated[int, "how many"], {"type": "integer", "description": "how many"}),
        ("list[Colour]", {"type": "array", "items": {"type": "string", "enum": ["red", "blue"]}}),
    ],
)
def test_annotations_become_schemas(annotation: Any, schema: Any) -> None:
    assert schema_of(annotation) == schema


def test_records_become_objects() -> None:
    point = schema_of(Point)
    assert point["required"] == ["x"]
    assert point["properties"]["seen"] == {"type": "array", "items": {"type": "string", "format": "date"}}
    address = schema_of(Address)
    assert address["required"] == ["street"]
    assert address["properties"]["number"] == {"type": "integer"}


@pytest.mark.parametrize("annotation", [complex, dict[int, str], tuple[int, str], Node, "Nowhere", [int]])
def test_what_has_no_schema_is_refused_when_the_tool_is_made(annotation: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"echo\(value\)"):
        tool_of(parameter(annotation))


def test_a_class_of_a_function_is_found_where_it_is_used() -> None:
    class Local(Enum):
        ONE = 1

    def pick(one: Local) -> str:
        return Local(one).name

    assert tool_of(pick).call({"one": 1}) == "ONE"


def test_loose_arguments_are_left_out() -> None:
    def loose(a, /, *rest, b=2, **more):  # type: ignore[no-untyped-def]
        return [a, rest, b, more]

    tool = tool_of(loose)
    assert tool.input_schema["properties"] == {"a": {}, "b": {"default": 2}}
    assert json.loads(tool.call({"a": 1})) == [1, [], 2, {}]


class Shelf:
    """A shelf."""

    def __init__(self) -> None:
        self.books = ["Emma"]

    def find(self, title: str) -> bool:
        """Whether a book is there."""
        return title in self.books

    def __call__(self, at: int) -> str:
        """The book at a place."""
        return self.books[at]


def test_methods_partials_and_objects() -> None:
    shelf = Shelf()
    find, place = tool_of(shelf.find), tool_of(shelf)
    assert (find.name, find.description, find.call({"title": "Emma"})) == ("find", "Whether a book is there.", "true")
    assert (place.name, place.description, place.call({"at": 0})) == ("Shelf", "The book at a place.", "Emma")
    part = tool_of(functools.partial(weather, "Rome", unit="f"))
    assert part.name == "weather"
    assert list(part.input_schema["properties"]) == ["days"]
    assert part.call({"days": 1}) == "Rome 1 f"
    with pytest.raises(ToolFailed, match="unit is unknown"):
        part.call({"unit": "c"})
    with pytest.raises(ConfigurationError, match="bound method"):
        tool_of(Shelf.find)


def test_a_wrapped_function_keeps_its_arguments() -> None:
    @functools.wraps(weather)
    def traced(*args: Any, **named: Any) -> Any:
        return weather(*args, **named)

    assert tool_of(traced).schema == tool_of(weather).schema
    assert tool_of(traced).call({"city": "Oslo"}) == "Oslo 3 c"


MAPPING = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {"type": "object", "properties": {"when": {"type": ["string", "null"]}}, "required": ["when"]},
    "function": lambda when: f"<{when}>",
}


def test_a_mapping_is_taken_as_it_is() -> None:
    tool = tool_of(MAPPING)
    assert tool.schema == {key: MAPPING[key] for key in ("name", "description", "input_schema")}
    assert tool.call({"when": "2026-03-01"}) == "<2026-03-01>"
    assert tool.call({"when": None}) == "<None>"
    for wrong in ({"when": 3}, {}, {"when": "x", "more": 1}):
        with pytest.raises(ToolFailed):
            tool.call(wrong)


@pytest.mark.parametrize(
    "change",
    [
        {"name": "a b"}, {"name": "x" * 65}, {"name": ""}, {"name": 3}, {"description": None}, {"function": "f"}, {"extra": 1},
        {"input_schema": None}, {"input_schema": {"type": "string"}}, {"input_schema": {"type": "object", "properties": []}},
        {"input_schema": {"type": "object", "properties": {"a": {"default": object()}}}},
    ],
)  # fmt: skip
def test_a_mapping_that_cannot_work_is_refused(change: Mapping[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        tool_of({**MAPPING, **change})


@pytest.mark.parametrize("given_", [lambda x: x, 3, None, "weather", {"name": "a"}, min, Node])
def test_what_is_no_tool_is_refused(given_: Any) -> None:
    with pytest.raises(ConfigurationError):
        tool_of(given_)


def test_a_lambda_is_told_what_to_do() -> None:
    with pytest.raises(ConfigurationError, match="write a def"):
        tool_of(lambda x: x)


def test_tools_by_name() -> None:
    assert list(tools_of([weather, MAPPING, tool_of(numpy_style)])) == ["weather", "add", "numpy_style"]
    with pytest.raises(ConfigurationError, match="'weather'"):
        tools_of([weather, tool_of(weather)])


def test_a_tool_can_be_made_by_hand() -> None:
    tool = Tool("add", "Adds.", {"type": "object", "properties": {}}, lambda: 3)
    assert tool.call({}) == "3"
    with pytest.raises(ConfigurationError):
        Tool("no name", "", {"type": "object"}, lambda: 3)
