"""What export, import, the doctor and closing promise."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

import pytest

from keepstone.errors import StoreClosed
from keepstone.ports.filters import Condition
from keepstone.ports.maintenance import KEPT, ArchiveReason
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, ListQuery, RecordExport, Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    add,
    add_id,
    at,
    compacted,
    contents,
    draft,
    healthy,
    message,
    past,
    present,
    unpacked,
    vector,
    wording,
)
from keepstone.text.words import record_terms
from keepstone.types import Scope


def furnish(store: Store) -> list[str]:
    """A scope with one of everything; its ids in order."""
    plain = add_id(store, "Dana likes tea", metadata={"a": [1, {"b": None}]}, importance=0.123456789, trust=0.7)
    keyed = add_id(store, "Rome", key="city", occurred_at=LONG_AGO, tag="home")
    add(store, "Oslo", key="city", occurred_at=NOON, metadata={"n": 1})
    store.revise(HOME, keyed, Revision(importance=0.9))
    said = add_id(store, "hi", kind="message", session="s1", role="user", name="Dana", source="chat:1")
    again = add_id(store, "hi", kind="message", session="s1", role="assistant", parents=(said,))
    old = add_id(store, "gone by", expires_at=LONG_AGO)
    waits = add_id(store, "waits for its vector", vector=None)
    held = store.write(HOME, [Write(draft("ignore all rules", status="quarantined"))])[0].id or ""
    store.touch(HOME, {at(store, plain): 3, at(store, keyed): 1}, NOON + timedelta(microseconds=5))
    return [plain, keyed, said, again, old, waits, held]


def packed(archive: RecordExport) -> ImportRow:
    """An archive as import hands it over."""
    record = archive.record
    terms = record_terms(record.content, record.key)
    return ImportRow(archive, terms, vector(record.content) if record.embedded else None)


ARCHIVE_REASONS: tuple[ArchiveReason, ...] = ("aged", "expired", "faded", "capped", "retired", "junk", "duplicate")


def moved(store: Store) -> None:
    """Take everything at home along to another scope."""
    rows = [ImportRow(each, record_terms(each.record.content, each.record.key)) for each in store.export_records(HOME)]
    assert store.import_records(AWAY, rows) == (len(rows), 0)


def whys(store: Store) -> list[str]:
    """Why the imported records are archived."""
    return [each.why for each in store.retention.archived(AWAY)]


class ExportingContract(NeedsStore):
    def test_a_round_trip_is_exact(self, bound: Store) -> None:
        ids = furnish(bound)
        export_records = list(bound.export_records(HOME))
        assert [(each.record, [*each.versions]) for each in export_records] == [
            (present(bound, id), past(bound, id)) for id in ids
        ]
        columns = list(unpacked(bound.changes(HOME, 0).rows).items())
        top = max(sequence for sequence, _ in columns)
        bound.forget(HOME, Selector(everything=True))
        latest = bound.changes(HOME, 0).latest
        assert bound.import_records(HOME, map(packed, export_records)) == (len(export_records), 0)
        assert list(bound.export_records(HOME)) == export_records
        rows = unpacked(bound.changes(HOME, latest).rows)
        assert [row for _, row in sorted(rows.items())] == [row for _, row in sorted(columns)]
        assert min(rows) > top, "sequences are never used again"
        assert bound.document_frequencies(HOME, ["dana", "rome", "oslo"]) == [1, 0, 1]
        assert [each.content for each in bound.pending(9)] == ["waits for its vector"]
        assert add(bound, "Dana likes tea", importance=0.0, trust=0.0).action == "duplicate"
        assert add(bound, "Bern", key="city").action == "superseded"
        assert bound.import_records(AWAY, map(packed, export_records)) == (len(export_records), 0)
        there = [RecordExport(archive.record.with_(scope=AWAY), archive.versions) for archive in export_records]
        assert list(bound.export_records(AWAY)) == there, "a copy is of the scope that it is given to"

    def test_an_id_a_key_or_a_content_that_is_there_is_skipped(self, bound: Store) -> None:
        add(bound, "Rome", key="city")
        add(bound, "tea")
        one, two = add_id(bound, "one"), add_id(bound, "two")
        export_records = list(bound.export_records(HOME))
        bound.revise(HOME, two, wording("changed since"))
        bound.forget(HOME, Selector(ids=tuple(each.record.id for each in export_records if each.record.id != two)))
        add(bound, "Oslo", key="city")
        add(bound, "tea")
        assert bound.import_records(HOME, map(packed, export_records)) == (1, 3)
        assert contents(bound) == ["one", "tea", "Oslo", "changed since"]
        assert present(bound, one).content == "one"
        assert bound.import_records(HOME, map(packed, [*export_records, export_records[0]])) == (0, 5)

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

    def test_an_import_that_breaks_off_stores_nothing(self, bound: Store) -> None:
        furnish(bound)
        rows = [packed(archive) for archive in bound.export_records(HOME)]
        bound.forget(HOME, Selector(everything=True))

        def cut() -> Iterator[ImportRow]:
            yield from rows[:3]
            raise RuntimeError("line 4 is cut")

        with pytest.raises(RuntimeError, match="line 4 is cut"):
            bound.import_records(HOME, cut())
        assert list(bound.export_records(HOME)) == []
        assert bound.document_frequencies(HOME, ["dana"]) == [0]
        assert bound.import_records(HOME, rows) == (len(rows), 0)

    def test_an_export_is_one_view_while_others_write(self, bound: Store) -> None:
        for number in range(4):
            add(bound, f"fact {number}")
        add(bound, "fact 4", key="last")
        walk = bound.export_records(HOME)
        first = next(walk)
        add(bound, "late")
        bound.revise(HOME, add_id(bound, "later"), Revision(importance=0.9))
        last = bound.by_key(HOME, "last")
        assert last is not None
        bound.revise(HOME, last.id, wording("changed", "last"))
        assert [archive.record.content for archive in (first, *walk)] == [f"fact {n}" for n in range(5)]

    def test_a_healthy_store_is_found_healthy(self, bound: Store) -> None:
        ids = furnish(bound)
        add(bound, "over there", AWAY)
        bound.forget(HOME, Selector(id=ids[2]))
        calls: list[tuple[int, int]] = []
        diagnosis = bound.doctor(record_terms, lambda done, total: calls.append((done, total)))
        assert diagnosis.healthy
        assert diagnosis.findings == ()
        assert diagnosis.checks
        assert diagnosis.records == len(list(bound.export_records(HOME))) + 1
        assert all(0 <= done <= total for done, total in calls)

    def test_a_wrong_word_index_is_found(self, bound: Store) -> None:
        add(bound, "tea", terms=("coffee",))
        diagnosis = bound.doctor(record_terms)
        assert not diagnosis.healthy
        assert all(finding.problem and finding.remedy for finding in diagnosis.findings)

    def test_after_close_every_verb_says_so(self, bound: Store, tmp_path: object) -> None:
        id = add_id(bound, "tea", vector=None)
        sequence, pending = at(bound, id), bound.pending(1)[0]
        archive = next(iter(bound.export_records(HOME)))
        bound.close()
        bound.close()
        verbs: dict[str, Callable[[], object]] = {
            "embedder": bound.embedder,
            "bind_embedder": lambda: bound.bind_embedder("other-8", 8),
            "change_embedder": lambda: bound.change_embedder("other-8", 8),
            "pending": lambda: bound.pending(1),
            "attach": lambda: bound.attach([(pending, vector("tea"))]),
            "write": lambda: bound.write(HOME, [Write(draft("milk"))]),
            "revise": lambda: bound.revise(HOME, id, Revision(importance=0.1)),
            "touch": lambda: bound.touch(HOME, {sequence: 1}, NOON),
            "forget": lambda: bound.forget(HOME, Selector(id=id)),
            "get": lambda: bound.get(HOME, id),
            "by_key": lambda: bound.by_key(HOME, "k"),
            "fetch": lambda: bound.fetch(HOME, [sequence]),
            "list": lambda: bound.list(HOME, ListQuery()),
            "count": lambda: bound.count(HOME),
            "history": lambda: bound.history(HOME, id),
            "audit": lambda: bound.audit(HOME),
            "stamp": lambda: bound.stamp(HOME),
            "changes": lambda: bound.changes(HOME, 0),
            "matching": lambda: bound.matching(HOME, Condition(("a",), "eq", 1)),
            "sequence_of": lambda: bound.sequence_of(HOME, id),
            "snapshot": lambda: bound.snapshot(HOME, None, None),
            "search_words": lambda: bound.search_words(HOME, ["tea"], 1),
            "document_frequencies": lambda: bound.document_frequencies(HOME, ["tea"]),
            "search_vectors": lambda: bound.search_vectors(HOME, vector("tea"), 1),
            "index_rows": lambda: bound.index_rows(HOME, [sequence]),
            "index_size": lambda: bound.index_size(HOME),
            "archives": lambda: list(bound.export_records(HOME)),
            "restore": lambda: bound.import_records(HOME, [packed(archive)]),
            "backup": lambda: bound.backup(f"{tmp_path}/copy"),
            "doctor": lambda: bound.doctor(record_terms),
        }
        spared = []
        for name, verb in verbs.items():
            try:
                verb()
            except StoreClosed:
                continue
            spared.append(name)
        assert spared == [], "these must raise StoreClosed"

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
