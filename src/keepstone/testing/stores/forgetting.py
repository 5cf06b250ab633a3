"""What forgetting and compacting promise."""

from __future__ import annotations

import pytest

from keepstone.errors import NotFound, ValidationError
from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
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
    learned,
    merging,
    past,
    present,
    together,
    vector,
    wording,
)


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

    def test_what_came_before_is_not_brought_back_where_another_record_says_it(self, bound: Store) -> None:
        first = add_id(bound, "alpha", dedup_key=b"g", source="user", trust=0.5)
        better = draft("beta", dedup_key=b"g", source="tool:x", trust=0.9)
        assert bound.write(HOME, [Write(better, merging())])[0].id == first
        second = add_id(bound, "alpha", source="user")
        assert bound.forget(HOME, Selector(source="tool")).ids == (first,)
        assert bound.get(HOME, first) is None
        assert (contents(bound), present(bound, second).version) == (["alpha"], 1)

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

    def test_it_is_refused_when_an_original_was_reworded_or_is_not_there_any_more(self, bound: Store) -> None:
        fine, archived, gone = three(bound)
        theirs = add_id(bound, "theirs", AWAY)
        held = add(bound, "held", status="quarantined").id or ""
        bound.retention.archive(HOME, [archived])
        bound.forget(HOME, Selector(id=gone))
        for missing in (archived, gone, theirs, held, "m_none"):
            receipt = bound.write(HOME, [Write(draft("digest", parents=(fine,)), replaces=(fine, missing))])[0]
            assert (receipt.action, receipt.id, bool(receipt.reasons)) == ("refused", None, True), missing
        bound.revise(HOME, fine, wording("alpha eins"))
        stale = Write(draft("digest", parents=(fine,)), made_from=((fine, 1),), replaces=(fine,))
        assert bound.write(HOME, [stale])[0].action == "refused"
        assert contents(bound) == ["alpha eins"]
        assert acts(bound, "remember").count("refused") == 6
        assert bound.document_frequencies(HOME, ["digest"]) == [0]

    def test_of_many_digests_at_once_one_is_made(self, bound: Store) -> None:
        ids = tuple(three(bound))
        items = [Write(draft(f"digest {n}", parents=ids), replaces=ids) for n in range(8)]
        actions = [each[0].action for each in together(8, lambda n: bound.write(HOME, [items[n]]))]
        assert sorted(actions) == ["added"] + ["refused"] * 7
        assert bound.count(HOME) == 1
        healthy(bound)

    def test_a_digest_that_is_quarantined_or_known_already_replaces_nothing(self, bound: Store) -> None:
        ids = tuple(three(bound))
        add(bound, "known")
        quarantined = Write(draft("digest", parents=ids, status="quarantined"), replaces=ids)
        receipts = bound.write(HOME, [quarantined, Write(draft("known", parents=ids), replaces=ids)])
        assert [receipt.action for receipt in receipts] == ["quarantined", "duplicate"]
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

    def test_an_undo_takes_a_changed_digest_and_what_was_learned_from_it(self, bound: Store) -> None:
        ids = three(bound)
        made, ticket = compacted(bound, "digest", ids)
        fact = learned(bound, "of the digest", made)
        bound.revise(HOME, made, wording("a better digest"))
        assert sorted(bound.retention.undo(HOME, ticket)) == sorted(ids)
        assert bound.get(HOME, made) is bound.get(HOME, fact) is None
        assert bound.history(HOME, made) is None
        assert bound.count(HOME) == 3

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
        again, _ = compacted(bound, "digest", [ids[0], ids[2]])
        assert set(bound.forget(HOME, Selector(everything=True)).ids) == {ids[0], ids[2], again}
        assert list(bound.export_records(HOME)) == [], "nothing comes back"
        assert bound.retention.archived(HOME) == []
        healthy(bound)
