"""Random texts, metadata and filters, and failures in new scopes."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.errors import EmbedderError, NotFound, ValidationError
from keepstone.ports.filters import All, AnyOf, Condition, Filter, HasText, Not
from keepstone.ports.stores import Store
from keepstone.ports.values import Pending, Revision, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NeedsStore,
    add,
    add_id,
    contents,
    draft,
    past,
    present,
    together,
    vector,
    wording,
)
from keepstone.testing.stores.reading import agrees
from keepstone.types import Metadata, Scope
from tests.contracts.store_rules.any_order import ANY_ORDER

# fmt: off
KEYS = ["a", "b", 'quo"te', "it's", "ключ", "a b", "$", "$.a", "0", "[0]", "[#-1]", "back\\slash", "%",
        "*", "🎉", "AND", ":n"]

TEXTS = ["", "a", "A", "ab", "b", "1", "true", "null", "it's", 'a"b', "é", "e\u0301", "ß", "日本", "🎉", "%",
         "_", "a\\b", "z\n"]

NUMBERS: list[int | float] = [0, 1, -1, 2, 1.0, 0.5, -0.0, 1e-9, 10**6, 2.0**53, 2**53, 2**53 - 1,
                              -(2**53), 1e300, -1e300]

_fresh = count()

scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))

ordered = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS))

keys = st.sampled_from(KEYS)

values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)

metadata = st.dictionaries(keys, values, max_size=4)

paths = st.lists(keys, min_size=1, max_size=3).map(tuple)

conditions = st.one_of(
    st.builds(Condition, paths, st.sampled_from(["eq", "ne", "contains", "not_contains"]), scalars),
    st.builds(Condition, paths, st.sampled_from(["gt", "gte", "lt", "lte"]), ordered),
    st.builds(Condition, paths, st.sampled_from(["in", "nin"]), st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Condition, paths, st.just("exists"), st.booleans()),
    st.builds(HasText, st.sampled_from(["record", "1", "Record", "ecord 0", "%", "_", "é"])),
)

trees: st.SearchStrategy[Filter] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: All(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)


class ReadingRules(NeedsStore):
    @settings(ANY_ORDER, max_examples=60)
    @given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
    def test_any_text(self, bound: Store, text: str) -> None:
        made = draft(text, kind="message", metadata={text: text})
        id = bound.write(HOME, [Write(made)])[0].id
        record = present(bound, id)
        assert record.content == text
        assert record.metadata == {text: text}
        after = f"{text}!"
        bound.revise(HOME, record.id, wording(after))
        assert [version.content for version in past(bound, record.id)] == [text, after]

    @settings(ANY_ORDER, max_examples=60)
    @given(stored=st.lists(metadata, min_size=1, max_size=8), asked=st.lists(trees, min_size=1, max_size=6))
    def test_any_filter_over_any_metadata(self, bound: Store, stored: list[Metadata], asked: list[Filter]) -> None:
        agrees(bound, stored, asked, Scope("local", "default", f"user-{next(_fresh)}"))

    def test_a_scope_that_was_rolled_back_is_not_remembered(self, bound: Store) -> None:
        new = Scope("local", "default", "never written")
        waiting = [Pending(new, 1, 1, "a"), Pending(new, 2, 1, "b")]  # the second look-up of the scope comes before the error
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(waiting[0], vector("a")), (waiting[1], vector("b") * 0)])
        add(bound, "secret", AWAY)
        assert (contents(bound, new), contents(bound, AWAY)) == ([], ["secret"])

    def test_a_failure_in_a_new_scope_opens_no_door_into_another(self, bound: Store) -> None:
        for turn in range(5):
            users = [Scope("local", "default", f"turn {turn} user {number}") for number in range(40)]

            def work(number: int, users: list[Scope] = users) -> None:
                if number % 2:
                    add(bound, f"secret {number}", users[number])
                else:
                    with pytest.raises(NotFound):
                        bound.revise(users[number], "no-such-id", Revision(importance=0.1))

            together(40, work)
            for number, scope in enumerate(users):
                assert contents(bound, scope) == ([f"secret {number}"] if number % 2 else [])

    def test_64_kilobytes(self, bound: Store) -> None:
        for text in ("x" * 65_536, "word " * 13_107, "字" * 21_845, "🎉" * 16_384):
            record = present(bound, add_id(bound, text))
            assert record.content == text
