"""What every verb promises about scopes: another scope's records are the same as absent."""

from __future__ import annotations

import pytest

from keepstone.errors import EmbedderError, NotFound, ValidationError
from keepstone.ports.filters import parse
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery, Pending, Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NOON,
    NeedsStore,
    add,
    add_id,
    at,
    contents,
    draft,
    merging,
    present,
    together,
    vector,
    wording,
)
from keepstone.types import Scope

NEAR = [
    (Scope("a", "b", "c"), Scope("a", "b", "")),
    (Scope("a", "b", "c"), Scope("a", "c", "b")),
    (Scope("a", "b", "c"), Scope("b", "b", "c")),
    (Scope("a", "b/c", "d"), Scope("a/b", "c", "d")),
    (Scope("a", "b:c", "d"), Scope("a:b", "c", "d")),
    (Scope("a", "b|c", "d"), Scope("a|b", "c", "d")),
    (Scope("a", "b c", "d"), Scope("a b", "c", "d")),
    (Scope("1", "1", "11"), Scope("1", "11", "1")),
    (Scope("a", "b", "dana"), Scope("a", "b", "Dana")),
    (Scope("a", "b", "dana"), Scope("a", "b", "dana ")),
    (Scope("a", "b", "dana"), Scope("a", "b", "dаna")),  # the second has a Cyrillic а
    (Scope("a", "b", "ß"), Scope("a", "b", "ss")),
    (Scope("a", "b", "d%"), Scope("a", "b", "dana")),
    (Scope("a", "b", "*"), Scope("a", "b", "dana")),
    (Scope("a", "b", "' OR '1'='1"), Scope("a", "b", "dana")),
]


class ScopeContract(NeedsStore):
    def test_reading_with_what_another_scope_owns(self, bound: Store) -> None:
        id = add_id(bound, "Dana likes tea", key="drink", session="s1", metadata={"n": 1}, occurred_at=NOON)
        sequence = at(bound, id)
        assert bound.get(AWAY, id) is None
        assert bound.by_key(AWAY, "drink") is None
        assert bound.fetch(AWAY, [sequence]) == [None]
        assert bound.history(AWAY, id) is None
        assert bound.sequence_of(AWAY, id) is None
        assert bound.list(AWAY, ListQuery(before=sequence + 1)) == []
        assert bound.count(AWAY) == 0
        assert bound.list(AWAY, ListQuery(session="s1", filter=parse({"n": 1}))) == []
        assert bound.audit(AWAY) == []
        changes = bound.changes(AWAY, 0)
        assert len(changes.rows) == 0
        assert changes.removed == ()
        for raw in ({"n": 1}, {"n": {"exists": False}}, {"or": [{"n": 1}, {"not": {"n": 1}}]}):
            filter = parse(raw)
            assert filter is not None
            assert bound.matching(AWAY, filter).tolist() == []
        assert len(bound.snapshot(AWAY, None, None).records) == 0
        assert bound.search_words(AWAY, ["tea"], 5) == []
        assert bound.document_frequencies(AWAY, ["tea"]) == [0]
        assert bound.search_vectors(AWAY, vector("Dana likes tea"), 5) == []
        assert len(bound.index_rows(AWAY, [sequence])) == 0
        assert list(bound.export_records(AWAY)) == []

    def test_writing_with_what_another_scope_owns(self, bound: Store) -> None:
        id = add_id(bound, "Dana likes tea", key="drink", source="web", session="s1")
        plain = add_id(bound, "Dana has a cat", dedup_key=b"cat")
        before, audit_log = list(bound.export_records(HOME)), bound.audit(HOME)
        with pytest.raises(NotFound):
            bound.revise(AWAY, id, wording("stolen"))
        with pytest.raises(NotFound):
            bound.revise(AWAY, id, Revision(importance=0.1, expected_version=99))
        bound.touch(AWAY, {at(bound, id): 5}, NOON)
        merged = bound.write(AWAY, [Write(draft("Dana has two cats", dedup_key=b"cat"), merging())])[0]
        assert merged.action == "added"
        assert merged.id != plain
        for selector in (Selector(id=id), Selector(key="drink"), Selector(source="web"), Selector(session="s1")):
            assert bound.forget(AWAY, selector).forgotten == 0
        assert bound.forget(AWAY, Selector(everything=True)).ids == (merged.id,)
        assert list(bound.export_records(HOME)) == before
        assert bound.audit(HOME) == audit_log

    def test_the_same_content_and_key_in_two_scopes_are_two_records(self, bound: Store) -> None:
        here = add_id(bound, "tea"), add_id(bound, "Rome", key="city")
        there = add_id(bound, "tea", AWAY), add_id(bound, "Rome", AWAY, key="city")
        assert len({*here, *there}) == 4
        assert add(bound, "Oslo", AWAY, key="city").id == there[1]
        assert present(bound, here[1]).content == "Rome"

    @pytest.mark.parametrize(("one", "other"), NEAR)
    def test_scopes_are_compared_exactly(self, bound: Store, one: Scope, other: Scope) -> None:
        id = add_id(bound, "tea", one, key="drink")
        assert bound.get(other, id) is None
        assert bound.count(other) == 0
        assert bound.search_words(other, ["tea"], 5) == []
        assert bound.search_vectors(other, vector("tea"), 5) == []
        add_id(bound, "tea", other, key="drink")
        assert bound.forget(other, Selector(everything=True)).forgotten == 1
        assert present(bound, id, one).scope == one
        assert bound.search_words(one, ["tea"], 5) == [at(bound, id, one)]

    def test_thirty_users_at_once_each_see_their_own(self, bound: Store) -> None:
        def work(number: int) -> list[str]:
            scope = Scope("local", "default", f"user {number}")
            id = add_id(bound, "same for all", scope)
            for step in range(4):
                add(bound, f"{number} value {step}", scope, key="k")
                assert present(bound, id, scope).scope == scope
            return contents(bound, scope)

        for number, seen in enumerate(together(30, work)):
            assert seen == [f"{number} value 3", "same for all"]

    def test_a_scope_that_was_rolled_back_is_not_remembered(self, bound: Store) -> None:
        new = Scope("local", "default", "never written")
        waiting = [Pending(new, 1, 1, "a"), Pending(new, 2, 1, "b")]  # the second look-up of the scope comes before the error
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(waiting[0], vector("a")), (waiting[1], vector("b") * 0)])
        add(bound, "secret", AWAY)
        assert contents(bound, new) == []
        assert contents(bound, AWAY) == ["secret"]

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
