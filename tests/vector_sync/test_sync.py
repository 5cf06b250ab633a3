"""The index is fed with every change, a crash loses nothing, and what is forgotten is verified to be gone."""

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
from keepstone.vector_sync.compare import hash_vector
from keepstone.vector_sync.sync import Fed, FedElsewhere, IndexSession, IndexSync
from tests.vector_sync.exact_index import ExactIndex
from tests.vector_sync.support import Killed, due, embed_pending, hashes, in_step, once, opened

LATER = 100.0  # seconds: a lease has expired by then


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
    return IndexSync(store, index)


def test_a_print_is_the_same_in_half_precision_and_another_for_another_vector() -> None:
    for text in ("tea", "coffee", "a longer text"):
        whole = vector(text, 64)
        assert hash_vector(whole) == hash_vector(whole.astype(np.float16).astype(np.float32))
        assert re.fullmatch("[0-9a-f]{16}", hash_vector(whole))
    assert hash_vector(vector("tea", 64)) != hash_vector(vector("coffee", 64))


def test_a_space_belongs_to_one_store_and_one_embedder(store: Store, sync: IndexSync, tmp_path: Path) -> None:
    here = sync.space()
    assert here is not None
    assert re.fullmatch("keepstone-[0-9a-f]{24}", here)
    other = opened(tmp_path / "other.db")
    assert IndexSync(other, ExactIndex()).space() != here
    other.close()
    store.change_embedder("another", 8)
    assert sync.space() != here


def test_a_store_without_an_embedder_has_nothing_to_feed(tmp_path: Path) -> None:
    bare, index = opened(tmp_path / "bare.db", None), ExactIndex()
    add_id(bare, "tea", vector=None)
    sync = IndexSync(bare, index)
    assert (sync.space(), sync.is_behind(HOME), sync.feed(HOME)) == (None, False, Fed(0, 0, 0))
    assert index.calls == []
    bare.close()


