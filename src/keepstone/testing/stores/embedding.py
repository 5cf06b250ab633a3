"""What the store promises about embedders: one at a time, and no vector that cannot be compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from keepstone.errors import EmbedderError, EmbedderMismatch, ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    DIMENSION,
    EMBEDDER,
    HOME,
    NeedsStore,
    add,
    add_id,
    at,
    draft,
    past,
    present,
    unpacked,
    vector,
    wording,
)

BAD = {
    "short": np.ones(DIMENSION - 1, dtype=np.float32),
    "long": np.ones(DIMENSION + 1, dtype=np.float32),
    "empty": np.ones(0, dtype=np.float32),
    "matrix": np.ones((1, DIMENSION), dtype=np.float32),
    "zero": np.zeros(DIMENSION, dtype=np.float32),
    "nan": np.array([np.nan] + [0.1] * (DIMENSION - 1), dtype=np.float32),
    "infinite": np.array([np.inf] + [0.1] * (DIMENSION - 1), dtype=np.float32),
}
bad_vectors = pytest.mark.parametrize("bad", list(BAD))


class BindingContract(NeedsStore):
    def test_the_first_embedder_is_recorded(self, store: Store) -> None:
        assert store.embedder() is None
        store.bind_embedder(EMBEDDER, DIMENSION)
        assert store.embedder() == (EMBEDDER, DIMENSION)
        store.bind_embedder(EMBEDDER, DIMENSION)
        assert store.embedder() == (EMBEDDER, DIMENSION)

    @pytest.mark.parametrize(("id", "dimension"), [("other-8", 8), (EMBEDDER, 16), ("other-16", 16)])
    def test_another_embedder_is_refused_and_told_why(self, bound: Store, id: str, dimension: int) -> None:
        add(bound, "tea")
        with pytest.raises(EmbedderMismatch) as refused:
            bound.bind_embedder(id, dimension)
        message = str(refused.value)
        for part in (EMBEDDER, str(DIMENSION), id, str(dimension), "reembed"):
            assert part in message
        assert bound.embedder() == (EMBEDDER, DIMENSION)
        assert bound.search_vectors(HOME, vector("tea"), 1) != []

    def test_text_is_stored_before_there_is_an_embedder(self, store: Store) -> None:
        id = add_id(store, "tea", vector=None)
        assert not present(store, id).embedded
        assert len(store.changes(HOME, 0).rows) == 1
        assert store.search_words(HOME, ["tea"], 1) == [at(store, id)]
        store.bind_embedder(EMBEDDER, DIMENSION)
        assert [each.sequence for each in store.pending(9)] == [at(store, id)]
        assert unpacked(store.changes(HOME, 0).rows)[at(store, id)].vector is None


class PendingContract(NeedsStore):
    def test_pending_records_get_their_vectors(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}", scope, vector=None) for n, scope in enumerate((HOME, AWAY, HOME))]
        add(bound, "embedded at once")
        before = present(bound, ids[0])
        waiting = bound.pending(10)
        assert [(each.scope, each.content, each.version) for each in waiting] == [
            (HOME, "fact 0", 1),
            (AWAY, "fact 1", 1),
            (HOME, "fact 2", 1),
        ]
        assert bound.pending(2) == waiting[:2]
        assert bound.attach([(each, vector(each.content)) for each in waiting]) == 3
        assert bound.pending(10) == []
        assert bound.attach([]) == 0
        assert present(bound, ids[0]) == before.with_(embedded=True)
        assert len(past(bound, ids[0])) == 1
        assert unpacked(bound.index_rows(HOME, [at(bound, ids[2])]))[at(bound, ids[2])].vector == tuple(vector("fact 2").tolist())

    def test_what_changed_or_went_meanwhile_is_left_out(self, bound: Store) -> None:
        stays, changes, goes = (add_id(bound, text, vector=None) for text in ("stays", "changes", "goes"))
        waiting = bound.pending(10)
        bound.revise(HOME, changes, wording("changed", vector=None))
        bound.forget(HOME, Selector(id=goes))
        assert bound.attach([(each, vector(each.content)) for each in waiting]) == 1
        assert present(bound, stays).embedded
        assert not present(bound, changes).embedded
        assert [(each.version, each.content) for each in bound.pending(10)] == [(2, "changed")]

    def test_a_pending_value_of_another_scope_reaches_nothing(self, bound: Store) -> None:
        id = add_id(bound, "tea", vector=None)
        forged = replace(bound.pending(1)[0], scope=AWAY)
        assert bound.attach([(forged, vector("tea"))]) == 0
        assert not present(bound, id).embedded

    def test_another_embedder_makes_all_pending(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}") for n in range(3)] + [add_id(bound, "afar", AWAY)]
        latest = bound.changes(HOME, 0).latest
        bound.change_embedder("wide-16", 16)
        assert bound.embedder() == ("wide-16", 16)
        assert [each.content for each in bound.pending(10)] == ["fact 0", "fact 1", "fact 2", "afar"]
        changes = bound.changes(HOME, latest)
        assert len(changes.rows) == 3
        assert not changes.rows.embedded.any()
        assert changes.rows.vectors.shape == (3, 16)
        assert bound.search_vectors(HOME, vector("fact 1", 16), 5) == []
        assert bound.search_words(HOME, ["fact"], 5) != []
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(bound.pending(1)[0], vector("fact 0"))])
        assert bound.attach([(each, vector(each.content, 16)) for each in bound.pending(2)]) == 2
        assert [each.content for each in bound.pending(10)] == ["fact 2", "afar"]
        assert bound.search_vectors(HOME, vector("fact 1", 16), 1) == [at(bound, ids[1])]
        with pytest.raises(EmbedderMismatch):
            bound.bind_embedder(EMBEDDER, DIMENSION)

    def test_a_change_to_the_same_embedder_loses_nothing(self, bound: Store) -> None:
        add(bound, "tea")
        bound.change_embedder(EMBEDDER, DIMENSION)
        assert bound.embedder() == (EMBEDDER, DIMENSION)
        assert bound.count(HOME) == 1


class RefusedVectorContract(NeedsStore):
    @bad_vectors
    def test_in_a_write(self, bound: Store, bad: str) -> None:
        writes = [Write(draft("good")), Write(draft("bad", vector=BAD[bad]), idempotency_key="k", fingerprint="a")]
        with pytest.raises((ValidationError, EmbedderError)):
            bound.write(HOME, writes)
        assert bound.count(HOME) == 0
        assert bound.document_frequencies(HOME, ["good", "bad"]) == [0, 0]
        assert bound.write(HOME, [Write(draft("good"), idempotency_key="k", fingerprint="b")])[0].action == "added"

    @bad_vectors
    def test_in_a_revision(self, bound: Store, bad: str) -> None:
        id = add_id(bound, "tea")
        before = present(bound, id)
        with pytest.raises((ValidationError, EmbedderError)):
            bound.revise(HOME, id, wording("milk", vector=BAD[bad]))
        assert present(bound, id) == before
        assert len(past(bound, id)) == 1

    @bad_vectors
    def test_when_attached(self, bound: Store, bad: str) -> None:
        for text in ("one", "two"):
            add(bound, text, vector=None)
        one, two = bound.pending(2)
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(one, vector("one")), (two, BAD[bad])])
        assert bound.pending(2) == [one, two]

    @bad_vectors
    def test_in_an_import(self, bound: Store, bad: str) -> None:
        add(bound, "tea")
        add(bound, "milk")
        good, other = bound.export_records(HOME)
        bound.forget(HOME, Selector(everything=True))
        rows = [ImportRow(good, ("tea",), vector("tea")), ImportRow(other, ("milk",), BAD[bad])]
        with pytest.raises((ValidationError, EmbedderError)):
            bound.import_records(HOME, rows)
        assert list(bound.export_records(HOME)) == []


class EmbeddingContract(BindingContract, PendingContract, RefusedVectorContract):
    """Everything about vectors and who made them."""
