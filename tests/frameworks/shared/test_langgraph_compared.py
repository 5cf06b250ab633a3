"""KeepstoneStore beside LangGraph's own store: filters, namespaces, vectors of an index, and items that have their time."""

from __future__ import annotations

import asyncio
import concurrent.futures
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from langgraph.store.base import ListNamespacesOp, MatchCondition
from langgraph.store.memory import InMemoryStore

from keepstone import Memory
from keepstone.errors import ConfigurationError
from keepstone.integrations.langgraph import KeepstoneStore
from keepstone.types import Record
from tests.frameworks.shared.langgraph_support import letters, record_of, store_, until  # noqa: F401  (fixtures)

# -- beside LangGraph's own store ---------------------------------------------------------------------------------------
VALUES: list[dict[str, Any]] = [
    {"n": 1, "name": "one", "tags": ["a"], "inner": {"x": 1, "y": "z"}, "yes": True},
    {"n": 2.5, "name": "two", "tags": ["a", "b"], "inner": {"x": 2}, "yes": False},
    {"n": 10, "name": "ten", "tags": [], "inner": {}, "nothing": None},
    {"n": -3, "name": "O'Brien", "tags": ["b"], "inner": {"x": 1, "y": {"deep": [1, 2]}}},
]
FILTERS: list[dict[str, Any]] = [
    {}, {"name": "one"}, {"name": "O'Brien"}, {"name": "none"}, {"n": 1}, {"n": 2.5}, {"n": 10}, {"yes": True}, {"yes": False},
    {"nothing": None}, {"missing": None}, {"tags": ["a", "b"]}, {"tags": []}, {"inner": {"x": 1}},
    {"inner": {"y": {"deep": [1, 2]}}},
    {"n": {"$gt": 1}}, {"n": {"$gte": 1, "$lt": 10}}, {"n": {"$lte": -3}}, {"n": {"$ne": 10}}, {"name": {"$ne": "one"}},
    {"n": {"$eq": 10}}, {"missing": {"$ne": 1}}, {"missing": {"$eq": None}}, {"n": {"$lt": float("inf")}},
    {"n": {"$lt": 10**100}},
    {"n": {"$eq": float("nan")}}, {"name": "two", "n": {"$gt": 0}}, {"name": "a\0b"},
]  # fmt: skip


def filled(store: Any) -> Any:
    for at, value in enumerate(VALUES):
        store.put(("docs", f"part{at % 2}"), f"k{at}", value)
    return store


@pytest.fixture(scope="module")
def filled_store() -> Iterator[KeepstoneStore]:
    with KeepstoneStore.from_conn_string(":memory:") as store:
        yield filled(store)


@pytest.mark.parametrize("filter", FILTERS, ids=map(repr, FILTERS))
def test_a_filter_means_what_it_means_to_langgraph(filled_store: KeepstoneStore, filter: dict[str, Any]) -> None:
    wanted = {item.key for item in filled(InMemoryStore()).search(("docs",), filter=filter)}
    assert {item.key for item in filled_store.search(("docs",), filter=filter)} == wanted
    ranked = filled_store.search(("docs",), filter=filter, query="one two ten")
    assert {item.key for item in ranked} == wanted


def test_filters_that_langgraphs_stores_disagree_about(filled_store: KeepstoneStore) -> None:
    def keys(filter: dict[str, Any]) -> set[str]:
        return {item.key for item in filled_store.search((), filter=filter)}

    assert keys({"inner.x": 1}) == {"k0", "k3"}
    assert keys({"inner": {"x": {"$gt": 1}}}) == {"k1"}
    assert keys({"inner.y.deep": [1, 2]}) == {"k3"}
    assert keys({"missing": {"$gt": 1}}) == keys({"tags": {"$lt": 1}}) == set()
    assert keys({"name": {"$gt": "ten"}}) == {"k1"}
    for bad in ({"a b": 1}, {"x') OR 1=1 --": 1}, {"": 1}):
        with pytest.raises(ValueError, match="Invalid filter key"):
            keys(bad)
    with pytest.raises(ValueError, match="Unsupported operator"):
        keys({"n": {"$near": 1}})


