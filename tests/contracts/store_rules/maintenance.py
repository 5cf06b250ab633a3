"""Releases from quarantine into what is known, and the audit log over every verb."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from keepstone.ports.maintenance import Flag
from keepstone.ports.stores import Store
from keepstone.ports.values import Limit, Revision, Screening, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NeedsStore,
    add,
    add_id,
    at,
    compacted,
    contents,
    draft,
    healthy,
    learned,
    message,
    past,
    present,
    vector,
)
from keepstone.testing.builders import vector as vector_of
from keepstone.testing.stores.maintenance import flag, held


class MaintenanceRules(NeedsStore):
    def test_only_what_is_in_quarantine_here(self, bound: Store) -> None:
        id, fact, archived = held(bound, "held"), add_id(bound, "fact"), add_id(bound, "put away")
        bound.retention.archive(HOME, [archived])
        for scope, wrong in ((AWAY, id), (HOME, fact), (HOME, archived), (HOME, "m_none")):
            assert not bound.reviews.release(scope, wrong)
        assert present(bound, archived).status == "archived"
        assert contents(bound) == ["fact"]

    def test_where_its_content_is_known_nothing_is_added(self, bound: Store) -> None:
        id, fact = held(bound, "tea"), add_id(bound, "tea")
        before, made = present(bound, fact), learned(bound, "drinks", id)
        assert bound.reviews.release(HOME, id)
        assert bound.get(HOME, id) is None
        assert present(bound, fact) == before
        assert bound.reviews.list(HOME) == []
        child = bound.get(HOME, made)
        assert all(bound.get(HOME, parent) for parent in (child.parents if child else ())), "no child without a parent is left"
        healthy(bound)

    def test_where_its_key_is_held_it_takes_the_place(self, bound: Store) -> None:
        city = add_id(bound, "Rome", key="city", trust=0.9, session="s1")
        root = message(bound, "Oslo!", "s2", trust=0.2)
        id = held(bound, "Oslo", key="city", trust=0.2, source="web:x", parents=(root,), session="s2", metadata={"n": 1})
        assert bound.reviews.release(HOME, id)
        record = present(bound, city)
        assert (record.content, record.source, record.trust, record.version) == ("Oslo", "web:x", 0.2, 2)
        assert (record.parents, record.session, record.metadata) == ((root,), "s2", {"n": 1})
        assert [version.content for version in past(bound, city)] == ["Rome", "Oslo"]
        assert bound.get(HOME, id) is None
        assert bound.document_frequencies(HOME, ["rome", "oslo"]) == [0, 2]
        assert bound.search_vectors(HOME, vector_of("Oslo"), 1) == [at(bound, city)]
        assert bound.by_key(HOME, "city") == record
        healthy(bound)
        bound.forget(HOME, Selector(id=root))
        assert present(bound, city).content == "Rome", "what it rested on has gone"
        healthy(bound)

    def test_an_entry_has_a_place_in_its_scope_that_others_do_not_move(self, bound: Store) -> None:
        notes = [bound.audit_log.note(scope, "serve", "denied", "key:a") for scope in (AWAY, HOME, AWAY, AWAY, HOME, HOME, AWAY)]
        mine = [notes[1], notes[4], notes[5]]
        assert bound.audit_log.places(HOME, mine[::-1]) == dict(zip(mine, (1, 2, 3), strict=True))
        assert bound.audit_log.places(HOME, mine[2:]) == {mine[2]: 3}
        assert bound.audit_log.places(HOME, [0]) == {0: 0}
        assert bound.audit_log.places(HOME, []) == {}
        assert [bound.audit_log.number_at(HOME, place) for place in (0, 1, 2, 3)] == [0, *mine]
        assert bound.audit_log.number_at(HOME, 4) > max(notes)

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

    def test_whatever_is_done_it_stays_whole(self, bound: Store) -> None:
        heads = [bound.audit_log.verify("local").head]
        said, fact = message(bound, "a"), add_id(bound, "tea", key="k")
        heads.append(bound.audit_log.verify("local").head)
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
        heads.append(bound.audit_log.verify("local").head)
        assert len(set(heads)) == 3
        assert all(bound.audit_log.verify("local", head).whole for head in heads)
        report = bound.audit_log.verify("local")
        assert report.whole, report.problem
        assert report.rows == len(bound.audit(HOME, limit=1000)) + len(bound.audit(AWAY, limit=1000))
        bound.forget(HOME, Selector(everything=True))
        assert bound.audit_log.verify("local", report.head).whole

    def test_what_is_open_is_not_repeated(self, bound: Store) -> None:
        id, theirs = add_id(bound, "tea"), add_id(bound, "theirs", AWAY)
        assert bound.reviews.add(HOME, [Flag(theirs, "stale", "r"), Flag("m_none", "stale", "r")]) == 0
        assert bound.reviews.add(HOME, [Flag(id, "stale", "a"), Flag(id, "stale", "b"), Flag(id, "sensitive", "c")]) == 2
        assert flag(bound, id) == 0
        bound.revise(HOME, id, Revision(importance=0.9))
        assert flag(bound, id) == 0, "it is still open, for whatever version"
        assert [each.reason for each in bound.reviews.list(HOME)] == ["a", "c"]
        assert bound.reviews.list(AWAY) == []
        assert bound.reviews.add(HOME, []) == 0
