"""What changing a record promises: revisions, access counts, the audit log and redaction."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from keepstone.errors import Conflict
from keepstone.ports.queue import EVERY_SESSION
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, RecordExport, Revision, Screening, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NOON,
    NeedsStore,
    acts,
    add,
    add_id,
    at,
    contents,
    draft,
    healthy,
    merging,
    message,
    past,
    present,
    row_of,
    together,
    unpacked,
    vector,
    wording,
)
from keepstone.text import times
from keepstone.text.words import record_terms
from keepstone.types import Record, Scope

SECRET, PUT = "zanzibar", "[taken]"


def without(value: Any, secret: str = SECRET) -> Any:
    """The same without the secret."""
    if isinstance(value, str):
        return value.replace(secret, PUT)
    if isinstance(value, dict):
        return {name: without(each, secret) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(without(each, secret) for each in value)
    return value


def row(store: Store, id: str, scope: Scope = HOME, embed: bool = True, secret: str = SECRET) -> ImportRow:
    """What a record should be once the secret is out."""
    (archive,) = store.export_records(scope, [id])
    versions = tuple(
        replace(each, content=without(each.content, secret), metadata=without(each.metadata, secret)) for each in archive.versions
    )
    changed = {name: without(getattr(archive.record, name), secret) for name in ("content", "metadata", "blocks")}
    record: Record = archive.record.with_(**changed, sensitive=())
    terms = record_terms(record.content, record.key)
    screening = Screening(("a word was taken out",), redacted=True)
    return ImportRow(RecordExport(record, versions), terms, vector(record.content) if embed else None, None, screening)


class ChangingContract(NeedsStore):
    def test_new_content_is_the_next_version(self, bound: Store) -> None:
        id = add_id(bound, "Dana likes tea", importance=0.4, metadata={"a": 1})
        before = present(bound, id)
        receipt = bound.revise(HOME, id, wording("Dana likes coffee"))
        assert (receipt.action, receipt.id, receipt.version) == ("updated", id, 2)
        after = present(bound, id)
        assert (after.content, after.version, after.importance, after.metadata) == (
            "Dana likes coffee",
            2,
            0.4,
            {"a": 1},
        )
        assert after.created_at == before.created_at
        assert after.updated_at >= before.updated_at
        assert bound.document_frequencies(HOME, ["tea", "coffee"]) == [0, 1]
        row = unpacked(bound.index_rows(HOME, [at(bound, id)]))[at(bound, id)]
        assert row == row_of(after, record_terms("Dana likes coffee", None), vector("Dana likes coffee"))

    @pytest.mark.parametrize("change", [Revision(importance=0.9), Revision(metadata={"b": [2]})])
    def test_what_is_not_given_stays(self, bound: Store, change: Revision) -> None:
        id = add_id(bound, "tea", importance=0.4, metadata={"a": 1})
        before = present(bound, id)
        assert bound.revise(HOME, id, change).version == 2
        after = present(bound, id)
        assert after.content == "tea"
        assert after.embedded
        assert after.importance == (before.importance if change.importance is None else change.importance)
        assert after.metadata == (before.metadata if change.metadata is None else change.metadata)
        assert [(old.importance, old.metadata) for old in past(bound, id)] == [
            (before.importance, before.metadata),
            (after.importance, after.metadata),
        ]
        assert bound.document_frequencies(HOME, ["tea"]) == [1]
        row = unpacked(bound.index_rows(HOME, [at(bound, id)]))[at(bound, id)]
        assert row == row_of(after, ("tea",), vector("tea"))

    def test_nothing_new_makes_no_version(self, bound: Store) -> None:
        id = add_id(bound, "tea", importance=0.4, metadata={"a": 1})
        for same in (Revision(), wording("tea"), Revision(importance=0.4, metadata={"a": 1})):
            receipt = bound.revise(HOME, id, same)
            assert (receipt.action, receipt.id, receipt.version) == ("duplicate", id, 1)
        assert len(past(bound, id)) == 1

    def test_of_fifty_threads_with_one_expected_version_one_wins(self, bound: Store) -> None:
        id = add_id(bound, "tea")

        def revise(number: int) -> bool:
            try:
                bound.revise(HOME, id, wording(f"drink {number}", expected_version=1))
            except Conflict:
                return False
            return True

        assert together(50, revise).count(True) == 1
        assert present(bound, id).version == len(past(bound, id)) == 2

    def test_every_version_oldest_first(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city")
        add(bound, "Oslo", key="city", occurred_at=NOON + timedelta(days=1))
        bound.revise(HOME, id, Revision(importance=0.9))
        bound.revise(HOME, id, wording("Bern", "city"))
        versions = past(bound, id)
        assert [version.version for version in versions] == [1, 2, 3, 4]
        assert [version.content for version in versions] == ["Rome", "Oslo", "Oslo", "Bern"]
        assert [version.action for version in versions] == ["added", "superseded", "updated", "updated"]
        record = present(bound, id)
        known = [version.known_from for version in versions]
        assert known == sorted(known)
        assert known[0] == record.created_at
        assert known[-1] == record.updated_at
        assert versions[-1].valid_to is None
        assert versions[-1].valid_from == record.valid_from

    def test_accesses_add_up_and_change_nothing_else(self, bound: Store) -> None:
        one, two, three = (add_id(bound, text) for text in ("one", "two", "three"))
        before = present(bound, one)
        later = NOON + timedelta(seconds=1, microseconds=7)
        together(50, lambda _: bound.touch(HOME, {at(bound, one): 2, at(bound, two): 1}, NOON))
        bound.touch(HOME, {at(bound, one): 3, 10**9: 1}, later)
        assert present(bound, one) == before.with_(access_count=103, last_accessed_at=later)
        for id, count, last in ((two, 50, NOON), (three, 0, None)):
            assert (present(bound, id).access_count, present(bound, id).last_accessed_at) == (count, last)
        assert len(past(bound, one)) == 1
        bound.touch(HOME, {}, later)

    def test_every_change_leaves_a_row_without_content_newest_first(self, bound: Store) -> None:
        write = Write(draft("Rome", key="city", source="tool:crm", metadata={"Rome": "Rome"}), reasons=("checked",))
        made = bound.write(HOME, [write])[0]
        changed = add(bound, "Oslo", key="city", source="user")
        revised = bound.revise(HOME, made.id or "", Revision(importance=0.9))
        add(bound, "Dana likes tea", dedup_key=b"tea")
        merged = bound.write(HOME, [Write(draft("Dana loves tea", dedup_key=b"tea"), merging())])[0]
        bound.forget(HOME, Selector(id=made.id))
        rows = bound.audit(HOME)
        assert [row.number for row in rows] == sorted((row.number for row in rows), reverse=True)
        assert len({row.number for row in rows}) == len(rows)
        assert rows[0].verb == "forget"
        assert rows[0].id == made.id
        audit_log = [(row.action, row.id, row.version) for row in reversed(rows) if row.verb != "forget"]
        for receipt in (made, changed, revised, merged):
            assert (receipt.action, receipt.id, receipt.version) in audit_log, receipt
        first = rows[-1]
        assert (first.source, first.reasons) == ("tool:crm", ("checked",))
        assert first.at.utcoffset() == timedelta(0)
        assert not any(word in repr(rows) for word in ("Rome", "Oslo", "Dana", "tea"))
        assert bound.audit(HOME, limit=2) == rows[:2]
        assert bound.audit(HOME, since=rows[2].at) == [row for row in rows if row.at >= rows[2].at]
        assert bound.audit(HOME, since=rows[0].at + timedelta(days=1)) == bound.audit(AWAY) == []


class RedactingContract(NeedsStore):
    def test_all_of_a_record_is_written_anew(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}", metadata={"by": SECRET, "n": [SECRET]}, sensitive=("code",))
        before, seen = present(bound, id), bound.changes(HOME, 0).latest
        assert bound.redact(HOME, row(bound, id))
        assert bound.changes(HOME, seen).rows.sequences.tolist() == [at(bound, id)]
        record = present(bound, id)
        assert (record.content, record.metadata) == (f"code {PUT}", {"by": PUT, "n": [PUT]})
        assert (record.version, record.updated_at, record.status) == (before.version, before.updated_at, "active")
        assert record.sensitive == ()
        assert bound.search_words(HOME, [SECRET], 9) == []
        assert bound.document_frequencies(HOME, [SECRET, "taken"]) == [0, 1]
        assert bound.search_vectors(HOME, vector(f"code {PUT}"), 1) == [at(bound, id)]
        assert SECRET not in str(list(bound.export_records(HOME)))
        assert SECRET not in str(bound.snapshot(HOME, None, None).records)
        assert acts(bound, "redact") == ["redacted"]
        assert bound.audit(HOME)[0].reasons == ("a word was taken out",)
        healthy(bound)

    def test_its_past_too(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}", key="code", metadata={"a": SECRET})
        bound.revise(HOME, id, wording("code clean", "code"))
        bound.revise(HOME, id, wording(f"again {SECRET}", "code", metadata={"b": 1}))
        dates = [(version.known_from, version.valid_from) for version in past(bound, id)]
        assert bound.redact(HOME, row(bound, id))
        versions = past(bound, id)
        assert [version.content for version in versions] == [f"code {PUT}", "code clean", f"again {PUT}"]
        assert versions[0].metadata == {"a": PUT}
        assert [(version.known_from, version.valid_from) for version in versions] == dates
        assert bound.by_key(HOME, "code") == present(bound, id)
        healthy(bound)

    def test_blocks_of_a_message_and_what_was_made_from_it(self, bound: Store) -> None:
        id = message(bound, SECRET, blocks=f'[{{"type": "text", "text": "{SECRET}"}}]')
        for name, session in (("mine", "s1"), ("other", "s2"), ("all", EVERY_SESSION), ("apart", None)):
            bound.states.put(HOME, name, f"{SECRET} {name}", session=session)
        assert bound.redact(HOME, row(bound, id, embed=False))
        assert present(bound, id).blocks == ({"type": "text", "text": PUT},)
        (turn,) = bound.message_log.page(HOME, "s1")
        assert turn[1].content == PUT
        assert [name for name, _ in bound.states.all(HOME)] == ["apart", "other"]
        assert not present(bound, id).embedded
        assert [each.content for each in bound.pending(9)] == [PUT], "without a vector it waits for one"
        healthy(bound)

    def test_a_record_that_changed_or_went_is_left_alone(self, bound: Store) -> None:
        changed, gone = add_id(bound, f"one {SECRET}"), add_id(bound, f"two {SECRET}")
        theirs = add_id(bound, f"three {SECRET}", AWAY)
        rows = [row(bound, changed), row(bound, gone), row(bound, theirs, AWAY)]
        bound.revise(HOME, changed, Revision(importance=0.9))
        bound.forget(HOME, Selector(id=gone))
        assert [bound.redact(HOME, each) for each in rows] == [False] * 3
        assert (contents(bound), contents(bound, AWAY)) == ([f"one {SECRET}"], [f"three {SECRET}"])
        assert acts(bound, "redact") == []

    def test_what_is_aside_or_in_quarantine(self, bound: Store) -> None:
        archived = add_id(bound, f"one {SECRET}")
        held = add(bound, f"two {SECRET}", status="quarantined").id or ""
        bound.retention.archive(HOME, [archived])
        for id, status in ((archived, "archived"), (held, "quarantined")):
            assert bound.redact(HOME, row(bound, id))
            assert (present(bound, id).status, SECRET in present(bound, id).content) == (status, False)
        assert bound.retention.restore(HOME, [archived]) == 1
        assert contents(bound) == [f"one {PUT}"]
        healthy(bound)

    def test_it_can_be_said_and_changed_afterwards(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}")
        bound.redact(HOME, row(bound, id))
        assert add(bound, f"code {PUT}").action == "duplicate"
        assert bound.revise(HOME, id, wording("code plain")).version == 2
        assert add(bound, f"code {SECRET}", occurred_at=times.now()).action == "added"
        bound.forget(HOME, Selector(id=id))
        healthy(bound)

    def test_two_may_be_the_same_once_they_are_redacted(self, bound: Store) -> None:
        secrets = ("1111", "2222")
        ids = [add_id(bound, f"card {digits}") for digits in secrets]
        assert all(bound.redact(HOME, row(bound, id, secret=digits)) for id, digits in zip(ids, secrets, strict=True))
        assert bound.search_words(HOME, secrets, 9) == []
        assert not any(digits in str(list(bound.export_records(HOME))) for digits in secrets)
        assert contents(bound) == [f"card {PUT}"]
        healthy(bound)
