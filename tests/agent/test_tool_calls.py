"""Python functions as tools: what happens when a model calls one."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import date, datetime
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.agent.functions import ToolFailed, tool_of


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


def parameter(annotation: Any) -> Callable[..., Any]:
    """A function with one argument of this type, that gives it back."""

    def echo(value: Any) -> Any:
        echo.got = value  # type: ignore[attr-defined]
        return "done"

    echo.__annotations__ = {"value": annotation}
    return echo


def got(annotation: Any, value: Any) -> Any:
    function = parameter(annotation)
    tool_of(function).call({"value": value})
    return function.got  # type: ignore[attr-defined]


def refusal(annotation: Any, value: Any) -> str:
    with pytest.raises(ToolFailed) as caught:
        got(annotation, value)
    return str(caught.value)


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


MAPPING = {
    "name": "add",
    "description": "Adds.",
    "input_schema": {"type": "object", "properties": {"when": {"type": ["string", "null"]}}, "required": ["when"]},
    "function": lambda when: f"<{when}>",
}


@pytest.mark.parametrize(
    ("annotation", "value", "built"),
    [
        (float, 5, 5.0),
        (int, 5.0, 5),
        (datetime, "2026-03-01T10:00:00+00:00", datetime.fromisoformat("2026-03-01T10:00:00+00:00")),
        (date, "2026-03-01", date(2026, 3, 1)),
        (Colour, "red", Colour.RED),
        (list[Colour], ["red", "blue"], [Colour.RED, Colour.BLUE]),
        (set[int], [1, 1, 2], {1, 2}),
        (tuple[date, ...], ["2026-03-01"], (date(2026, 3, 1),)),
        (dict[str, date], {"a": "2026-03-01"}, {"a": date(2026, 3, 1)}),
        (Point, {"x": 1, "seen": ["2026-03-01"]}, Point(1.0, 0.0, [date(2026, 3, 1)])),
        (Point | None, None, None),
        (Point | None, {"x": 2}, Point(2.0)),
        (Address, {"street": "High St"}, {"street": "High St"}),
        (date | str, "soon", "soon"),
        (int | float, 5, 5),
        (float | int, 5, 5),
        (Annotated[date, "when"], "2026-03-01", date(2026, 3, 1)),
        (Any, {"a": [1]}, {"a": [1]}),
    ],
)
def test_arguments_are_built_from_json(annotation: Any, value: Any, built: Any) -> None:
    made = got(annotation, value)
    assert made == built
    assert type(made) is type(built)


@pytest.mark.parametrize(
    ("annotation", "value", "said"),
    [
        (int, "5", "argument value is '5', expected a whole number."),
        (int, True, "argument value is true, expected a whole number."),
        (int, 5.5, "argument value is 5.5, expected a whole number."),
        (float, float("nan"), "argument value is NaN, expected a number."),
        (float, 10**400, "expected a number"),
        (str, 5, "argument value is 5, expected text."),
        (bool, 1, "expected true or false"),
        (list[int], [1, "x"], "argument value[1] is 'x', expected a whole number."),
        (Literal["a", "b"], "c", "expected one of 'a', 'b'."),
        (Literal[1, 2], True, "expected one of 1, 2."),
        (Colour, "green", "expected one of 'red', 'blue'."),
        (int | None, "x", "expected a whole number or null"),
        (Point, {"y": 1}, "argument value.x is missing, expected a number."),
        (Point, {"x": 1, "z": 1}, "argument value.z is unknown, expected x, y, seen."),
        (Point, {"x": -1}, "x must not be negative"),
        (Point, [], "argument value is a list, expected an object."),
        (date, "soon", "argument value is 'soon', expected text (date, ISO 8601)"),
        (dict[str, int], {"a": "b"}, "argument value.a is 'b'"),
        (date | int, "soon", "expected text (date, ISO 8601) or a whole number"),
    ],
)
def test_wrong_arguments_say_which_and_what_is_expected(annotation: Any, value: Any, said: str) -> None:
    assert said in refusal(annotation, value)


def test_missing_unknown_and_shapeless_arguments() -> None:
    tool = tool_of(weather)
    with pytest.raises(ToolFailed, match="argument city is missing, expected text"):
        tool.call({})
    with pytest.raises(ToolFailed, match="argument town is unknown, expected city, days, unit"):
        tool.call({"city": "Oslo", "town": 1})
    for shapeless in (None, [], "city"):
        with pytest.raises(ToolFailed, match="must be an object"):
            tool.call(shapeless)  # type: ignore[arg-type]


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


HOSTILE = {
    "deep": nested(100_000), "long": "x" * 1_000_000, "huge": 10**5000, "key": {"k" * 100_000: "1"}, "number as key": {3: {}},
    "no JSON": [object()],
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("annotation", [int, list[list[int]], Point, Literal["a"], dict[str, date], date | None])
def test_hostile_arguments_are_refused_briefly(annotation: Any, name: str) -> None:
    value = HOSTILE[name]
    if annotation is int and isinstance(value, int):
        assert got(annotation, value) == value
    else:
        assert len(refusal(annotation, value)) < 600


def test_deep_arguments_and_results_pass_where_anything_may() -> None:
    assert tool_of({**MAPPING, "input_schema": {"type": "object"}, "function": lambda **given: given["a"]}).call(
        {"a": nested(100_000)}
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda each: st.lists(each, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("value"), each, max_size=3),
)


@given(json_values, st.sampled_from([int, float, str, list[int], Point, Colour, date | None, Address, dict[str, Point], Any]))
def test_any_arguments_are_taken_or_refused(value: Any, annotation: Any) -> None:
    tool = tool_of(parameter(annotation))
    for given_ in (value, {"value": value}):
        said = "done"
        with contextlib.suppress(ToolFailed):
            said = tool.call(given_)
        assert said == "done"


class Silent:
    def __str__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ("as it is", "as it is"),
        (None, "null"),
        (True, "true"),
        ({"é": [1, 2.5]}, '{"é": [1, 2.5]}'),
        (date(2026, 3, 1), "2026-03-01"),
        ([datetime(2026, 3, 1)], '["2026-03-01T00:00:00"]'),
        (Colour.RED, "red"),
        (Point(1.0), '{"x": 1.0, "y": 0.0, "seen": []}'),
        ({1, 2}, "[1, 2]"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (1 + 2j, '"(1+2j)"'),
        (Silent(), "(a Silent that cannot be shown)"),
    ],
)
def test_results_as_text(result: Any, text: str) -> None:
    def give() -> Any:
        return result

    assert tool_of(give).call({}) == text


def test_a_result_that_contains_itself() -> None:
    circle: list[Any] = []
    circle.append(circle)
    assert tool_of({**MAPPING, "function": lambda when: circle}).call({"when": "x"}) == "[[...]]"


def broken(how: str) -> None:
    if how == "refused":
        raise ToolFailed("not today")
    raise {"value": ValueError("bad " * 1000), "stop": StopIteration("end"), "silent": ValueError(Silent())}[how]


@pytest.mark.parametrize("how", ["value", "stop", "silent", "refused"])
def test_failures_inside_are_short(how: str) -> None:
    tool = tool_of(broken)
    with pytest.raises(ToolFailed) as plain:
        tool.call({"how": how})
    with pytest.raises(ToolFailed) as awaited:
        asyncio.run(tool.acall({"how": how}))
    assert str(plain.value) == str(awaited.value)
    start = {
        "value": "broken failed with ValueError: bad",
        "stop": "broken failed with StopIteration: end",
        "refused": "not today",
    }
    assert str(plain.value).startswith(start.get(how, "broken failed with ValueError"))
    assert len(str(plain.value)) < 500


asked_by: ContextVar[str] = ContextVar("asked_by", default="nobody")


async def slow(word: str) -> dict[str, Any]:
    """Waits."""
    await asyncio.sleep(0)
    if word == "fail":
        raise KeyError(word)
    return {"word": word, "by": asked_by.get()}


class AsyncObject:
    async def __call__(self, word: str) -> dict[str, Any]:
        return await slow(word)


@pytest.mark.parametrize("function", [slow, functools.partial(slow), AsyncObject()])
def test_coroutine_functions(function: Callable[..., Any]) -> None:
    tool = tool_of(function)

    async def inside() -> list[str]:
        asked_by.set("Dana")
        return [tool.call({"word": "a"}), await tool.acall({"word": "b"})]

    assert tool.call({"word": "c"}) == '{"word": "c", "by": "nobody"}'
    assert asyncio.run(inside()) == ['{"word": "a", "by": "Dana"}', '{"word": "b", "by": "Dana"}']
    with pytest.raises(ToolFailed, match="KeyError"):
        tool.call({"word": "fail"})
    with pytest.raises(ToolFailed, match="KeyError"):
        asyncio.run(tool.acall({"word": "fail"}))


def test_a_plain_function_leaves_the_loop_free() -> None:
    def where() -> int:
        return threading.get_ident()

    tool = tool_of(where)
    assert tool.call({}) == str(threading.get_ident())
    assert asyncio.run(tool.acall({})) != str(threading.get_ident())


def test_a_cancelled_call_is_not_a_failure() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def cancelled() -> None:
        task = asyncio.create_task(tool_of(forever).acall({}))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
