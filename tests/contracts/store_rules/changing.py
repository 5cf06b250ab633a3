"""Changes, redactions, digests and undos in combination."""

from __future__ import annotations

from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NeedsStore,
    acts,
    add,
    add_id,
    compacted,
    contents,
    draft,
    healthy,
    learned,
    merging,
    present,
    together,
    wording,
)
from keepstone.testing.stores.changing import PUT, SECRET, row, three
from keepstone.text import times


class ChangingRules(NeedsStore):
    def test_archived_and_quarantined_records_are_redacted(self, bound: Store) -> None:
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
        secrets = ("40129999111177", "40128888222277")  # no id or time holds them by chance
        ids = [add_id(bound, f"card {digits}") for digits in secrets]
        assert all(bound.redact(HOME, row(bound, id, secret=digits)) for id, digits in zip(ids, secrets, strict=True))
        assert bound.search_words(HOME, secrets, 9) == []
        assert not any(digits in str(list(bound.export_records(HOME))) for digits in secrets)
        assert contents(bound) == [f"card {PUT}"]
        healthy(bound)

    def test_what_came_before_is_not_brought_back_where_another_record_says_it(self, bound: Store) -> None:
        first = add_id(bound, "alpha", dedup_key=b"g", source="user", trust=0.5)
        better = draft("beta", dedup_key=b"g", source="tool:x", trust=0.9)
        assert bound.write(HOME, [Write(better, merging())])[0].id == first
        second = add_id(bound, "alpha", source="user")
        assert bound.forget(HOME, Selector(source="tool")).ids == (first,)
        assert bound.get(HOME, first) is None
        assert (contents(bound), present(bound, second).version) == (["alpha"], 1)

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
