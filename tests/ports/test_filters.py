"""The filter language: what it means, what it refuses, and that its tree is bounded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.errors import ValidationError
from keepstone.ports.filters import MAX_CONDITIONS, MAX_DEPTH, All, AnyOf, Condition, Not, matches, parse

DATA = {
    "city": "Rome",
    "age": 30,
    "score": 0.5,
    "on": True,
    "off": False,
    "none": None,
    "pets": ["cat", 1, True, None],
    "address": {"city": "Oslo", "geo": {"lat": 59.9}},
    "and": "word",
}


def holds(raw: dict[str, Any], data: dict[str, Any] = DATA) -> bool:
    tree = parse(raw)
    assert tree is not None
    return matches(tree, data)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"city": "Rome"}, True),
        ({"city": "rome"}, False),
        ({"city": {"eq": "Rome"}}, True),
        ({"city": {"$EQ": "Rome"}}, True),
        ({"city": {"ne": "Oslo"}}, True),
        ({"city": {"ne": "Rome"}}, False),
        ({"gone": {"ne": "Rome"}}, False),
        ({"gone": None}, False),
        ({"none": None}, True),
        ({"age": 30.0}, True),
        ({"age": "30"}, False),
        ({"on": 1}, False),
        ({"on": True}, True),
        ({"off": 0}, False),
        ({"off": None}, False),
        ({"age": {"gt": 29, "lt": 31}}, True),
        ({"age": {"gte": 30, "lte": 30}}, True),
        ({"age": {"gt": 30}}, False),
        ({"age": {"gt": "20"}}, False),
        ({"on": {"gte": 0}}, False),
        ({"city": {"gt": "Oslo"}}, True),
        ({"pets": {"gt": 0}}, False),
        ({"city": {"in": ["Rome", "Oslo"]}}, True),
        ({"city": {"in": []}}, False),
        ({"city": {"nin": []}}, True),
        ({"city": {"nin": ["Rome"]}}, False),
        ({"gone": {"nin": ["Rome"]}}, False),
        ({"on": {"in": [1]}}, False),
        ({"none": {"in": [None]}}, True),
        ({"city": {"in": {"Rome"}}}, True),
        ({"pets": {"contains": "cat"}}, True),
        ({"pets": {"contains": "ca"}}, False),
        ({"pets": {"contains": 1}}, True),
        ({"pets": {"contains": None}}, True),
        ({"pets": {"contains": 0}}, False),
        ({"city": {"contains": "om"}}, True),
        ({"city": {"contains": ""}}, True),
        ({"age": {"contains": 3}}, False),
        ({"address": {"contains": "city"}}, False),
        ({"pets": {"eq": "cat"}}, False),
        ({"pets": {"ne": "cat"}}, True),
        ({"city": {"exists": True}}, True),
        ({"city": {"exists": False}}, False),
        ({"none": {"exists": True}}, True),
        ({"gone": {"exists": False}}, True),
        ({"address.city": "Oslo"}, True),
        ({"address.geo.lat": {"gt": 59}}, True),
        ({"city.more": {"exists": False}}, True),
        ({"pets.0": {"exists": True}}, False),
        ({"city": "Rome", "age": 31}, False),
        ({"or": [{"city": "Oslo"}, {"age": 30}]}, True),
        ({"$OR": [{"city": "Oslo"}, {"age": 31}]}, False),
        ({"and": [{"city": "Rome"}, {"age": 30}]}, True),
        ({"not": {"city": "Rome"}}, False),
        ({"Not": {"gone": "x"}}, True),
        ({"and": "word"}, True),
        ({"or": "word"}, False),
    ],
)
def test_meaning(raw: dict[str, Any], expected: bool) -> None:
    assert holds(raw) is expected


def test_nothing_filters_nothing() -> None:
    assert parse(None) is None
    assert parse({}) is None


def test_a_parsed_filter_is_taken_as_it_is() -> None:
    tree = parse({"city": "Rome"})
    assert tree == Condition(("city",), "eq", "Rome")
    assert parse(tree) is tree


def test_the_tree_of_a_mixed_filter() -> None:
    assert parse({"a.b": {"gt": 1, "lt": 2}, "not": {"or": [{"c": 1}, {"d": {"in": (2, 3)}}]}}) == All(
        (
            Condition(("a", "b"), "gt", 1),
            Condition(("a", "b"), "lt", 2),
            Not(AnyOf((Condition(("c",), "eq", 1), Condition(("d",), "in", (2, 3))))),
        )
    )


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ("city=Rome", "filter must be a dictionary such as .*, got str"),
        ([("city", "Rome")], "got list"),
        ({"": 1}, "a filter key must be non-empty text, got ''"),
        ({1: 1}, "a filter key must be non-empty text, got 1"),
        ({"a..b": 1}, "filter key 'a..b' is not a metadata key: use 'name' or 'outer.inner'"),
        ({".": 1}, "is not a metadata key"),
        ({"a\n": 1}, "is not a metadata key"),
        ({"a" * 257: 1}, "is not a metadata key"),
        ({".".join("abcdefghi"): 1}, "is not a metadata key"),
        (
            {"a": {}},
            "filter on 'a' has no operator: use one of eq, ne, gt, gte, lt, lte, in, nin, contains, not_contains, exists",
        ),
        ({"a": {"like": "x"}}, "filter operator 'like' on 'a' is unknown: use one of eq"),
        ({"a": {1: "x"}}, "filter operator 1 on 'a' is unknown"),
        ({"a": {"in": "xyz"}}, "filter 'a.in' needs a list of at most 1000 values, got 'xyz'"),
        ({"a": {"nin": list(range(1001))}}, "filter 'a.nin' needs a list of at most 1000 values"),
        ({"a": {"in": [[1]]}}, r"filter on 'a' compares with \[1\]"),
        ({"a": {"exists": 1}}, "filter 'a.exists' needs True or False, got 1"),
        ({"a": {"gt": None}}, "filter 'a.gt' needs a number or a text to compare with, got None"),
        ({"a": {"lte": True}}, "filter 'a.lte' needs a number or a text to compare with, got True"),
        ({"a": [1, 2]}, r"filter on 'a' compares with \[1, 2\]: use text, a finite number, True, False or None"),
        ({"a": float("nan")}, "filter on 'a' compares with nan"),
        ({"a": {"gt": float("inf")}}, "filter on 'a' compares with inf"),
        ({"a": 2**63}, "filter on 'a' compares with 9223372036854775808"),
        ({"a": b"x"}, "filter on 'a' compares with b'x'"),
        ({"and": []}, "filter 'and' has no parts: give it at least one, or leave it out"),
        ({"or": [{}]}, r"a filter part must be a non-empty dictionary, got \{\}"),
        ({"or": ["x"]}, "a filter part must be a non-empty dictionary, got 'x'"),
        ({"not": {}}, "a filter part must be a non-empty dictionary"),
    ],
)
def test_what_is_refused_and_how_it_is_said(raw: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        parse(raw)


def test_a_long_value_is_not_echoed_whole() -> None:
    with pytest.raises(ValidationError) as caught:
        parse({"a": {"in": "x" * 100_000}})
    assert len(str(caught.value)) < 300


def nested(depth: int) -> dict[str, Any]:
    raw: dict[str, Any] = {"a": 1}
    for _ in range(depth - 1):
        raw = {"not": raw}
    return raw


def test_depth_is_bounded() -> None:
    assert holds(nested(MAX_DEPTH), {"a": 1}) is (MAX_DEPTH % 2 == 1)
    with pytest.raises(ValidationError, match=f"nested deeper than {MAX_DEPTH} levels: flatten it"):
        parse(nested(MAX_DEPTH + 1))
    with pytest.raises(ValidationError, match="nested deeper"):
        parse(nested(100_000))


def test_a_filter_that_holds_itself_is_refused() -> None:
    raw: dict[str, Any] = {}
    raw["not"] = raw
    with pytest.raises(ValidationError, match="nested deeper"):
        parse(raw)


def test_the_number_of_conditions_is_bounded() -> None:
    assert parse({f"k{n}": n for n in range(MAX_CONDITIONS)}) is not None
    with pytest.raises(ValidationError, match=f"filter has {MAX_CONDITIONS + 1} conditions, the limit is {MAX_CONDITIONS}"):
        parse({f"k{n}": n for n in range(MAX_CONDITIONS + 1)})
    with pytest.raises(ValidationError, match="filter has 65 conditions"):
        parse({"or": [{"a": {"gt": 1, "lt": 9}}] * 32, "b": 1})


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.0, 1.0, 0.5]) | st.sampled_from(["", "a", "1"])
metadata = st.dictionaries(st.sampled_from("ab"), scalars | st.lists(scalars, max_size=3), max_size=2)
conditions = st.builds(
    lambda key, operator, value: {key: {operator: [value] if operator in ("in", "nin") else value}},
    st.sampled_from("ab"),
    st.sampled_from(["eq", "ne", "in", "nin", "contains"]),
    scalars,
)


@given(conditions, conditions, metadata)
def test_and_or_not_are_those_of_logic(left: dict[str, Any], right: dict[str, Any], data: dict[str, Any]) -> None:
    one, two = holds(left, data), holds(right, data)
    assert holds({"and": [left, right]}, data) is (one and two)
    assert holds({"or": [left, right]}, data) is (one or two)
    assert holds({"not": left}, data) is not one


@given(st.sampled_from("ab"), scalars, metadata)
def test_operators_with_a_negation_are_set_and_different(key: str, value: Any, data: dict[str, Any]) -> None:
    assert holds({key: {"ne": value}}, data) is (key in data and not holds({key: value}, data))
    assert holds({key: {"nin": [value]}}, data) is (key in data and not holds({key: {"in": [value]}}, data))
    assert holds({key: {"in": [value]}}, data) is holds({key: value}, data)


@pytest.mark.parametrize("raw", [{"a": "\ud800"}, {"a\ud800": 1}, {"a": {"in": ["\udfff"]}}])
def test_text_that_no_store_can_hold_is_refused(raw: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        parse(raw)
