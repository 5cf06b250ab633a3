"""What the review list, leases and the audit log promise."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from keepstone.ports.maintenance import Flag, FlagKind, ReviewItem, ReviewState
from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NeedsStore,
    acts,
    add,
    add_id,
    at,
    contents,
    draft,
    healthy,
    learned,
    message,
    present,
    together,
)
from keepstone.types import FOREIGN_REQUESTS, Scope


def flag(store: Store, id: str, kind: FlagKind = "stale", reason: str = "it is old") -> int:
    return store.reviews.add(HOME, [Flag(id, kind, reason)])


def item(store: Store, state: ReviewState = "open") -> ReviewItem:
    """The only item of a state."""
    (found,) = store.reviews.list(HOME, state=state)
    return found


def held(store: Store, content: str, **rest: Any) -> str:
    """A record in quarantine."""
    receipt = add(store, content, status="quarantined", **rest)
    assert receipt.action == "quarantined"
    return receipt.id or ""


HOUR = timedelta(hours=1)
OVER = timedelta(0)  # a lease that ends as it begins
OTHER = Scope("another", "default", "dana")


class MaintenanceContract(NeedsStore):
    def test_a_flag_is_listed_with_its_record(self, bound: Store) -> None:
        before = datetime.now(UTC)
        id, other = add_id(bound, "tea"), add_id(bound, "milk")
        assert bound.reviews.add(HOME, [Flag(id, "contradicted", "another says no", (other,))]) == 1
        found = item(bound)
        assert (found.id, found.version, found.flag, found.reason) == (id, 1, "contradicted", "another says no")
        assert (found.evidence, found.state, found.record) == ((other,), "open", present(bound, id))
        assert before <= found.at <= datetime.now(UTC)
        assert bound.reviews.get(HOME, found.number) == found
        assert bound.reviews.get(AWAY, found.number) is None
        assert bound.reviews.get(HOME, found.number + 1000) is None
        assert acts(bound, "review") == ["flagged"]

    def test_pages_oldest_first(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}") for n in range(5)]
        bound.reviews.add(HOME, [Flag(id, "stale", "r") for id in ids])
        first = bound.reviews.list(HOME, limit=2)
        rest = bound.reviews.list(HOME, after=first[-1].number)
        assert [each.id for each in (*first, *rest)] == ids
        assert bound.reviews.list(HOME, state="kept") == []

    @pytest.mark.parametrize("state", ["kept", "corrected", "retired"])
    def test_settling_is_done_once_for_each_version(self, bound: Store, state: ReviewState) -> None:
        id = add_id(bound, "tea")
        flag(bound, id)
        number = item(bound).number
        assert not bound.reviews.settle(AWAY, number, state, "erik")
        assert not bound.reviews.settle(HOME, number + 1000, state, "dana")
        assert sum(together(8, lambda _: bound.reviews.settle(HOME, number, state, "dana"))) == 1
        assert bound.reviews.list(HOME) == []
        assert item(bound, state).number == number
        row = bound.audit(HOME)[0]
        assert (row.verb, row.action, row.source) == ("review", state, "dana")
        assert flag(bound, id) == 0
        bound.revise(HOME, id, Revision(importance=0.9))
        assert flag(bound, id) == 1
        assert item(bound).version == 2

    def test_an_item_goes_with_its_record(self, bound: Store) -> None:
        said = message(bound, "a")
        id, derived = add_id(bound, "tea"), learned(bound, "fact", said)
        bound.reviews.add(HOME, [Flag(id, "stale", "r"), Flag(derived, "unsupported", "r")])
        bound.reviews.settle(HOME, bound.reviews.list(HOME)[0].number, "kept", "dana")
        receipt = bound.forget(HOME, Selector(ids=(id, said)))
        assert receipt.places["reviews"] == 2
        assert bound.reviews.list(HOME) == bound.reviews.list(HOME, state="kept") == []
        healthy(bound)

    def test_released_it_is_a_record_like_any_other(self, bound: Store) -> None:
        add(bound, "Dana likes zanzibar", expires_at=LONG_AGO)  # an expired record does not prevent a release
        draft_ = draft("Dana likes zanzibar", status="quarantined", expires_at=LONG_AGO)
        id = bound.write(HOME, [Write(draft_, reasons=("it gives orders",))])[0].id or ""
        assert (item(bound).id, item(bound).flag, item(bound).reason) == (id, "quarantined", "it gives orders")
        seen = bound.changes(HOME, 0).latest
        assert sum(together(8, lambda _: bound.reviews.release(HOME, id, "erik", "corrected"))) == 1
        assert (present(bound, id).status, present(bound, id).expires_at) == ("active", None)
        assert contents(bound) == ["Dana likes zanzibar"]
        assert bound.search_words(HOME, ["zanzibar"], 1) == [at(bound, id)]
        assert True in bound.changes(HOME, seen).rows.active.tolist()
        assert (bound.reviews.list(HOME), item(bound, "corrected").id) == ([], id)
        assert len(acts(bound, "review")) == 2, "the audit log has the flag and the release"
        assert not bound.reviews.release(HOME, id), "it is not in quarantine any more"
        other = held(bound, "two")
        assert bound.reviews.release(HOME, other)
        decided = [(row.id, row.source) for row in bound.audit(HOME) if row.verb == "review" and row.action != "flagged"]
        assert decided == [(other, "user"), (id, "erik")], "the audit log says who decided"
        healthy(bound)

    def test_confirmed_it_stays(self, bound: Store) -> None:
        id = add_id(bound, "tea", expires_at=datetime(9000, 1, 1, tzinfo=UTC))
        seen = bound.changes(HOME, 0).latest
        assert bound.reviews.confirm(HOME, id, "dana")
        assert present(bound, id).expires_at is None
        assert bound.changes(HOME, seen).rows.sequences.tolist() == [at(bound, id)]
        assert [(row.action, row.source) for row in bound.audit(HOME) if row.verb == "review"] == [("confirmed", "dana")]
        for scope, wrong in ((AWAY, id), (HOME, "m_none"), (HOME, held(bound, "held"))):
            assert not bound.reviews.confirm(scope, wrong)

    def test_one_has_it_and_the_others_wait(self, store: Store) -> None:
        assert sum(together(8, lambda n: store.leases.acquire("race", f"holder {n}", HOUR))) == 1
        assert store.leases.acquire("upkeep", "a", HOUR)
        for length in (timedelta(minutes=1), HOUR, timedelta(days=30)):
            assert not store.leases.acquire("upkeep", "b", length)
        assert store.leases.acquire("another", "b", HOUR), "names are apart"
        store.leases.release("upkeep", "b")
        store.leases.release("none", "a")
        assert not store.leases.acquire("upkeep", "b", HOUR), "only its holder gives it back"
        store.leases.release("upkeep", "a")
        assert store.leases.acquire("upkeep", "b", OVER)
        assert store.leases.acquire("upkeep", "b", HOUR), "its holder makes it longer"
        assert not store.leases.acquire("upkeep", "a", HOUR)
        assert store.leases.acquire("upkeep", "b", OVER), "or shorter"
        assert store.leases.acquire("upkeep", "a", HOUR)

    def test_a_note_is_a_row_of_its_own(self, bound: Store) -> None:
        first = bound.audit_log.note(HOME, "serve", "denied", "key:abc", ("no such scope",), "m_1")
        second = bound.audit_log.note(HOME, "serve", "allowed", "key:abc")
        assert second > first
        newest, oldest = bound.audit(HOME)
        assert (oldest.number, oldest.verb, oldest.action, oldest.source) == (first, "serve", "denied", "key:abc")
        assert (oldest.reasons, oldest.id) == (("no such scope",), "m_1")
        assert (newest.number, newest.reasons, newest.id) == (second, (), None)
        assert bound.audit(AWAY) == []
        assert bound.count(HOME) == 0

    def test_asking_for_anothers_record_is_noted(self, bound: Store) -> None:
        theirs, mine = add_id(bound, "theirs", AWAY), add_id(bound, "mine")
        before = len(bound.audit(AWAY))
        assert bound.audit_log.note_foreign(HOME, []) == 0
        assert bound.audit_log.note_foreign(HOME, [("get", "m_none"), ("get", mine)]) == 0
        assert bound.audit(FOREIGN_REQUESTS) == []
        own = bound.audit_log.count(HOME)
        asked = [("get", theirs), ("forget", theirs), ("get", "m_none"), ("get", theirs)]
        assert bound.audit_log.note_foreign(HOME, asked) == 3
        rows = bound.audit(FOREIGN_REQUESTS)
        assert sorted((row.verb, row.id, row.action) for row in rows) == [("forget", theirs, "denied"), ("get", theirs, "denied")]
        assert bound.audit_log.count(HOME) == own == len(bound.audit(HOME)), "who asked sees what an absent id leaves"
        assert len(bound.audit(AWAY)) == before, "the owner's audit log stays unchanged"

    # -- the chain ----------------------------------------------------------------------------------------------------
    def test_every_row_of_a_tenant_is_in_its_chain(self, bound: Store) -> None:
        empty = bound.audit_log.verify("local")
        assert (empty.whole, empty.rows, empty.unchained, empty.problem) == (True, 0, 0, None)
        add(bound, "tea")
        add(bound, "milk", AWAY)
        add(bound, "else", OTHER)
        report = bound.audit_log.verify("local")
        assert (report.whole, report.rows) == (True, 2)
        assert bound.audit_log.verify("another").rows == 1
        assert bound.audit_log.verify("another").head != report.head

    def test_a_head_that_is_not_in_the_log_is_reported(self, bound: Store) -> None:
        add(bound, "tea")
        add(bound, "else", OTHER)
        for head in ("0" * 63 + "1", "no hash", bound.audit_log.verify("another").head):
            report = bound.audit_log.verify("local", head)
            assert not report.whole
            assert report.problem
            assert head[:16] in report.problem

    def test_many_threads_write_one_chain(self, bound: Store) -> None:
        together(8, lambda n: [add(bound, f"fact {n} {m}", HOME if m % 2 else AWAY) for m in range(5)])
        report = bound.audit_log.verify("local")
        assert (report.whole, report.rows) == (True, 40), report.problem