SPACES = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "c", "f"),
    ("b", "a", "f"),
    ("a",),
    ("ab", "c"),
    ("x*",),
]
ASKED: list[dict[str, Any]] = [
    {}, {"prefix": ("a",)}, {"prefix": ("a", "b")}, {"suffix": ("f",)}, {"prefix": ("a",), "suffix": ("f",)}, {"limit": 2},
    {"prefix": ("a", "*", "f")}, {"suffix": ("*", "f")}, {"prefix": ("*",)}, {"prefix": ("x*",)},
    {"prefix": ("a", "b"), "max_depth": 3}, {"max_depth": 1},
    {"limit": 2, "offset": 3}, {"offset": 100}, {"prefix": ("nowhere",)}, {"max_depth": 2, "limit": 3, "offset": 1},
]  # fmt: skip


@pytest.mark.parametrize("asked", ASKED, ids=map(repr, ASKED))
def test_namespaces_are_listed_as_langgraph_lists_them(asked: dict[str, Any]) -> None:
    theirs = InMemoryStore()
    with KeepstoneStore.from_conn_string(":memory:") as ours:
        for store in (theirs, ours):
            for space in SPACES:
                store.put(space, "b", {"x": 1})
        assert ours.list_namespaces(**asked) == theirs.list_namespaces(**asked)
        assert [item.namespace for item in ours.search(("a", "b"), limit=9) if item.namespace[:2] != ("a", "b")] == []


def test_a_match_of_another_kind_is_refused(store: KeepstoneStore) -> None:
    store.put(("a",), "k", {"x": 1})
    with pytest.raises(ValueError, match="Unsupported match type"):
        store.batch([ListNamespacesOp((MatchCondition("infix", ("a",)),))])  # type: ignore[arg-type]


def test_vectors_of_the_given_index_rank_as_theirs_do(memory: Memory) -> None:
    index: Any = {"dims": 26, "embed": letters, "fields": ["title", "parts[*].text"]}
    theirs, ours = InMemoryStore(index=index), KeepstoneStore(memory, index=index)
    for store in (theirs, ours):
        store.put(("d",), "zebra", {"title": "zzz", "parts": [{"text": "aab"}, {"text": "zebra"}]})
        store.put(("d",), "apple", {"title": "apple", "other": "zzz"})
        store.put(("d",), "own", {"note": "zany"}, index=["note"])
        store.put(("d",), "plain", {"title": "zzz"}, index=False)
        store.put(("d",), "without", {"other": "zzz"})
    for query in ("zzz", "apple", "zany", "quick"):
        expected, found = (store.search(("d",), query=query) for store in (theirs, ours))
        scores = {item.key: item.score for item in expected}
        assert {item.key for item in found} == set(scores)
        assert [item.score for item in found if item.score is not None] == pytest.approx(
            [item.score for item in expected if item.score is not None], abs=1e-5
        )
        assert all((item.score is None) == (scores[item.key] is None) for item in found)
    assert [item.key for item in ours.search(("d",), query="zzz", limit=1)] == ["zebra"]
    assert [hit.content for hit in memory.recall("apple", limit=1)] == ["apple"]
    assert KeepstoneStore(memory, index=index).search(("d",), query="apple")[0].key == "apple"  # the vectors are on disk


def test_an_index_that_cannot_be_is_refused(memory: Memory) -> None:
    with pytest.raises(ConfigurationError, match="cosine"):
        KeepstoneStore(memory, index={"dims": 2, "embed": letters, "distance_type": "l2"})  # type: ignore[typeddict-unknown-key]
    only_fields = KeepstoneStore(memory, index={"fields": ["said"]})
    only_fields.put(("a",), "k", {"said": "Dana plays chess.", "other": "golf"})
    assert memory.recall("chess")[0].content == "Dana plays chess."


