"""Narrowing a recall or a list: kinds, tags, sessions, metadata; odd queries and small stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.errors import ValidationError
from tests.cli.support import Cli
from tests.surfaces.support import FACTS, START, contents


# -- filters ------------------------------------------------------------------------------------------------------
def test_kind_tag_and_session(memory: Memory) -> None:
    memory.remember("tea is green", tag="drinks", session="a")
    memory.remember("tea is black", tag="food", kind="note", session="b")
    memory.ingest([{"role": "user", "content": "tea is white"}], session="b")
    ask: dict[str, Any] = {"query": "tea", "min_similarity": 0}
    assert contents(memory.recall(**ask, tag="drinks")) == ["tea is green"]
    assert contents(memory.recall(**ask, kinds={"note"})) == ["tea is black"]
    assert contents(memory.recall(**ask, kinds="message")) == ["tea is white"]
    assert len(memory.recall(**ask, kinds=["note", "fact"])) == 2
    assert sorted(contents(memory.recall(**ask, session="b"))) == ["tea is black", "tea is white"]
    assert contents(memory.recall(**ask, session="b", kinds=["note"], tag="food")) == ["tea is black"]
    assert not memory.recall(**ask, kinds=[])
    assert not memory.recall(**ask, tag="absent")
    assert not memory.recall(**ask, session="drinks")


ROWS: list[dict[str, Any]] = [
    {"n": 1, "city": "Rome", "pets": ["cat", "dog"], "at": {"home": True, "floor": 2}},
    {"n": 2, "city": "Oslo", "pets": [], "at": {"home": False}},
    {"n": 3, "city": None, "text": "a catalogue"},
    {"n": 4.5, "city": "Rome"},
    {"n": 5, "flag": True, "one": "1"},
]
FILTERS: list[tuple[dict[str, Any], set[float]]] = [
    ({"city": "Rome"}, {1, 4.5}),
    ({"city": None}, {3}),
    ({"city": {"eq": "Oslo"}}, {2}),
    ({"city": {"ne": "Rome"}}, {2, 3}),
    ({"n": {"gt": 2, "lte": 4.5}}, {3, 4.5}),
    ({"n": {"gte": 2, "lt": 3}}, {2}),
    ({"city": {"gt": "P"}}, {1, 4.5}),
    ({"n": {"in": [1, 5, "2"]}}, {1, 5}),
    ({"city": {"nin": ["Rome"]}}, {2, 3}),
    ({"n": {"in": []}}, set()),
    ({"pets": {"contains": "cat"}}, {1}),
    ({"text": {"contains": "cat"}}, {3}),
    ({"flag": {"exists": True}}, {5}),
    ({"city": {"exists": False}}, {5}),
    ({"city": {"exists": True}, "pets": {"exists": True}}, {1, 2}),
    ({"at.home": True}, {1}),
    ({"at.floor": {"gte": 1}}, {1}),
    ({"flag": 1}, set()),
    ({"one": 1}, set()),
    ({"n": True}, set()),
    ({"or": [{"n": 1}, {"n": 2}]}, {1, 2}),
    ({"$or": [{"n": 1}, {"$and": [{"city": "Rome"}, {"n": {"$gt": 4}}]}]}, {1, 4.5}),
    ({"NOT": {"city": "Rome"}}, {2, 3, 5}),
    ({"and": [{"not": {"or": [{"n": 1}, {"n": 2}]}}, {"city": {"exists": True}}]}, {3, 4.5}),
    ({"n": {"gte": 2}, "not": {"city": "Rome"}}, {2, 3, 5}),
    ({}, {1, 2, 3, 4.5, 5}),
]


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Memory.open(tmp_path_factory.mktemp("rows") / "memory.db") as memory:
        memory.remember_many([{"content": f"row number {at}", "metadata": row} for at, row in enumerate(ROWS)])
        yield memory


@pytest.mark.parametrize(("filter", "expected"), FILTERS)
def test_metadata_filters_mean_the_same_in_recall_and_list(rows: Memory, filter: dict[str, Any], expected: set[float]) -> None:
    assert {hit.record.metadata["n"] for hit in rows.recall("row", filter=filter, min_similarity=0)} == expected
    assert {record.metadata["n"] for record in rows.list(filter=filter)} == expected
    past = rows.recall("row", filter=filter, min_similarity=0, as_of="2100-01-01")
    assert {hit.record.metadata["n"] for hit in past} == expected


@pytest.mark.parametrize(
    "filter",
    [
        "city = 'Rome'", ["city"], {"city": ["Rome"]}, {"city": {"like": "R%"}}, {"n": {"gt": None}}, {"n": {"gt": True}},
        {"n": {"in": "Rome"}}, {"n": {"exists": 1}}, {"": 1}, {"a..b": 1}, {"or": []}, {"not": {}}, {"n": {}},
        {"n": float("nan")},
        {"n": 2**63}, {"n": {"in": [[1]]}}, {5: 1}, {"x" * 300: 1}, {"a\0b": 1}, {"n": {"in": list(range(1001))}},
        {"or": [{"n": at} for at in range(65)]}, {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"not": {"n": 1}}}}}}}}},
    ],
)  # fmt: skip
def test_filters_that_are_refused(rows: Memory, filter: Any) -> None:
    with pytest.raises(ValidationError, match="filter"):
        rows.recall("row", filter=filter)
    with pytest.raises(ValidationError, match="filter"):
        rows.list(filter=filter)


@pytest.mark.parametrize("filter", [{"a\ud800": 1}, {"a": "\ud800"}, {"a": {"contains": "\ud800"}}], ids=["key", "value", "part"])
def test_half_a_surrogate_pair_in_a_filter_is_refused(rows: Memory, filter: Any) -> None:
    for call in (lambda: rows.recall("row", filter=filter), lambda: rows.list(filter=filter)):
        with pytest.raises(ValidationError):
            call()


def test_kinds_that_are_no_list_are_refused(rows: Memory) -> None:
    with pytest.raises(ValidationError, match="kinds"):
        rows.recall("row", kinds=5)  # type: ignore[arg-type]


# -- odd queries and small stores ---------------------------------------------------------------------------------
ODD = [
    'hello"', "AND", "OR NOT", "*", "a:b", "(", ")", "NEAR(", "NEAR(a b, 2)", "^row", "-row", "{row}", "text : row",
    "'; drop table record; --",
    "", " ", "\n\t", "\0", "\ud800", "\u200b", "🦉", "%_%", "\\", "row" * 4000, "word " * 5000, "s1", "日本語", "\u202erow",
]  # fmt: skip


@pytest.mark.parametrize("query", ODD, ids=range(len(ODD)))
def test_odd_queries_are_answered(rows: Memory, query: str) -> None:
    assert len(rows.recall(query, min_similarity=0)) == 5
    assert len(rows.recall(query)) <= 5
    assert isinstance(rows.context(query), str)
    assert rows.why(query, rows.list()[0].id).score <= 1
    assert len(rows.recall(query, min_similarity=0, as_of="2100-01-01")) == 5


@pytest.mark.parametrize("query", [None, 5, b"row", ["row"]])
def test_queries_that_are_no_text_are_refused(rows: Memory, query: Any) -> None:
    for call in (lambda: rows.recall(query), lambda: rows.context(query), lambda: rows.why(query, rows.list()[0].id)):
        with pytest.raises(ValidationError, match="query"):
            call()


def test_a_store_with_nothing_in_it(memory: Memory) -> None:
    found = memory.recall("anything", min_similarity=0)
    assert (len(found), found.considered, found.left_out, found.notes) == (0, 0, 0, ())
    assert not memory.recall("anything", as_of=START)
    assert memory.context("anything") == ""
    assert memory.list().records == ()


@pytest.mark.parametrize("size", [1, 3])
def test_a_store_with_hardly_anything_in_it(memory: Memory, size: int) -> None:
    memory.remember_many(FACTS[:size])
    assert memory.recall("Does Dana play an instrument?")[0].content == "Dana plays the cello in a string quartet."
    assert not memory.recall("kubernetes ingress TLS termination")
    assert len(memory.recall("kubernetes", min_similarity=0)) == size


def test_filters_find_their_records_in_a_scope_too_large_to_hold(path: Path) -> None:
    with Memory.open(path, settings={"cache_mb": 1, "durable": False}) as memory:
        memory.ingest([{"role": "user", "content": f"tea note {at} about topic{at % 50}"} for at in range(2000)], session="s")
        memory.remember("Umbrellas are in the hall.", tag="rare", session="r", metadata={"rare": True})
        for narrowed in ({"tag": "rare"}, {"session": "r"}, {"kinds": ["fact"]}, {"filter": {"rare": True}}):
            assert contents(memory.recall("tea note", min_similarity=0, **narrowed)) == ["Umbrellas are in the hall."]


# -- a memory's own text ------------------------------------------------------------------------------------------
DRINKS = ("Dana drinks green tea.", "Dana drinks black tea with milk.", "Dana drinks coffee with milk.")


def test_a_filter_on_the_text(memory: Memory) -> None:
    for number, fact in enumerate(DRINKS):
        memory.remember(fact, metadata={"n": number})
    ask: dict[str, Any] = {"query": "What does Dana drink?", "min_similarity": 0}
    expected: list[tuple[dict[str, Any], set[int]]] = [
        ({"contains": "tea"}, {0, 1}),
        ({"$contains": "with milk."}, {1, 2}),
        ({"not_contains": "milk"}, {0}),
        ({"contains": "tea", "not_contains": "milk"}, {0}),
        ({"contains": "TEA"}, set()),
        ({"or": [{"contains": "green"}, {"contains": "coffee"}]}, {0, 2}),
        ({"not": {"contains": "tea"}, "n": {"gte": 1}}, {2}),
        ({"contains": {"eq": "tea"}}, set()),
    ]
    for filter, numbers in expected:
        wanted = {DRINKS[number] for number in numbers}
        assert set(contents(memory.recall(**ask, filter=filter))) == wanted, filter
        assert {record.content for record in memory.list(filter=filter)} == wanted, filter
    for bad in ("", "x" * 1001):
        with pytest.raises(ValidationError, match="filter 'contains' has"):
            memory.list(filter={"contains": bad})


def test_a_filter_on_the_text_is_for_tools_too(memory: Memory) -> None:
    for fact in DRINKS:
        memory.remember(fact)
    for query in ({"query": "What does Dana drink?"}, {}):
        found = memory.call_tool("recall_memory", {**query, "contains": "tea", "not_contains": "milk"})
        assert [each["content"] for each in found["memories"]] == [DRINKS[0]]
    assert memory.call_tool("recall_memory", {"contains": 7}) == {"error": "contains must be text, got int."}


def test_a_filter_on_the_text_sees_the_past_as_it_was(memory: Memory) -> None:
    id = memory.remember("Dana drinks tea.", occurred_at="2026-01-01").id or ""
    memory.update(id, "Dana drinks coffee.", occurred_at="2026-03-01")
    ask: dict[str, Any] = {"query": "What does Dana drink?", "min_similarity": 0, "filter": {"contains": "tea"}}
    assert contents(memory.recall(**ask, as_of="2026-02-01")) == ["Dana drinks tea."]
    assert contents(memory.recall(**ask)) == []


@pytest.mark.parametrize("way", ["in memory", "mapped", "too large", "external index"])
def test_a_filter_on_the_text_however_a_scope_is_searched(tmp_path: Path, way: str) -> None:
    from tests.vector_sync.exact_index import ExactIndex

    settings = {"mapped": {"approximate_from": 20}, "too large": {"cache_mb": 1, "approximate_from": 0}}.get(way, {})
    # A megabyte holds some 700 records: 1,200 make a scope that is searched in the store.
    extra = [f"Note {number} about tea and other things." for number in range(1200 if way == "too large" else 40)]
    index = ExactIndex() if way == "external index" else None
    with Memory.open(tmp_path / "m.db", settings={"durable": False, **settings}, index=index) as memory:
        for start in range(0, len(extra), 100):
            memory.remember_many(extra[start : start + 100])
        for fact in DRINKS:
            memory.remember(fact)
        ask: dict[str, Any] = {"query": "What does Dana drink with tea?", "min_similarity": 0, "limit": 50}
        assert set(contents(memory.recall(**ask, filter={"contains": "Dana"}))) == set(DRINKS)
        found = contents(memory.recall(**ask, filter={"contains": "tea", "not_contains": "Note"}))
        assert set(found) == set(DRINKS[:2])


def test_a_filter_on_the_text_on_the_command_line(cli: Cli) -> None:
    for fact in DRINKS:
        cli("remember", fact)
    asked = ("--contains", "tea", "--not-contains", "milk", "--json")
    assert [hit["content"] for hit in cli("recall", "What does Dana drink?", *asked).json["hits"]] == [DRINKS[0]]
    assert [record["content"] for record in cli("list", *asked).json["records"]] == [DRINKS[0]]
    both = cli("list", "--contains", "tea", "--contains", "black", "--filter", '{"n": {"exists": false}}', "--json").json
    assert [record["content"] for record in both["records"]] == [DRINKS[1]]
