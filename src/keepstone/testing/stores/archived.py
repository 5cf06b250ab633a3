"""What is put aside is neither recalled nor listed, keeps its text and history, and can be brought back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery
from keepstone.testing.builders import AWAY, HOME, NeedsStore, add, add_id, at, contents, past, present

LATER = datetime.now(UTC) + timedelta(days=1)


def faded(store: Store, importance: float = 0.3, reads: int = 1, before: datetime = LATER) -> list[str]:
    """The contents that have faded, oldest first."""
    return [record.content for record in store.retention.faded(HOME, importance, reads, before)]


class ArchivedContract(NeedsStore):
    """faded, put_aside, bring_back."""

    def test_only_what_matters_little_fades(self, bound: Store) -> None:
        add(bound, "trifle", importance=0.1)
        add(bound, "a note", importance=0.1, kind="note")
        add(bound, "at the line", importance=0.3)
        add(bound, "weighty", importance=0.9)
        add(bound, "said", importance=0.1, kind="message", session="s")
        add(bound, "under a key", importance=0.1, key="k")
        add(bound, "done", importance=0.1, kind="episode")
        add(bound, "quarantined", importance=0.1, status="quarantined")
        add(bound, "theirs", AWAY, importance=0.1)
        assert faded(bound) == ["trifle", "a note"]
        assert faded(bound, importance=0.0) == []

    def test_what_is_read_or_new_does_not_fade(self, bound: Store) -> None:
        id = add_id(bound, "read twice", importance=0.1)
        add(bound, "never read", importance=0.1)
        now = datetime.now(UTC)
        bound.touch(HOME, {at(bound, id): 2}, now)
        assert faded(bound) == ["never read"]
        assert faded(bound, reads=2) == ["read twice", "never read"]
        assert faded(bound, reads=2, before=now - timedelta(hours=1)) == []

    def test_put_aside_and_back(self, bound: Store) -> None:
        id = add_id(bound, "trifle", importance=0.1)
        other = add_id(bound, "weighty")
        before = past(bound, id)
        done, ticket = bound.retention.archive(HOME, [id, "no such"])
        assert (done, ticket > 0) == (1, True)
        assert contents(bound) == ["weighty"]
        assert present(bound, id).status == "archived"
        assert past(bound, id) == before
        assert faded(bound) == []
        assert bound.retention.archive(HOME, [id]) == (0, 0), "it is aside already"
        assert bound.retention.restore(HOME, [id, other]) == 1
        assert contents(bound) == ["weighty", "trifle"]
        assert [row.action for row in bound.audit(HOME) if row.verb == "archive"] == ["restored", "archived"]

    def test_readers_see_it_go_and_come(self, bound: Store) -> None:
        id = add_id(bound, "trifle", importance=0.1)
        seen = bound.changes(HOME, 0).latest
        bound.retention.archive(HOME, [id])
        gone = bound.changes(HOME, seen)
        assert gone.rows.active.tolist() == [False]
        bound.retention.restore(HOME, [id])
        assert bound.changes(HOME, gone.latest).rows.active.tolist() == [True]

    def test_what_was_said_anew_keeps_the_old_aside(self, bound: Store) -> None:
        id = add_id(bound, "trifle", importance=0.1)
        bound.retention.archive(HOME, [id])
        again = add_id(bound, "trifle", importance=0.1)
        assert bound.retention.restore(HOME, [id]) == 0
        assert [record.id for _, record in bound.list(HOME, ListQuery())] == [again]

    def test_another_scopes_records_stay(self, bound: Store) -> None:
        id = add_id(bound, "theirs", AWAY, importance=0.1)
        assert bound.retention.archive(HOME, [id]) == (0, 0)
        assert contents(bound, AWAY) == ["theirs"]
        bound.retention.archive(AWAY, [id])
        assert bound.retention.restore(HOME, [id]) == 0
