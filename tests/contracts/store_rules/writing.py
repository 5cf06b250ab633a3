"""Keys, duplicates, merges and limits in combination."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from keepstone.errors import Conflict, NotFound
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Limit, Merge, Revision, Selector, Write
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
from keepstone.testing.stores.writing import HOUR, hourly, limited
from keepstone.types import Record


class WritingRules(NeedsStore):
    def test_a_key_twice_in_one_batch(self, bound: Store) -> None:
        texts = ("Rome", "Oslo", "Oslo", "Rome")
        receipts = bound.write(HOME, [Write(draft(text, key="city")) for text in texts])
        assert [receipt.action for receipt in receipts] == ["added", "superseded", "duplicate", "superseded"]
        assert [receipt.version for receipt in receipts] == [1, 2, 2, 3]
        assert bound.write(HOME, []) == []

    def test_one_callers_failure_is_not_anothers(self, bound: Store) -> None:
        def cut() -> Iterator[ImportRow]:
            raise RuntimeError("the file is cut")
            yield

        def work(number: int) -> str:
            if number % 2:
                return add(bound, f"fact {number}").action
            with pytest.raises(RuntimeError, match="the file is cut"):
                bound.import_records(HOME, cut())
            return "failed"

        assert together(40, work) == ["failed", "added"] * 20
        assert bound.count(HOME) == 20

    def test_the_receipt_stays_as_it_was_given(self, bound: Store) -> None:
        write = Write(draft("Rome", key="city"), idempotency_key="k", fingerprint="a")
        first = bound.write(HOME, [write])[0]
        add(bound, "Oslo", key="city")
        assert bound.write(HOME, [write])[0] == first
        found = bound.by_key(HOME, "city")
        assert found is not None
        assert found.content == "Oslo", "a late retry must not undo what came after"

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

    def test_the_merge_check_is_asked_newest_first_until_it_agrees(self, bound: Store) -> None:
        first, second, third = (add_id(bound, f"tea {number}", dedup_key=b"tea") for number in range(3))
        asked: list[str] = []

        def merge_check(record: Record) -> Merge | None:
            asked.append(record.id)
            return Merge(True, "same") if record.id == second else None

        receipt = bound.write(HOME, [Write(draft("more tea", dedup_key=b"tea"), merge_check)])[0]
        assert (receipt.action, receipt.id, asked) == ("merged", second, [third, second])
        assert present(bound, first).version == present(bound, third).version == 1

    def test_only_active_records_of_the_same_kind_tag_and_scope_are_checked_for_a_merge(self, bound: Store) -> None:
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
        apart = [
            Write(draft("j", dedup_key=b"tea"), merging()),
            Write(draft("no check", dedup_key=b"coffee")),
            Write(draft("no dedup key"), merging()),
            Write(draft("no agreement", dedup_key=b"coffee"), lambda record: None),
        ]
        assert [receipt.action for receipt in bound.write(HOME, apart)] == ["added"] * 4
        older = Write(draft("k", dedup_key=b"coffee"), lambda record: Merge(True, "same") if record.id == reworded else None)
        assert bound.write(HOME, [older])[0].id == reworded

    def test_equal_content_comes_before_a_merge(self, bound: Store) -> None:
        same = add_id(bound, "Dana loves tea", dedup_key=b"tea")
        target = add_id(bound, "Dana likes tea", dedup_key=b"tea")
        receipt = bound.write(HOME, [Write(draft("Dana loves tea", dedup_key=b"tea"), merging())])[0]
        assert (receipt.action, receipt.id) == ("duplicate", same)
        assert present(bound, target).content == "Dana likes tea"

    def test_trust_is_not_lent_to_another_sources_wording(self, bound: Store) -> None:
        id = add_id(bound, "alpha", dedup_key=b"g", source="web:x", trust=0.2)
        again = Write(draft("alpha, said again", dedup_key=b"g", source="user", trust=0.9), merging(replace=False))
        assert bound.write(HOME, [again])[0].action == "merged"
        record = present(bound, id)
        assert (record.content, record.source, record.trust) == ("alpha, said again", "user", 0.9)
        first = past(bound, id)[0]
        assert (first.content, first.source, first.trust) == ("alpha", "web:x", 0.2)

    def test_an_interval_lies_between_two_and_a_bucket_fills_again(self, bound: Store) -> None:
        apart = (Limit("all writes", 1.0, 0.0, HOUR),)
        assert limited(bound, "one", apart).action == "added"
        refused = limited(bound, "two", apart)
        assert refused.action == "refused"
        assert refused.retry_after is not None
        assert HOUR - 600 < refused.retry_after <= HOUR
        assert limited(bound, "two", (Limit("all writes", 1.0, 0.0, 0.0),)).action == "added"
        quick = (Limit("quick writes", 1.0, 1e9),)
        assert [limited(bound, f"fact {n}", quick).action for n in range(3)] == ["added"] * 3

    def test_what_was_refused_can_be_tried_again(self, bound: Store) -> None:
        both = hourly(9) + hourly(1, "writes from web")
        assert limited(bound, "one", both).action == "added"
        named = {"idempotency_key": "k", "fingerprint": "f"}
        refused = limited(bound, "two", both, **named)
        assert (refused.action, "writes from web" in " ".join(refused.reasons)) == ("refused", True)
        assert limited(bound, "two", hourly(9), **named).action == "added", "its own is not empty, and a refusal takes nothing"
        assert limited(bound, "two", both, **named).action == "added", "a known answer costs nothing"
        assert contents(bound) == ["two", "one"]
        with pytest.raises(Conflict):
            limited(bound, "two", both, idempotency_key="k", fingerprint="another")

    def test_a_change_takes_from_the_same_bucket(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        with pytest.raises(NotFound):
            bound.revise(HOME, "m_none", Revision(importance=0.9, limits=hourly(1)))
        with pytest.raises(Conflict):
            bound.revise(HOME, id, Revision(importance=0.9, expected_version=7, limits=hourly(1)))
        changed = bound.revise(HOME, id, wording("green tea", limits=hourly(1)))
        assert changed.action == "updated", "what fails takes nothing"
        refused = bound.revise(HOME, id, wording("black tea", limits=hourly(1)))
        assert (refused.action, refused.id, refused.retry_after is not None) == ("refused", None, True)
        assert (present(bound, id).content, len(past(bound, id))) == ("green tea", 2)
        row = bound.audit(HOME)[0]
        assert (row.verb, row.action, row.id) == ("update", "refused", id)
        assert limited(bound, "another", hourly(1)).action == "refused"
