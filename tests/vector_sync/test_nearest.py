"""Searching: by the index while it can be used, by the store when it cannot, and always said in words."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone.errors import EmbedderError
from keepstone.ports.caches import Entry
from keepstone.ports.filters import parse
from keepstone.ports.stores import Store
from keepstone.ports.values import SearchFilter, Selector
from keepstone.testing.builders import AWAY, HOME, add_id, at, vector, wording
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.compare import hash_vector
from keepstone.vector_sync.search import IndexSearch
from keepstone.vector_sync.sync import IndexSync
from tests.vector_sync.exact_index import ExactIndex
from tests.vector_sync.support import embed_pending, in_step, opened

AWAY_NOTE = "the index exact in memory cannot be reached (it was told to fail): searched in the store instead"
TEA = vector("tea")


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened_store = opened(path)
    yield opened_store
    opened_store.close()


@pytest.fixture
def index() -> ExactIndex:
    return ExactIndex()


@pytest.fixture
def sync(store: Store, index: ExactIndex) -> IndexSync:
    return IndexSync(store, index, large_gap=50)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def nearest(store: Store, sync: IndexSync, clock: Clock) -> Iterator[IndexSearch]:
    made = IndexSearch(store, sync, clock=clock)
    yield made
    made.close()


def scanned(store: Store, limit: int = 5, narrow: SearchFilter = SearchFilter()) -> list[int]:
    """What the store itself finds."""
    return list(store.search_vectors(HOME, TEA, limit, narrow))


def fill(store: Store, count: int = 12) -> list[str]:
    return [
        add_id(store, f"fact {n}", tag="ab"[n % 2], kind="fact" if n % 3 else "note", session=f"s{n % 2}") for n in range(count)
    ]


@pytest.mark.parametrize(
    "narrow",
    [
        SearchFilter(),
        SearchFilter(kinds=("note",)),
        SearchFilter(tag="a"),
        SearchFilter(session="s1"),
        SearchFilter(kinds=("fact", "note"), tag="b", session="s1"),
    ],
)
def test_the_index_gives_what_the_store_would(
    store: Store, index: ExactIndex, nearest: IndexSearch, narrow: SearchFilter
) -> None:
    fill(store)
    add_id(store, "theirs", AWAY)
    store.search_vectors, scan = lambda *given: pytest.fail("the store was asked"), store.search_vectors  # type: ignore[method-assign]
    found, notes = nearest.search(HOME, TEA, 5, narrow)
    store.search_vectors = scan  # type: ignore[method-assign]
    assert (found, notes) == (scanned(store, 5, narrow), ())
    assert found


def test_what_was_just_written_or_forgotten_is_known(store: Store, nearest: IndexSearch) -> None:
    ids = fill(store)
    assert nearest.search(HOME, TEA, 5)[0] == scanned(store)
    tea = add_id(store, "tea")
    assert nearest.search(HOME, TEA, 1) == ([at(store, tea)], ())
    store.revise(HOME, tea, wording("something else"))
    assert nearest.search(HOME, TEA, 5) == (scanned(store), ())
    store.forget(HOME, Selector(ids=tuple(ids[:6])))
    assert nearest.search(HOME, TEA, 20) == (scanned(store, 20), ())


def test_nothing_of_one_scope_reaches_another(store: Store, index: ExactIndex, nearest: IndexSearch) -> None:
    add_id(store, "tea", AWAY)
    mine = add_id(store, "coffee")
    assert nearest.search(HOME, TEA, 5) == ([at(store, mine)], ())
    assert index.entries(AWAY) == {}
    theirs, notes = nearest.search(AWAY, TEA, 5)
    assert (len(theirs), notes) == (1, ())
    assert set(theirs).isdisjoint(index.entries(HOME))
    assert nearest.search(HOME, TEA, 0) == ([], ())


@pytest.mark.parametrize(
    "narrow",
    [
        SearchFilter(filter=parse({"city": "Rome"})),
        SearchFilter(min_importance=0.8),
        SearchFilter(min_trust=0.9),
        SearchFilter(filter=parse({"city": "Rome"}), min_importance=0.8, tag="a"),
        SearchFilter(steps=False),
    ],
)
def test_what_an_index_does_not_know_is_sorted_out(store: Store, nearest: IndexSearch, narrow: SearchFilter) -> None:
    for n in range(30):
        add_id(
            store, f"fact {n}", tag="ab"[n % 2], importance=0.9 if n % 5 == 0 else 0.1, trust=0.95 if n % 4 == 0 else 0.5,
            metadata={"city": "Rome" if n % 10 == 0 else "Oslo"},
        )  # fmt: skip
    for n in range(10):
        add_id(store, f"step {n}", kind="message", tag="step", session="task", role="assistant")
    for limit in (1, 3, 8, 40):
        found, notes = nearest.search(HOME, TEA, limit, narrow)
        assert (found, notes) == (scanned(store, limit, narrow), ())
        assert found


# -- when it cannot be used -------------------------------------------------------------------------------------------
@pytest.mark.parametrize("call", ["open", "put", "search"])
def test_an_index_that_is_away_is_said_and_the_store_is_searched(
    store: Store, index: ExactIndex, nearest: IndexSearch, call: str
) -> None:
    fill(store)
    index.fail(call)
    assert nearest.search(HOME, TEA, 5) == (scanned(store), (AWAY_NOTE,))


def test_after_a_failure_the_index_is_left_alone_for_a_while(
    store: Store, index: ExactIndex, nearest: IndexSearch, clock: Clock
) -> None:
    fill(store)
    index.fail()
    nearest.search(HOME, TEA, 5)
    calls = len(index.calls)
    for _ in range(3):
        assert nearest.search(HOME, TEA, 5) == (scanned(store), (AWAY_NOTE,))
    assert nearest.search(AWAY, TEA, 5) == ([], (AWAY_NOTE,))
    assert len(index.calls) == calls
    clock.now += 5.1
    assert nearest.search(HOME, TEA, 5)[1] == (AWAY_NOTE,)
    assert len(index.calls) > calls, "it was tried again"
    index.well()
    assert nearest.search(HOME, TEA, 5)[1] == (AWAY_NOTE,), "and is left alone again"
    clock.now += 5.1
    assert nearest.search(HOME, TEA, 5) == (scanned(store), ())


def test_another_feeder_is_no_failure(store: Store, index: ExactIndex, sync: IndexSync, nearest: IndexSearch) -> None:
    fill(store)
    with IndexSync(store, index.beside())._lease(HOME, 0):
        found, notes = nearest.search(HOME, TEA, 5)
    assert found == scanned(store)
    assert notes == ("the index exact in memory: another process is bringing it up to date; searched in the store instead",)
    assert nearest.search(HOME, TEA, 5) == (scanned(store), ())


def test_a_scope_that_is_far_behind_is_fed_in_the_background(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    fill(store, 60)
    worker = FeedWorker(sync)
    nearest = IndexSearch(store, sync, worker)
    found, notes = nearest.search(HOME, TEA, 5)
    assert found == scanned(store)
    assert notes == ("the index exact in memory lacks more than 50 changes and is being fed: searched in the store instead",)
    assert worker.drain(30)
    assert in_step(store, index, sync, HOME)
    assert nearest.search(HOME, TEA, 5) == (scanned(store), ())
    nearest.close()


def test_an_engine_that_lost_everything_is_noticed(store: Store, index: ExactIndex, nearest: IndexSearch) -> None:
    fill(store)
    nearest.search(HOME, TEA, 5)
    index.wipe()
    assert nearest.search(HOME, TEA, 5)[1] == ("the index exact in memory cannot be reached (there is no space "
        f"{nearest._sync.space()}): searched in the store instead",)  # fmt: skip
    later = IndexSearch(store, nearest._sync)
    assert later.search(HOME, TEA, 5) == (
        scanned(store),
        ("the index exact in memory has lost entries (searched in the store instead): run 'keepstone index repair'",),
    )
    later.close()


def test_entries_of_others_are_numbers_that_the_store_does_not_have(
    store: Store, index: ExactIndex, nearest: IndexSearch
) -> None:
    ids = fill(store, 3)
    nearest.search(HOME, TEA, 5)
    index.slip_in(HOME, Entry(10**6, TEA, hash_vector(TEA), "fact", "a", None))
    found, _ = nearest.search(HOME, TEA, 5)
    assert found[0] == 10**6
    assert store.fetch(HOME, found)[0] is None
    assert set(store.index_rows(HOME, found).sequences.tolist()) == {at(store, id) for id in ids}
    assert 10**6 not in nearest.search(HOME, TEA, 5, SearchFilter(steps=False))[0]


def test_a_vector_of_another_embedder_is_never_compared_with_the_index(
    path: Path, store: Store, index: ExactIndex, nearest: IndexSearch
) -> None:
    fill(store)
    nearest.search(HOME, TEA, 5)
    other = opened(path)
    other.change_embedder("same width", 8)
    embed_pending(other, 8, "other ")
    IndexSync(other, index.beside()).feed(HOME)
    assert nearest.search(HOME, TEA, 5)[0] == scanned(store) == []
    assert len(IndexSearch(other, IndexSync(other, index.beside())).search(HOME, TEA, 5)[0]) == 5
    with pytest.raises(EmbedderError):
        IndexSearch(other, IndexSync(other, index.beside())).search(HOME, vector("tea", 4), 5)
    other.close()
