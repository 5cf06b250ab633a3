"""A scope in memory: after any changes it equals a plain dictionary, and the cache of scopes keeps its bound."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone import Memory
from keepstone.ports.values import Selector, Write
from keepstone.scope_index import postings
from keepstone.scope_index.cache import IndexCache
from keepstone.scope_index.columns import ScopeIndex, View
from keepstone.scope_index.postings import NO_POSTINGS, Postings, find_terms
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import DIMENSION, EMBEDDER, HOME, add, add_id, draft
from keepstone.text.words import term_hashes
from keepstone.types import Scope
from tests.recall.rows import Line, changes, rows

VOCABULARY = ("tea", "milk", "rome", "oslo", "cat")
HASHES = {word: int(term_hashes([word])[0]) for word in VOCABULARY}


def slots_of(view: View) -> dict[int, int]:
    """The slot of each record that is there; a record may stand in one only."""
    held = [(int(sequence), slot) for slot, sequence in enumerate(view.sequences) if sequence >= 0]
    assert len(dict(held)) == len(held), "a record stands in two slots"
    return dict(held)


def counts(view: View, word: str) -> dict[int, int]:
    """slot -> how often it holds the word."""
    slots, times = find_terms(view.runs, [HASHES[word]]).get(HASHES[word], NO_POSTINGS)
    assert len(set(slots.tolist())) == len(slots), "a slot stands twice under one word"
    return dict(zip(slots.tolist(), times.tolist(), strict=True))


def assert_line(view: View, slot: int, line: Line) -> None:
    assert view.kinds[slot] == view.code(line.kind)
    assert view.sessions[slot] == view.code(line.session)
    assert view.importances[slot] == np.float32(line.importance)
    assert bool(view.active[slot]) is line.active
    assert bool(view.embedded[slot]) is (line.vector is not None)
    assert view.vectors[slot].tolist() == list(line.vector or (0.0,) * 4)
    assert view.lengths[slot] == len(line.words)
    assert view.occurred[slot] == line.sequence * 10
    for word in VOCABULARY:
        assert counts(view, word).get(slot, 0) == Counter(line.words)[word]


def assert_same(view: View, model: dict[int, Line]) -> None:
    slots = slots_of(view)
    assert set(slots) == set(model)
    assert int(view.active.sum()) == sum(line.active for line in model.values())
    for sequence, line in model.items():
        assert_line(view, slots[sequence], line)


words = st.lists(st.sampled_from(VOCABULARY), max_size=6).map(tuple)
vectors = st.none() | st.sampled_from([(1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.5, 0.5, 0.5, 0.5)])
operations = st.one_of(
    st.tuples(st.just("add"), words, vectors),
    st.tuples(st.just("reword"), words, vectors),
    st.tuples(st.just("attach"), st.just(()), vectors),
    st.tuples(st.just("weigh"), st.just(()), st.none()),
    st.tuples(st.just("retire"), st.just(()), st.none()),
    st.tuples(st.just("remove"), st.just(()), st.none()),
)
batches = st.lists(st.lists(st.tuples(operations, st.integers(0, 99)), max_size=6), max_size=10)


@pytest.mark.parametrize("tail", [1, 7, 1024])
@settings(deadline=None, max_examples=100)
@given(script=batches)
def test_after_any_changes_the_index_equals_a_dictionary(tail: int, script: list[list[tuple[tuple[str, ...], int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_TAIL", tail)
        index = ScopeIndex(0)
        model: dict[int, Line] = {}
        number = 0
        for batch in script:
            before, known = index.view(), dict(model)
            touched: dict[int, Line | None] = {}
            for (operation, new_words, vector), pick in batch:  # type: ignore[misc]
                number += 1
                if operation == "add":
                    touched[number] = model[number] = Line(number, new_words, vector, session=f"s{pick % 3}")
                elif model:
                    sequence = sorted(model)[pick % len(model)]
                    line = model.pop(sequence)
                    if operation == "remove":
                        touched[sequence] = None
                        continue
                    changed = {
                        "reword": {"words": new_words, "vector": vector},
                        "attach": {"vector": vector},
                        "weigh": {"importance": pick / 100},
                        "retire": {"active": False},
                    }[operation]
                    touched[sequence] = model[sequence] = line.with_(**changed)
            gone = [sequence for sequence, line in touched.items() if line is None]
            index.apply(changes(number, [line for line in touched.values() if line is not None], gone))
            assert index.latest == number
            assert_same(index.view(), model)
            for sequence, slot in slots_of(before).items():  # what was seen before is still there to be read
                if sequence not in touched:
                    assert_line(before, slot, known[sequence])


def test_slots_of_removed_records_are_dropped_when_they_are_many() -> None:
    chance = random.Random(5)
    lines = [
        Line(n, tuple(chance.choices(VOCABULARY, k=5)), (1.0, 0.0, 0.0, 0.0) if n % 3 else None, session=f"s{n % 4}")
        for n in range(1, 401)
    ]
    index = ScopeIndex(0)
    index.apply(changes(400, lines))
    before, before_bytes, model = index.view(), index.nbytes(), {line.sequence: line for line in lines}
    number = 400
    while len(model) > 20:
        gone = chance.sample(sorted(model), 10)
        for sequence in gone:
            del model[sequence]
        number += 1
        index.apply(changes(number, [], gone))
        assert_same(index.view(), model)
        assert index.view().size <= len(model) * 4 / 3 + 65
    assert before.size == 400
    assert before.vectors.shape == (400, 4)
    assert index.nbytes() < before_bytes / 3
    index.apply(changes(number + 1, [Line(500, ("tea",))]))
    assert_same(index.view(), model | {500: Line(500, ("tea",))})


def test_another_dimension_leaves_the_words_and_drops_the_vectors() -> None:
    index = ScopeIndex(0)
    index.apply(changes(2, [Line(1, ("tea",), (1.0, 0.0, 0.0, 0.0)), Line(2, ("milk",))]))
    before = index.view()
    index.apply(changes(3, [Line(2, ("milk",), (0.0, 1.0))], dimension=2))
    view = index.view()
    assert view.vectors.tolist() == [[0.0, 0.0], [0.0, 1.0]]
    assert view.embedded.tolist() == [False, True]
    assert counts(view, "tea") == {0: 1}
    assert before.vectors.tolist()[0] == [1.0, 0.0, 0.0, 0.0]


def test_rows_alone_make_an_index_in_their_order() -> None:
    view = ScopeIndex.of(rows([Line(9, ("tea", "tea")), Line(3, ("milk",))])).view()
    assert view.sequences.tolist() == [9, 3]
    assert counts(view, "tea") == {0: 2}
    assert view.code("nobody") == -1
    with pytest.raises(AttributeError):
        view.nothing


def test_an_empty_index() -> None:
    view = ScopeIndex(0).view()
    assert (view.size, view.vectors.shape, view.runs) == (0, (0, 0), [])
    assert find_terms(view.runs, [HASHES["tea"]]) == {}


@settings(deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.sampled_from([0, 1, 2, 0xFFFFFFFE, 0xFFFFFFFF]), st.integers(1, 3)), max_size=5), max_size=30)
)
def test_postings_are_a_count_of_terms_by_slot(added: list[list[tuple[int, int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_TAIL", 4)
        held = Postings()
        model: dict[int, dict[int, int]] = {}
        for slot, pairs in enumerate(added):
            terms = [term for term, times in pairs for _ in range(times)]
            held.add(np.array(terms, dtype=np.uint32), np.full(len(terms), slot, dtype=np.int64))
            for term in terms:
                model.setdefault(term, Counter())[slot] += 1
        for term in (0, 1, 2, 3, 0xFFFFFFFE, 0xFFFFFFFF):
            slots, times = find_terms(held.runs(), [term]).get(term, NO_POSTINGS)
            assert dict(zip(slots.tolist(), times.tolist(), strict=True)) == model.get(term, {})
        assert len(held.runs()) <= 8


def test_a_word_said_often_is_counted_up_to_255() -> None:
    held = Postings()
    held.add(np.full(1000, 7, dtype=np.uint32), np.zeros(1000, dtype=np.int64))
    slots, times = find_terms(held.runs(), [7])[7]
    assert (slots.tolist(), times.tolist()) == ([0], [255])


# -- the cache ------------------------------------------------------------------------------------------------------
@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    opened = SqliteStore.open(str(path))
    opened.bind_embedder(EMBEDDER, DIMENSION)
    yield opened
    opened.close()


def scope(number: int) -> Scope:
    return Scope(user=f"user {number}")


def contents(store: SqliteStore, cache: IndexCache, where: Scope) -> set[str]:
    """What the records are that a cached view shows as active."""
    view = cache.view(where)
    assert view is not None
    found = store.fetch(where, view.sequences[view.active].tolist())
    return {record.content for record in found if record is not None}


def test_the_scope_that_was_not_used_for_longest_goes_first(store: SqliteStore) -> None:
    long = " ".join(f"word{n}" for n in range(60))
    for number in range(4):
        store.write(scope(number), [Write(draft(f"{long} {n}")) for n in range(20)])
    one = IndexCache(store, 10**9)
    one.view(scope(0))
    cache = IndexCache(store, int(one.nbytes() * 2.5))
    cache.view(scope(0))
    cache.view(scope(1))
    assert cache.scopes() == [scope(0), scope(1)]
    cache.view(scope(0))
    assert cache.scopes() == [scope(1), scope(0)]
    cache.view(scope(2))
    assert cache.scopes() == [scope(0), scope(2)]
    cache.view(scope(3))
    assert cache.scopes() == [scope(2), scope(3)]
    assert cache.nbytes() == 2 * one.nbytes()


def test_the_bound_of_bytes_is_kept_whatever_is_looked_at(store: SqliteStore) -> None:
    chance = random.Random(3)
    for number in range(8):
        store.write(scope(number), [Write(draft(f"fact {n} of {number}")) for n in range(1 + 40 * (number % 4))])
    limit = 40_000
    cache = IndexCache(store, limit)
    for _ in range(60):
        where = scope(chance.randrange(8))
        view = cache.view(where)
        assert view is None or int(view.active.sum()) == store.count(where)
        assert cache.nbytes() <= limit


def test_a_scope_past_the_bound_is_not_held(store: SqliteStore) -> None:
    store.write(HOME, [Write(draft(f"fact {n}")) for n in range(50)])
    cache = IndexCache(store, 1000)
    assert cache.view(HOME) is None
    assert (cache.nbytes(), cache.scopes()) == (0, [])
    assert cache.view(HOME) is None


def test_a_scope_that_outgrows_the_bound_is_let_go(store: SqliteStore) -> None:
    add(store, "tea")
    cache = IndexCache(store, 30_000)
    assert contents(store, cache, HOME) == {"tea"}
    store.write(HOME, [Write(draft(f"fact {n}")) for n in range(400)])
    assert cache.view(HOME) is None
    assert (cache.nbytes(), cache.scopes()) == (0, [])


def test_changes_of_another_connection_are_seen(store: SqliteStore, path: Path) -> None:
    cache = IndexCache(store, 10**9)
    id = add_id(store, "tea")
    assert contents(store, cache, HOME) == {"tea"}
    other = SqliteStore.open(str(path))
    other.bind_embedder(EMBEDDER, DIMENSION)
    try:
        add(other, "milk")
        assert contents(store, cache, HOME) == {"tea", "milk"}
        other.forget(HOME, Selector(id=id))
        assert contents(store, cache, HOME) == {"milk"}
        add(other, "rome", scope(1))
        assert contents(store, cache, HOME) == {"milk"}
        assert contents(store, cache, scope(1)) == {"rome"}
    finally:
        other.close()


def test_nothing_is_read_anew_where_nothing_changed(store: SqliteStore, monkeypatch: pytest.MonkeyPatch) -> None:
    add(store, "tea")
    cache = IndexCache(store, 10**9)
    cache.view(HOME)

    def fail(*_: object) -> None:
        raise AssertionError("the change feed was read")

    monkeypatch.setattr(store, "changes", fail)
    view = cache.view(HOME)
    assert view is not None
    assert view.size == 1


def test_changes_of_another_process_are_seen_by_the_next_recall(memory: Memory, path: Path) -> None:
    memory.remember("Dana drinks tea.")
    assert [hit.content for hit in memory.recall("What does Dana drink?")] == ["Dana drinks tea."]
    script = (
        "import json, sys; from keepstone import Memory\n"
        "with Memory.open(sys.argv[1]) as memory:\n"
        "    tea = memory.recall('What does Dana drink?')[0]\n"
        "    memory.update(tea.id, 'Dana drinks mate.'); memory.remember('Erik drinks milk.')\n"
        "    print(json.dumps(tea.content))"
    )
    done = subprocess.run([sys.executable, "-c", script, str(path)], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(done.stdout) == "Dana drinks tea."
    assert memory.recall("What does Dana drink?")[0].content == "Dana drinks mate."
    assert memory.recall("What does Erik drink?")[0].content == "Erik drinks milk."


def test_scopes_that_hold_nothing_do_not_gather(store: SqliteStore) -> None:
    cache = IndexCache(store, 10**9)
    for number in range(500):
        cache.view(scope(number))
    assert (cache.scopes(), cache.nbytes(), len(cache._entries)) == ([], 0, 0)


def test_a_scope_that_was_emptied_is_let_go(store: SqliteStore) -> None:
    cache = IndexCache(store, 10**9)
    id = add_id(store, "tea")
    assert contents(store, cache, HOME) == {"tea"}
    assert cache.scopes() == [HOME]
    store.forget(HOME, Selector(id=id))
    assert contents(store, cache, HOME) == set()
    assert (cache.scopes(), cache.nbytes(), len(cache._entries)) == ([], 0, 0)
    add(store, "milk")
    assert contents(store, cache, HOME) == {"milk"}


def test_a_view_is_made_once_until_something_changes(store: SqliteStore) -> None:
    cache = IndexCache(store, 10**9)
    add(store, "tea")
    first = cache.view(HOME)
    assert isinstance(first, View)
    assert (first.live, first.average_length, cache.view(HOME)) == (1, 1.0, first)
    add(store, "milk and honey")
    second = cache.view(HOME)
    assert isinstance(second, View)
    assert (second.live, second.average_length) == (2, second.lengths.sum() / 2)
    assert (first.live, len(first.active)) == (1, 1)
