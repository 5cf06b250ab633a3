"""Differences between index and store are found, reported with a remedy, and repaired without touching the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from keepstone.errors import IndexUnavailable
from keepstone.ports.caches import Entry
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.testing.builders import AWAY, HOME, LONG_AGO, add_id, at, vector, wording
from keepstone.vector_sync.indexing import Indexing, Repaired
from keepstone.vector_sync.sync import IndexSync
from tests.vector_sync.exact_index import ExactIndex
from tests.vector_sync.support import in_step, opened

REPAIR = "run 'keepstone index repair'"


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
    return IndexSync(store, index, chunk=4)


@pytest.fixture
def ids(store: Store, sync: IndexSync) -> list[str]:
    """Ten records in one scope and two in another, all fed."""
    made = [add_id(store, f"fact {n}") for n in range(10)]
    for n in range(2):
        add_id(store, f"theirs {n}", AWAY)
    for scope in (HOME, AWAY):
        sync.feed(scope)
    return made


def problems(store: Store, index: ExactIndex, sync: IndexSync) -> list[str]:
    findings = Indexing(store, index, sync).examine()
    assert {finding.check for finding in findings} <= {"index"}
    assert {finding.remedy for finding in findings} <= {REPAIR}
    return [finding.problem for finding in findings]


@pytest.mark.usefixtures("ids")
def test_an_index_in_step_has_no_findings(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    seen: list[tuple[int, int]] = []
    assert Indexing(store, index, sync).examine(lambda done, total: seen.append((done, total))) == []
    assert seen == [(1, 2), (2, 2)]
    assert Indexing(store, index, sync).repair() == Repaired(0, 0)


def spoiled(store: Store, index: ExactIndex, ids: list[str]) -> None:
    """Three entries lost, two changed, one slipped in; in the other scope one lost."""
    index.lose(HOME, [at(store, id) for id in ids[:3]])
    for id in ids[3:5]:
        index.spoil(HOME, at(store, id))
    index.slip_in(HOME, Entry(10**6, vector("foreign"), "0" * 16, "fact", "general", None))
    index.lose(AWAY, list(index.entries(AWAY))[:1])


def test_what_differs_is_found_and_only_that_is_mended(store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]) -> None:
    spoiled(store, index, ids)
    assert problems(store, index, sync) == [
        "tenant local, agent default, user dana: 3 memories are not in the index",
        "tenant local, agent default, user dana: 1 memory is in the index and should not be",
        "tenant local, agent default, user dana: 2 memories are in the index with another vector than in the store",
        "tenant local, agent default, user erik: 1 memory is not in the index",
    ]
    assert Indexing(store, index, sync).repair() == Repaired(6, 1)
    assert problems(store, index, sync) == []
    for scope in (HOME, AWAY):
        assert in_step(store, index, sync, scope)
    assert Indexing(store, index, sync).repair() == Repaired(0, 0)


def test_what_was_put_aside_or_forgotten_may_not_be_there(
    store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]
) -> None:
    before = index.entries(HOME)
    store.retention.archive(HOME, ids[:2])
    store.forget(HOME, Selector(id=ids[2]))
    gone = sorted(before)[:3]
    sync.feed(HOME)
    for sequence in gone:
        index.slip_in(HOME, before[sequence])
    assert problems(store, index, sync) == [
        "tenant local, agent default, user dana: 3 memories are in the index and should not be"
    ]
    assert Indexing(store, index, sync).repair() == Repaired(0, 3)
    assert in_step(store, index, sync, HOME)


def test_what_the_index_has_not_heard_of_yet_is_no_drift(
    store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]
) -> None:
    store.revise(HOME, ids[0], wording("another wording"))
    store.forget(HOME, Selector(id=ids[1]))
    add_id(store, "a new one")
    assert problems(store, index, sync) == []
    index.lose(HOME, [at(store, ids[5])])
    assert problems(store, index, sync) == ["tenant local, agent default, user dana: 1 memory is not in the index"]
    assert Indexing(store, index, sync).repair() == Repaired(3, 1)
    assert in_step(store, index, sync, HOME)
    assert not sync.is_behind(HOME)


def test_what_is_fed_while_it_is_compared_is_no_drift(store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]) -> None:
    other, done = IndexSync(store, index.beside()), [0]

    def meanwhile(call: str) -> None:
        if call in ("vector_hashes", "existing") and done[0] < 5:
            done[0] += 1
            store.revise(HOME, ids[done[0]], wording(f"wording {done[0]}"))
            add_id(store, f"more {done[0]}")
            other.feed(HOME)

    index.before = meanwhile
    assert problems(store, index, sync) == []
    assert done[0] >= 2


def test_a_scope_that_was_never_fed_or_lost_its_place_is_told(
    store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]
) -> None:
    store.forget(HOME, Selector(everything=True))
    assert problems(store, index, sync) == [
        "tenant local, agent default, user dana: entries from before it was forgotten are still in the index"
    ]
    add_id(store, "a new one")
    assert len(problems(store, index, sync)) == 2
    assert Indexing(store, index, sync).repair() == Repaired(1, 0)
    assert problems(store, index, sync) == []
    assert in_step(store, index, sync, HOME)


def test_a_long_gap_is_told_as_such(store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]) -> None:
    short = IndexSync(store, index, large_gap=3)
    for n in range(4):
        add_id(store, f"more {n}")
    assert [finding.problem for finding in Indexing(store, index, short).examine()] == [
        "tenant local, agent default, user dana: more than 3 changes are not in the index yet"
    ]


def test_an_index_that_is_away_is_one_finding(store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]) -> None:
    index.fail()
    findings = Indexing(store, index, sync).examine()
    assert [finding.problem for finding in findings] == ["exact in memory cannot be compared with the store: it was told to fail"]
    assert "can be reached" in findings[0].remedy


def test_without_its_embedder_a_store_is_not_taken_for_empty(path: Path, index: ExactIndex, ids: list[str]) -> None:
    bare = opened(path, None)
    sync = IndexSync(bare, index.beside())
    findings = Indexing(bare, index, sync).examine()
    assert [finding.remedy for finding in findings] == ["open the store with its embedder"]
    assert len(index.entries(HOME)) == 10
    bare.close()


def test_many_findings_are_cut(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    scopes = [HOME.narrowed(user=f"user {n:02}") for n in range(25)]
    for scope in scopes:
        add_id(store, "tea", scope)
    findings = Indexing(store, index, sync).examine()
    assert len(findings) == 21
    assert findings[-1].problem == "and 5 more findings of the index"
    assert Indexing(store, index, sync).rebuild() == 25
    assert Indexing(store, index, sync).examine() == []


def test_rebuilding_puts_everything_anew(store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]) -> None:
    spoiled(store, index, ids)
    assert sync.rebuild(HOME).put == 10
    assert in_step(store, index, sync, HOME)
    assert not in_step(store, index, sync, AWAY), "only the scope that was named"
    seen: list[tuple[int, int]] = []
    index.wipe()
    assert Indexing(store, index).rebuild(lambda done, total: seen.append((done, total))) == 12
    assert seen == [(1, 2), (2, 2)]
    for scope in (HOME, AWAY):
        assert in_step(store, index, sync, scope)


def test_a_rebuild_that_is_cut_short_goes_on_later(store: Store, index: ExactIndex, sync: IndexSync, ids: list[str]) -> None:
    index.fail("put")
    with pytest.raises(IndexUnavailable, match="told to fail"):
        sync.rebuild(HOME)
    assert index.entries(HOME) == {}
    assert sync.is_behind(HOME)
    index.well()
    sync.feed(HOME)
    assert in_step(store, index, sync, HOME)


def test_one_whose_time_has_passed_is_no_difference(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    add_id(store, "over", expires_at=LONG_AGO)
    add_id(store, "tea")
    sync.feed(HOME)
    assert problems(store, index, sync) == []
    assert len(index.entries(HOME)) == 2
    over = min(index.entries(HOME))
    index.lose(HOME, [over])
    assert problems(store, index, sync) == []
