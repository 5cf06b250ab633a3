"""What `trail` promises: notes, foreign ids, days, and a chain that nobody can mend unseen."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from keepstone.ports.stores import Store
from keepstone.ports.values import Limit, Revision, Screening, Selector, Write
from keepstone.testing.builders import AWAY, HOME, LONG_AGO, NeedsStore, add, add_id, draft, together, vector
from keepstone.testing.stores.making import compacted, message
from keepstone.types import Scope

OTHER = Scope("another", "default", "dana")


class AuditLogContract(NeedsStore):
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
        assert bound.audit_log.note_foreign(HOME, [("get", theirs), ("forget", theirs), ("get", "m_none")]) == 2
        rows = [row for row in bound.audit(HOME) if row.action == "denied"]
        assert sorted((row.verb, row.id) for row in rows) == [("forget", theirs), ("get", theirs)]
        assert len(bound.audit(AWAY)) == before, "whoever owns it is not told"

    def test_the_days_on_which_anything_was_done(self, bound: Store) -> None:
        assert bound.audit_log.days(HOME, LONG_AGO) == []
        before = datetime.now(UTC)
        add(bound, "tea")
        add(bound, "milk")
        days = bound.audit_log.days(HOME, LONG_AGO)
        assert 1 <= len(days) <= 2
        assert before <= days[0] <= datetime.now(UTC)
        assert bound.audit_log.days(HOME, datetime.now(UTC) + timedelta(days=1)) == []
        assert bound.audit_log.days(AWAY, LONG_AGO) == []

    # -- the chain ----------------------------------------------------------------------------------------------------
    def test_a_trail_that_was_never_written_is_whole(self, store: Store) -> None:
        report = store.audit_log.verify("local")
        assert (report.whole, report.rows, report.unchained, report.problem) == (True, 0, 0, None)

    def test_every_row_of_a_tenant_is_in_its_chain(self, bound: Store) -> None:
        add(bound, "tea")
        add(bound, "milk", AWAY)
        add(bound, "else", OTHER)
        report = bound.audit_log.verify("local")
        assert (report.whole, report.rows) == (True, 2)
        assert bound.audit_log.verify("another").rows == 1
        assert bound.audit_log.verify("another").head != report.head

    def test_whatever_is_done_it_stays_whole(self, bound: Store) -> None:
        said, fact = message(bound, "a"), add_id(bound, "tea", key="k")
        add(bound, "milk", key="k", source="tool:x")
        bound.revise(HOME, fact, Revision(importance=0.9))
        bound.write(HOME, [Write(draft("no"), screening=Screening(("a secret",), refused=True))])
        bound.write(HOME, [Write(draft(f"often {n}"), limits=(Limit("all writes", 1, 0.001),)) for n in range(3)])
        held = add(bound, "held ünïcode", status="quarantined", source="wéb:\U0001f600").id or ""
        bound.reviews.release(HOME, held)
        _, ticket = compacted(bound, "digest", [held])
        bound.retention.undo(HOME, ticket)
        bound.forget(HOME, Selector(source="tool"))
        bound.forget(HOME, Selector(id=said))
        bound.audit_log.note_foreign(AWAY, [("get", fact)])
        bound.change_embedder("wide-16", 16)
        bound.attach([(each, vector(each.content, 16)) for each in bound.pending(9)])
        report = bound.audit_log.verify("local")
        assert report.whole, report.problem
        assert report.rows == len(bound.audit(HOME, limit=1000)) + len(bound.audit(AWAY, limit=1000))
        bound.forget(HOME, Selector(everything=True))
        assert bound.audit_log.verify("local", report.head).whole

    def test_a_head_that_was_kept_is_found_again(self, bound: Store) -> None:
        add(bound, "tea")
        heads = [bound.audit_log.verify("local").head]
        for number in range(3):
            add(bound, f"fact {number}")
            heads.append(bound.audit_log.verify("local").head)
        assert len(set(heads)) == 4
        assert all(bound.audit_log.verify("local", head).whole for head in heads)

    def test_a_head_that_is_not_in_it_is_told(self, bound: Store) -> None:
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
