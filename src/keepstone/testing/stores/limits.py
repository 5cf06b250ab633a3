"""What a write's limits and the guard's screening promise: a refusal that leaves a line in the trail and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from keepstone.errors import Conflict, NotFound
from keepstone.ports.stores import Store
from keepstone.ports.values import Limit, Revision, Screening, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NeedsStore,
    acts,
    add_id,
    contents,
    draft,
    healthy,
    past,
    present,
    together,
    wording,
)
from keepstone.types import Receipt

HOUR = 3600.0


def hourly(many: int, name: str = "all writes") -> tuple[Limit, ...]:
    """So many, and the next in an hour."""
    return (Limit(name, float(many), 1 / HOUR),)


def limited(store: Store, text: str, limits: tuple[Limit, ...], **rest: Any) -> Receipt:
    return store.write(HOME, [Write(draft(text), limits=limits, **rest)])[0]


class LimitsContract(NeedsStore):
    # -- buckets ------------------------------------------------------------------------------------------------------
    def test_a_bucket_gives_as_many_as_it_holds(self, bound: Store) -> None:
        receipts = [limited(bound, f"fact {n}", hourly(3)) for n in range(5)]
        assert [receipt.action for receipt in receipts] == ["added"] * 3 + ["refused"] * 2
        refused = receipts[-1]
        assert (refused.id, refused.version) == (None, 0)
        assert refused.retry_after is not None
        assert 0 < refused.retry_after <= HOUR
        assert "all writes" in " ".join(refused.reasons)
        assert receipts[0].retry_after is None

    def test_a_refused_write_leaves_a_line_and_nothing_else(self, bound: Store) -> None:
        limited(bound, "first", hourly(1))
        seen = bound.changes(HOME, 0).latest
        limited(bound, "zanzibar", hourly(1))
        assert contents(bound) == ["first"]
        assert bound.document_frequencies(HOME, ["zanzibar"]) == [0]
        assert len(bound.changes(HOME, seen).rows) == 0
        row = bound.audit(HOME)[0]
        assert (row.verb, row.action, row.id, row.source) == ("remember", "refused", None, "user")
        assert "zanzibar" not in str(row)
        healthy(bound)

    def test_two_writes_at_once_take_two(self, bound: Store) -> None:
        receipts = bound.write(HOME, [Write(draft(f"fact {n}"), limits=hourly(2)) for n in range(4)])
        assert [receipt.action for receipt in receipts] == ["added", "added", "refused", "refused"]

    def test_every_limit_must_have_one(self, bound: Store) -> None:
        wide, search_filter = hourly(9), hourly(1, "writes from web")
        assert limited(bound, "one", wide + search_filter).action == "added"
        refused = limited(bound, "two", wide + search_filter)
        assert refused.action == "refused"
        assert "writes from web" in " ".join(refused.reasons)
        assert limited(bound, "three", wide).action == "added", "its own is not empty, and a refusal takes nothing"

    def test_scopes_have_their_own(self, bound: Store) -> None:
        assert limited(bound, "one", hourly(1)).action == "added"
        assert bound.write(AWAY, [Write(draft("one"), limits=hourly(1))])[0].action == "added"
        assert limited(bound, "two", hourly(1)).action == "refused"

    def test_what_is_known_takes_nothing(self, bound: Store) -> None:
        assert limited(bound, "one", hourly(2)).action == "added"
        assert [limited(bound, "one", hourly(2)).action for _ in range(3)] == ["duplicate"] * 3
        assert limited(bound, "two", hourly(2)).action == "added"

    def test_an_interval_lies_between_two(self, bound: Store) -> None:
        apart = (Limit("all writes", 1.0, 0.0, HOUR),)
        assert limited(bound, "one", apart).action == "added"
        refused = limited(bound, "two", apart)
        assert refused.action == "refused"
        assert refused.retry_after is not None
        assert HOUR - 600 < refused.retry_after <= HOUR
        assert limited(bound, "two", (Limit("all writes", 1.0, 0.0, 0.0),)).action == "added"

    def test_a_bucket_fills_again(self, bound: Store) -> None:
        quick = (Limit("all writes", 1.0, 1e9),)
        assert [limited(bound, f"fact {n}", quick).action for n in range(3)] == ["added"] * 3

    def test_threads_share_a_bucket(self, bound: Store) -> None:
        receipts = together(12, lambda n: limited(bound, f"fact {n}", hourly(5)))
        assert sum(receipt.action == "added" for receipt in receipts) == 5 == bound.count(HOME)
        assert acts(bound, "remember").count("refused") == 7

    def test_threads_share_an_interval(self, bound: Store) -> None:
        receipts = together(8, lambda n: limited(bound, f"fact {n}", (Limit("all writes", 9.0, 9.0, HOUR),)))
        assert sum(receipt.action == "added" for receipt in receipts) == 1

    def test_what_was_refused_can_be_tried_again(self, bound: Store) -> None:
        limited(bound, "one", hourly(1))
        named = {"idempotency_key": "k", "fingerprint": "f"}
        assert limited(bound, "two", hourly(1), **named).action == "refused"
        assert limited(bound, "two", (), **named).action == "added"
        again = limited(bound, "two", hourly(1), **named)
        assert again.action == "added", "a known answer costs nothing"
        assert contents(bound) == ["two", "one"]
        with pytest.raises(Conflict):
            limited(bound, "two", hourly(1), idempotency_key="k", fingerprint="another")

    def test_one_refused_of_many_leaves_the_others(self, bound: Store) -> None:
        limited(bound, "one", hourly(1))
        writes = [Write(draft("two")), Write(draft("three"), limits=hourly(1)), Write(draft("four"))]
        assert [receipt.action for receipt in bound.write(HOME, writes)] == ["added", "refused", "added"]

    def test_forgetting_gives_nothing_back(self, bound: Store) -> None:
        limited(bound, "one", hourly(1))
        bound.forget(HOME, Selector(everything=True))
        assert limited(bound, "two", hourly(1)).action == "refused"

    # -- revisions ----------------------------------------------------------------------------------------------------
    def test_a_change_takes_from_the_same_bucket(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        changed = bound.revise(HOME, id, wording("green tea", limits=hourly(1)))
        assert changed.action == "updated"
        refused = bound.revise(HOME, id, wording("black tea", limits=hourly(1)))
        assert (refused.action, refused.id, refused.retry_after is not None) == ("refused", None, True)
        assert (present(bound, id).content, len(past(bound, id))) == ("green tea", 2)
        row = bound.audit(HOME)[0]
        assert (row.verb, row.action, row.id) == ("update", "refused", id)
        assert limited(bound, "another", hourly(1)).action == "refused"

    def test_a_change_that_changes_nothing_takes_nothing(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        assert bound.revise(HOME, id, wording("tea", limits=hourly(1))).action == "duplicate"
        assert bound.revise(HOME, id, Revision(importance=0.9, limits=hourly(1))).action == "updated"

    def test_what_cannot_be_takes_nothing(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        with pytest.raises(NotFound):
            bound.revise(HOME, "m_none", Revision(importance=0.9, limits=hourly(1)))
        with pytest.raises(Conflict):
            bound.revise(HOME, id, Revision(importance=0.9, expected_version=7, limits=hourly(1)))
        assert limited(bound, "another", hourly(1)).action == "added"

    # -- verdicts -----------------------------------------------------------------------------------------------------
    def test_what_the_guard_refuses_is_not_stored(self, bound: Store) -> None:
        denied = Write(draft("zanzibar"), screening=Screening(("it holds a secret",), refused=True), limits=hourly(1))
        receipt = bound.write(HOME, [denied])[0]
        assert (receipt.action, receipt.id, receipt.reasons) == ("refused", None, ("it holds a secret",))
        assert receipt.retry_after is None
        assert (bound.count(HOME), bound.document_frequencies(HOME, ["zanzibar"])) == (0, [0])
        assert bound.audit(HOME)[0].reasons == ("it holds a secret",)
        assert limited(bound, "another", hourly(1)).action == "added", "it took nothing"
        id = add_id(bound, "tea")
        refused = bound.revise(HOME, id, wording("zanzibar", screening=Screening(("no",), refused=True)))
        assert (refused.action, present(bound, id).content) == ("refused", "tea")

    def test_what_the_guard_changed_is_told(self, bound: Store) -> None:
        cut = Screening(("a number was taken out",), redacted=True)
        item = Write(draft("card [number]"), screening=cut, idempotency_key="k", fingerprint="f")
        receipt = bound.write(HOME, [item])[0]
        assert (receipt.action, receipt.reasons) == ("redacted", cut.reasons)
        assert bound.write(HOME, [item])[0] == receipt
        assert bound.write(HOME, [Write(draft("card [number]"), screening=cut)])[0].action == "duplicate"
        assert "a number was taken out" in bound.audit(HOME)[-1].reasons
        changed = bound.revise(HOME, receipt.id or "", wording("code [number]", screening=cut))
        assert changed.action == "redacted"
        assert cut.reasons[0] in changed.reasons
