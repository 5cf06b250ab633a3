"""Moves to another embedder in combination, and passages through every verb."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from keepstone.errors import EmbedderError, ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Revision, Vector, Write
from keepstone.testing.builders import (
    AWAY,
    DIMENSION,
    EMBEDDER,
    HOME,
    NeedsStore,
    add,
    add_id,
    at,
    healthy,
    present,
    vector,
    wording,
)
from keepstone.testing.stores.embedding import (
    TEXT,
    WIDE,
    WIDTH,
    add_long,
    check_rows,
    embedded,
    filled,
    gather,
    long_draft,
    long_text,
    waiting,
)
from keepstone.text.passages import embedding_texts, passage_number
from keepstone.text.words import record_terms


class EmbeddingRules(NeedsStore):
    def test_it_goes_on_where_it_stopped_until_there_is_no_move(self, bound: Store) -> None:
        for number in range(5):
            add(bound, f"fact {number}")
        bound.prepare_embedder(WIDE, WIDTH)
        assert gather(bound, limit=2) == 2
        bound.prepare_embedder(WIDE, WIDTH)
        assert waiting(bound, next=True) == ["fact 2", "fact 3", "fact 4"]
        asked = list(bound.pending(9, next=True))
        assert [each.content for each in bound.pending(1, asked[0].sequence, next=True)] == ["fact 3"]
        assert bound.change_embedder(EMBEDDER, DIMENSION) == 0, "to stay is to drop what was gathered"
        assert (bound.next_embedder(), waiting(bound)) == (None, [])
        assert bound.search_vectors(HOME, vector("fact 1"), 1) != []
        assert bound.attach(filled(asked), next=True) == 0, "there is no move"
        bound.prepare_embedder(WIDE, WIDTH)
        assert gather(bound) == 5
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

    @pytest.mark.parametrize("prepared", [True, False])
    def test_another_destination_starts_anew(self, bound: Store, prepared: bool) -> None:
        id = add_id(bound, "tea")
        bound.prepare_embedder("other-16", WIDTH)
        gather(bound)
        if prepared:
            bound.prepare_embedder(WIDE, WIDTH)
            assert bound.next_embedder() == (WIDE, WIDTH)
            assert waiting(bound, next=True) == ["tea"]
        assert bound.change_embedder(WIDE, WIDTH) == 1
        assert (bound.embedder(), bound.next_embedder()) == ((WIDE, WIDTH), None)
        assert not present(bound, id).embedded

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

    def test_a_long_text_may_become_short_and_long_again(self, bound: Store) -> None:
        id, sequence = add_long(bound)
        bound.revise(HOME, id, Revision(importance=0.9))
        check_rows(bound, sequence, TEXT)
        bound.revise(HOME, id, wording("just a zebra"))
        check_rows(bound, sequence, "just a zebra")
        assert bound.search_words(HOME, ["xenon"], 5) == []
        healthy(bound)
        other = long_text("quartz", "pepper", "onyx")
        bound.revise(HOME, id, wording(other, vector=None))  # without passages: the store makes them, to be embedded
        waiting = list(bound.pending(2)) + list(bound.pending(9, bound.pending(2)[-1].sequence))
        assert [each.content for each in waiting] == embedding_texts(other, None)
        assert bound.pending_count() == 3
        assert bound.attach([(each, vector(each.content)) for each in waiting]) == 3
        check_rows(bound, sequence, other)
        assert bound.attach([(replace(each, version=1), vector("stale")) for each in waiting]) == 0
        healthy(bound)

    def test_the_past_of_a_long_text(self, bound: Store) -> None:
        id, sequence = add_long(bound)
        before = present(bound, id).updated_at
        bound.revise(HOME, id, Revision(metadata={"read": True}))
        snapshot = bound.snapshot(HOME, None, before)
        assert snapshot.rows.places.tolist() == [0, 1, 2, 3]
        assert [record.version for record in snapshot.records] == [1] * 4
        bound.revise(HOME, id, wording("just a zebra"))
        snapshot = bound.snapshot(HOME, None, before + timedelta(0))
        assert snapshot.rows.places.tolist() == [0]  # a past text that differs is found by its first passage
        assert snapshot.records[0].content == TEXT
        assert snapshot.rows.sequences.tolist() == [sequence]

    def test_another_embedder_gets_every_passage(self, bound: Store) -> None:
        _, sequence = add_long(bound)
        bound.prepare_embedder("wide", 16)
        waiting = list(bound.pending(99, next=True))
        assert [each.content for each in waiting] == embedding_texts(TEXT, None)
        assert bound.pending_count(next=True) == 4
        assert bound.attach([(each, vector(each.content, 16)) for each in waiting[:-1]], next=True) == 3
        assert [each.sequence for each in bound.pending(99, next=True)] == [passage_number(sequence, 3)]
        assert bound.change_embedder("wide", 16) == 1
        assert [each.sequence for each in bound.pending(99)] == [passage_number(sequence, 3)]
        rows = bound.changes(HOME, 0).rows
        assert rows.embedded.tolist() == [True, True, True, False]
        assert rows.vectors.shape == (4, 16)

    def test_exports_and_imports_keep_passages(self, bound: Store) -> None:
        id, _ = add_long(bound)
        archives = list(bound.export_records(HOME))
        first = vector(embedding_texts(TEXT, None)[0])
        rows = [ImportRow(each, record_terms(TEXT, None), first, passages=embedded(TEXT)) for each in archives]
        assert bound.import_records(AWAY, rows) == (1, 0)
        check_rows(bound, at(bound, id, AWAY), TEXT, AWAY)
        assert bound.embedder() == (EMBEDDER, DIMENSION)
        redacted = long_text("zebra", "yacht", "[redacted]", "walnut")
        archive = archives[0]
        versions = tuple(replace(each, content=redacted) for each in archive.versions)
        row = ImportRow(
            replace(archive, record=archive.record.with_(content=redacted), versions=versions), record_terms(redacted, None)
        )
        assert bound.redact(HOME, row)
        assert bound.search_words(HOME, ["xenon"], 5) == []
        assert len(bound.search_words(AWAY, ["xenon"], 5)) == 1
        healthy(bound)

    @pytest.mark.parametrize("bad", [vector("tea"), np.zeros(WIDTH, dtype=np.float32), np.full(WIDTH, np.nan, dtype=np.float32)])
    def test_an_unusable_vector_is_refused(self, bound: Store, bad: Vector) -> None:
        add(bound, "tea")
        bound.prepare_embedder(WIDE, WIDTH)
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(bound.pending(1, next=True)[0], bad)], next=True)
        assert waiting(bound, next=True) == ["tea"]

    def test_the_same_long_text_is_a_duplicate(self, bound: Store) -> None:
        id, _ = add_long(bound)
        receipt = bound.write(HOME, [Write(long_draft())])[0]
        assert (receipt.action, receipt.id) == ("duplicate", id)
