"""The same content again, and the same said in other words."""

from __future__ import annotations

from typing import Any

import pytest

from keepstone.ports.stores import Store
from keepstone.ports.values import Merge, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    add,
    add_id,
    at,
    contents,
    draft,
    merging,
    past,
    present,
    row_of,
    together,
    unpacked,
    vector,
    wording,
)
from keepstone.types import Record


class DuplicateContract(NeedsStore):
    def test_the_same_content_kind_and_tag_is_one_record(self, bound: Store) -> None:
        first = add_id(bound, "Dana likes tea")
        before = present(bound, first)
        second = add(bound, "Dana likes tea", importance=0.1, session="later")
        assert (second.action, second.id, second.version) == ("duplicate", first, 1)
        assert present(bound, first) == before
        assert len(past(bound, first)) == bound.count(HOME) == 1

    def test_what_a_repetition_brings_is_taken_over(self, bound: Store) -> None:
        first = add_id(bound, "Dana likes tea", metadata={"a": 1, "b": 1}, source="web", trust=0.2)
        again = add(bound, "Dana likes tea", metadata={"b": 2}, importance=0.9, source="user", trust=0.9)
        assert (again.action, again.id, again.version) == ("merged", first, 2)
        record = present(bound, first)
        assert (record.metadata, record.importance) == ({"a": 1, "b": 2}, 0.9)
        assert (record.source, record.trust) == ("user", 0.9)
        assert [(version.source, version.importance) for version in past(bound, first)] == [("web", 0.5), ("user", 0.9)]
        assert add(bound, "Dana likes tea", source="web", trust=0.2).action == "duplicate"
        assert present(bound, first).source == "user"

    def test_a_source_that_is_trusted_less_replaces_no_key(self, bound: Store) -> None:
        first = add_id(bound, "bank A", key="bank", trust=0.9)
        poison = add(bound, "bank B", key="bank", source="web:evil", trust=0.2)
        assert poison.action == "quarantined"
        assert poison.id != first
        kept = bound.by_key(HOME, "bank")
        assert kept is not None
        assert (kept.id, kept.content, kept.version) == (first, "bank A", 1)
        assert add(bound, "bank C", key="bank", source="agent", trust=0.6).action == "superseded"

    @pytest.mark.parametrize("other", [{"tag": "drinks"}, {"kind": "note"}])
    def test_another_tag_or_kind_is_another_record(self, bound: Store, other: dict[str, Any]) -> None:
        first = add_id(bound, "Dana likes tea")
        assert add_id(bound, "Dana likes tea", **other) != first
        assert bound.count(HOME) == 2

    @pytest.mark.parametrize("near", ["dana likes tea", "Dana likes tea ", "Dana  likes tea", "Da\u0301na likes tea"])
    def test_only_exactly_equal_content_is_a_duplicate(self, bound: Store, near: str) -> None:
        add_id(bound, "Dana likes tea")
        add_id(bound, near)

    def test_messages_are_never_duplicates(self, bound: Store) -> None:
        assert add_id(bound, "yes", kind="message") != add_id(bound, "yes", kind="message")

    def test_keyed_records_are_never_duplicates_of_others(self, bound: Store) -> None:
        plain = add_id(bound, "tea")
        keyed = add_id(bound, "tea", key="drink")
        other = add_id(bound, "tea", key="favourite")
        assert len({plain, keyed, other}) == 3
        add_id(bound, "milk", key="white")
        add_id(bound, "milk")

    def test_a_duplicate_within_one_batch(self, bound: Store) -> None:
        first, second = bound.write(HOME, [Write(draft("tea")), Write(draft("tea"))])
        assert (first.action, second.action) == ("added", "duplicate")
        assert first.id == second.id

    def test_what_changed_is_compared_as_it_is_now(self, bound: Store) -> None:
        first = add_id(bound, "tea")
        bound.revise(HOME, first, wording("milk"))
        assert add(bound, "milk").action == "duplicate"
        add_id(bound, "tea")

    def test_a_duplicate_may_keep_a_record_for_longer_but_not_shorter(self, bound: Store) -> None:
        soon, late = NOON.replace(year=8000), NOON.replace(year=9000)
        id = add_id(bound, "tea", expires_at=soon)
        for asked, kept in ((late, late), (soon, late), (None, None), (soon, None)):
            receipt = add(bound, "tea", expires_at=asked)
            assert (receipt.action, receipt.id, receipt.version) == ("duplicate", id, 1)
            assert present(bound, id).expires_at == kept
            sequence = at(bound, id)
            row = unpacked(bound.changes(HOME, 0).rows)[sequence]
            assert row == row_of(present(bound, id), ("tea",), vector("tea"))

    def test_an_expired_record_is_no_duplicate(self, bound: Store) -> None:
        old = add_id(bound, "tea", expires_at=LONG_AGO)
        assert add_id(bound, "tea") != old
        assert contents(bound) == ["tea"]

    def test_fifty_threads_with_one_fact_leave_one_record(self, bound: Store) -> None:
        receipts = together(50, lambda _: add(bound, "Dana likes tea"))
        assert sorted(receipt.action for receipt in receipts) == ["added"] + ["duplicate"] * 49
        assert len({receipt.id for receipt in receipts}) == bound.count(HOME) == 1

    def test_fifty_threads_with_their_own_facts_lose_none(self, bound: Store) -> None:
        receipts = together(50, lambda n: add(bound, f"fact {n}"))
        assert {receipt.action for receipt in receipts} == {"added"}
        assert sorted(contents(bound)) == sorted(f"fact {n}" for n in range(50))


