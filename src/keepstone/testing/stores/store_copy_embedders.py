"""What a store promises on its way to another embedder: the old vectors serve until the new ones are there."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from keepstone.errors import EmbedderError, EmbedderMismatch, ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import Pending, Revision, Selector, Vector
from keepstone.testing.builders import (
    AWAY,
    DIMENSION,
    EMBEDDER,
    HOME,
    NeedsStore,
    add,
    add_id,
    at,
    present,
    unpacked,
    vector,
    wording,
)
from keepstone.testing.stores.making import healthy

WIDE, WIDTH = "wide-16", 16


def filled(waiting: list[Pending]) -> list[tuple[Pending, Vector]]:
    return [(each, vector(each.content, WIDTH)) for each in waiting]


def gather(store: Store, limit: int = 99) -> int:
    """Embed some of what waits for the next embedder."""
    return store.attach(filled(list(store.pending(limit, next=True))), next=True)


def waiting(store: Store, *, next: bool = False) -> list[str]:
    found = [each.content for each in store.pending(99, next=next)]
    assert store.pending_count(next=next) == len(found)
    return found


class MovingEmbeddersContract(NeedsStore):
    def test_the_old_vectors_serve_until_the_switch(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}") for n in range(3)] + [add_id(bound, "afar", AWAY)]
        assert bound.next_embedder() is None
        bound.prepare_embedder(WIDE, WIDTH)
        assert (bound.next_embedder(), bound.embedder()) == ((WIDE, WIDTH), (EMBEDDER, DIMENSION))
        assert waiting(bound, next=True) == ["fact 0", "fact 1", "fact 2", "afar"]
        assert gather(bound) == 4
        assert (waiting(bound, next=True), waiting(bound)) == ([], [])
        assert bound.search_vectors(HOME, vector("fact 1"), 1) == [at(bound, ids[1])]
        latest = bound.changes(HOME, 0).latest
        assert bound.change_embedder(WIDE, WIDTH) == 0
        assert (bound.next_embedder(), bound.embedder()) == (None, (WIDE, WIDTH))
        assert bound.search_vectors(HOME, vector("fact 1", WIDTH), 1) == [at(bound, ids[1])]
        rows = unpacked(bound.changes(HOME, latest).rows)
        assert {row.vector for row in rows.values()} == {tuple(vector(f"fact {n}", WIDTH).tolist()) for n in range(3)}
        assert present(bound, ids[3], AWAY).embedded
        healthy(bound)

    def test_it_goes_on_where_it_stopped(self, bound: Store) -> None:
        for number in range(5):
            add(bound, f"fact {number}")
        bound.prepare_embedder(WIDE, WIDTH)
        assert gather(bound, limit=2) == 2
        bound.prepare_embedder(WIDE, WIDTH)
        assert waiting(bound, next=True) == ["fact 2", "fact 3", "fact 4"]
        first = bound.pending(1, next=True)
        assert [each.content for each in bound.pending(1, first[0].sequence, next=True)] == ["fact 3"]
        assert gather(bound) == 3
        assert bound.change_embedder(WIDE, WIDTH) == 0

    def test_what_is_not_gathered_waits_after_the_switch(self, bound: Store) -> None:
        for number in range(3):
            add(bound, f"fact {number}")
        bound.prepare_embedder(WIDE, WIDTH)
        gather(bound, limit=1)
        assert bound.change_embedder(WIDE, WIDTH) == 2
        assert waiting(bound) == ["fact 1", "fact 2"]
        assert bound.attach(filled(list(bound.pending(9)))) == 2
        assert waiting(bound) == []
        healthy(bound)

    def test_what_is_written_or_changed_meanwhile_waits_again(self, bound: Store) -> None:
        changed, touched, gone = (add_id(bound, text) for text in ("changed", "touched", "gone"))
        bound.prepare_embedder(WIDE, WIDTH)
        gather(bound)
        add(bound, "new")
        bound.revise(HOME, changed, wording("reworded"))
        bound.revise(HOME, touched, Revision(importance=0.9))
        bound.forget(HOME, Selector(id=gone))
        left = waiting(bound, next=True)
        assert {"new", "reworded"} <= set(left) <= {"new", "reworded", "touched"}
        assert bound.search_vectors(HOME, vector("reworded"), 1) == [at(bound, changed)]
        assert bound.change_embedder(WIDE, WIDTH) == len(left)
        assert waiting(bound) == left
        assert not present(bound, changed).embedded, "the vector that was gathered is of its old words"
        healthy(bound)

    def test_what_changed_or_went_since_it_was_asked_for_is_left_out(self, bound: Store) -> None:
        changed, gone = add_id(bound, "changed"), add_id(bound, "gone")
        add(bound, "stays")
        bound.prepare_embedder(WIDE, WIDTH)
        asked = list(bound.pending(9, next=True))
        bound.revise(HOME, changed, wording("reworded"))
        bound.forget(HOME, Selector(id=gone))
        assert bound.attach(filled(asked), next=True) == 1
        assert waiting(bound, next=True) == ["reworded"]

    def test_another_scopes_pending_value_reaches_nothing(self, bound: Store) -> None:
        add(bound, "tea")
        bound.prepare_embedder(WIDE, WIDTH)
        (asked,) = bound.pending(9, next=True)
        forged = Pending(AWAY, asked.sequence, asked.version, asked.content)
        assert bound.attach(filled([forged]), next=True) == 0

    @pytest.mark.parametrize("bad", [vector("tea"), np.zeros(WIDTH, dtype=np.float32), np.full(WIDTH, np.nan, dtype=np.float32)])
    def test_an_unusable_vector_is_refused(self, bound: Store, bad: Vector) -> None:
        add(bound, "tea")
        bound.prepare_embedder(WIDE, WIDTH)
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(bound.pending(1, next=True)[0], bad)], next=True)
        assert waiting(bound, next=True) == ["tea"]

    def test_nothing_is_gathered_when_no_move_is_on(self, bound: Store) -> None:
        add(bound, "tea")
        bound.prepare_embedder(WIDE, WIDTH)
        asked = list(bound.pending(9, next=True))
        bound.change_embedder(WIDE, WIDTH)
        assert bound.attach(filled(asked), next=True) == 0
        assert waiting(bound) == ["tea"]

    def test_another_destination_starts_anew(self, bound: Store) -> None:
        add(bound, "tea")
        bound.prepare_embedder("other-16", WIDTH)
        gather(bound)
        bound.prepare_embedder(WIDE, WIDTH)
        assert bound.next_embedder() == (WIDE, WIDTH)
        assert waiting(bound, next=True) == ["tea"]
        assert bound.change_embedder(WIDE, WIDTH) == 1

    def test_a_switch_elsewhere_uses_none_of_what_was_gathered(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        bound.prepare_embedder("other-16", WIDTH)
        gather(bound)
        assert bound.change_embedder(WIDE, WIDTH) == 1
        assert (bound.embedder(), bound.next_embedder()) == ((WIDE, WIDTH), None)
        assert not present(bound, id).embedded

    def test_to_stay_is_to_drop_what_was_gathered(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        bound.prepare_embedder(WIDE, WIDTH)
        gather(bound)
        assert bound.change_embedder(EMBEDDER, DIMENSION) == 0
        assert (bound.next_embedder(), present(bound, id).embedded) == (None, True)
        assert bound.search_vectors(HOME, vector("tea"), 1) == [at(bound, id)]

    def test_after_the_switch_the_old_one_is_refused(self, bound: Store) -> None:
        add(bound, "tea")
        bound.prepare_embedder(WIDE, WIDTH)
        bound.change_embedder(WIDE, WIDTH)
        with pytest.raises(EmbedderMismatch):
            bound.bind_embedder(EMBEDDER, DIMENSION)
        bound.bind_embedder(WIDE, WIDTH)
        assert add(bound, "milk", vector=vector("milk", WIDTH)).action == "added"
        assert waiting(bound) == ["tea"]

    def test_past_views_have_no_vectors_of_the_old_one(self, bound: Store) -> None:
        add(bound, "tea", key="k", occurred_at=datetime(2020, 1, 1, tzinfo=UTC))
        add(bound, "milk", key="k", occurred_at=datetime(2022, 1, 1, tzinfo=UTC))
        then = datetime(2021, 1, 1, tzinfo=UTC)
        assert bound.snapshot(HOME, then, None).rows.embedded.tolist() == [True]
        bound.prepare_embedder("other-8", DIMENSION)
        bound.attach([(each, vector("!" + each.content)) for each in bound.pending(9, next=True)], next=True)
        bound.change_embedder("other-8", DIMENSION)
        view = bound.snapshot(HOME, then, None)
        assert [record.content for record in view.records] == ["tea"]
        assert view.rows.embedded.tolist() == [False], "equal in width, but of another embedder"
        assert bound.snapshot(HOME, None, None).rows.embedded.tolist() == [True]
        healthy(bound)
