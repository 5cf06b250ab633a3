"""Random words of every language."""

from __future__ import annotations

from itertools import count

from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.ports.stores import Store
from keepstone.ports.values import Write
from keepstone.testing.builders import (
    AWAY,
    DIMENSION,
    HOME,
    NeedsStore,
    at,
    draft,
)
from keepstone.text.sentences import split_passages
from keepstone.text.words import MARKS, record_terms
from keepstone.types import Scope
from tests.contracts.store_rules.any_order import ANY_ORDER

_fresh = count()


class RankingRules(NeedsStore):
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

    def test_the_index_size_grows_with_the_scope(self, bound: Store) -> None:
        empty = bound.index_size(HOME)
        bound.write(HOME, [Write(draft(f"fact number {n}")) for n in range(50)])
        assert bound.index_size(HOME) > empty >= 0
        assert bound.index_size(HOME) >= 50 * DIMENSION * 4
        assert bound.index_size(AWAY) == empty

    def test_the_index_size_counts_the_passages_of_the_scope_alone(self, bound: Store) -> None:
        text = "The lock of the canal was repaired in May. " * 200
        empty = bound.index_size(HOME)
        bound.write(AWAY, [Write(draft(text, kind="message"))])
        alone = bound.index_size(AWAY)
        bound.write(AWAY, [Write(draft("short", kind="message"))])
        row = bound.index_size(AWAY) - alone
        assert bound.index_size(HOME) == empty
        assert alone == row * len([*split_passages(text)]) > row
        bound.write(HOME, [Write(draft(text, kind="message"))])
        bound.write(HOME, [Write(draft(f"note {n}", kind="message")) for n in range(1000)])
        assert bound.index_size(HOME) == alone + 1000 * row
