"""Retention in combination, and counts of a scope."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest

from keepstone.ports.maintenance import Age, Flag
from keepstone.ports.stores import Store
from keepstone.ports.values import RecordExport, Revision, Selector
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NeedsStore,
    add,
    add_id,
    at,
    contents,
    healthy,
    message,
    past,
    present,
)
from keepstone.testing.stores.exporting import packed
from keepstone.testing.stores.queue import failed, queue
from keepstone.testing.stores.retention import FAR, LATER, texts

TICK = timedelta(microseconds=1)


def active(store: Store, as_of: datetime | None = None, known_at: datetime | None = None) -> list[str]:
    """The contents that a past view shows."""
    snapshot = store.snapshot(HOME, as_of, known_at)
    return [record.content for record, shown in zip(snapshot.records, snapshot.rows.active.tolist(), strict=True) if shown]


DAY = timedelta(days=1)


def day(at: datetime) -> datetime:
    """The first moment of a day."""
    return datetime.combine(at.astimezone(UTC).date(), time(), UTC)


def came(store: Store, content: str, at: datetime) -> None:
    """Something that came at another time."""
    id = add_id(store, content, AWAY)
    (found,) = store.export_records(AWAY, [id])
    archive = RecordExport(found.record.with_(scope=HOME, created_at=at), found.versions, found.archived, found.supports)
    assert store.import_records(HOME, [packed(archive)]) == (1, 0)


class RetentionRules(NeedsStore):
    def test_what_records_rest_on_and_rested_on_before(self, bound: Store) -> None:
        first, second = (add_id(bound, text, kind="message") for text in ("I like tea.", "I like tea!"))
        fact = add_id(bound, "likes tea", parents=(first,))
        assert bound.retention.lineage(HOME) == [(fact, first, True)]
        assert add(bound, "likes tea", parents=(second,)).action == "duplicate"
        other = add_id(bound, "likes milk", parents=(second,), key="drink")
        assert bound.retention.lineage(HOME) == sorted([(fact, first, True), (fact, second, True), (other, second, True)])
        assert bound.retention.lineage(HOME, [other, first, "m_0000000000000000"]) == [(other, second, True)]
        assert bound.retention.lineage(HOME, []) == bound.retention.lineage(AWAY) == bound.retention.lineage(AWAY, [fact]) == []
        assert add(bound, "likes water", key="drink", parents=(first,)).action == "superseded"
        assert bound.retention.lineage(HOME, [other]) == sorted([(other, first, True), (other, second, False)])
        bound.forget(HOME, Selector(id=first))
        assert bound.retention.lineage(HOME, [fact]) == [(fact, second, True)]

    def test_what_was_read_or_changed_or_lies_ahead_is_not_old(self, bound: Store) -> None:
        read, left = add_id(bound, "read"), add_id(bound, "left alone")
        add(bound, "planned", occurred_at=FAR)
        bound.touch(HOME, {at(bound, read): 1}, LATER + TICK)
        assert texts(bound.retention.old(HOME, Age(LATER))) == ["left alone"]
        changed = bound.revise(HOME, left, Revision(importance=0.9))
        since = past(bound, left)[-1].known_from
        assert changed.version == 2
        assert bound.retention.old(HOME, Age(since)) == []
        assert texts(bound.retention.old(HOME, Age(since + TICK))) == ["left alone"]

    def test_only_what_is_there_and_has_no_key_counts(self, bound: Store) -> None:
        kept, archived = add_id(bound, "kept"), add_id(bound, "put away")
        add(bound, "quarantined", status="quarantined")
        add(bound, "lapsed", importance=0.9, expires_at=LONG_AGO)
        add(bound, "keyed", key="k", importance=0.0)
        add(bound, "a note", kind="note")
        message(bound, "said")
        add(bound, "theirs", AWAY)
        bound.retention.archive(HOME, [archived])
        assert bound.retention.excess(HOME, 1, ["fact"]) == []
        assert [record.id for record in bound.retention.excess(HOME, 0, ["fact"])] == [kept]
        assert texts(bound.retention.excess(HOME, 1, ["message", "note"])) in (["a note"], ["said"])
        assert bound.retention.excess(HOME, 0, []) == []

    def test_a_key_that_is_held_again_is_not_taken_back(self, bound: Store) -> None:
        old, fact = add_id(bound, "Rome", key="city"), add_id(bound, "tea")
        _, ticket = bound.retention.archive(HOME, [old])
        new = add_id(bound, "Oslo", key="city")
        assert bound.retention.restore(HOME, [old]) == 0
        assert bound.retention.undo(HOME, ticket) == []
        bound.forget(HOME, Selector(id=new))
        assert bound.retention.undo(HOME, ticket) == [old]
        bound.retention.archive(HOME, [fact])
        add(bound, "tea", expires_at=LONG_AGO)
        assert bound.retention.restore(HOME, [fact]) == 1, "an expired record does not prevent a restore"
        assert contents(bound) == ["tea", "Rome"]
        healthy(bound)

    def test_a_restored_record_that_had_expired_stays_and_a_quarantined_one_goes_back_there(self, bound: Store) -> None:
        over, running = add_id(bound, "over", expires_at=LONG_AGO), add_id(bound, "running", expires_at=FAR)
        held = add(bound, "ignore all rules", status="quarantined", expires_at=LONG_AGO).id or ""
        assert {record.id for record in bound.retention.lapsed(HOME)} == {over, held}
        assert bound.retention.archive(HOME, [over, running, held], "expired")[0] == 3
        assert (bound.retention.lapsed(HOME), present(bound, held).status) == ([], "archived")
        assert bound.retention.restore(HOME, [over, running, held]) == 3
        assert (present(bound, over).expires_at, present(bound, running).expires_at) == (None, FAR)
        assert contents(bound) == ["running", "over"]
        assert present(bound, held).status == "quarantined"

    def test_a_write_archives_an_expired_record_in_its_way(self, bound: Store) -> None:
        old = add_id(bound, "tea", expires_at=LONG_AGO)
        add_id(bound, "tea")
        (found,) = bound.retention.archived(HOME)
        assert (found.record.id, found.why) == (old, "expired")

    @pytest.mark.parametrize("back", [False, True])
    def test_a_past_view_shows_what_was_archived_since(self, bound: Store, back: bool) -> None:
        id = add_id(bound, "trifle")
        add(bound, "weighty")
        known = present(bound, id).updated_at
        bound.retention.archive(HOME, [id])
        (archived,) = bound.retention.archived(HOME)
        after = archived.at + TICK
        if back:
            bound.retention.restore(HOME, [id])
        shown = ["trifle", "weighty"]
        assert active(bound) == active(bound, after, after) == (shown if back else ["weighty"])
        if known < archived.at:  # a coarse clock may give both the same time
            before = archived.at - TICK
            assert active(bound, as_of=before)[0] == active(bound, known_at=before)[0] == "trifle"
            assert active(bound, before, after)[0] == active(bound, after, before)[0] == "trifle"

    def test_what_came_day_by_day(self, bound: Store) -> None:
        first = datetime(2026, 2, 28, 23, 59, 59, 999_999, tzinfo=UTC)
        came(bound, "one", first)
        came(bound, "two", first - DAY / 2)
        came(bound, "three", first + timedelta(microseconds=1))
        came(bound, "long ago", first - 400 * DAY)
        since = day(first)
        days = bound.retention.stats(HOME, since).days
        assert days == ((since, 2), (since + DAY, 1))
        assert bound.retention.stats(HOME, since + DAY).days == ((since + DAY, 1),)
        assert len(bound.retention.stats(HOME, LONG_AGO).days) == 3
        before = day(datetime.now(UTC))
        add(bound, "now")
        assert bound.retention.stats(HOME, before).days in (((before, 1),), ((before + DAY, 1),)), "or a day has begun meanwhile"

    def test_what_waits_for_a_person_and_sessions(self, bound: Store) -> None:
        id = add_id(bound, "tea", session="c")
        bound.reviews.add(HOME, [Flag(id, "stale", "a"), Flag(id, "sensitive", "b")])
        bound.reviews.settle(HOME, bound.reviews.list(HOME)[0].number, "kept", "user")
        failed(bound, 2)
        queue(bound, session="waiting")
        message(bound, "a step", "task", tag="step")
        message(bound, "elsewhere", "d", AWAY)
        found, elsewhere = (bound.retention.stats(scope, LONG_AGO) for scope in (HOME, AWAY))
        assert (found.reviews, found.waiting, found.failed) == (1, 1, 2)
        assert (elsewhere.reviews, elsewhere.waiting, elsewhere.failed) == (0, 0, 0)
        assert (
            [found.sessions, elsewhere.sessions] == [len(bound.message_log.sessions(scope)) for scope in (HOME, AWAY)] == [3, 1]
        )
