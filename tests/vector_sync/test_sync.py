"""The index is fed with what changed, loses nothing in a crash, and what is forgotten is seen to be gone."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone.errors import IndexUnavailable
from keepstone.ports.stores import Store
from keepstone.ports.values import Selector
from keepstone.testing.builders import AWAY, HOME, add, add_id, at, together, vector, wording
from keepstone.testing.exact_index import ExactIndex
from keepstone.vector_sync.cursor import FedElsewhere
from keepstone.vector_sync.entries import print_of
from keepstone.vector_sync.session import IndexSession
from keepstone.vector_sync.sync import Fed, IndexSync
from tests.vector_sync.support import Killed, due, embed_pending, in_step, once, opened, vector_hashes

LATER = 100.0  # seconds: a mark has run out by then


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    opened_store = opened(path)
    yield opened_store
    opened_store.close()


@pytest.fixture
def index() -> ExactIndex:
    return ExactIndex()


@pytest.fixture
def feeder(store: Store, index: ExactIndex) -> IndexSync:
    return IndexSync(store, index)


def test_a_print_is_the_same_in_half_precision_and_another_for_another_vector() -> None:
    for text in ("tea", "coffee", "a longer text"):
        whole = vector(text, 64)
        assert print_of(whole) == print_of(whole.astype(np.float16).astype(np.float32))
        assert re.fullmatch("[0-9a-f]{16}", print_of(whole))
    assert print_of(vector("tea", 64)) != print_of(vector("coffee", 64))


def test_a_space_belongs_to_one_store_and_one_embedder(store: Store, feeder: IndexSync, tmp_path: Path) -> None:
    here = feeder.space()
    assert here is not None
    assert re.fullmatch("keepstone-[0-9a-f]{24}", here)
    other = opened(tmp_path / "other.db")
    assert IndexSync(other, ExactIndex()).space() != here
    other.close()
    store.change_embedder("another", 8)
    assert feeder.space() != here


def test_a_store_without_an_embedder_has_nothing_to_feed(tmp_path: Path) -> None:
    bare, index = opened(tmp_path / "bare.db", None), ExactIndex()
    add_id(bare, "tea", vector=None)
    feeder = IndexSync(bare, index)
    assert (feeder.space(), feeder.behind(HOME), feeder.feed(HOME)) == (None, False, Fed(0, 0, 0))
    assert index.calls == []
    bare.close()


def test_what_is_active_and_embedded_is_put(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    assert not feeder.behind(HOME)
    tea = add_id(store, "tea", kind="note", tag="drinks", session="s1")
    add_id(store, "coffee")
    add_id(store, "waits for its vector", vector=None)
    add(store, "suspicious", status="quarantined")
    add_id(store, "theirs", AWAY)
    assert feeder.behind(HOME)
    fed = feeder.feed(HOME)
    assert (fed.put, fed.dropped) == (2, 0)
    assert in_step(store, index, feeder, HOME)
    entry = index.entries(HOME)[at(store, tea)]
    assert (entry.kind, entry.tag, entry.session) == ("note", "drinks", "s1")
    assert index.entries(AWAY) == {}
    assert not feeder.behind(HOME)
    assert feeder.behind(AWAY)
    embed_pending(store)
    assert feeder.feed(HOME).put == 1
    assert len(due(store, HOME)) == 3
    assert in_step(store, index, feeder, HOME)


def test_every_change_reaches_the_index(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(6)]
    feeder.feed(HOME)
    store.revise(HOME, ids[0], wording("a new wording"))
    store.revise(HOME, ids[1], wording("not embedded yet", vector=None))
    store.forget(HOME, Selector(id=ids[2]))
    _, ticket = store.retention.archive(HOME, ids[3:5])
    fed = feeder.feed(HOME)
    assert (fed.put, fed.dropped) == (1, 4)
    assert set(index.entries(HOME)) == {at(store, ids[0]), at(store, ids[5])}
    assert in_step(store, index, feeder, HOME)
    assert list(store.retention.undo(HOME, ticket)) == ids[3:5]
    assert feeder.feed(HOME).put == 2
    assert in_step(store, index, feeder, HOME)


def test_rows_of_the_trail_that_change_no_record_are_looked_at_once(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    add_id(store, "tea")
    theirs = add_id(store, "theirs", AWAY)
    feeder.feed(HOME)
    store.audit_log.note(HOME, "key", "used", "system")
    assert store.audit_log.note_foreign(HOME, [("forget", theirs)]) == 1
    assert feeder.behind(HOME)
    fed = feeder.feed(HOME)
    assert (fed.put, fed.dropped) == (0, 0)
    assert not feeder.behind(HOME)
    assert in_step(store, index, feeder, HOME)


def test_forgetting_everything_empties_the_index_though_the_cursor_goes_with_it(
    store: Store, index: ExactIndex, feeder: IndexSync
) -> None:
    for n in range(3):
        add_id(store, f"fact {n}")
    add_id(store, "theirs", AWAY)
    feeder.feed(HOME)
    feeder.feed(AWAY)
    store.forget(HOME, Selector(everything=True))
    assert store.states.all(HOME) == []
    assert feeder.behind(HOME)
    feeder.feed(HOME)
    assert index.entries(HOME) == {}
    assert not feeder.behind(HOME)
    assert in_step(store, index, feeder, AWAY)
    assert len(index.entries(AWAY)) == 1


def test_chunks_are_bounded(store: Store, index: ExactIndex) -> None:
    for n in range(7):
        add_id(store, f"fact {n}")
    assert IndexSync(store, index, chunk=3).feed(HOME).put == 7
    assert index.calls.count("put") == 3


# -- crashes and failures ---------------------------------------------------------------------------------------------
class _Mortal:
    """A store whose process has ended once it is dead: nothing of it reaches the file any more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.states = self
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, scope: Any, name: str) -> str | None:
        return self._store.states.get(scope, name)

    def put(self, *given: Any, **named: Any) -> bool:
        if self.dead:
            raise Killed
        return self._store.states.put(*given, **named)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_a_crash_at_any_call_loses_nothing(store: Store, index: ExactIndex, nth: int, moment: str) -> None:
    whole = IndexSync(store, index.beside(), chunk=2)
    ids = [add_id(store, f"fact {n}") for n in range(5)]
    whole.feed(HOME)
    mortal = _Mortal(store)

    def die() -> None:
        mortal.dead = True
        raise Killed

    calls = ("put", "drop", "existing") if moment == "before" else ("put", "drop")
    setattr(index, moment, once(nth, die, calls))
    for n in range(5):
        store.revise(HOME, ids[n], wording(f"fact {n} anew")) if n else store.forget(HOME, Selector(id=ids[0]))
    killed = False
    try:
        IndexSync(mortal, index, chunk=2).feed(HOME)  # type: ignore[arg-type]
    except Killed:
        killed = True
    assert killed == (nth <= (4 if moment == "before" else 3))  # one drop, one proof, two puts
    if killed:
        with pytest.raises(FedElsewhere):
            whole.feed(HOME, patience=0)
        assert whole.behind(HOME)
    after = IndexSync(store, index.beside(), clock=lambda: time.time() + LATER)
    after.feed(HOME)
    assert in_step(store, index, after, HOME)
    assert not after.behind(HOME)


