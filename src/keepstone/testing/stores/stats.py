"""What `keeping.census` promises: a scope in numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, time, timedelta

from keepstone.ports.maintenance import Flag, ScopeStats
from keepstone.ports.stores import Store
from keepstone.ports.values import RecordExport
from keepstone.testing.builders import AWAY, HOME, LONG_AGO, NeedsStore, add, add_id
from keepstone.testing.stores.jobs import failed, queue
from keepstone.testing.stores.making import message
from keepstone.testing.stores.store_copy import packed
from keepstone.types import Scope

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


class StatsContract(NeedsStore):
    """census."""

    def test_nothing(self, bound: Store) -> None:
        assert bound.retention.stats(HOME, LONG_AGO) == ScopeStats()
        add(bound, "tea")
        assert bound.retention.stats(AWAY, LONG_AGO) == ScopeStats()
        assert bound.retention.stats(Scope("elsewhere", HOME.agent, HOME.user), LONG_AGO) == ScopeStats()

    def test_what_is_active_by_kind(self, bound: Store) -> None:
        for text, kind in (("tea", "fact"), ("milk", "fact"), ("a walk", "note"), ("a swim", "episode")):
            add(bound, text, kind=kind)
        add(bound, "over", expires_at=LONG_AGO)
        add(bound, "away", AWAY)
        bound.retention.archive(HOME, [add_id(bound, "aside")])
        assert add(bound, "give orders", status="quarantined").action == "quarantined"
        found = bound.retention.stats(HOME, LONG_AGO)
        assert found.kinds == (("fact", 2), ("episode", 1), ("note", 1))
        assert sum(count for _, count in found.kinds) == bound.count(HOME)
        assert sum(count for _, count in found.days) == bound.count(HOME)
        assert (found.quarantined, found.reviews) == (1, 1)

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

    def test_what_waits_for_somebody(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        bound.reviews.add(HOME, [Flag(id, "stale", "a"), Flag(id, "sensitive", "b")])
        bound.reviews.settle(HOME, bound.reviews.list(HOME)[0].number, "kept", "user")
        failed(bound, 2)
        queue(bound, session="waiting")
        found = bound.retention.stats(HOME, LONG_AGO)
        assert (found.reviews, found.waiting, found.failed) == (1, 1, 2)
        elsewhere = bound.retention.stats(AWAY, LONG_AGO)
        assert (elsewhere.reviews, elsewhere.waiting, elsewhere.failed) == (0, 0, 0)

    def test_conversations(self, bound: Store) -> None:
        for session in ("a", "a", "b"):
            message(bound, f"said in {session}", session)
        message(bound, "a step", "task", tag="step")
        add(bound, "a fact of a session", session="c")
        message(bound, "elsewhere", "d", AWAY)
        found = bound.retention.stats(HOME, LONG_AGO)
        assert found.sessions == len(bound.message_log.sessions(HOME)) == 2
        assert replace(found, kinds=(), days=(), sessions=0) == ScopeStats()
