"""What retention promises: selecting, archiving, restoring and counting records."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from keepstone.ports.maintenance import Age, ArchiveReason, ScopeStats
from keepstone.ports.stores import Store
from keepstone.ports.values import Revision
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
    healthy,
    message,
    past,
    present,
    vector,
)
from keepstone.types import Record, Scope

LATER = datetime.now(UTC) + timedelta(days=1)
FAR = datetime(9000, 1, 1, tzinfo=UTC)


def texts(records: Sequence[Record]) -> list[str]:
    return [record.content for record in records]


def faded(store: Store, importance: float = 0.3, reads: int = 1, before: datetime = LATER) -> list[str]:
    """The contents that have faded, oldest first."""
    return [record.content for record in store.retention.faded(HOME, importance, reads, before)]


class RetentionContract(NeedsStore):
    def test_every_scope_that_has_anything_and_whose_a_record_is(self, store: Store) -> None:
        assert store.retention.scopes() == []
        scopes = [Scope("b", "x", "1"), Scope("a", "y", ""), Scope("a", "x", "2")]
        ids = [add_id(store, "tea", scope, vector=None) for scope in scopes]
        assert store.retention.scopes() == sorted(scopes, key=lambda scope: (scope.tenant, scope.agent, scope.user))
        assert store.retention.scopes("a") == [scopes[2], scopes[1]]
        assert store.retention.scopes("a", "2") == [scopes[2]]
        assert store.retention.scopes("c") == store.retention.scopes("b", "2") == []
        assert [store.retention.scopes_with_record("a", id) for id in ids] == [[], [scopes[1]], [scopes[2]]]
        assert store.retention.scopes_with_record("b", ids[0]) == [scopes[0]]
        assert store.retention.scopes_with_record("c", ids[0]) == []

    def test_what_is_old(self, bound: Store) -> None:
        add(bound, "fact")
        add(bound, "note", kind="note")
        add(bound, "under a key", key="k")
        message(bound, "said")
        add(bound, "quarantined", status="quarantined")
        add(bound, "lapsed", expires_at=LONG_AGO)
        add(bound, "theirs", AWAY)
        archived = add_id(bound, "put away")
        bound.retention.archive(HOME, [archived])
        old = bound.retention.old
        assert texts(old(HOME, Age(LATER))) == ["fact", "note"]
        assert texts(old(HOME, Age(LATER, keyed=True))) == ["fact", "note", "under a key"]
        assert texts(old(HOME, Age(LATER, ("message",)))) == ["said"]
        assert texts(old(HOME, Age(LATER, ("message", "note")))) == ["note", "said"]
        assert old(HOME, Age(LATER, ())) == []
        assert texts(old(HOME, Age(LATER, limit=1))) == ["fact"]
        assert old(HOME, Age(datetime.now(UTC) - timedelta(hours=1))) == []
        assert old(Scope("local", "default", "nobody"), Age(LATER)) == []

    def test_what_has_lapsed(self, bound: Store) -> None:
        add(bound, "second", expires_at=NOON)
        add(bound, "third", expires_at=LONG_AGO, key="k")
        message(bound, "said", expires_at=LONG_AGO)
        add(bound, "keeps", expires_at=FAR)
        add(bound, "stays")
        add(bound, "theirs", AWAY, expires_at=LONG_AGO)
        found = bound.retention.lapsed(HOME)
        assert texts(found) == ["second", "third", "said"], "in the order they came"
        assert texts(bound.retention.lapsed(HOME, limit=2)) == ["second", "third"]
        assert bound.retention.archive(HOME, [record.id for record in found], "expired")[0] == 3
        assert bound.retention.lapsed(HOME) == []

    def test_the_least_important_least_read_longest_untouched_go_first(self, bound: Store) -> None:
        for text, importance in (("middling", 0.5), ("weighty", 0.9), ("trifle", 0.1)):
            add(bound, text, importance=importance)
        assert texts(bound.retention.excess(HOME, 2, ["fact"])) == ["trifle"]
        assert texts(bound.retention.excess(HOME, 0, ["fact"])) == ["trifle", "middling", "weighty"]
        for most in (3, 4):
            assert bound.retention.excess(HOME, most, ["fact"]) == []
        often, once, _ = (add_id(bound, text, kind="read") for text in ("often", "once", "never"))
        bound.touch(HOME, {at(bound, often): 5, at(bound, once): 1}, NOON)
        assert texts(bound.retention.excess(HOME, 1, ["read"])) == ["never", "once"]
        changed, left = add_id(bound, "changed", kind="note"), add_id(bound, "left alone", kind="note")
        bound.revise(HOME, changed, Revision(metadata={"a": 1}))
        assert [record.id for record in bound.retention.excess(HOME, 1, ["note"])] == [left]

    def test_each_batch_has_its_ticket(self, bound: Store) -> None:
        one, two, three = (add_id(bound, text) for text in ("one", "two", "three"))
        done, first = bound.retention.archive(HOME, [one, two], "aged")
        assert done == 2
        bound.retention.restore(HOME, [one])
        _, second = bound.retention.archive(HOME, [three, one])
        assert first != second
        assert bound.retention.undo(AWAY, first) == []
        assert bound.retention.undo(HOME, first) == [two], "an undo leaves what another batch took"
        assert contents(bound) == ["two"]
        assert bound.retention.undo(HOME, first) == [], "it is undone already"
        assert bound.retention.undo(HOME, second + 1000) == []
        assert {each.record.id for each in bound.retention.archived(HOME)} == {one, three}
        assert sorted(bound.retention.undo(HOME, second)) == sorted([one, three])
        healthy(bound)

    def test_archived_records_are_listed_the_longest_archived_first(self, bound: Store) -> None:
        before = datetime.now(UTC)
        ids = [add_id(bound, text) for text in ("one", "two", "three")]
        whys: tuple[ArchiveReason, ...] = ("aged", "junk", "aged")
        tickets = [bound.retention.archive(HOME, [id], why)[1] for id, why in zip(ids[::-1], whys, strict=True)]
        found = bound.retention.archived(HOME)
        assert {each.record.id for each in found} == set(ids)
        assert [each.at for each in found] == sorted(each.at for each in found)
        assert all(before <= each.at <= datetime.now(UTC) and each.record.status == "archived" for each in found)
        assert {each.record.content: (each.why, each.ticket) for each in found} == {
            "three": ("aged", tickets[0]), "two": ("junk", tickets[1]), "one": ("aged", tickets[2]),
        }  # fmt: skip
        assert texts([each.record for each in bound.retention.archived(HOME, why=["junk"])]) == ["two"]
        assert bound.retention.archived(HOME, why=()) == []
        assert len(bound.retention.archived(HOME, limit=2)) == 2
        assert bound.retention.archived(HOME, before=found[0].at) == []
        assert len(bound.retention.archived(HOME, before=LATER)) == 3
        assert bound.retention.archived(AWAY) == []

    def test_archived_records_are_not_found(self, bound: Store) -> None:
        id = add_id(bound, "Rome zanzibar", key="city", tag="travel")
        said = message(bound, "zanzibar")
        bound.retention.archive(HOME, [id, said], "retired")
        assert bound.by_key(HOME, "city") is None
        assert (bound.count(HOME), bound.tags(HOME), contents(bound)) == (0, [], [])
        assert bound.search_words(HOME, ["zanzibar"], 9) == []
        assert bound.search_recent(HOME, 9) == []
        assert bound.search_vectors(HOME, vector("Rome zanzibar"), 9) == []
        assert (bound.message_log.page(HOME, "s1"), bound.message_log.count(HOME, None), bound.message_log.sessions(HOME)) == (
            [],
            0,
            [],
        )
        assert present(bound, id).content == "Rome zanzibar"
        healthy(bound)

    def test_only_what_matters_little_and_is_neither_new_nor_read_fades(self, bound: Store) -> None:
        id = add_id(bound, "read twice", importance=0.1)
        add(bound, "trifle", importance=0.1, expires_at=FAR)
        add(bound, "a note", importance=0.1, kind="note")
        add(bound, "at the line", importance=0.3)
        add(bound, "weighty", importance=0.9)
        add(bound, "said", importance=0.1, kind="message", session="s")
        add(bound, "under a key", importance=0.1, key="k")
        add(bound, "done", importance=0.1, kind="episode")
        add(bound, "quarantined", importance=0.1, status="quarantined")
        add(bound, "lapsed", importance=0.1, expires_at=LONG_AGO)
        add(bound, "planned", importance=0.1, occurred_at=FAR)
        add(bound, "theirs", AWAY, importance=0.1)
        now = datetime.now(UTC)
        bound.touch(HOME, {at(bound, id): 2}, now)
        assert faded(bound) == ["trifle", "a note"]
        assert faded(bound, reads=2) == ["read twice", "trifle", "a note"]
        assert faded(bound, importance=0.0) == faded(bound, reads=2, before=now - timedelta(hours=1)) == []

    def test_archive_and_restore(self, bound: Store) -> None:
        id, theirs = add_id(bound, "trifle", importance=0.1), add_id(bound, "theirs", AWAY)
        other = add_id(bound, "weighty")
        before, seen = past(bound, id), bound.changes(HOME, 0).latest
        done, ticket = bound.retention.archive(HOME, [id, "no such"])
        assert (done, ticket > 0) == (1, True)
        gone = bound.changes(HOME, seen)
        assert gone.rows.active.tolist() == [False]
        assert contents(bound) == ["weighty"]
        assert present(bound, id).status == "archived"
        assert past(bound, id) == before
        assert faded(bound) == []
        for wrong in (id, theirs):
            assert bound.retention.archive(HOME, [wrong]) == (0, 0), "it is archived already, or another's"
        assert bound.retention.restore(AWAY, [id]) == 0
        assert bound.retention.restore(HOME, [id, other]) == 1
        assert bound.changes(HOME, gone.latest).rows.active.tolist() == [True]
        assert (contents(bound), contents(bound, AWAY)) == (["weighty", "trifle"], ["theirs"])
        assert bound.retention.archive(HOME, [id, id])[0] == bound.retention.restore(HOME, [id, id]) == 1
        assert [row.action for row in bound.audit(HOME) if row.verb == "archive"] == ["restored", "archived"] * 2

    def test_what_is_active_by_kind(self, bound: Store) -> None:
        assert bound.retention.stats(HOME, LONG_AGO) == ScopeStats()
        for text, kind in (("tea", "fact"), ("milk", "fact"), ("a walk", "note"), ("a swim", "episode")):
            add(bound, text, kind=kind)
        add(bound, "over", expires_at=LONG_AGO)
        bound.retention.archive(HOME, [add_id(bound, "put away")])
        assert add(bound, "give orders", status="quarantined").action == "quarantined"
        found = bound.retention.stats(HOME, LONG_AGO)
        assert found.kinds == (("fact", 2), ("episode", 1), ("note", 1))
        assert sum(count for _, count in found.kinds) == bound.count(HOME)
        assert sum(count for _, count in found.days) == bound.count(HOME)
        assert (found.quarantined, found.reviews) == (1, 1)
        for elsewhere in (AWAY, Scope("elsewhere", HOME.agent, HOME.user)):
            assert bound.retention.stats(elsewhere, LONG_AGO) == ScopeStats()