def test_a_crash_in_the_first_feeding_leaves_nothing_behind_that_is_forgotten_then(store: Store, index: ExactIndex) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(3)]
    mortal = _Mortal(store)

    def die() -> None:
        mortal.dead = True
        raise Killed

    index.after = once(1, die, ("put",))
    with pytest.raises(Killed):
        IndexSync(mortal, index).feed(HOME)  # type: ignore[arg-type]
    assert len(index.entries(HOME)) == 3
    store.forget(HOME, Selector(id=ids[0]))
    after = IndexSync(store, index.beside(), clock=lambda: time.time() + LATER)
    after.feed(HOME)
    assert in_step(store, index, after, HOME)
    assert len(index.entries(HOME)) == 2


@pytest.mark.parametrize("call", ["open", "put", "drop", "existing"])
def test_an_index_that_is_away_is_fed_when_it_is_back(store: Store, index: ExactIndex, feeder: IndexSync, call: str) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(3)]
    IndexSync(store, index.beside()).feed(HOME)
    store.forget(HOME, Selector(id=ids[0]))
    add_id(store, "one more")
    index.fail(call)
    for _ in range(2):
        with pytest.raises(IndexUnavailable, match="told to fail"):
            feeder.feed(HOME)
        assert feeder.behind(HOME)
    index.well()
    assert feeder.feed(HOME).put == 1
    assert in_step(store, index, feeder, HOME)