def test_what_is_active_and_embedded_is_put(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    assert not sync.is_behind(HOME)
    tea = add_id(store, "tea", kind="note", tag="drinks", session="s1")
    add_id(store, "coffee")
    add_id(store, "waits for its vector", vector=None)
    add(store, "suspicious", status="quarantined")
    add_id(store, "theirs", AWAY)
    assert sync.is_behind(HOME)
    fed = sync.feed(HOME)
    assert (fed.put, fed.dropped) == (2, 0)
    assert in_step(store, index, sync, HOME)
    entry = index.entries(HOME)[at(store, tea)]
    assert (entry.kind, entry.tag, entry.session) == ("note", "drinks", "s1")
    assert index.entries(AWAY) == {}
    assert not sync.is_behind(HOME)
    assert sync.is_behind(AWAY)
    embed_pending(store)
    assert sync.feed(HOME).put == 1
    assert len(due(store, HOME)) == 3
    assert in_step(store, index, sync, HOME)


def test_every_change_reaches_the_index(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(6)]
    sync.feed(HOME)
    store.revise(HOME, ids[0], wording("a new wording"))
    store.revise(HOME, ids[1], wording("not embedded yet", vector=None))
    store.forget(HOME, Selector(id=ids[2]))
    _, ticket = store.retention.archive(HOME, ids[3:5])
    fed = sync.feed(HOME)
    assert (fed.put, fed.dropped) == (1, 4)
    assert set(index.entries(HOME)) == {at(store, ids[0]), at(store, ids[5])}
    assert in_step(store, index, sync, HOME)
    assert list(store.retention.undo(HOME, ticket)) == ids[3:5]
    assert sync.feed(HOME).put == 2
    assert in_step(store, index, sync, HOME)


def test_rows_of_the_trail_that_change_no_record_are_looked_at_once(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    add_id(store, "tea")
    sync.feed(HOME)
    store.audit_log.note(HOME, "key", "used", "system")
    assert sync.is_behind(HOME)
    fed = sync.feed(HOME)
    assert (fed.put, fed.dropped) == (0, 0)
    assert not sync.is_behind(HOME)
    assert in_step(store, index, sync, HOME)


def test_forgetting_everything_empties_the_index_though_the_cursor_goes_with_it(
    store: Store, index: ExactIndex, sync: IndexSync
) -> None:
    for n in range(3):
        add_id(store, f"fact {n}")
    add_id(store, "theirs", AWAY)
    sync.feed(HOME)
    sync.feed(AWAY)
    store.forget(HOME, Selector(everything=True))
    assert store.states.all(HOME) == []
    assert sync.is_behind(HOME)
    sync.feed(HOME)
    assert index.entries(HOME) == {}
    assert not sync.is_behind(HOME)
    assert in_step(store, index, sync, AWAY)
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
        self.states = self.leases = self
        self.dead = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def get(self, scope: Any, name: str) -> str | None:
        return self._store.states.get(scope, name)

    def put(self, *args: Any, **options: Any) -> bool:
        if self.dead:
            raise Killed
        return self._store.states.put(*args, **options)

    def acquire(self, *args: Any) -> bool:
        return self._store.leases.acquire(*args)

    def release(self, *args: Any) -> None:
        if self.dead:
            raise Killed
        self._store.leases.release(*args)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("nth", range(1, 8))
def test_a_crash_at_any_call_loses_nothing(path: Path, store: Store, index: ExactIndex, nth: int, moment: str) -> None:
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
    assert killed == (nth <= (7 if moment == "before" else 3))  # three looks for passages, one drop, one proof, two puts
    if killed:
        with pytest.raises(FedElsewhere):
            whole.feed(HOME, patience=0)
        assert whole.is_behind(HOME)
    later = opened(path, ahead=LATER)
    after = IndexSync(later, index.beside())
    after.feed(HOME)
    assert in_step(store, index, after, HOME)
    assert not after.is_behind(HOME)
    later.close()


def test_a_crash_in_the_first_feeding_leaves_nothing_behind_that_is_forgotten_then(
    path: Path, store: Store, index: ExactIndex
) -> None:
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
    later = opened(path, ahead=LATER)
    after = IndexSync(later, index.beside())
    after.feed(HOME)
    assert in_step(store, index, after, HOME)
    assert len(index.entries(HOME)) == 2
    later.close()


@pytest.mark.parametrize("call", ["open", "put", "drop", "existing"])
def test_an_index_that_is_away_is_fed_when_it_is_back(store: Store, index: ExactIndex, sync: IndexSync, call: str) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(3)]
    IndexSync(store, index.beside()).feed(HOME)
    store.forget(HOME, Selector(id=ids[0]))
    add_id(store, "one more")
    index.fail(call)
    for _ in range(2):
        with pytest.raises(IndexUnavailable, match="told to fail"):
            sync.feed(HOME)
        assert sync.is_behind(HOME)
    index.well()
    assert sync.feed(HOME).put == 1
    assert in_step(store, index, sync, HOME)


def test_what_was_dropped_is_seen_to_be_gone(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(2)]
    sync.feed(HOME)
    store.forget(HOME, Selector(id=ids[0]))
    index.stubborn = 2
    with pytest.raises(IndexUnavailable, match="still has 1 of 1 entries"):
        sync.feed(HOME)
    assert sync.is_behind(HOME)
    index.stubborn = 1
    assert sync.feed(HOME).dropped == 1
    assert in_step(store, index, sync, HOME)
    index.stubborn = 2
    with pytest.raises(IndexUnavailable, match="after it was cleared"):
        sync.rebuild(HOME)
    assert sync.is_behind(HOME), "a scope that may be half cleared has to be fed"
    sync.feed(HOME)
    assert in_step(store, index, sync, HOME)


# -- threads and long gaps --------------------------------------------------------------------------------------------
def test_threads_of_one_process_feed_in_turn(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    def work(number: int) -> None:
        for n in range(5):
            add_id(store, f"fact {number} {n}")
            sync.feed(HOME)

    together(4, work)
    assert not sync.is_behind(HOME)
    assert in_step(store, index, sync, HOME)
    assert len(index.entries(HOME)) == 20


def test_a_thread_waits_for_another_as_long_as_it_is_told(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    add_id(store, "tea")
    inside, go = threading.Event(), threading.Event()

    def pause() -> None:
        inside.set()
        assert go.wait(30)

    index.before = once(1, pause, ("put",))
    thread = threading.Thread(target=sync.feed, args=(HOME,))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(FedElsewhere, match="another thread"):
        sync.feed(HOME, patience=0)
    assert sync.feed(AWAY, patience=0).put == 0, "another scope is another matter"
    go.set()
    thread.join(30)
    assert in_step(store, index, sync, HOME)


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
    while not door._entry.locked() and len(order) < 2:  # until it waits, or is in though it should not be
        assert time.monotonic() < deadline
    go.set()
    for thread in threads:
        thread.join(30)
    assert order == ["beside the other", "left the first", "in the second"]
    assert index.calls == ["open", "open"]


def test_a_long_gap_is_closed_by_comparing(store: Store, index: ExactIndex) -> None:
    sync = IndexSync(store, index, chunk=2, large_gap=5)
    ids = [add_id(store, f"fact {n}") for n in range(4)]
    sync.feed(HOME)
    for n in range(70):
        add_id(store, f"theirs {n}", AWAY)
    assert not sync.is_far_behind(HOME), "numbers are the whole store's"
    store.revise(HOME, ids[1], wording("another wording"))
    store.forget(HOME, Selector(id=ids[0]))
    store.retention.archive(HOME, ids[2:3])
    ids += [add_id(store, f"more {n}") for n in range(5)]
    assert sync.is_far_behind(HOME)
    changes = store.changes
    store.changes = lambda *given: pytest.fail("a long gap must not be read at once")  # type: ignore[method-assign]
    fed = sync.feed(HOME)
    store.changes = changes  # type: ignore[method-assign]
    assert (fed.put, fed.dropped) == (6, 2)
    assert in_step(store, index, sync, HOME)
    assert not sync.is_behind(HOME)
    store.revise(HOME, ids[1], wording("yet another wording"))
    assert sync.feed(HOME).put == 1
    assert in_step(store, index, sync, HOME)


def test_a_large_scope_is_fed_from_nothing_by_chunks(store: Store, index: ExactIndex) -> None:
    sync = IndexSync(store, index, chunk=3, max_scope_bytes=0)
    ids = [add_id(store, f"fact {n}") for n in range(8)]
    written = once(1, lambda: store.revise(HOME, ids[0], wording("changed meanwhile")) and None, ("put",))
    index.before = written
    fed = sync.feed(HOME)
    assert fed.put == 8
    assert sync.is_behind(HOME), "what was written meanwhile has not been seen"
    assert sync.feed(HOME).put == 1
    assert in_step(store, index, sync, HOME)
    assert [row.verb for row in store.audit(HOME)].count("index") == 1


def test_prints_are_those_of_the_entries(store: Store, index: ExactIndex, sync: IndexSync) -> None:
    tea = add_id(store, "tea")
    sync.feed(HOME)
    assert hashes(index, HOME) == {at(store, tea): hash_vector(vector("tea"))}
