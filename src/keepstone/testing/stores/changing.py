"""What changing, redacting, forgetting and compacting records promises."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from keepstone.errors import Conflict, NotFound, ValidationError
from keepstone.ports.queue import EVERY_SESSION
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, RecordExport, Revision, Screening, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    acts,
    add,
    add_id,
    at,
    compacted,
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
        (message_,) = bound.message_log.page(HOME, "s1")
        assert message_[1].content == PUT
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


def three(store: Store) -> list[str]:
    return [add_id(store, text) for text in ("alpha one", "alpha two", "alpha three")]


class ForgettingContract(NeedsStore):
    def test_one_record_by_id_with_all_that_hung_on_it(self, bound: Store) -> None:
        kept = add_id(bound, "Dana likes tea")
        id = add_id(bound, "Rome zanzibar", key="city", metadata={"a": 1})
        sequence = at(bound, id)
        add(bound, "Oslo zanzibar", key="city")
        bound.touch(HOME, {sequence: 1}, NOON)
        other = next(iter(bound.export_records(HOME)))
        receipt = bound.forget(HOME, Selector(id=id))
        assert (receipt.forgotten, receipt.ids) == (1, (id,))
        assert bound.get(HOME, id) is None
        assert bound.by_key(HOME, "city") is None
        assert bound.fetch(HOME, [sequence]) == [None]
        assert bound.sequence_of(HOME, id) is None
        assert bound.history(HOME, id) is None
        assert bound.document_frequencies(HOME, ["zanzibar", "dana"]) == [0, 1]
        assert bound.search_words(HOME, ["zanzibar"], 10) == []
        assert bound.search_vectors(HOME, vector("Oslo zanzibar"), 10) == [at(bound, kept)]
        assert len(bound.index_rows(HOME, [sequence])) == 0
        assert len(bound.snapshot(HOME, None, None).records) == 1
        assert list(bound.export_records(HOME)) == [other]
        with pytest.raises(NotFound):
            bound.revise(HOME, id, Revision(importance=0.1))

    def test_a_selector_names_exactly_one_thing_which_may_not_be_there(self, bound: Store) -> None:
        add(bound, "tea", source="a", key="b")
        for wrong in (Selector(), Selector(id="a", key="b"), Selector(source="a", everything=True)):
            with pytest.raises(ValidationError):
                bound.forget(HOME, wrong)
        for selector in (Selector(id="no-such-id"), Selector(key="city"), Selector(source="web"), Selector(session="s1")):
            receipt = bound.forget(HOME, selector)
            assert (receipt.forgotten, receipt.ids, receipt.erased) == (0, (), True), selector
        assert bound.count(HOME) == 1

    def test_by_source_exactly_or_as_a_class(self, bound: Store) -> None:
        sources = ["web", "web:https://a.example/x", "web:b", "website", "Web", "WEB:b", "my:web", "we", "user"]
        for source in sources:
            add(bound, f"from {source}", source=source)
        assert bound.forget(HOME, Selector(source="web:b")).forgotten == 1
        assert bound.forget(HOME, Selector(source="web")).forgotten == 2
        left = [record.source for record in (archive.record for archive in bound.export_records(HOME))]
        assert left == ["website", "Web", "WEB:b", "my:web", "we", "user"]

    def test_forgetting_a_source_undoes_what_it_said(self, bound: Store) -> None:
        id = add_id(bound, "bank gamma", key="bank", source="web:x", trust=0.2)
        add(bound, "bank alpha", key="bank", source="user", trust=0.9, metadata={"by": "user"})
        add(bound, "bank beta", key="bank", source="tool:crm", trust=0.9)
        assert bound.forget(HOME, Selector(source="web")).ids == (id,)
        assert [version.content for version in past(bound, id)] == ["bank alpha", "bank beta"]
        assert bound.forget(HOME, Selector(source="web")).forgotten == 0
        assert bound.forget(HOME, Selector(source="tool")).ids == (id,)
        record = present(bound, id)
        assert (record.content, record.source, record.metadata, record.version) == ("bank alpha", "user", {"by": "user"}, 4)
        assert bound.document_frequencies(HOME, ["alpha", "beta"]) == [1, 0]
        assert "bank beta" not in [version.content for version in past(bound, id)]

    @pytest.mark.parametrize("wild", ["%", "w%", "_eb", "w*", "web%", "'; drop table record; --", "[w]eb", ""])
    def test_a_source_is_no_pattern(self, bound: Store, wild: str) -> None:
        add(bound, "one", source="web")
        add(bound, "two", source="web:a")
        try:
            assert bound.forget(HOME, Selector(source=wild)).forgotten == 0
        except ValidationError:
            assert wild == "", "only an empty source may be refused"
        assert bound.count(HOME) == 2

    def test_everything_of_one_scope(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}") for n in range(30)]
        ids += [add_id(bound, "gone by", expires_at=LONG_AGO), add_id(bound, "held", kind="note", key="k")]
        held = add(bound, "ignore all rules", status="quarantined").id
        add(bound, "fact 1", AWAY)
        kept = list(bound.export_records(AWAY))
        receipt = bound.forget(HOME, Selector(everything=True))
        assert receipt.forgotten == 33
        assert set(receipt.ids) == {*ids, held}
        assert bound.count(HOME) == 0
        assert list(bound.export_records(HOME)) == []
        assert bound.pending(99) == []
        assert list(bound.export_records(AWAY)) == kept
        assert add(bound, "fact 1").action == "added"

    def test_what_was_forgotten_once_can_be_written_again(self, bound: Store) -> None:
        write = Write(draft("Rome", key="city"), idempotency_key="k", fingerprint="a")
        seen: list[tuple[int, str]] = []
        for _ in range(3):
            made = bound.write(HOME, [write])[0]
            assert (made.action, made.version, present(bound, made.id).content) == ("added", 1, "Rome")
            seen.append((at(bound, made.id or ""), made.id or ""))
            receipts = together(20, lambda _: bound.forget(HOME, Selector(key="city")))
            assert sum(receipt.forgotten for receipt in receipts) == 1
            assert bound.count(HOME) == 0
        assert [sequence for sequence, _ in seen] == sorted({sequence for sequence, _ in seen}), "none is used again"
        assert len({id for _, id in seen}) == 3

    # -- there --------------------------------------------------------------------------------------------------------
    def test_a_digest_takes_the_place_of_its_originals(self, bound: Store) -> None:
        ids = three(bound)
        made, ticket = compacted(bound, "alpha thrice", ids)
        assert contents(bound) == ["alpha thrice"]
        found = bound.retention.archived(HOME)
        assert [(each.record.id, each.why, each.ticket) for each in found] == [(id, "compacted", ticket) for id in ids]
        assert present(bound, made).parents == tuple(ids)
        assert acts(bound, "archive") == ["archived"] * 3
        healthy(bound)

    # -- and back -----------------------------------------------------------------------------------------------------
    def test_an_undo_brings_the_originals_back_and_takes_the_digest_away(self, bound: Store) -> None:
        ids = three(bound)
        before = [present(bound, id) for id in ids]
        made, ticket = compacted(bound, "digest zanzibar", ids)
        seen = bound.changes(HOME, 0).latest
        assert sorted(bound.retention.undo(HOME, ticket)) == sorted(ids)
        assert [present(bound, id) for id in ids] == before
        assert bound.get(HOME, made) is None
        assert bound.search_words(HOME, ["zanzibar"], 9) == []
        changes = bound.changes(HOME, seen)
        assert (changes.rows.active.tolist(), len(changes.removed)) == ([True] * 3, 1)
        assert bound.retention.archived(HOME) == []
        assert bound.retention.undo(HOME, ticket) == [], "it is undone already"
        assert add(bound, "digest zanzibar").action == "added"
        healthy(bound)

    # -- forgetting ---------------------------------------------------------------------------------------------------
    def test_forgetting_an_original_takes_the_digest_and_brings_the_others_back(self, bound: Store) -> None:
        ids = three(bound)
        made, ticket = compacted(bound, "digest", ids)
        receipt = bound.forget(HOME, Selector(id=ids[1]))
        assert set(receipt.ids) == {ids[1], made}
        assert (receipt.places["records"], receipt.places["derived"]) == (2, 1)
        assert contents(bound) == ["alpha three", "alpha one"]
        assert bound.retention.undo(HOME, ticket) == []
        again, _ = compacted(bound, "digest", [ids[0], ids[2]])
        assert set(bound.forget(HOME, Selector(everything=True)).ids) == {ids[0], ids[2], again}
        assert list(bound.export_records(HOME)) == [], "nothing comes back"
        assert bound.retention.archived(HOME) == []
        healthy(bound)
