"""What a store promises about vectors: pending records, the move to another embedder, and passages of long texts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from keepstone.errors import EmbedderError, EmbedderMismatch, ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import Draft, ImportRow, Pending, Revision, SearchFilter, Selector, Vector, Write
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
    healthy,
    past,
    present,
    unpacked,
    vector,
    wording,
)
from keepstone.text.passages import Passage, embedding_texts, further_passages, passage_number
from keepstone.text.sentences import split_passages
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import Scope

BAD = {
    "short": np.ones(DIMENSION - 1, dtype=np.float32),
    "long": np.ones(DIMENSION + 1, dtype=np.float32),
    "empty": np.ones(0, dtype=np.float32),
    "matrix": np.ones((1, DIMENSION), dtype=np.float32),
    "zero": np.zeros(DIMENSION, dtype=np.float32),
    "nan": np.array([np.nan] + [0.1] * (DIMENSION - 1), dtype=np.float32),
    "infinite": np.array([np.inf] + [0.1] * (DIMENSION - 1), dtype=np.float32),
}
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


class EmbeddingContract(NeedsStore):
    @pytest.mark.parametrize(("id", "dimension"), [("other-8", 8), (EMBEDDER, 16), ("other-16", 16)])
    def test_another_embedder_is_refused_with_the_reason(self, bound: Store, id: str, dimension: int) -> None:
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
        assert store.embedder() is None
        for _ in range(2):
            store.bind_embedder(EMBEDDER, DIMENSION)
            assert store.embedder() == (EMBEDDER, DIMENSION)
        assert [each.sequence for each in store.pending(9)] == [at(store, id)]
        assert unpacked(store.changes(HOME, 0).rows)[at(store, id)].vector is None

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

    @pytest.mark.parametrize("bad", list(BAD))
    def test_a_call_with_an_unusable_vector_stores_nothing(self, bound: Store, bad: str) -> None:
        id = add_id(bound, "tea")
        for text in ("one", "two"):
            add(bound, text, vector=None)
        before, (one, two) = list(bound.export_records(HOME)), bound.pending(2)
        writes = [Write(draft("good")), Write(draft("bad", vector=BAD[bad]), idempotency_key="k", fingerprint="a")]
        rows = [ImportRow(before[0], ("tea",), vector("tea")), ImportRow(before[1], ("one",), BAD[bad])]
        calls: list[Callable[[], object]] = [
            lambda: bound.write(HOME, writes),
            lambda: bound.revise(HOME, id, wording("milk", vector=BAD[bad])),
            lambda: bound.attach([(one, vector("one")), (two, BAD[bad])]),
            lambda: bound.import_records(AWAY, rows),
        ]
        for call in calls:
            with pytest.raises((ValidationError, EmbedderError)):
                call()
        assert list(bound.export_records(HOME)) == before
        assert list(bound.export_records(AWAY)) == []
        assert bound.pending(9) == [one, two]
        assert bound.document_frequencies(HOME, ["good", "bad", "milk"]) == [0, 0, 0]
        assert bound.write(HOME, [Write(draft("good"), idempotency_key="k", fingerprint="b")])[0].action == "added"

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


# -- long texts: one record with a row, words and a vector for each passage -----------------------------------------
def long_text(*marks: str) -> str:
    """A text with one of these words in each passage."""
    return "".join(f"{mark} " + f"about {mark} and more. " * 80 + "\n\n" for mark in marks)


TEXT = long_text("zebra", "yacht", "xenon", "walnut")


def embedded(content: str) -> tuple[Passage, ...]:
    """The further passages of a text with the vectors of their texts."""
    further, texts = further_passages(content, None), embedding_texts(content, None)[1:]
    return tuple(passage._replace(vector=vector(text)) for passage, text in zip(further, texts, strict=True))


def long_draft(content: str = TEXT) -> Draft:
    """A draft of a long text as the write path hands it over."""
    return draft(content, vector=vector(embedding_texts(content, None)[0]), passages=embedded(content))


def add_long(store: Store, content: str = TEXT, scope: Scope = HOME) -> tuple[str, int]:
    """Store a long text: its id and its sequence."""
    receipt = store.write(scope, [Write(long_draft(content))])[0]
    assert receipt.action == "added"
    return receipt.id or "", at(store, receipt.id or "", scope)


def check_rows(store: Store, sequence: int, content: str, scope: Scope = HOME) -> None:
    """The change feed has the text's passages, each with its own words and vector, and nothing else of the record."""
    rows = store.changes(scope, 0).rows
    mine = [place for place in range(len(rows)) if rows.sequences[place] == sequence]
    spans = list(split_passages(content))
    assert [int(rows.places[place]) for place in mine] == list(range(len(spans)))
    starts = [0, *(int(end) for end in rows.ends[:-1])]
    for place, (start, stop) in zip(mine, spans, strict=True):
        terms = record_terms(content, None) if not start else record_terms(content[start:stop], None)
        assert rows.terms[starts[place] : rows.ends[place]].tolist() == term_hashes(terms).tolist()
        assert abs(rows.vectors[place] - vector(content[start:stop])).max() < 1e-3
        assert (int(rows.passage_starts[place]), int(rows.passage_stops[place])) == ((start, stop) if len(spans) > 1 else (0, 0))
        assert (rows.kinds[place], rows.tags[place], bool(rows.active[place])) == ("fact", "general", True)


class PassagesContract(NeedsStore):
    def test_a_long_text_is_one_record_found_by_its_passages(self, bound: Store) -> None:
        add_id(bound, "Dana likes tea")
        id, sequence = add_long(bound)
        assert present(bound, id).content == TEXT
        assert bound.count(HOME) == 2
        check_rows(bound, sequence, TEXT)
        texts = embedding_texts(TEXT, None)
        for place, (word, text) in enumerate(zip(("zebra", "yacht", "xenon", "walnut"), texts, strict=True)):
            number = passage_number(sequence, place)
            assert list(bound.search_words(HOME, [word], 5)) == [number]
            assert bound.search_vectors(HOME, vector(text), 1) == [number]
            rows = bound.index_rows(HOME, [number])
            assert rows.places.tolist() == ([0, place] if place else [0])
        assert bound.search_words(HOME, ["xenon"], 5, SearchFilter(kinds=("message",))) == []
        assert list(bound.document_frequencies(HOME, ["xenon", "more", "tea"])) == [1, 4, 1]
        assert len(bound.index_rows(HOME, [sequence], whole=True)) == 4
        assert len(bound.index_rows(AWAY, [sequence, passage_number(sequence, 1)], whole=True)) == 0
        assert bound.search_words(AWAY, ["xenon"], 5) == []
        assert bound.pending_count() == 0
        healthy(bound)

    def test_forgetting_takes_every_passage(self, bound: Store) -> None:
        id, sequence = add_long(bound)
        add_id(bound, "a yacht of its own")
        number = bound.changes(HOME, 0).latest
        assert bound.forget(HOME, Selector(id=id)).forgotten == 1
        assert bound.changes(HOME, number).removed == (sequence,)
        assert bound.search_words(HOME, ["xenon", "walnut"], 5) == []
        assert len(bound.search_words(HOME, ["yacht"], 5)) == 1
        assert len(bound.search_vectors(HOME, vector("x"), 9)) == 1
        assert len(bound.changes(HOME, 0).rows) == 1
        healthy(bound)