def test_vectors_of_a_coroutine(memory: Memory) -> None:
    async def embed(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return letters(texts)

    async def run() -> list[str]:
        async with KeepstoneStore(memory, index={"dims": 26, "embed": embed}) as store:
            await asyncio.gather(*(store.aput(("w",), word, {"word": word}) for word in ("zebra", "apple", "mango")))
            return [item.key for item in await store.asearch(("w",), query="mango word", limit=1)]

    assert asyncio.run(run()) == ["mango"]


# -- time to live -------------------------------------------------------------------------------------------------------
def test_an_item_is_gone_when_its_time_is_over(memory: Memory) -> None:
    store = KeepstoneStore(memory, ttl={"default_ttl": 60})
    store.put(("t",), "now", {"x": "over at once"}, ttl=0)
    store.put(("t",), "hour", {"x": "an hour"})
    store.put(("t",), "ever", {"x": "for ever"}, ttl=None)
    until(lambda: store.get(("t",), "now") is None, "it is still there")
    assert {item.key for item in store.search(("t",), query="over")} == {"hour", "ever"}
    assert store.sweep_ttl() == 1
    assert store.sweep_ttl() == 0
    assert {item.key for item in store.search(())} == {"hour", "ever"}
    assert [row.action for row in memory.audit(limit=1)] == ["forgotten"]


def test_a_put_says_anew_how_long(memory: Memory) -> None:
    store = KeepstoneStore(memory)
    for ttl, lasts in ((None, False), (5, True), (None, False), (5, True), (1, True)):
        store.put(("t",), "k", {"x": 1}, ttl=ttl)
        record = record_of(memory)
        assert (record.expires_at is not None) is lasts
    left = (record.expires_at - record.updated_at).total_seconds()  # type: ignore[operator]
    assert left <= 61


@pytest.mark.parametrize("way", ["get", "search", "neither"])
def test_reading_starts_the_time_anew(memory: Memory, way: str) -> None:
    store = KeepstoneStore(memory, ttl={"default_ttl": 1, "refresh_on_read": way != "neither"})
    store.put(("t",), "k", {"x": 1})
    before = record_of(memory)

    def read() -> bool:
        assert store.get(("t",), "k", refresh_ttl=False) is not None
        found = store.get(("t",), "k") if way == "get" else store.search(("t",))[0]
        assert found is not None
        assert found.updated_at == store.get(("t",), "k", refresh_ttl=False).updated_at
        after = record_of(memory)
        assert after.version == before.version
        assert after.expires_at is not None
        assert before.expires_at is not None
        return after.expires_at > before.expires_at

    if way == "neither":
        assert not any(read() for _ in range(20))
    else:
        until(read, "it expires when it did before")


class Meddled:
    """A memory in which something happens between a look at a record and what follows, once."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.then: list[Callable[[], None]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)

    def get(self, *given: Any, **named: Any) -> Record | None:
        record = self._memory.get(*given, **named)
        if len(self.then) == 1:
            self.then.pop()()
        elif self.then:
            self.then.pop(0)
        return record


@pytest.mark.parametrize("index", [None, False])
def test_a_write_between_a_read_and_its_refresh_stands(memory: Memory, index: Any) -> None:
    meddled, other = Meddled(memory), KeepstoneStore(memory)
    store = KeepstoneStore(meddled, ttl={"default_ttl": 0.2, "refresh_on_read": True})

    def while_refreshing(what: Callable[[], None]) -> None:
        store.put(("t",), "k", {"by": "first"}, index)
        until(lambda: other.get(("t",), "k") is not None, "it is not there")
        time.sleep(0.15)  # more than a hundredth of its time: a read is worth writing down
        meddled.then = [lambda: None, what]  # after the look of the read itself comes that of the refresh
        assert store.get(("t",), "k") is not None
        assert not meddled.then

    while_refreshing(lambda: other.put(("t",), "k", {"by": "other"}, index, ttl=None))
    item = other.get(("t",), "k")
    assert item is not None
    assert item.value == {"by": "other"}
    assert memory.get(key='langgraph:["t","k"]').expires_at is None  # type: ignore[union-attr]
    while_refreshing(lambda: other.delete(("t",), "k"))
    assert other.get(("t",), "k") is None


def test_a_thread_sweeps(memory: Memory) -> None:
    store = KeepstoneStore(memory, ttl={"sweep_interval_minutes": 1 / 6000})  # type: ignore[typeddict-item]
    store.put(("t",), "k", {"x": "soon gone"}, ttl=0.001)
    id = memory.get(key='langgraph:["t","k"]').id  # type: ignore[union-attr]
    sweeper = store.start_ttl_sweeper()
    assert isinstance(sweeper, concurrent.futures.Future)
    assert not sweeper.done()
    until(lambda: memory.get(id) is None, "it was not swept")
    assert store.stop_ttl_sweeper(timeout=10) is True
    sweeper.result(timeout=10)
    assert store.start_ttl_sweeper(5).cancel()
    until(lambda: store.stop_ttl_sweeper(timeout=0) is True, "it goes on although it was cancelled")
    assert KeepstoneStore(memory).start_ttl_sweeper().result(timeout=0) is None
