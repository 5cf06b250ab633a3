"""What ranking reads: `changes` and `stamp`, words, vectors, index columns, against a model that scans everything."""

from __future__ import annotations

from itertools import count
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.errors import EmbedderError, ValidationError
from keepstone.ports.filters import parse
from keepstone.ports.stores import Store
from keepstone.ports.values import Draft, Revision, SearchFilter, Selector, Write
from keepstone.testing.builders import (
    ANY_ORDER,
    AWAY,
    DIMENSION,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    Row,
    add,
    add_id,
    at,
    draft,
    present,
    row_of,
    unpacked,
    vector,
    wording,
)
from keepstone.text.words import MARKS, record_terms, terms
from keepstone.types import Scope

_fresh = count()


def live(store: Store, id: str, made: Draft) -> Row:
    """The row that a record written from this draft must have."""
    return row_of(present(store, id), made.terms, made.vector)


class ChangesContract(NeedsStore):
    def test_nothing_yet(self, bound: Store) -> None:
        changes = bound.changes(HOME, 0)
        assert len(changes.rows) == 0
        assert changes.removed == ()
        assert changes.rows.vectors.shape == (0, DIMENSION)

    def test_the_columns_are_right(self, bound: Store) -> None:
        drafts = [
            draft("Dana likes green tea", key="drink", importance=0.3, trust=0.6, occurred_at=LONG_AGO),
            draft("hi there", kind="message", session="s1", role="user", name="Dana", tag="talk"),
            draft("no vector yet", vector=None, expires_at=NOON),
            draft("held back", status="quarantined"),
            draft("?!", terms=()),
        ]
        receipts = bound.write(HOME, [Write(each) for each in drafts])
        rows = unpacked(bound.changes(HOME, 0).rows)
        assert rows == {
            at(bound, receipt.id or ""): live(bound, receipt.id or "", made)
            for receipt, made in zip(receipts, drafts, strict=True)
        }
        assert unpacked(bound.index_rows(HOME, [*rows, 10**12])) == rows
        assert len(bound.index_rows(HOME, [])) == 0

    def test_each_kind_of_change_is_told_once(self, bound: Store) -> None:
        first = draft("tea")
        id = add_id(bound, "tea")
        sequence = at(bound, id)
        added = bound.changes(HOME, 0)
        assert unpacked(added.rows) == {sequence: live(bound, id, first)}
        assert added.removed == ()

        idle = bound.changes(HOME, added.latest)
        assert len(idle.rows) == 0
        assert idle.removed == ()
        assert idle.latest == added.latest

        bound.revise(HOME, id, wording("milk", vector=None))
        revised = bound.changes(HOME, added.latest)
        assert unpacked(revised.rows) == {sequence: live(bound, id, draft("milk", vector=None))}
        assert revised.latest > added.latest

        bound.attach([(bound.pending(1)[0], vector("milk"))])
        attached = bound.changes(HOME, revised.latest)
        assert unpacked(attached.rows) == {sequence: live(bound, id, draft("milk"))}
        assert attached.latest > revised.latest

        bound.forget(HOME, Selector(id=id))
        gone = bound.changes(HOME, attached.latest)
        assert len(gone.rows) == 0
        assert gone.removed == (sequence,)
        assert gone.latest > attached.latest

        assert sequence in bound.changes(HOME, added.latest).removed
        assert len(bound.changes(HOME, 0).rows) == 0

    def test_a_key_and_a_merge_change_their_row(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city")
        seen = bound.changes(HOME, 0).latest
        add(bound, "Oslo", key="city")
        rows = unpacked(bound.changes(HOME, seen).rows)
        assert rows == {at(bound, id): live(bound, id, draft("Oslo", key="city"))}

    def test_other_scopes_changes_are_not_told(self, bound: Store) -> None:
        id = add_id(bound, "tea", AWAY)
        latest = bound.changes(HOME, 0).latest
        add(bound, "milk", AWAY)
        bound.forget(AWAY, Selector(id=id))
        changes = bound.changes(HOME, latest)
        assert len(changes.rows) == 0
        assert changes.removed == ()

    def test_the_stamp_differs_after_every_change(self, bound: Store) -> None:
        stamps = [bound.stamp(HOME)]
        assert bound.stamp(HOME) == stamps[0], "reading must not look like a change"
        id = add_id(bound, "tea", vector=None)
        stamps.append(bound.stamp(HOME))
        bound.attach([(bound.pending(1)[0], vector("tea"))])
        stamps.append(bound.stamp(HOME))
        bound.revise(HOME, id, Revision(importance=0.9))
        stamps.append(bound.stamp(HOME))
        bound.forget(HOME, Selector(id=id))
        stamps.append(bound.stamp(HOME))
        bound.change_embedder("other-8", 8)
        stamps.append(bound.stamp(HOME))
        assert len(set(stamps)) == len(stamps)

    def test_the_index_size_grows_with_the_scope(self, bound: Store) -> None:
        empty = bound.index_size(HOME)
        bound.write(HOME, [Write(draft(f"fact number {n}")) for n in range(50)])
        assert bound.index_size(HOME) > empty >= 0
        assert bound.index_size(HOME) >= 50 * DIMENSION * 4
        assert bound.index_size(AWAY) == empty


class SearchContract(NeedsStore):
    def test_words_and_vectors_agree_with_a_scan(self, bound: Store) -> None:
        random = Random(7)
        vocabulary = [f"word{n}" for n in range(30)] + ["not", "near", "null", "日本", "über", "ключ", "running", "x1"]
        texts: dict[str, str] = {}
        for scope in (HOME, AWAY):
            for number in range(60):
                text = " ".join(random.choices(vocabulary, k=random.randint(1, 8))) + f" n{number}"
                id = add_id(bound, text, scope)
                if scope is HOME:
                    texts[id] = text
        for id in random.sample(list(texts), 10):
            texts[id] = f"{random.choice(vocabulary)} changed {texts[id].split()[-1]}"
            bound.revise(HOME, id, wording(texts[id]))
        for id in random.sample(list(texts), 10):
            bound.forget(HOME, Selector(id=id))
            del texts[id]

        by_sequence = {at(bound, id): text for id, text in texts.items()}
        stored = {sequence: record_terms(text, None) for sequence, text in by_sequence.items()}
        asked = [*terms(" ".join(vocabulary)), "chang", "n3", "absent", "word"]
        holders = [[sequence for sequence, found in stored.items() if term in found] for term in asked]
        assert bound.document_frequencies(HOME, asked) == [len(found) for found in holders]
        for term, found in zip(asked, holders, strict=True):
            assert sorted(bound.search_words(HOME, [term], 1000)) == sorted(found), term
        pair = asked[0:2]
        assert set(bound.search_words(HOME, pair, 1000)) == {*holders[0], *holders[1]}
        assert len(bound.search_words(HOME, asked, 7)) == 7

        for probe in ("word1 word2", "changed", "nothing like it"):
            query = vector(probe)
            scores = {sequence: float(vector(text) @ query) for sequence, text in by_sequence.items()}
            best = sorted(scores.values(), reverse=True)
            nearest = [scores[sequence] for sequence in bound.search_vectors(HOME, query, 10)]
            assert np.allclose(nearest, best[:10], atol=1e-5)
            assert set(bound.search_vectors(HOME, query, 1000)) == set(by_sequence)

    def test_the_better_match_comes_first(self, bound: Store) -> None:
        for number in range(10):
            add(bound, f"Dana drinks tea on day {number}")
        best = add_id(bound, "Dana grows saffron on the balcony")
        add(bound, "Dana painted the balcony")
        assert bound.search_words(HOME, ["dana", "saffron", "balcony"], 3)[0] == at(bound, best)

    def test_records_without_a_vector_are_not_near_anything(self, bound: Store) -> None:
        add(bound, "waits", vector=None)
        near = add_id(bound, "tea")
        assert bound.search_vectors(HOME, vector("waits"), 10) == [at(bound, near)]

    @pytest.mark.parametrize("term", ['"', 'hello"', "AND", "*", "a:b", "(", "NEAR(", "", "'", "-", "^a", "a*", "{a b}: c"])
    def test_no_term_is_syntax(self, bound: Store, term: str) -> None:
        add(bound, "tea and milk")
        assert bound.search_words(HOME, [term], 10) == []
        assert bound.document_frequencies(HOME, [term]) == [0]
        assert len(bound.search_words(HOME, [term, "tea", "tea"], 10)) == 1

    def test_nothing_asked_nothing_found(self, bound: Store) -> None:
        add(bound, "tea")
        assert bound.search_words(HOME, [], 10) == []
        assert bound.document_frequencies(HOME, []) == []

    def test_a_query_of_a_thousand_terms(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        asked = [f"absent{n}" for n in range(1000)] + ["tea"]
        assert bound.search_words(HOME, asked, 10) == [at(bound, id)]
        assert bound.document_frequencies(HOME, asked) == [0] * 1000 + [1]

    @settings(ANY_ORDER, max_examples=100)
    @given(texts=st.lists(st.text(min_size=1, max_size=30), min_size=1, max_size=5))
    def test_any_word_of_any_language_is_found(self, bound: Store, texts: list[str]) -> None:
        texts = [text for text in texts if "\0" not in text and text.isprintable()]
        scope = Scope("local", "default", f"reader-{next(_fresh)}")
        writes = [Write(draft(text, kind="message")) for text in texts]
        sequences = [at(bound, receipt.id or "", scope) for receipt in bound.write(scope, writes)]
        stored = [set(record_terms(text, None)) - MARKS for text in texts]
        asked = sorted(set().union(*stored))
        assert bound.document_frequencies(scope, asked) == [sum(term in each for each in stored) for term in asked]
        for term in asked:
            expected = [sequence for sequence, each in zip(sequences, stored, strict=True) if term in each]
            assert sorted(bound.search_words(scope, [term], 100)) == expected, term

    @pytest.mark.parametrize("bad", [[1.0], [0.0] * DIMENSION, [float("nan")] * DIMENSION, [float("inf")] * DIMENSION])
    def test_a_query_vector_that_cannot_be_compared_is_refused(self, bound: Store, bad: list[float]) -> None:
        add(bound, "tea")
        with pytest.raises((ValidationError, EmbedderError)):
            bound.search_vectors(HOME, np.array(bad, dtype=np.float32), 5)


class NarrowContract(NeedsStore):
    @pytest.mark.parametrize(
        ("search_filter", "expected"),
        [
            (SearchFilter(), [0, 1, 2, 3]),
            (SearchFilter(tag="work"), [1]),
            (SearchFilter(kinds=("note", "message")), [2]),
            (SearchFilter(kinds=()), []),
            (SearchFilter(session="s1"), [2]),
            (SearchFilter(min_importance=0.6), [1]),
            (SearchFilter(min_trust=0.6), [0, 1, 3]),
            (SearchFilter(filter=parse({"n": {"gte": 2}})), [3]),
            (SearchFilter(tag="general", filter=parse({"n": 1})), [0]),
            (SearchFilter(tag="'; drop table record; --"), []),
        ],
    )
    def test_searches_return_only_what_is_wanted(self, bound: Store, search_filter: SearchFilter, expected: list[int]) -> None:
        drafts = [
            draft("tea one", metadata={"n": 1}),
            draft("tea two", tag="work", importance=0.9),
            draft("tea three", kind="note", session="s1", trust=0.2),
            draft("tea four", metadata={"n": 2}),
            draft("tea gone", expires_at=LONG_AGO),
            draft("tea held", status="quarantined"),
        ]
        ids = [receipt.id or "" for receipt in bound.write(HOME, [Write(each) for each in drafts])]
        add(bound, "tea away", AWAY)
        sequences = [at(bound, id) for id in ids]
        wanted = [sequences[number] for number in expected]
        assert sorted(bound.search_words(HOME, ["tea"], 9, search_filter)) == wanted
        assert sorted(bound.search_vectors(HOME, vector("tea one"), 9, search_filter)) == wanted
        assert bound.search_recent(HOME, 9, search_filter) == wanted[::-1]
        assert bound.search_recent(HOME, 1, search_filter) == wanted[::-1][:1]


class RankingContract(ChangesContract, SearchContract, NarrowContract):
    """Everything that ranking reads of the present."""
