"""What `Write.replaces` promises: a digest in the place of other records, and the way back."""

from __future__ import annotations

from datetime import UTC, datetime

from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import AWAY, HOME, NeedsStore, add, add_id, contents, draft, past, present, together, wording
from keepstone.testing.stores.making import acts, compacted, healthy, learned


def three(store: Store) -> list[str]:
    return [add_id(store, text) for text in ("alpha one", "alpha two", "alpha three")]


class CompactingContract(NeedsStore):
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

    def test_it_is_refused_when_an_original_is_not_there_any_more(self, bound: Store) -> None:
        fine, archived, gone = three(bound)
        theirs = add_id(bound, "theirs", AWAY)
        held = add(bound, "held", status="quarantined").id or ""
        bound.retention.archive(HOME, [archived])
        bound.forget(HOME, Selector(id=gone))
        for missing in (archived, gone, theirs, held, "m_none"):
            receipt = bound.write(HOME, [Write(draft("digest", parents=(fine,)), replaces=(fine, missing))])[0]
            assert (receipt.action, receipt.id, bool(receipt.reasons)) == ("refused", None, True), missing
        assert contents(bound) == ["alpha one"]
        assert acts(bound, "remember").count("refused") == 5
        assert bound.document_frequencies(HOME, ["digest"]) == [0]

    def test_it_is_refused_when_an_original_was_reworded(self, bound: Store) -> None:
        ids = three(bound)
        seen = tuple((id, 1) for id in ids)
        bound.revise(HOME, ids[1], wording("alpha zwei"))
        receipt = bound.write(HOME, [Write(draft("digest", parents=tuple(ids)), made_from=seen, replaces=tuple(ids))])[0]
        assert receipt.action == "refused"
        assert bound.count(HOME) == 3

    def test_of_many_digests_at_once_one_is_made(self, bound: Store) -> None:
        ids = tuple(three(bound))
        items = [Write(draft(f"digest {n}", parents=ids), replaces=ids) for n in range(8)]
        actions = [each[0].action for each in together(8, lambda n: bound.write(HOME, [items[n]]))]
        assert sorted(actions) == ["added"] + ["refused"] * 7
        assert bound.count(HOME) == 1
        healthy(bound)

    def test_one_in_quarantine_replaces_nothing(self, bound: Store) -> None:
        ids = tuple(three(bound))
        made = bound.write(HOME, [Write(draft("digest", parents=ids, status="quarantined"), replaces=ids)])[0]
        assert made.action == "quarantined"
        assert bound.count(HOME) == 3

    def test_a_digest_that_is_known_already_replaces_nothing(self, bound: Store) -> None:
        ids = tuple(three(bound))
        add(bound, "digest")
        assert bound.write(HOME, [Write(draft("digest", parents=ids), replaces=ids)])[0].action == "duplicate"
        assert bound.count(HOME) == 4

    def test_nothing_is_trusted_more_than_its_least_trusted_parent(self, bound: Store) -> None:
        low, high = add_id(bound, "low", trust=0.3), add_id(bound, "high", trust=0.9)
        assert present(bound, learned(bound, "of both", low, high)).trust == 0.3
        assert present(bound, learned(bound, "of one", high, trust=0.8)).trust == 0.8
        assert present(bound, learned(bound, "of nothing there", "m_none", trust=0.7)).trust == 0.7
        other = add_id(bound, "theirs", AWAY, trust=0.1)
        assert present(bound, learned(bound, "across", other)).trust == 1.0, "another scope's records are not looked at"
        fact = learned(bound, "of low", low)
        bound.revise(HOME, fact, Revision(importance=0.9, trust=1.0))
        assert present(bound, fact).trust == 0.3

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

    def test_an_undo_in_another_scope_does_nothing(self, bound: Store) -> None:
        made, ticket = compacted(bound, "digest", three(bound))
        assert bound.retention.undo(AWAY, ticket) == []
        assert contents(bound) == ["digest"]
        assert made

    def test_an_undo_takes_a_changed_digest_away_too(self, bound: Store) -> None:
        ids = three(bound)
        made, ticket = compacted(bound, "digest", ids)
        bound.revise(HOME, made, wording("a better digest"))
        assert sorted(bound.retention.undo(HOME, ticket)) == sorted(ids)
        assert bound.get(HOME, made) is None
        assert bound.history(HOME, made) is None

    def test_an_undo_takes_what_was_learned_from_the_digest(self, bound: Store) -> None:
        ids = three(bound)
        made, ticket = compacted(bound, "digest", ids)
        fact = learned(bound, "of the digest", made)
        bound.retention.undo(HOME, ticket)
        assert bound.get(HOME, fact) is None
        assert bound.count(HOME) == 3

    def test_what_was_said_anew_meanwhile_stays_one(self, bound: Store) -> None:
        ids = three(bound)
        _, ticket = compacted(bound, "digest", ids)
        add_id(bound, "alpha two")
        assert sorted(bound.retention.undo(HOME, ticket)) == sorted([ids[0], ids[2]])
        assert sorted(contents(bound)) == ["alpha one", "alpha three", "alpha two"]
        assert present(bound, ids[1]).status == "archived"

    def test_a_digest_of_a_digest_is_undone_step_by_step(self, bound: Store) -> None:
        ids = three(bound)
        inner, first = compacted(bound, "inner", ids[:2])
        outer, second = compacted(bound, "outer", [inner, ids[2]])
        assert first != second
        assert sorted(bound.retention.undo(HOME, second)) == sorted([inner, ids[2]])
        assert sorted(bound.retention.undo(HOME, first)) == sorted(ids[:2])
        assert bound.get(HOME, outer) is None
        assert bound.count(HOME) == 3
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
        healthy(bound)

    def test_forgetting_the_source_of_an_original(self, bound: Store) -> None:
        mine, theirs = add_id(bound, "mine"), add_id(bound, "theirs", source="tool:x")
        made, _ = compacted(bound, "digest", [mine, theirs], source="user:digest")
        assert set(bound.forget(HOME, Selector(source="tool")).ids) == {theirs, made}
        assert contents(bound) == ["mine"]

    def test_forgetting_everything_brings_nothing_back(self, bound: Store) -> None:
        ids = three(bound)
        made, _ = compacted(bound, "digest", ids)
        assert set(bound.forget(HOME, Selector(everything=True)).ids) == {*ids, made}
        assert list(bound.export_records(HOME)) == []
        assert bound.retention.archived(HOME) == []
        healthy(bound)

    def test_a_past_view_shows_the_originals(self, bound: Store) -> None:
        ids = three(bound)
        known = present(bound, ids[2]).updated_at
        made, _ = compacted(bound, "digest", ids)
        archived = bound.retention.archived(HOME)[0].at
        now = datetime.now(UTC)
        shown = [record.id for record in bound.snapshot(HOME, None, None).records]
        assert shown == [*ids, made]
        assert bound.snapshot(HOME, now, now).rows.active.tolist() == [False, False, False, True]
        if known < archived:  # a coarse clock may give both the same time
            then = bound.snapshot(HOME, known, known)
            assert [record.id for record in then.records] == ids
            assert then.rows.active.tolist() == [True] * 3
        assert len(past(bound, ids[0])) == 1
