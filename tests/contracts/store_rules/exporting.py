"""Records of another store: merging, and what travels with a record."""

from __future__ import annotations

from dataclasses import replace

from keepstone.ports.maintenance import KEPT, ArchiveReason
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, Selector
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NeedsStore,
    add,
    add_id,
    compacted,
    contents,
    healthy,
    message,
    past,
    present,
    wording,
)
from keepstone.testing.stores.exporting import packed
from keepstone.text.words import record_terms
from keepstone.types import Scope

ARCHIVE_REASONS: tuple[ArchiveReason, ...] = ("aged", "expired", "faded", "capped", "retired", "junk", "duplicate")


def moved(store: Store) -> None:
    """Take everything at home along to another scope."""
    rows = [ImportRow(each, record_terms(each.record.content, each.record.key)) for each in store.export_records(HOME)]
    assert store.import_records(AWAY, rows) == (len(rows), 0)


def whys(store: Store) -> list[str]:
    """Why the imported records are archived."""
    return [each.why for each in store.retention.archived(AWAY)]


class ExportingRules(NeedsStore):
    def test_a_record_of_another_store_is_merged(self, bound: Store) -> None:
        """Two scopes stand for two stores: versions of both are kept, texts that one erased go, forgetting wins."""

        def carry(id: str, source: Scope, target: Scope) -> int:
            (archive,) = bound.export_records(source, [id])
            row = packed(archive)
            return bound.import_records(target, [replace(row, stamp=bound.audit_log.stamps(source, [id])[id])])[0]

        id = add_id(bound, "The meeting is on Monday.", source="web:a")
        other = add_id(bound, "tea", key="drink")
        assert [carry(each, HOME, AWAY) for each in (id, id, other)] == [1, 0, 1]
        bound.revise(HOME, id, wording("It is on Tuesday."))
        bound.revise(AWAY, id, wording("It is on Friday."))
        assert (carry(id, HOME, AWAY), carry(id, AWAY, HOME), carry(id, HOME, AWAY)) == (1, 1, 0)
        both = ["The meeting is on Monday.", "It is on Tuesday.", "It is on Friday."]
        for scope in (HOME, AWAY):
            assert [version.content for version in bound.history(scope, id) or ()] == both
        (flagged,) = bound.reviews.list(AWAY)
        assert (flagged.id, flagged.flag, bound.reviews.list(HOME)) == (id, "conflict", [])
        page = bound.audit_log.feed(HOME, 0, 1)
        assert (page.changed, page.forgotten, page.more) == ((other,), (), True)
        bound.retention.archive(HOME, [other], "retired")
        assert (carry(other, HOME, AWAY), [each.record.id for each in bound.retention.archived(AWAY)]) == (1, [other])
        taken = add_id(bound, "milk", AWAY, key="city")
        rival = add_id(bound, "Oslo", key="city")
        assert carry(rival, HOME, AWAY) == 1
        assert [each.record.id for each in bound.retention.archived(AWAY)] == [other, taken]
        latest = bound.audit_log.feed(AWAY, 0, 100).latest
        bound.forget(AWAY, Selector(id=id))
        assert carry(id, HOME, AWAY) == 0
        assert bound.audit_log.feed(AWAY, latest, 100).forgotten == (id,)
        assert set(bound.audit_log.forgotten(AWAY, [id, rival])) == {id}
        healthy(bound)

    def test_what_was_compacted_stays_compacted(self, bound: Store) -> None:
        compacted(bound, "digest", [add_id(bound, "a"), add_id(bound, "b")])
        moved(bound)
        assert whys(bound) == [*KEPT, *KEPT]
        assert bound.retention.archived(AWAY, why=ARCHIVE_REASONS) == [], "there is nothing that a job may erase"
        assert contents(bound, AWAY) == ["digest"]
        for archived in bound.retention.archived(AWAY):
            assert archived.record.id in bound.retention.undo(AWAY, archived.ticket)
        assert {"a", "b"} <= set(contents(bound, AWAY)) <= {"a", "b", "digest"}
        healthy(bound)

    def test_the_reason_and_the_time_of_archiving_are_taken_along(self, bound: Store) -> None:
        for number, why in enumerate(ARCHIVE_REASONS):
            bound.retention.archive(HOME, [add_id(bound, f"tea {number}", key=f"k{number}" if number % 2 else None)], why)
        moved(bound)
        assert whys(bound) == list(ARCHIVE_REASONS)
        there = bound.retention.archived(AWAY)
        assert [each.at for each in there] == [each.at for each in bound.retention.archived(HOME)]
        assert bound.retention.undo(AWAY, there[0].ticket)[0] == there[0].record.id
        assert present(bound, there[0].record.id, AWAY).status == "active"
        healthy(bound)

    def test_lineage_is_taken_along(self, bound: Store) -> None:
        said = message(bound, "I drink tea.")
        id = add_id(bound, "tea", key="drink", parents=(said,))
        add(bound, "milk", key="drink")
        for session, parents in (("s1", (said,)), ("s2", ())):
            add(bound, "likes tea", parents=parents, session=session)
        moved(bound)
        bound.forget(AWAY, Selector(id=said))
        assert [version.content for version in past(bound, id, AWAY)] == ["milk"]
        assert contents(bound, AWAY) == ["likes tea", "milk"], "what was said elsewhere too stays"