def test_what_was_dropped_is_seen_to_be_gone(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(2)]
    feeder.feed(HOME)
    store.forget(HOME, Selector(id=ids[0]))
    index.stubborn = 2
    with pytest.raises(IndexUnavailable, match="still has 1 of 1 entries"):
        feeder.feed(HOME)
    assert feeder.behind(HOME)
    index.stubborn = 1
    assert feeder.feed(HOME).dropped == 1
    assert in_step(store, index, feeder, HOME)
    index.stubborn = 2
    with pytest.raises(IndexUnavailable, match="told to clear"):
        feeder.renew(HOME)
    assert feeder.behind(HOME), "a scope that may be half cleared has to be fed"
    feeder.feed(HOME)
    assert in_step(store, index, feeder, HOME)


# -- threads and long gaps --------------------------------------------------------------------------------------------
def test_threads_of_one_process_feed_in_turn(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    def work(number: int) -> None:
        for n in range(5):
            add_id(store, f"fact {number} {n}")
            feeder.feed(HOME)

    together(4, work)
    assert not feeder.behind(HOME)
    assert in_step(store, index, feeder, HOME)
    assert len(index.entries(HOME)) == 20


def test_a_thread_waits_for_another_as_long_as_it_is_told(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    add_id(store, "tea")
    inside, go = threading.Event(), threading.Event()

    def pause() -> None:
        inside.set()
        assert go.wait(30)

    index.before = once(1, pause, ("put",))
    thread = threading.Thread(target=feeder.feed, args=(HOME,))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(FedElsewhere, match="another thread"):
        feeder.feed(HOME, patience=0)
    assert feeder.feed(AWAY, patience=0).put == 0, "another scope is another matter"
    go.set()
    thread.join(30)
    assert in_step(store, index, feeder, HOME)


def test_a_space_is_changed_when_nobody_is_inside(index: ExactIndex) -> None:
    door, inside, go, order = IndexSession(index), threading.Event(), threading.Event(), list[str]()

    def stay() -> None:
        with door.open("first", 8):
            inside.set()
            assert go.wait(30)
            order.append("left the first")

    def change() -> None:
        with door.open("second", 8):
            order.append("in the second")

    threads = [threading.Thread(target=each) for each in (stay, change)]
    threads[0].start()
    assert inside.wait(30)
    with door.open("first", 8):
        order.append("beside the other")
    threads[1].start()
    deadline = time.monotonic() + 30
    while not door._turn.locked() and len(order) < 2:  # until it waits, or is in though it should not be
        assert time.monotonic() < deadline
    go.set()
    for thread in threads:
        thread.join(30)
    assert order == ["beside the other", "left the first", "in the second"]
    assert index.calls == ["open", "open"]


def test_a_long_gap_is_closed_by_comparing(store: Store, index: ExactIndex) -> None:
    feeder = IndexSync(store, index, chunk=2, large=5)
    ids = [add_id(store, f"fact {n}") for n in range(4)]
    feeder.feed(HOME)
    for n in range(70):
        add_id(store, f"theirs {n}", AWAY)
    assert not feeder.far(HOME), "numbers are the whole store's"
    store.revise(HOME, ids[1], wording("another wording"))
    store.forget(HOME, Selector(id=ids[0]))
    store.retention.archive(HOME, ids[2:3])
    ids += [add_id(store, f"more {n}") for n in range(5)]
    assert feeder.far(HOME)
    changes = store.changes
    store.changes = lambda *given: pytest.fail("a long gap must not be read at once")  # type: ignore[method-assign]
    fed = feeder.feed(HOME)
    store.changes = changes  # type: ignore[method-assign]
    assert (fed.put, fed.dropped) == (6, 2)
    assert in_step(store, index, feeder, HOME)
    assert not feeder.behind(HOME)
    store.revise(HOME, ids[1], wording("yet another wording"))
    assert feeder.feed(HOME).put == 1
    assert in_step(store, index, feeder, HOME)


def test_a_large_scope_is_fed_from_nothing_by_chunks(store: Store, index: ExactIndex) -> None:
    feeder = IndexSync(store, index, chunk=3, memory=0)
    ids = [add_id(store, f"fact {n}") for n in range(8)]
    written = once(1, lambda: store.revise(HOME, ids[0], wording("changed meanwhile")) and None, ("put",))
    index.before = written
    fed = feeder.feed(HOME)
    assert fed.put == 8
    assert feeder.behind(HOME), "what was written meanwhile has not been seen"
    assert feeder.feed(HOME).put == 1
    assert in_step(store, index, feeder, HOME)
    assert [row.verb for row in store.audit(HOME)].count("index") == 1


def test_prints_are_those_of_the_entries(store: Store, index: ExactIndex, feeder: IndexSync) -> None:
    tea = add_id(store, "tea")
    feeder.feed(HOME)
    assert vector_hashes(index, HOME) == {at(store, tea): print_of(vector("tea"))}
