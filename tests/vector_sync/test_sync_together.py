"""Several processes feed one index: older rows never stay over newer ones, and vectors of two embedders are never mixed."""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from keepstone.errors import Conflict, IndexUnavailable
from keepstone.ports.stores import Store
from keepstone.ports.values import Changes, Selector
from keepstone.testing.builders import AWAY, DIMENSION, EMBEDDER, HOME, add, add_id, at, vector, wording
from keepstone.types import Scope
from keepstone.vector_sync.sync import LEASE_SECONDS, FedElsewhere, IndexSync
from tests.vector_sync.exact_index import ExactIndex
from tests.vector_sync.support import embed_pending, hashes, in_step, once, opened

LATER = 100.0  # seconds: a lease has expired by then
SLEEPY = ("open", "put", "drop", "existing", "clear")


@dataclass
class Process:
    """A store, a client of the engine and an IndexSync, as one process has them; `slept` are seconds it was suspended."""

    store: Store
    index: ExactIndex
    slept: float = 0.0
    sizes: dict[str, int] = field(default_factory=dict)
    sync: IndexSync = field(init=False)

    def __post_init__(self) -> None:
        self.sync = IndexSync(self.store, self.index, chunk=2, clock=lambda: time.monotonic() + self.slept, **self.sizes)


@pytest.fixture
def pair(path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Process, Process]]:
    """Two processes on one store and one engine. For the second, every lease of the first has expired."""
    index, sizes = ExactIndex(), getattr(request, "param", {})
    a, b = Process(opened(path), index, 0.0, sizes), Process(opened(path, ahead=LATER), index.beside(), 0.0, sizes)
    yield a, b
    a.store.close()
    b.store.close()


def forget_everything(process: Process, scope: Scope) -> None:
    """As IndexedStore does it, but for the feeding."""
    before = process.sync.cursors.read(scope)
    process.store.forget(scope, Selector(everything=True))
    process.sync.cursors.restore_spaces(scope, before)


def test_another_process_that_feeds_is_waited_for(path: Path) -> None:
    index = ExactIndex()
    a, b = Process(opened(path), index), Process(opened(path), index.beside())
    add_id(a.store, "tea")
    refused: list[str] = []

    def meanwhile() -> None:
        with pytest.raises(FedElsewhere) as caught:
            b.sync.feed(HOME, patience=0)
        refused.append(str(caught.value))

    a.index.before = once(1, meanwhile, ("put",))
    a.sync.feed(HOME)
    assert refused == ["another process is bringing it up to date"]
    b.sync.feed(HOME, patience=0)
    assert in_step(b.store, a.index, b.sync, HOME)
    a.store.close()
    b.store.close()


@pytest.mark.parametrize("call", ["put", "drop"])
def test_old_rows_never_stay_over_newer_ones(pair: tuple[Process, Process], call: str) -> None:
    a, b = pair
    ids = [add_id(a.store, f"fact {n}") for n in range(4)]
    a.sync.feed(HOME)
    a.store.revise(HOME, ids[0], wording("second wording"))
    a.store.revise(HOME, ids[1], wording("will be forgotten"))
    a.store.retention.archive(HOME, [ids[2]])

    def meanwhile() -> None:
        b.store.revise(HOME, ids[0], wording("third wording"))
        b.store.forget(HOME, Selector(id=ids[1]))
        b.store.retention.restore(HOME, [ids[2]])
        b.sync.feed(HOME)
        assert in_step(b.store, b.index, b.sync, HOME)

    a.index.before = once(1, meanwhile, (call,))
    fed = a.sync.feed(HOME)
    assert in_step(a.store, a.index, a.sync, HOME)
    assert fed.number == b.sync.number(HOME)
    assert not b.sync.is_behind(HOME)


def test_a_feeder_that_is_overtaken_and_then_fails_rewinds_the_cursor(pair: tuple[Process, Process]) -> None:
    a, b = pair
    ids = [add_id(a.store, f"fact {n}") for n in range(3)]
    a.sync.feed(HOME)
    for id in ids:
        a.store.revise(HOME, id, wording(f"second wording of {id}"))

    def meanwhile() -> None:
        a.slept += LATER
        for id in ids:
            b.store.revise(HOME, id, wording(f"third wording of {id}"))
        b.sync.feed(HOME)

    a.index.before = once(1, meanwhile, ("put",))
    a.index.after = once(1, a.index.fail, ("put",))
    with pytest.raises(IndexUnavailable):
        a.sync.feed(HOME)
    assert not in_step(b.store, b.index, b.sync, HOME), "the old rows are there"
    assert b.sync.is_behind(HOME), "and that is known"
    b.sync.feed(HOME)
    assert in_step(b.store, b.index, b.sync, HOME)


