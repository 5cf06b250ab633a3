"""What stores have once got wrong, where two promises meet: each test says what holds."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from keepstone.ports.maintenance import KEPT, ArchiveReason
from keepstone.ports.stores import Store
from keepstone.ports.values import ImportRow, RecordExport, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    LONG_AGO,
    NeedsStore,
    add,
    add_id,
    contents,
    draft,
    merging,
    past,
    present,
    vector,
)
from keepstone.testing.stores.making import compacted, healthy, learned, message
from keepstone.text.words import record_terms

ARCHIVE_REASONS: tuple[ArchiveReason, ...] = ("aged", "expired", "faded", "capped", "retired", "junk", "duplicate")


def moved(store: Store) -> None:
    """Take everything at home along to another scope."""
    rows = [ImportRow(each, record_terms(each.record.content, each.record.key)) for each in store.export_records(HOME)]
    assert store.import_records(AWAY, rows) == (len(rows), 0)


def whys(store: Store) -> list[str]:
    """Why what was taken along is aside."""
    return [each.why for each in store.retention.archived(AWAY)]


def redacted(store: Store, id: str, text: str) -> bool:
    """Give a record of one version another text in the place of its own."""
    (archive,) = store.export_records(HOME, [id])
    versions = tuple(replace(each, content=text) for each in archive.versions)
    row = ImportRow(
        RecordExport(archive.record.with_(content=text), versions), record_terms(text, archive.record.key), vector(text)
    )
    return store.redact(HOME, row)


class TakenAlongContract(NeedsStore):
    """What is aside stays what it is in an export and an import."""

    def test_what_was_aside_can_be_brought_back(self, bound: Store) -> None:
        id = add_id(bound, "trifle")
        bound.retention.archive(HOME, [id])
        moved(bound)
        (archived,) = bound.retention.archived(AWAY)
        assert bound.retention.undo(AWAY, archived.ticket) == [id]
        assert present(bound, id, AWAY).status == "active"
        healthy(bound)

    def test_originals_are_brought_back_beside_their_digest(self, bound: Store) -> None:
        compacted(bound, "digest", [add_id(bound, "a"), add_id(bound, "b")])
        moved(bound)
        for archived in bound.retention.archived(AWAY):
            assert archived.record.id in bound.retention.undo(AWAY, archived.ticket)
        assert {"a", "b"} <= set(contents(bound, AWAY)) <= {"a", "b", "digest"}
        healthy(bound)

    def test_what_was_compacted_stays_compacted(self, bound: Store) -> None:
        compacted(bound, "digest", [add_id(bound, "a"), add_id(bound, "b")])
        moved(bound)
        assert whys(bound) == [*KEPT, *KEPT]
        assert bound.retention.archived(AWAY, why=ARCHIVE_REASONS) == [], "there is nothing that a job may erase"
        assert contents(bound, AWAY) == ["digest"]

    @pytest.mark.parametrize("why", ARCHIVE_REASONS)
    @pytest.mark.parametrize("key", [None, "k"])
    def test_the_reason_and_the_time_are_taken_along(self, bound: Store, why: ArchiveReason, key: str | None) -> None:
        bound.retention.archive(HOME, [add_id(bound, "tea", key=key)], why)
        moved(bound)
        assert whys(bound) == [why]
        assert [each.at for each in bound.retention.archived(AWAY)] == [each.at for each in bound.retention.archived(HOME)]


class BesideContract(NeedsStore):
    """Two records that say the same, one of which is not active."""

    def test_two_may_be_the_same_once_they_are_redacted(self, bound: Store) -> None:
        ids = [add_id(bound, "card 1111"), add_id(bound, "card 2222")]
        assert all(redacted(bound, id, "card [number]") for id in ids)
        assert bound.search_words(HOME, ["1111", "2222"], 9) == []
        assert not any(digits in str(list(bound.export_records(HOME))) for digits in ("1111", "2222"))
        assert contents(bound) == ["card [number]"]
        healthy(bound)

    def test_what_has_lapsed_does_not_keep_its_like_in_quarantine(self, bound: Store) -> None:
        add(bound, "tea", expires_at=LONG_AGO)
        id = add(bound, "tea", status="quarantined").id or ""
        assert bound.reviews.release(HOME, id)
        assert (contents(bound), present(bound, id).status) == (["tea"], "active")
        healthy(bound)

    def test_what_has_lapsed_does_not_keep_its_like_aside(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        bound.retention.archive(HOME, [id])
        add(bound, "tea", expires_at=LONG_AGO)
        assert bound.retention.restore(HOME, [id]) == 1
        assert (contents(bound), present(bound, id).status) == (["tea"], "active")
        healthy(bound)

    def test_what_is_released_into_its_like_leaves_no_child_without_a_parent(self, bound: Store) -> None:
        add(bound, "tea")
        held = add(bound, "tea", status="quarantined").id or ""
        fact = learned(bound, "drinks", held)
        assert bound.reviews.release(HOME, held)
        child = bound.get(HOME, fact)
        assert all(bound.get(HOME, parent) for parent in (child.parents if child else ()))
        healthy(bound)

    def test_what_lapsed_in_quarantine_is_put_aside_once(self, bound: Store) -> None:
        add(bound, "tea", status="quarantined", expires_at=LONG_AGO)
        lapsed = [record.id for record in bound.retention.lapsed(HOME)]
        assert bound.retention.archive(HOME, lapsed, "expired")[0] == 1
        assert bound.retention.lapsed(HOME) == []


class WithdrawnContract(NeedsStore):
    """What is left when something that a record rests on has gone."""

    def test_what_was_derived_from_a_past_version_goes_with_its_root(self, bound: Store) -> None:
        said = message(bound, "a")
        city = learned(bound, "Rome", said, key="city")
        fact = learned(bound, "eats pasta", city)
        add(bound, "Oslo", key="city")
        bound.forget(HOME, Selector(id=said))
        assert [version.content for version in past(bound, city)] == ["Oslo"]
        assert bound.get(HOME, fact) is None
        healthy(bound)

    def test_trust_falls_with_the_support_that_had_it(self, bound: Store) -> None:
        low, high = message(bound, "low", trust=0.3), message(bound, "high", "s2", trust=0.9)
        fact = learned(bound, "tea", low, trust=0.9, session="s1")
        assert present(bound, fact).trust == 0.3
        learned(bound, "tea", high, trust=0.9, session="s2", source="tool:y")
        bound.forget(HOME, Selector(id=high))
        assert (present(bound, fact).parents, present(bound, fact).trust) == ((low,), 0.3)

    def test_trust_falls_with_the_session_that_had_it(self, bound: Store) -> None:
        said = message(bound, "low", trust=0.3, source="web:x")
        fact = learned(bound, "tea", said, session="s1", source="web:x", trust=0.3)
        add(bound, "tea", session="s2", source="user", trust=1.0)
        bound.forget(HOME, Selector(session="s2"))
        assert present(bound, fact).trust == 0.3

    def test_readers_are_told_of_the_session_that_is_left(self, bound: Store) -> None:
        first, second = message(bound, "a"), message(bound, "b", "s2")
        fact = learned(bound, "tea", first, session="s1")
        learned(bound, "tea", second, session="s2")
        seen = bound.changes(HOME, 0).latest
        bound.forget(HOME, Selector(id=first))
        assert present(bound, fact).session == "s2"
        assert bound.changes(HOME, seen).rows.sessions == ["s2"]

    def test_a_fact_that_is_kept_names_the_support_that_is_left(self, bound: Store) -> None:
        first, second = message(bound, "a"), message(bound, "b", "s2")
        fact = learned(bound, "tea", first, session="s1")
        learned(bound, "tea", second, session="s2")
        bound.forget(HOME, Selector(id=first, keep_facts=True))
        assert present(bound, fact).parents == (second,)

    def test_a_session_is_summarised_once_however_many_summaries_went(self, bound: Store) -> None:
        said = [message(bound, f"message {number}") for number in range(2)]
        for number in range(2):
            learned(bound, f"summary {number}", *said, kind="summary", session="s1")
        assert bound.forget(HOME, Selector(id=said[0])).summarised == ("s1",)

    def test_erasing_a_digest_that_was_aside_brings_nothing_back(self, bound: Store) -> None:
        digest, _ = compacted(bound, "digest", [add_id(bound, "a"), add_id(bound, "b")])
        bound.retention.archive(HOME, [digest], "aged")
        assert digest in bound.forget(HOME, Selector(ids=(digest,))).ids
        assert contents(bound) == []
        healthy(bound)

    def test_what_is_aside_can_be_erased_without_what_was_made_from_it(self, bound: Store) -> None:
        said, active = message(bound, "I like tea"), add_id(bound, "milk")
        fact, summary = learned(bound, "likes tea", said), learned(bound, "summary", said, kind="summary", session="s1")
        bound.retention.archive(HOME, [said], "aged")
        receipt = bound.forget(HOME, Selector(ids=(said, active), archived=True, keep_derived=True))
        assert receipt.ids == (said,), "what is active, or was brought back meanwhile, stays"
        assert bound.get(HOME, said) is None
        assert present(bound, fact).parents == present(bound, summary).parents == ()
        assert sorted(contents(bound)) == ["likes tea", "milk", "summary"]
        healthy(bound)


class MendedContract(TakenAlongContract, BesideContract, WithdrawnContract):
    """Everything of this room, and what needs a line or two."""

    def test_the_head_of_an_empty_trail_is_found_again(self, bound: Store) -> None:
        head = bound.audit_log.verify(HOME.tenant).head
        assert bound.audit_log.verify(HOME.tenant, head).whole
        add(bound, "tea")
        assert bound.audit_log.verify(HOME.tenant, head).whole

    def test_who_wants_a_lease_for_a_minute_does_not_end_a_longer_one(self, bound: Store) -> None:
        assert bound.leases.acquire("upkeep", "a", timedelta(days=3))
        assert not bound.leases.acquire("upkeep", "b", timedelta(minutes=1))

    def test_a_digest_that_was_refused_can_be_tried_again(self, bound: Store) -> None:
        original = add_id(bound, "a")
        bound.retention.archive(HOME, [original])
        parents = (original,)
        write = Write(draft("digest", parents=parents), replaces=parents, idempotency_key="k", fingerprint="f")
        assert bound.write(HOME, [write])[0].action == "refused"
        bound.retention.restore(HOME, [original])
        assert bound.write(HOME, [write])[0].action == "added"
        assert contents(bound) == ["digest"]

    # -- moving -------------------------------------------------------------------------------------------------------
    def test_what_was_said_elsewhere_too_survives_in_a_copy(self, bound: Store) -> None:
        said = message(bound, "I drink tea.")
        add(bound, "tea", parents=(said,), session="s1")
        add(bound, "tea", session="s2")
        bound.import_records(
            AWAY, [ImportRow(each, record_terms(each.record.content, None), None) for each in bound.export_records(HOME)]
        )
        bound.forget(AWAY, Selector(id=said))
        assert contents(bound, AWAY) == ["tea"]

    def test_what_was_derived_goes_from_the_past_of_a_copy(self, bound: Store) -> None:
        said = message(bound, "I drink tea.")
        id = add_id(bound, "tea", key="drink", parents=(said,))
        add(bound, "milk", key="drink")
        rows = [ImportRow(each, record_terms(each.record.content, each.record.key), None) for each in bound.export_records(HOME)]
        bound.import_records(AWAY, rows)
        bound.forget(AWAY, Selector(id=said))
        assert [version.content for version in past(bound, id, AWAY)] == ["milk"]

    # -- whose words --------------------------------------------------------------------------------------------------
    def test_trust_is_not_lent_to_another_sources_wording(self, bound: Store) -> None:
        id = add_id(bound, "alpha", dedup_key=b"g", source="web:x", trust=0.2)
        again = Write(draft("alpha, said again", dedup_key=b"g", source="user", trust=0.9), merging(replace=False))
        assert bound.write(HOME, [again])[0].action == "merged"
        record = present(bound, id)
        assert (record.content, record.source, record.trust) == ("alpha, said again", "user", 0.9)
        first = past(bound, id)[0]
        assert (first.content, first.source, first.trust) == ("alpha", "web:x", 0.2)
