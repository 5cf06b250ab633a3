"""What `matching` and `list(filter=…)` promise: the meaning that `keepstone.ports.filters.matches` gives a filter."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.ports import filters
from keepstone.ports.filters import All, AnyOf, Condition, Filter, Not
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery, Write
from keepstone.testing.builders import ANY_ORDER, HOME, NeedsStore, at, draft
from keepstone.types import Metadata, Scope

# fmt: off
KEYS = ["a", "b", 'quo"te', "it's", "ключ", "a b", "$", "$.a", "0", "[0]", "[#-1]", "back\\slash", "%",
        "*", "🎉", "AND", ":n"]
TEXTS = ["", "a", "A", "ab", "b", "1", "true", "null", "it's", 'a"b', "é", "e\u0301", "ß", "日本", "🎉", "%",
         "_", "a\\b", "z\n"]
NUMBERS: list[int | float] = [0, 1, -1, 2, 1.0, 0.5, -0.0, 1e-9, 10**6, 2.0**53, 2**53, 2**53 - 1,
                              -(2**53), 1e300, -1e300]
# fmt: on

_fresh = count()

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
ordered = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
keys = st.sampled_from(KEYS)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
metadata = st.dictionaries(keys, values, max_size=4)
paths = st.lists(keys, min_size=1, max_size=3).map(tuple)
conditions = st.one_of(
    st.builds(Condition, paths, st.sampled_from(["eq", "ne", "contains"]), scalars),
    st.builds(Condition, paths, st.sampled_from(["gt", "gte", "lt", "lte"]), ordered),
    st.builds(Condition, paths, st.sampled_from(["in", "nin"]), st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Condition, paths, st.just("exists"), st.booleans()),
)
trees: st.SearchStrategy[Filter] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: All(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)


def agrees(store: Store, stored: list[Metadata], asked: list[Filter], scope: Scope) -> None:
    """Store one record for each metadata; every filter has to find those that `matches` finds."""
    writes = [Write(draft(f"record {n}", kind="message", metadata=each)) for n, each in enumerate(stored)]
    sequences = [at(store, receipt.id or "", scope) for receipt in store.write(scope, writes)]
    for filter in asked:
        expected = [sequence for sequence, each in zip(sequences, stored, strict=True) if filters.matches(filter, each)]
        assert store.matching(scope, filter).tolist() == expected, filter
        listed = [sequence for sequence, _ in store.list(scope, ListQuery(filter=filter, limit=1000))]
        assert listed == expected[::-1], filter


STORED: list[Metadata] = [
    {},
    {"city": "Rome", "age": 17, "pets": ["cat", "dog"], "vip": True, "email": None},
    {"city": "Oslo", "age": 18.0, "pets": "a cat", "vip": False, "address": {"city": "Rome", "geo": {"lat": 59.9}}},
    {"city": "rome", "age": "18", "pets": [], "vip": 1, "address": "Rome"},
    {"city": ["Rome"], "age": True, "pets": ["CAT", 1, None, ["cat"]], "vip": "true", "address": {"city": None}},
    {"city": {"Rome": 1}, "age": None, "pets": {"cat": "cat"}, "vip": 0, "email": ""},
    {"city": "", "age": 2**63 - 1, "pets": [1, True, "1"], "address": [{"city": "Rome"}]},
    {"address.city": "Rome", "age": -(2**63), "pets": [0, False]},
]
ASKED: list[dict[str, Any]] = [
    {"city": "Rome"},
    {"city": ""},
    {"city": None},
    {"email": None},
    {"age": 18},
    {"age": "18"},
    {"age": 1},
    {"age": 2**63 - 1},
    {"age": 2**63 - 2},
    {"age": -(2**63)},
    {"vip": True},
    {"vip": False},
    {"vip": 1},
    {"vip": 0},
    {"vip": "true"},
    {"city": {"ne": "Rome"}},
    {"email": {"ne": None}},
    {"age": {"gte": 18, "lt": 65}},
    {"age": {"gt": 17}},
    {"age": {"lte": 17}},
    {"age": {"gt": "1"}},
    {"city": {"gt": "Oslo"}},
    {"city": {"lte": "Rome"}},
    {"city": {"in": ["Rome", "Oslo", None]}},
    {"city": {"in": []}},
    {"city": {"nin": ["Rome"]}},
    {"city": {"nin": []}},
    {"age": {"in": [17, "18", True]}},
    {"pets": {"contains": "cat"}},
    {"pets": {"contains": "CAT"}},
    {"pets": {"contains": ""}},
    {"pets": {"contains": 1}},
    {"pets": {"contains": True}},
    {"pets": {"contains": False}},
    {"pets": {"contains": None}},
    {"email": {"exists": True}},
    {"email": {"exists": False}},
    {"address.city": "Rome"},
    {"address.city": {"exists": True}},
    {"address.geo.lat": {"lt": 60}},
    {"address.0.city": "Rome"},
    {"or": [{"city": "Rome"}, {"vip": False}]},
    {"not": {"city": "Rome"}},
    {"not": {"email": {"exists": True}}, "age": {"exists": True}},
    {"and": [{"city": {"exists": True}}, {"not": {"or": [{"age": 17}, {"age": {"gt": 17}}]}}]},
    {"city' OR 1=1 --": {"exists": False}},
    {'city") OR (1=1': "Rome"},
]


class FilteringContract(NeedsStore):
    @pytest.mark.parametrize("raw", ASKED, ids=repr)
    def test_every_operator_means_what_it_says(self, bound: Store, raw: dict[str, Any]) -> None:
        tree = filters.parse(raw)
        assert tree is not None
        agrees(bound, STORED, [tree], HOME)

    @pytest.mark.parametrize("key", KEYS)
    def test_odd_keys(self, bound: Store, key: str) -> None:
        stored: list[Metadata] = [{key: "x"}, {"other": "x"}, {key: {key: 1}}, {key: ["x"]}, {key: None}, {}]
        asked: list[Filter] = [
            Condition((key,), "eq", "x"),
            Condition((key,), "exists", True),
            Condition((key,), "exists", False),
            Condition((key,), "contains", "x"),
            Condition((key,), "eq", None),
            Condition((key, key), "gte", 1),
        ]
        agrees(bound, stored, asked, HOME)

    @settings(ANY_ORDER, max_examples=60)
    @given(stored=st.lists(metadata, min_size=1, max_size=8), asked=st.lists(trees, min_size=1, max_size=6))
    def test_any_filter_over_any_metadata(self, bound: Store, stored: list[Metadata], asked: list[Filter]) -> None:
        agrees(bound, stored, asked, Scope("local", "default", f"user-{next(_fresh)}"))

    def test_a_filter_with_many_conditions(self, bound: Store) -> None:
        many = filters.parse({"or": [{f"key{n}": n} for n in range(filters.MAX_CONDITIONS)]})
        wide = filters.parse({"n": {"in": list(range(1000))}})
        assert many is not None
        assert wide is not None
        agrees(bound, [{"key63": 63}, {"key63": 62}, {"n": 999}, {"n": 1000}], [many, wide], HOME)