def test_a_feeder_that_is_overtaken_again_and_again_gives_up(pair: tuple[Process, Process]) -> None:
    a, b = pair
    id = add_id(a.store, "tea")
    a.sync.feed(HOME)
    a.store.revise(HOME, id, wording("second wording"))
    times = [0]

    def meanwhile(call: str) -> None:
        if call == "put":
            times[0] += 1
            b.store.revise(HOME, id, wording(f"wording {times[0]} by the other"))
            b.sync.feed(HOME)

    a.index.before = meanwhile
    with pytest.raises(FedElsewhere, match="5 times"):
        a.sync.feed(HOME)
    assert times == [5]
    assert not in_step(b.store, b.index, b.sync, HOME)
    assert b.sync.is_behind(HOME)
    b.sync.feed(HOME)
    assert in_step(b.store, b.index, b.sync, HOME)


def test_a_lease_is_renewed_before_it_expires(pair: tuple[Process, Process], monkeypatch: pytest.MonkeyPatch) -> None:
    a, _ = pair
    for n in range(6):
        add_id(a.store, f"fact {n}")
    taken: list[str] = []
    acquire = a.store.leases.acquire
    monkeypatch.setattr(a.store.leases, "acquire", lambda name, *rest: taken.append(name) or acquire(name, *rest))

    def long_put(call: str) -> None:
        if call == "put":
            a.slept += LEASE_SECONDS / 2

    a.index.before = long_put
    assert a.sync.feed(HOME).put == 6
    assert len(taken) == 3, "taken once, renewed before the second and the third chunk"


def test_a_feeder_that_lost_its_lease_makes_the_other_feed_again(pair: tuple[Process, Process]) -> None:
    a, b = pair
    ids = [add_id(a.store, f"fact {n}") for n in range(4)]
    a.sync.feed(HOME)
    for id in ids:
        a.store.revise(HOME, id, wording(f"second wording of {id}"))
    paused, go, lost = threading.Event(), threading.Event(), list[str]()

    def suspend() -> None:
        paused.set()
        assert go.wait(30)
        a.slept += LATER

    def feed_late() -> None:
        try:
            a.sync.feed(HOME)
        except FedElsewhere as error:
            lost.append(str(error))

    a.index.before = once(1, suspend, ("put",))
    thread = threading.Thread(target=feed_late)
    thread.start()
    assert paused.wait(30)
    for id in ids:
        b.store.revise(HOME, id, wording(f"third wording of {id}"))

    def wake() -> None:
        """The first process puts its older rows over the newer ones before the second has finished."""
        go.set()
        thread.join(30)

    b.index.after = once(2, wake, ("put",))
    b.sync.feed(HOME)
    assert lost == ["another process took over bringing it up to date"]
    assert in_step(b.store, b.index, b.sync, HOME)


def test_vectors_that_were_read_of_another_embedder_are_not_put(pair: tuple[Process, Process]) -> None:
    a, _ = pair
    add_id(a.store, "tea")
    changes, old = a.store.changes, a.sync.space()

    def meanwhile(scope: Scope, after: int) -> Changes:
        a.store.changes = changes  # type: ignore[method-assign]
        a.store.change_embedder("same width", DIMENSION)
        embed_pending(a.store, DIMENSION, "other ")
        return changes(scope, after)

    a.store.changes = meanwhile  # type: ignore[method-assign]
    seen: list[dict[int, str]] = []
    a.index.after = lambda call: seen.append(hashes(a.index, HOME, old))
    a.sync.feed(HOME)
    assert in_step(a.store, a.index, a.sync, HOME)
    assert not any(seen), "nothing was in the old space at any time"


def test_another_embedder_is_another_space_and_the_old_one_is_emptied(pair: tuple[Process, Process]) -> None:
    a, _ = pair
    for n in range(3):
        add_id(a.store, f"fact {n}")
    add_id(a.store, "theirs", AWAY)
    a.sync.feed(HOME)
    a.sync.feed(AWAY)
    old = a.sync.space()
    a.store.prepare_embedder("wider", 16)
    embed_pending(a.store, 16, next=True)
    assert not a.sync.is_behind(HOME)
    a.store.change_embedder("wider", 16)
    assert a.sync.is_behind(HOME)
    assert a.sync.scopes_behind() == [HOME, AWAY]
    assert a.sync.feed(HOME).put == 3
    assert in_step(a.store, a.index, a.sync, HOME)
    assert hashes(a.index, HOME, old) == {}
    assert len(hashes(a.index, AWAY, old)) == 1, "the other scope's turn has not come"
    assert a.sync.scopes_behind() == [AWAY]
    forget_everything(a, AWAY)
    a.sync.feed(AWAY)
    assert a.index.spaces == {a.sync.space()}, "or what is forgotten now would stay in the old space"


def test_the_embedder_changes_while_a_chunk_is_on_its_way(pair: tuple[Process, Process]) -> None:
    a, b = pair
    for n in range(5):
        add_id(a.store, f"fact {n}")

    def meanwhile() -> None:
        b.store.change_embedder("same width", DIMENSION)
        embed_pending(b.store, DIMENSION, "other ")
        b.sync.feed(HOME)

    a.index.before = once(2, meanwhile, ("put",))
    a.sync.feed(HOME)
    assert in_step(b.store, b.index, b.sync, HOME) or b.sync.is_behind(HOME)
    b.sync.feed(HOME)
    assert in_step(b.store, b.index, b.sync, HOME)
    assert b.index.spaces == {b.sync.space()}


