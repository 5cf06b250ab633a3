"""What a store promises of long texts: one record with a row, words and a vector for each passage."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from keepstone.ports.stores import Store
from keepstone.ports.values import Draft, ImportRow, Revision, SearchFilter, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    DIMENSION,
    EMBEDDER,
    HOME,
    NeedsStore,
    add_id,
    at,
    draft,
    healthy,
    present,
    vector,
    wording,
)
from keepstone.text.passages import Passage, embedding_texts, further_passages, passage_number
from keepstone.text.sentences import split_passages
from keepstone.text.words import record_terms, term_hashes
from keepstone.types import Scope


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

    def test_the_same_long_text_is_a_duplicate(self, bound: Store) -> None:
        id, _ = add_long(bound)
        receipt = bound.write(HOME, [Write(long_draft())])[0]
        assert (receipt.action, receipt.id) == ("duplicate", id)

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
