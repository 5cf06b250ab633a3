"""What `redact` promises: a record and its past without what was taken out of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from keepstone.ports.queue import EVERY_SESSION
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, RecordExport, Revision, Screening, Selector
from keepstone.testing.builders import AWAY, HOME, NeedsStore, add, add_id, at, contents, past, present, vector, wording
from keepstone.testing.stores.making import acts, healthy, learned, message
from keepstone.text import times
from keepstone.text.words import record_terms
from keepstone.types import Record, Scope

SECRET, PUT = "zanzibar", "[taken]"


def without(value: Any) -> Any:
    """The same without the secret."""
    if isinstance(value, str):
        return value.replace(SECRET, PUT)
    if isinstance(value, dict):
        return {name: without(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(without(each) for each in value)
    return value


def row(store: Store, id: str, scope: Scope = HOME, embed: bool = True) -> ImportRow:
    """What a record should be once the secret is out."""
    (archive,) = store.export_records(scope, [id])
    versions = tuple(replace(each, content=without(each.content), metadata=without(each.metadata)) for each in archive.versions)
    record: Record = archive.record.with_(
        content=without(archive.record.content), metadata=without(archive.record.metadata), blocks=without(archive.record.blocks),
        sensitive=(),
    )  # fmt: skip
    terms = record_terms(record.content, record.key)
    screening = Screening(("a word was taken out",), redacted=True)
    return ImportRow(RecordExport(record, versions), terms, vector(record.content) if embed else None, None, screening)


class RedactingContract(NeedsStore):
    def test_all_of_a_record_is_written_anew(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}", metadata={"by": SECRET, "n": [SECRET]}, sensitive=("code",))
        before = present(bound, id)
        assert bound.redact(HOME, row(bound, id))
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

    def test_a_past_alone(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}")
        bound.revise(HOME, id, wording("code clean"))
        assert bound.redact(HOME, row(bound, id))
        assert SECRET not in str(past(bound, id))
        assert present(bound, id).content == "code clean"
        healthy(bound)

    def test_blocks_of_a_message(self, bound: Store) -> None:
        blocks = f'[{{"type": "text", "text": "{SECRET}"}}]'
        id = message(bound, SECRET, blocks=blocks)
        assert bound.redact(HOME, row(bound, id))
        assert present(bound, id).blocks == ({"type": "text", "text": PUT},)
        (turn,) = bound.message_log.page(HOME, "s1")
        assert turn[1].content == PUT

    def test_without_a_vector_it_waits_for_one(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}")
        assert bound.redact(HOME, row(bound, id, embed=False))
        assert not present(bound, id).embedded
        assert [each.content for each in bound.pending(9)] == [f"code {PUT}"]
        healthy(bound)

    def test_readers_see_it(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}")
        seen = bound.changes(HOME, 0).latest
        bound.redact(HOME, row(bound, id))
        assert bound.changes(HOME, seen).rows.sequences.tolist() == [at(bound, id)]

    def test_what_was_made_from_the_message_goes(self, bound: Store) -> None:
        id = message(bound, f"code {SECRET}")
        for name, session in (("mine", "s1"), ("other", "s2"), ("all", EVERY_SESSION), ("apart", None)):
            bound.states.put(HOME, name, f"{SECRET} {name}", session=session)
        bound.redact(HOME, row(bound, id))
        assert [name for name, _ in bound.states.all(HOME)] == ["apart", "other"]

    def test_a_record_that_changed_or_went_is_left_alone(self, bound: Store) -> None:
        changed, gone = add_id(bound, f"one {SECRET}"), add_id(bound, f"two {SECRET}")
        rows = [row(bound, id) for id in (changed, gone)]
        bound.revise(HOME, changed, Revision(importance=0.9))
        bound.forget(HOME, Selector(id=gone))
        assert [bound.redact(HOME, each) for each in rows] == [False, False]
        assert contents(bound) == [f"one {SECRET}"]
        assert acts(bound, "redact") == []

    def test_another_scopes_record_is_left_alone(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}", AWAY)
        assert not bound.redact(HOME, row(bound, id, AWAY))
        assert contents(bound, AWAY) == [f"code {SECRET}"]

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

    def test_it_stays_what_others_rest_on(self, bound: Store) -> None:
        said = message(bound, f"code {SECRET}")
        fact = learned(bound, "has a code", said)
        bound.redact(HOME, row(bound, said))
        assert present(bound, fact).parents == (said,)
        bound.forget(HOME, Selector(id=said))
        assert bound.get(HOME, fact) is None

    def test_it_can_be_said_and_changed_afterwards(self, bound: Store) -> None:
        id = add_id(bound, f"code {SECRET}")
        bound.redact(HOME, row(bound, id))
        assert add(bound, f"code {PUT}").action == "duplicate"
        assert bound.revise(HOME, id, wording("code plain")).version == 2
        assert add(bound, f"code {SECRET}", occurred_at=times.now()).action == "added"
        bound.forget(HOME, Selector(id=id))
        healthy(bound)