class MergeContract(NeedsStore):
    @pytest.mark.parametrize("replace", [True, False])
    def test_a_merge_goes_into_its_record(self, bound: Store, replace: bool) -> None:
        target = add_id(bound, "Dana likes tea", dedup_key=b"tea")
        better = draft("Dana likes green tea", dedup_key=b"tea")
        receipt = bound.write(HOME, [Write(better, merging(replace, "says the same"))])[0]
        assert (receipt.action, receipt.id) == ("merged", target)
        assert "says the same" in " ".join(receipt.reasons)
        record = present(bound, target)
        assert record.content == ("Dana likes green tea" if replace else "Dana likes tea")
        assert record.version == receipt.version == past(bound, target)[-1].version
        assert bound.count(HOME) == 1
        assert {"Dana likes tea", "Dana likes green tea"} == {version.content for version in past(bound, target)}
        kept = better if replace else draft("Dana likes tea")
        sequence = at(bound, target)
        row = unpacked(bound.index_rows(HOME, [sequence]))[sequence]
        assert row == row_of(record, kept.terms, kept.vector)
        assert bound.document_frequencies(HOME, ["green"]) == [int(replace)]

    def test_a_replaced_wording_is_one_version_later(self, bound: Store) -> None:
        target = add_id(bound, "Dana likes tea", dedup_key=b"tea")
        receipt = bound.write(HOME, [Write(draft("Dana loves tea", dedup_key=b"tea"), merging())])[0]
        assert receipt.version == 2
        assert [version.content for version in past(bound, target)] == ["Dana likes tea", "Dana loves tea"]

    def test_the_judge_is_asked_newest_first_until_it_agrees(self, bound: Store) -> None:
        first, second, third = (add_id(bound, f"tea {number}", dedup_key=b"tea") for number in range(3))
        asked: list[str] = []

        def merge_check(record: Record) -> Merge | None:
            asked.append(record.id)
            return Merge(True, "same") if record.id == second else None

        receipt = bound.write(HOME, [Write(draft("more tea", dedup_key=b"tea"), merge_check)])[0]
        assert (receipt.action, receipt.id, asked) == ("merged", second, [third, second])
        assert present(bound, first).version == present(bound, third).version == 1

    def test_no_judge_no_gist_or_no_agreement_adds(self, bound: Store) -> None:
        add(bound, "Dana likes tea", dedup_key=b"tea")
        writes = [
            Write(draft("one", dedup_key=b"tea")),
            Write(draft("two"), merging()),
            Write(draft("three", dedup_key=b"tea"), lambda record: None),
            Write(draft("four", dedup_key=b"coffee"), merging()),
        ]
        assert [receipt.action for receipt in bound.write(HOME, writes)] == ["added"] * 4

    def test_only_active_records_of_the_same_kind_tag_and_scope_are_judged(self, bound: Store) -> None:
        add(bound, "a", dedup_key=b"tea", kind="note")
        add(bound, "b", dedup_key=b"tea", tag="work")
        add(bound, "c", AWAY, dedup_key=b"tea")
        add(bound, "d", dedup_key=b"tea", expires_at=LONG_AGO)
        add(bound, "e", dedup_key=b"tea", status="quarantined")
        add(bound, "f", dedup_key=b"tea", key="k")
        gone = add_id(bound, "g", dedup_key=b"tea")
        bound.forget(HOME, Selector(id=gone))
        reworded = add_id(bound, "h", dedup_key=b"tea")
        bound.revise(HOME, reworded, wording("i", dedup_key=b"coffee"))
        assert bound.write(HOME, [Write(draft("j", dedup_key=b"tea"), merging())])[0].action == "added"
        assert bound.write(HOME, [Write(draft("k", dedup_key=b"coffee"), merging())])[0].id == reworded

    def test_fifty_threads_saying_the_same_in_other_words_leave_one(self, bound: Store) -> None:
        def work(number: int) -> str:
            return bound.write(HOME, [Write(draft(f"wording {number}", dedup_key=b"same"), merging())])[0].action

        assert sorted(together(50, work)) == ["added"] + ["merged"] * 49
        assert bound.count(HOME) == 1

    def test_equal_content_comes_before_a_merge(self, bound: Store) -> None:
        same = add_id(bound, "Dana loves tea", dedup_key=b"tea")
        target = add_id(bound, "Dana likes tea", dedup_key=b"tea")
        receipt = bound.write(HOME, [Write(draft("Dana loves tea", dedup_key=b"tea"), merging())])[0]
        assert (receipt.action, receipt.id) == ("duplicate", same)
        assert present(bound, target).content == "Dana likes tea"


class RepeatingContract(DuplicateContract, MergeContract):
    """Everything about repetitions."""
