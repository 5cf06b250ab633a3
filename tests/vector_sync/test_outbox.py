"""What a process writes reaches the index soon, and what it forgets is gone from there before its receipt says so."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Selector
from keepstone.testing.builders import AWAY, HOME, add, add_id, at, draft, vector, wording
from keepstone.testing.stores.embedding import TEXT, add_long
from keepstone.text.passages import passage_number
from keepstone.text.words import record_terms
from keepstone.vector_sync.background import FeedWorker
from keepstone.vector_sync.indexing import IndexedStore
from keepstone.vector_sync.sync import IndexSync
from tests.vector_sync.exact_index import ExactIndex
from tests.vector_sync.support import embed_pending, in_step, opened

AWAY_REASON = (
    "the vectors (no text) of what was forgotten may still be in the index exact in memory, which could not be brought up to "
    "date (it was told to fail); they are removed as soon as the index is available"
)


@pytest.fixture
def index() -> ExactIndex:
    return ExactIndex()


@pytest.fixture
def inner(path: Path) -> Store:
    return opened(path)


@pytest.fixture
def sync(inner: Store, index: ExactIndex) -> IndexSync:
    return IndexSync(inner, index)


@pytest.fixture
def worker(sync: IndexSync) -> FeedWorker:
    return FeedWorker(sync, first_retry=0.01, max_retry=0.05)


@pytest.fixture
def store(inner: Store, sync: IndexSync, worker: FeedWorker) -> Iterator[Store]:
    fed: Store = IndexedStore(inner, sync, worker)
    yield fed
    fed.close()


def redacted(store: Store, id: str, text: str) -> ImportRow:
    """An archive with another text in place of what it had."""
    archive = next(iter(store.export_records(HOME, [id])))
    versions = tuple(replace(version, content=text) for version in archive.versions)
    changed = replace(archive, record=archive.record.with_(content=text), versions=versions)
    return ImportRow(changed, record_terms(text, None), vector(text))


CHANGES: dict[str, Callable[[Store, list[str]], object]] = {
    "write": lambda store, ids: add(store, "one more"),
    "revise": lambda store, ids: store.revise(HOME, ids[0], wording("another wording")),
    "attach": lambda store, ids: embed_pending(store),
    "put aside": lambda store, ids: store.retention.archive(HOME, ids[:2]),
    "bring back": lambda store, ids: store.retention.restore(HOME, ids[3:4]),
    "undo": lambda store, ids: store.retention.undo(HOME, store.retention.archived(HOME)[0].ticket),
    "release": lambda store, ids: store.reviews.release(HOME, ids[4]),
    "forget": lambda store, ids: store.forget(HOME, Selector(id=ids[0])),
    "redact": lambda store, ids: store.redact(HOME, redacted(store, ids[1], "something harmless")),
    "restore": lambda store, ids: store.import_records(HOME, _archived(store)),
    "another embedder": lambda store, ids: (store.change_embedder("another", 8), embed_pending(store, 8, "x")),
}


def _archived(store: Store) -> list[ImportRow]:
    """What another scope has, as an import brings it."""
    add_id(store, "from elsewhere", AWAY)
    return [ImportRow(each, draft(each.record.content).terms, vector(each.record.content)) for each in store.export_records(AWAY)]


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_is_told_to_the_index(
    store: Store, inner: Store, index: ExactIndex, sync: IndexSync, worker: FeedWorker, change: str
) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(4)]
    ids.append(str(add(store, "suspicious", status="quarantined").id))
    add_id(store, "waits for its vector", vector=None)
    store.retention.archive(HOME, ids[3:4])
    assert worker.drain(30)
    assert in_step(inner, index, sync, HOME)
    last = inner.audit_log.last(HOME)
    assert CHANGES[change](store, ids)
    assert inner.audit_log.last(HOME) > last
    assert worker.drain(30)
    assert not sync.is_behind(HOME)
    assert in_step(inner, index, sync, HOME)


def test_what_only_reads_goes_to_the_store(store: Store, inner: Store) -> None:
    id = add_id(store, "tea")
    assert store.id == inner.id
    assert store.get(HOME, id) == inner.get(HOME, id)
    assert store.retention.scopes() == [HOME]
    assert store.reviews.list(HOME) == []


@pytest.mark.parametrize("everything", [False, True])
def test_what_is_forgotten_is_gone_from_the_index_when_the_receipt_comes(
    store: Store, inner: Store, index: ExactIndex, sync: IndexSync, worker: FeedWorker, everything: bool
) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(3)]
    assert worker.drain(30)
    sequence = at(store, ids[0])
    seen: list[bool] = []
    index.after = lambda call: seen.append(sequence in index.entries(HOME)) if call in ("drop", "clear") else None
    receipt = store.forget(HOME, Selector(everything=True) if everything else Selector(id=ids[0]))
    assert (receipt.forgotten, receipt.erased, receipt.reasons) == (3 if everything else 1, True, ())
    assert sequence not in index.entries(HOME)
    assert seen[-1:] == [False]
    assert in_step(inner, index, sync, HOME)


@pytest.mark.parametrize("everything", [False, True])
def test_if_the_index_is_away_the_receipt_says_so_and_it_is_done_later(
    store: Store, inner: Store, index: ExactIndex, sync: IndexSync, worker: FeedWorker, everything: bool
) -> None:
    ids = [add_id(store, f"fact {n}") for n in range(3)]
    assert worker.drain(30)
    index.fail()
    receipt = store.forget(HOME, Selector(everything=True) if everything else Selector(id=ids[0]))
    assert (receipt.forgotten, receipt.erased, receipt.reasons) == (3 if everything else 1, False, (AWAY_REASON,))
    assert len(index.entries(HOME)) == 3
    assert sync.is_behind(HOME)
    index.well()
    assert worker.drain(30)
    assert in_step(inner, index, sync, HOME)
    assert worker.problem is None


def test_the_next_process_finishes_what_was_left(path: Path, index: ExactIndex) -> None:
    first = opened(path)
    sync = IndexSync(first, index)
    fed = IndexedStore(first, sync, FeedWorker(sync))
    id = add_id(fed, "tea")  # type: ignore[arg-type]
    fed.close()
    assert len(index.entries(HOME)) == 1, "closing feeds what was told"
    assert index.closed
    index.fail()
    second = opened(path)
    sync = IndexSync(second, index)
    fed = IndexedStore(second, sync, FeedWorker(sync, first_retry=60))
    assert not fed.forget(HOME, Selector(id=id)).erased
    fed.close()
    index.well()
    third = opened(path)
    sync = IndexSync(third, index)
    worker = FeedWorker(sync)
    worker.tell(AWAY)  # any work makes it look for more
    _until(lambda: not sync.is_behind(HOME))
    assert index.entries(HOME) == {}
    worker.close()
    third.close()


def _until(condition: Callable[[], bool]) -> None:
    """Wait for something that another thread does."""
    ticks = threading.Event()
    for _ in range(3000):
        if condition():
            return
        ticks.wait(0.01)
    pytest.fail("it never came to be")


def test_an_old_space_is_emptied_though_everything_was_forgotten_at_once(
    store: Store, index: ExactIndex, sync: IndexSync, worker: FeedWorker
) -> None:
    add_id(store, "tea")
    assert worker.drain(30)
    index.fail()
    store.change_embedder("wider", 16)
    assert not store.forget(HOME, Selector(everything=True)).erased
    assert index.spaces
    index.well()
    assert worker.drain(30)
    assert index.spaces == set()


def test_a_feeding_that_begins_during_a_forget_learns_of_the_old_space(inner: Store, index: ExactIndex, sync: IndexSync) -> None:
    add_id(inner, "tea")
    sync.feed(HOME)
    before = sync.cursors.read(HOME)
    inner.change_embedder("wider", 16)
    inner.forget(HOME, Selector(everything=True))
    other = IndexSync(inner, index.beside())
    start, text = other.cursors.begin(HOME, (str(other.space()), 16), None)
    sync.cursors.restore_spaces(HOME, before)
    assert not other.cursors.move(HOME, text, start), "the cursor changed meanwhile"
    assert other.is_behind(HOME)
    other.feed(HOME)
    assert index.spaces == set()
    inner.close()


def test_a_scope_that_is_far_behind_does_not_hold_up_a_forget(inner: Store, index: ExactIndex) -> None:
    ids = [add_id(inner, f"fact {n}") for n in range(6)]
    sync = IndexSync(inner, index, large_gap=3)
    worker = FeedWorker(sync)
    fed = IndexedStore(inner, sync, worker)
    receipt = fed.forget(HOME, Selector(id=ids[0]))
    assert not receipt.erased
    assert "far behind and being fed" in receipt.reasons[0]
    assert worker.drain(30)
    assert in_step(inner, index, sync, HOME)
    fed.close()


def test_a_write_does_not_wait_for_the_index(store: Store, index: ExactIndex, worker: FeedWorker) -> None:
    go = threading.Event()
    index.before = lambda call: go.wait(30) and None if call == "put" else None
    add_id(store, "tea")
    add_id(store, "coffee")
    assert index.entries(HOME) == {}
    go.set()
    assert worker.drain(30)
    assert len(index.entries(HOME)) == 2


def test_the_thread_ends_with_whoever_has_the_feeder(path: Path, index: ExactIndex) -> None:
    store = opened(path)
    add_id(store, "tea")
    sync = IndexSync(store, index)
    worker = FeedWorker(sync, max_retry=0.05)
    worker.tell(HOME)
    assert worker.drain(30)
    gone = weakref.ref(sync)
    del sync
    gc.collect()
    thread = worker._worker._thread
    assert thread is not None
    thread.join(30)
    assert not thread.is_alive()
    assert gone() is None
    store.close()
    worker.close()


def check_in_step(sync: IndexSync) -> None:
    """A repair has nothing to do."""
    fed = sync.repair(HOME)
    assert (fed.put, fed.dropped) == (0, 0)


def test_an_index_has_an_entry_for_each_passage(store: Store, sync: IndexSync, index: ExactIndex) -> None:
    add_id(store, "Dana likes tea")
    ids, sequences = zip(*(add_long(store, TEXT + str(n)) for n in range(2)), strict=True)
    numbers = {passage_number(sequence, place) for sequence in sequences for place in range(4)}
    sync.feed(HOME)
    assert {number for number, _ in index.vector_hashes(HOME)} == numbers | {1}
    check_in_step(sync)
    index.drop(HOME, [passage_number(sequences[0], 2), sequences[1]])
    assert sync.repair(HOME).put == 2
    check_in_step(sync)
    store.revise(HOME, ids[1], wording("just a zebra"))
    sync.feed(HOME)
    assert {number for number, _ in index.vector_hashes(HOME) if number < 0} == {number for number in numbers if number < 0} - {
        passage_number(sequences[1], place) for place in range(4)
    }
    assert store.forget(HOME, Selector(id=ids[0])).erased
    assert {number for number, _ in index.vector_hashes(HOME)} == {1, sequences[1]}
    check_in_step(sync)
