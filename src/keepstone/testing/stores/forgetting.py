"""What `forget` promises: that all of it goes, and nothing else."""

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
    add,
    add_id,
    at,
    contents,
    draft,
    merging,
    past,
    present,
    together,
    vector,
)


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

    def test_nothing_matching(self, bound: Store) -> None:
        add(bound, "tea")
        for selector in (
            Selector(id="no-such-id"),
            Selector(key="city"),
            Selector(source="web"),
            Selector(session="s1"),
        ):
            receipt = bound.forget(HOME, selector)
            assert (receipt.forgotten, receipt.ids, receipt.erased) == (0, (), True), selector
        assert bound.count(HOME) == 1

    @pytest.mark.parametrize("selector", [Selector(), Selector(id="a", key="b"), Selector(source="a", everything=True)])
    def test_a_selector_names_exactly_one_thing(self, bound: Store, selector: Selector) -> None:
        add(bound, "tea", source="a", key="b")
        with pytest.raises(ValidationError):
            bound.forget(HOME, selector)
        assert bound.count(HOME) == 1

    def test_by_key(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city")
        add(bound, "Bern", key="City")
        add(bound, "city")
        assert bound.forget(HOME, Selector(key="city")).ids == (id,)
        assert contents(bound) == ["city", "Bern"]

    def test_by_session(self, bound: Store) -> None:
        said = [add_id(bound, text, kind="message", session="s1", role="user") for text in ("hi", "hi")]
        add(bound, "hello", kind="message", session="s10")
        add(bound, "no session")
        receipt = bound.forget(HOME, Selector(session="s1"))
        assert receipt.forgotten == 2
        assert sorted(receipt.ids) == sorted(said)
        assert contents(bound) == ["no session", "hello"]

    def test_by_source_exactly_or_as_a_class(self, bound: Store) -> None:
        sources = ["web", "web:https://a.example/x", "web:b", "website", "Web", "WEB:b", "my:web", "we", "user"]
        for source in sources:
            add(bound, f"from {source}", source=source)
        assert bound.forget(HOME, Selector(source="web:b")).forgotten == 1
        assert bound.forget(HOME, Selector(source="web")).forgotten == 2
        left = [record.source for record in (archive.record for archive in bound.export_records(HOME))]
        assert left == ["website", "Web", "WEB:b", "my:web", "we", "user"]

    def test_forgetting_a_source_undoes_what_it_said(self, bound: Store) -> None:
        id = add_id(bound, "bank alpha", key="bank", source="user", trust=0.9, metadata={"by": "user"})
        add(bound, "bank beta", key="bank", source="tool:crm", trust=0.9)
        receipt = bound.forget(HOME, Selector(source="tool"))
        assert receipt.ids == (id,)
        record = present(bound, id)
        assert (record.content, record.source, record.metadata, record.version) == ("bank alpha", "user", {"by": "user"}, 3)
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

    def test_forgetting_a_source_leaves_what_replaced_it(self, bound: Store) -> None:
        id = add_id(bound, "bank beta", key="bank", source="web:x", trust=0.2)
        add(bound, "bank alpha", key="bank", source="user", trust=0.9)
        assert bound.forget(HOME, Selector(source="web")).ids == (id,)
        assert present(bound, id).content == "bank alpha"
        assert [version.content for version in past(bound, id)] == ["bank alpha"]
        assert bound.forget(HOME, Selector(source="web")).forgotten == 0

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

    def test_expired_records_can_be_forgotten_too(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city", source="web", session="s1", expires_at=LONG_AGO)
        assert bound.forget(HOME, Selector(key="city")).ids == (id,)
        assert bound.get(HOME, id) is None

    def test_what_was_forgotten_can_be_written_again(self, bound: Store) -> None:
        write = Write(draft("Rome", key="city"), idempotency_key="k", fingerprint="a")
        first = bound.write(HOME, [write])[0]
        bound.forget(HOME, Selector(id=first.id))
        again = bound.write(HOME, [write])[0]
        assert again.action == "added"
        assert again.id != first.id
        assert again.version == 1
        assert present(bound, again.id).content == "Rome"

    def test_sequences_are_never_used_again(self, bound: Store) -> None:
        seen: list[int] = []
        for number in range(5):
            seen.append(at(bound, id := add_id(bound, f"fact {number}")))
            bound.forget(HOME, Selector(id=id) if number % 2 else Selector(everything=True))
        assert seen == sorted(set(seen))

    def test_fifty_threads_forgetting_one_record(self, bound: Store) -> None:
        id = add_id(bound, "tea")
        receipts = together(50, lambda _: bound.forget(HOME, Selector(id=id)))
        assert sum(receipt.forgotten for receipt in receipts) == 1
        assert bound.count(HOME) == 0
