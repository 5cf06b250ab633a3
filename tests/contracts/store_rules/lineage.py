"""Cascades over several supports, versions and sessions."""

from __future__ import annotations

import pytest

from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NeedsStore,
    add,
    add_id,
    compacted,
    contents,
    draft,
    healthy,
    learned,
    merging,
    message,
    past,
    present,
    wording,
)


class LineageRules(NeedsStore):
    def test_several_by_their_ids(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}") for n in range(4)]
        fact = learned(bound, "of one", ids[1])
        receipt = bound.forget(HOME, Selector(ids=(ids[0], ids[1], "m_none", ids[0])))
        assert set(receipt.ids) == {ids[0], ids[1], fact}
        assert receipt.forgotten == len(receipt.ids)
        assert contents(bound) == ["fact 3", "fact 2"]
        assert bound.forget(HOME, Selector(ids=())).forgotten == 0
        assert bound.forget(AWAY, Selector(ids=tuple(ids))).forgotten == 0

    def test_records_that_rest_on_each_other_end(self, bound: Store) -> None:
        root = add_id(bound, "root")
        one = learned(bound, "one", root, key="one")
        two = learned(bound, "two", one)
        learned(bound, "one again", two, root, key="one")
        assert set(bound.forget(HOME, Selector(id=root)).ids) == {root, one, two}
        assert bound.count(HOME) == 0

    def test_a_past_version_goes_alone_with_what_was_derived_from_it(self, bound: Store) -> None:
        said = message(bound, "I live in Rome")
        city = learned(bound, "Rome", said, key="city")
        fact = learned(bound, "eats pasta", city)
        add(bound, "Oslo", key="city")
        bound.forget(HOME, Selector(id=said))
        assert [version.content for version in past(bound, city)] == ["Oslo"]
        assert bound.by_key(HOME, "city") == present(bound, city)
        assert bound.get(HOME, fact) is None
        healthy(bound)

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)])
    def test_two_roots_of_two_versions_at_once(self, bound: Store, order: tuple[int, int]) -> None:
        roots = [message(bound, "Rome"), message(bound, "Oslo")]
        for text, number in zip(("Rome", "Oslo"), order, strict=True):
            learned(bound, text, roots[number], key="city")
        bound.forget(HOME, Selector(ids=tuple(roots)))
        assert list(bound.export_records(HOME)) == []
        healthy(bound)

    def test_a_past_version_that_keeps_a_support_changes_nothing(self, bound: Store) -> None:
        first, second, third = message(bound, "a"), message(bound, "b", "s2"), message(bound, "c", "s3")
        city = learned(bound, "Rome", first, key="city", session="s1")
        learned(bound, "Rome", second, key="city", session="s2")
        learned(bound, "Oslo", third, key="city", session="s3")
        bound.forget(HOME, Selector(id=first))
        assert [version.content for version in past(bound, city)] == ["Rome", "Oslo"]
        assert (present(bound, city).parents, present(bound, city).session) == ((third,), "s3")
        bound.forget(HOME, Selector(id=second))
        assert [version.content for version in past(bound, city)] == ["Oslo"]
        healthy(bound)

    def test_a_change_rests_on_what_was_there(self, bound: Store) -> None:
        said = message(bound, "tea")
        fact = learned(bound, "likes tea", said)
        bound.revise(HOME, fact, wording("likes green tea"))
        bound.revise(HOME, fact, Revision(importance=0.9))
        assert present(bound, fact).parents == (said,)
        bound.forget(HOME, Selector(id=said))
        assert bound.get(HOME, fact) is None

    @pytest.mark.parametrize("replace", [True, False])
    def test_of_two_wordings_the_others_stays(self, bound: Store, replace: bool) -> None:
        first, second = message(bound, "a"), message(bound, "b", "s2")
        fact = learned(bound, "likes tea", first, dedup_key=b"g")
        item = Write(draft("likes tea a lot", parents=(second,), dedup_key=b"g"), merging(replace))
        assert bound.write(HOME, [item])[0].id == fact
        bound.forget(HOME, Selector(id=first))
        assert (present(bound, fact).content, present(bound, fact).parents) == ("likes tea a lot", (second,))
        assert "likes tea" not in [version.content for version in past(bound, fact)]
        bound.forget(HOME, Selector(id=second))
        assert contents(bound) == []
        healthy(bound)

    @pytest.mark.parametrize("key", [None, "drink"])
    @pytest.mark.parametrize(("first", "second"), [("s1", "s2"), ("s2", "s1"), ("s1", None)])
    def test_said_in_two_sessions_or_outside_of_any(self, bound: Store, key: str | None, first: str, second: str | None) -> None:
        for sessions in ((first, second), (second, first)):
            for session in sessions:
                add(bound, "likes tea", session=session, key=key)
            (fact,) = (archive.record.id for archive in bound.export_records(HOME))
            seen = bound.changes(HOME, 0).latest
            assert bound.forget(HOME, Selector(session=first)).ids == ()
            assert present(bound, fact).session == second
            assert set(bound.changes(HOME, seen).rows.sessions) <= {second}
            assert bound.forget(HOME, Selector(session=first)).forgotten == 0
            rest = Selector(id=fact) if second is None else Selector(session=second)
            assert bound.forget(HOME, rest).ids == (fact,)
            healthy(bound)

    def test_a_support_needs_all_its_parents(self, bound: Store) -> None:
        a, b, c = (message(bound, text) for text in "abc")
        fact = learned(bound, "of two", a, b)
        learned(bound, "of two", c)
        bound.forget(HOME, Selector(id=b))
        assert present(bound, fact).parents == (c,)
        bound.forget(HOME, Selector(id=a))
        assert present(bound, fact).parents == (c,), "its first support has gone already"
        bound.forget(HOME, Selector(id=c))
        assert bound.get(HOME, fact) is None

    @pytest.mark.parametrize("directly_first", [False, True])
    def test_learned_and_said_directly(self, bound: Store, directly_first: bool) -> None:
        said = message(bound, "tea")
        if directly_first:
            add(bound, "likes tea")
        fact = learned(bound, "likes tea", said, session="s1")
        if not directly_first:
            add(bound, "likes tea")
        assert bound.forget(HOME, Selector(id=said)).ids == (said,)
        assert (present(bound, fact).parents, present(bound, fact).session) == ((), None)

    def test_trust_falls_with_the_support_that_had_it(self, bound: Store) -> None:
        low, high = message(bound, "low", trust=0.3), message(bound, "high", "s2", trust=0.9)
        fact = learned(bound, "tea", low, trust=0.9, session="s1")
        assert present(bound, fact).trust == 0.3
        learned(bound, "tea", high, trust=0.9, session="s2", source="tool:y")
        bound.forget(HOME, Selector(id=high))
        assert (present(bound, fact).parents, present(bound, fact).trust) == ((low,), 0.3)

    def test_erasing_an_archived_digest_restores_nothing(self, bound: Store) -> None:
        digest, _ = compacted(bound, "digest", [add_id(bound, "a"), add_id(bound, "b")])
        bound.retention.archive(HOME, [digest], "aged")
        assert digest in bound.forget(HOME, Selector(ids=(digest,))).ids
        assert contents(bound) == []
        healthy(bound)

    def test_archived_records_can_be_erased_without_what_was_derived_from_them(self, bound: Store) -> None:
        said, active = message(bound, "I like tea"), add_id(bound, "milk")
        fact, summary = learned(bound, "likes tea", said), learned(bound, "summary", said, kind="summary", session="s1")
        bound.retention.archive(HOME, [said], "aged")
        receipt = bound.forget(HOME, Selector(ids=(said, active), archived=True, keep_derived=True))
        assert receipt.ids == (said,), "what is active, or was brought back meanwhile, stays"
        assert bound.get(HOME, said) is None
        assert present(bound, fact).parents == present(bound, summary).parents == ()
        assert sorted(contents(bound)) == ["likes tea", "milk", "summary"]
        healthy(bound)

    @pytest.mark.parametrize(
        "selector", [Selector(source="tool"), Selector(session="s9"), Selector(key="k"), Selector(everything=True)]
    )
    def test_however_the_root_is_named(self, bound: Store, selector: Selector) -> None:
        root = add_id(bound, "root", source="tool:x", session="s9", key="k")
        fact = learned(bound, "fact", root)
        assert set(bound.forget(HOME, selector).ids) == {root, fact}
        assert contents(bound) == []