def test_without_the_embedder_what_is_forgotten_goes_and_nothing_else(path: Path, pair: tuple[Process, Process]) -> None:
    a, _ = pair
    ids = [add_id(a.store, f"fact {n}") for n in range(4)]
    a.sync.feed(HOME)
    bare = Process(opened(path, None), a.index.beside())
    a.store.revise(HOME, ids[0], wording("another wording"))
    bare.store.forget(HOME, Selector(id=ids[1]))
    assert bare.sync.feed(HOME).put == 0
    assert set(bare.index.entries(HOME)) == {at(a.store, ids[n]) for n in (0, 2, 3)}
    assert a.sync.is_behind(HOME), "the new wording is still to be put"
    a.sync.feed(HOME)
    assert in_step(a.store, a.index, a.sync, HOME)
    bare.store.close()


# -- at random --------------------------------------------------------------------------------------------------------
class Chance:
    """Random writes into two scopes, by either process."""

    def __init__(self, seed: int, processes: tuple[Process, Process]) -> None:
        self.random = random.Random(seed)
        self.processes = processes
        self.ids: dict[Scope, list[str]] = {HOME: [], AWAY: []}
        self.embedder = (EMBEDDER, DIMENSION)
        self.number = 0

    def text(self) -> str:
        self.number += 1
        return f"text {self.number}"

    def vector(self, text: str) -> object:
        return None if self.random.random() < 0.2 else vector(self.embedder[0] + text, self.embedder[1])

    def step(self) -> None:
        """One random change, by one of the two."""
        store = self.random.choice(self.processes).store
        scope = self.random.choice((HOME, HOME, AWAY))
        mine = self.ids[scope]
        some = self.random.sample(mine, min(len(mine), self.random.randint(1, 3)))
        kinds = ["add"] * 4 + ["revise"] * 3 + ["forget", "aside", "back", "back", "embed", "note"]
        what = self.random.choices([*kinds, "everything", "move"], [1.0] * len(kinds) + [0.15, 0.25])[0]
        if what == "add":
            text = self.text()
            receipt = add(store, text, scope, vector=self.vector(text), tag=self.random.choice("ab"), session="s")
            mine.append(str(receipt.id))
        elif what == "revise" and some:
            text = self.text()
            with contextlib.suppress(Conflict):  # it is put aside
                store.revise(scope, some[0], wording(text, vector=self.vector(text)))
        elif what == "forget" and some:
            store.forget(scope, Selector(ids=tuple(some)))
            self.ids[scope] = [id for id in mine if id not in some]
        elif what == "everything":
            forget_everything(self.random.choice(self.processes), scope)
            mine.clear()
        elif what == "aside":
            store.retention.archive(scope, some)
        elif what == "back":
            store.retention.restore(scope, mine)
        elif what == "embed":
            embed_pending(store, self.embedder[1], self.embedder[0])
        elif what == "note":
            store.audit_log.note(scope, "key", "used", "system")
        elif what == "move":
            self.move(store)

    def move(self, store: Store) -> None:
        """To another embedder, sometimes one that was there before; both processes open the store with it."""
        self.embedder = self.random.choice([(EMBEDDER, DIMENSION), ("same width", DIMENSION), ("wider", 12)])
        if self.random.random() < 0.5:
            store.prepare_embedder(*self.embedder)
            embed_pending(store, self.embedder[1], self.embedder[0], next=True)
        store.change_embedder(*self.embedder)
        for each in self.processes:
            each.store.bind_embedder(*self.embedder)


@pytest.mark.parametrize(
    "pair", [{}, {"large_gap": 3}, {"max_scope_bytes": 0}], indirect=True, ids=["usual", "long gaps", "large"]
)
@pytest.mark.parametrize("seed", range(6))
def test_at_random_the_index_ends_as_the_store_says(pair: tuple[Process, Process], seed: int) -> None:
    a, b = pair
    chance = Chance(seed, pair)

    def meanwhile() -> None:
        for _ in range(chance.random.randint(1, 4)):
            chance.step()
        if chance.random.random() < 0.7:
            a.slept += LATER
            b.sync.feed(chance.random.choice((HOME, AWAY)))

    for _ in range(25):
        for _ in range(chance.random.randint(0, 4)):
            chance.step()
        nth = chance.random.randint(1, 6)
        hook = chance.random.choice(("before", "after"))
        job: Callable[[], None] = a.index.fail if chance.random.random() < 0.2 else meanwhile
        setattr(a.index, hook, once(nth, job, SLEEPY))
        for scope in (HOME, AWAY):
            try:
                a.sync.feed(scope)
            except FedElsewhere:
                pass  # the other process took over
            except IndexUnavailable:
                assert job == a.index.fail, "nothing else fails here"
        a.index.before = a.index.after = lambda call: None
        a.index.well()
    for scope in (HOME, AWAY):
        b.sync.feed(scope)
        assert in_step(b.store, b.index, b.sync, scope)
        assert not a.sync.is_behind(scope)
    assert b.index.spaces <= {b.sync.space()}
