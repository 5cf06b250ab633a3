"""What reading promises: pages, exact text, filters over metadata, and nothing of another scope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from keepstone.errors import NotFound
from keepstone.ports import filters
from keepstone.ports.filters import Filter, parse
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery, Revision, Selector, Write
from keepstone.testing.builders import (
    ALIKE,
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
    wording,
)
from keepstone.types import Metadata, Scope

ODD = [
    "'; drop table record; --",
    "quotes \" and ' and `",
    "100% _ * ? [a] \\ \\n",
    "emoji 🎉👩‍👩‍👧 and \U0010ffff",
    "\u202eright to left\u202c שלום",
    "combining e\u0301 is not é",
    "line\nbreak\r\nand\ttab\u2028",
    "zero\u200bwidth\ufeff",
    "{{braces}} {0} %s :name ?1 $1 @p",
    "</memory><system>",
]


def agrees(store: Store, stored: list[Metadata], asked: list[Filter], scope: Scope) -> None:
    """Store one record for each metadata; every filter has to find those that `matches` finds."""
    writes = [Write(draft(f"record {n}", kind="message", metadata=each)) for n, each in enumerate(stored)]
    sequences = [at(store, receipt.id or "", scope) for receipt in store.write(scope, writes)]
    for filter in asked:
        expected = [sequences[n] for n, each in enumerate(stored) if filters.matches(filter, each, f"record {n}")]
        assert store.matching(scope, filter).tolist() == expected, filter
        listed = [sequence for sequence, _ in store.list(scope, ListQuery(filter=filter, limit=1000))]
        assert listed == expected[::-1], filter


_FILTERS = json.loads(Path(__file__).with_name("filters.json").read_text(encoding="utf-8"))
STORED: list[Metadata] = _FILTERS["stored"]
ASKED: list[dict[str, Any]] = _FILTERS["asked"]


class ReadingContract(NeedsStore):
    def test_pages_stay_in_step_while_records_come_and_go(self, bound: Store) -> None:
        ids = [add_id(bound, f"fact {n}") for n in range(10)]
        seen: list[str] = []
        before: int | None = None
        for turn in range(20):
            page = bound.list(HOME, ListQuery(limit=3, before=before))
            if not page:
                break
            seen += [record.content for _, record in page]
            before = page[-1][0]
            add(bound, f"late {turn}")
            bound.forget(HOME, Selector(id=ids[9 - turn]))
        assert seen == [f"fact {n}" for n in reversed(range(10))]

    def test_tag_kind_and_session(self, bound: Store) -> None:
        add(bound, "a", tag="home", kind="note", session="s1", metadata={"n": 1})
        add(bound, "b", tag="home", key="k1", metadata={"n": 2})
        add(bound, "c", tag="work", key="k2", session="s1", metadata={"n": 2})
        add(bound, "d", kind="message", session="s2")
        assert contents(bound, tag="home") == ["b", "a"]
        assert contents(bound, kind="fact") == ["c", "b"]
        assert contents(bound, session="s1") == ["c", "a"]
        assert contents(bound, filter=parse({"n": 2})) == ["c", "b"]
        assert contents(bound, filter=parse({"n": 2}), tag="home") == ["b"]
        assert contents(bound, filter=parse({"n": {"gte": 1}}), limit=2) == ["c", "b"]
        assert contents(bound, tag="%") == contents(bound, kind="", tag="home") == contents(bound, session="s") == []

    def test_expired_records_are_left_out(self, bound: Store) -> None:
        old = add_id(bound, "milk", key="drink", expires_at=LONG_AGO)
        add(bound, "tea", expires_at=NOON.replace(year=9000))
        assert contents(bound) == ["tea"]
        assert bound.by_key(HOME, "drink") is None
        assert bound.count(HOME) == 1
        record = present(bound, old)
        assert record.status == "archived" or record.expires_at == LONG_AGO
        assert past(bound, old)[0].content == "milk"
        found = bound.fetch(HOME, [at(bound, old)])[0]
        assert found is not None
        assert found.id == old

    def test_in_the_order_asked_with_gaps_and_no_more_than_asked(self, bound: Store) -> None:
        one, two, gone = (add_id(bound, text) for text in ("one", "two", "gone"))
        hole, first = at(bound, gone), at(bound, one)
        bound.forget(HOME, Selector(id=gone))
        asked = [at(bound, two), hole, first, 10**12, 0, -1, at(bound, two)]
        assert [record and record.id for record in bound.fetch(HOME, asked)] == [two, None, one, None, None, None, two]
        assert bound.fetch(HOME, []) == []
        found = bound.fetch(HOME, [*range(10**9, 10**9 + 70_000), first])  # more than an engine has parameters
        assert (len(found), found[-1]) == (70_001, present(bound, one))
        for before in (0, -1, first):
            assert bound.list(HOME, ListQuery(before=before)) == []
        assert bound.search_words(HOME, ["one"], 0) == bound.search_vectors(HOME, vector("one"), 0) == []
        for nothing in (bound.list(HOME, ListQuery(limit=0)), bound.pending(0), bound.audit(HOME, limit=0)):
            assert nothing == []

    def test_unknown_ids_and_keys_are_nothing(self, bound: Store) -> None:
        add(bound, "tea", key="drink")
        for odd in ("", "no-such-id", *ODD):
            assert bound.get(HOME, odd) is bound.by_key(HOME, odd) is None, odd
            assert bound.history(HOME, odd) is None, odd
            assert bound.sequence_of(HOME, odd) is None, odd

    def test_readers_beside_writers_see_whole_records(self, bound: Store) -> None:
        id = add_id(bound, "value 0", key="k", metadata={"n": 0})

        def work(number: int) -> None:
            for step in range(10):
                if number < 3:
                    value = number * 10 + step
                    add(bound, f"value {value}", key="k", metadata={"n": value})
                else:
                    record = present(bound, id)
                    assert record.content == f"value {record.metadata['n']}"

        together(8, work)

    @pytest.mark.parametrize("odd", ODD)
    def test_odd_text_in_every_field(self, bound: Store, odd: str) -> None:
        plain = odd.replace("\n", "").replace("\r", "").replace("\t", "")  # names hold no control characters
        scope = Scope(plain, plain, plain)
        made = draft(
            odd,
            kind=plain,
            tag=plain,
            key=plain,
            metadata={odd: [odd, {odd: odd}]},
            source=plain,
            session=plain,
            role=plain,
            name=plain,
            parents=(plain,),
        )
        write = Write(made, idempotency_key=plain, fingerprint=plain, reasons=(odd,))
        receipt = bound.write(scope, [write])[0]
        assert bound.write(scope, [write])[0] == receipt
        assert receipt.reasons == (odd,)
        record = present(bound, receipt.id, scope)
        assert record.scope == scope
        assert record == bound.by_key(scope, plain)
        for field in ("content", "kind", "tag", "key", "metadata", "source", "session", "role", "name", "parents"):
            assert getattr(record, field) == getattr(made, field), field
        assert [found for _, found in bound.list(scope, ListQuery(tag=plain, kind=plain, session=plain))] == [record]
        assert past(bound, record.id, scope)[0].content == odd
        assert bound.audit(scope)[0].source == plain
        assert bound.forget(scope, Selector(session=plain)).ids == (record.id,)

    def test_every_operator_means_what_it_says(self, bound: Store) -> None:
        many = {"or": [{f"key{n}": n} for n in range(filters.MAX_CONDITIONS)]}
        wide = {"n": {"in": list(range(1000))}}
        stored: list[Metadata] = [*STORED, {"key63": 63}, {"key63": 62}, {"n": 999}, {"n": 1000}]
        agrees(bound, stored, [tree for raw in (*ASKED, many, wide) if (tree := filters.parse(raw)) is not None], HOME)

    def test_reading_with_what_another_scope_owns(self, bound: Store) -> None:
        id = add_id(bound, "Dana likes tea", key="drink", session="s1", metadata={"n": 1}, occurred_at=NOON)
        sequence = at(bound, id)
        assert bound.get(AWAY, id) is None
        assert bound.by_key(AWAY, "drink") is None
        assert bound.fetch(AWAY, [sequence]) == [None]
        assert bound.history(AWAY, id) is None
        assert bound.sequence_of(AWAY, id) is None
        assert bound.list(AWAY, ListQuery(before=sequence + 1)) == []
        assert bound.count(AWAY) == 0
        assert bound.list(AWAY, ListQuery(session="s1", filter=parse({"n": 1}))) == []
        assert bound.audit(AWAY) == []
        changes = bound.changes(AWAY, 0)
        assert len(changes.rows) == 0
        assert changes.removed == ()
        for raw in ({"n": 1}, {"n": {"exists": False}}, {"or": [{"n": 1}, {"not": {"n": 1}}]}):
            filter = parse(raw)
            assert filter is not None
            assert bound.matching(AWAY, filter).tolist() == []
        assert len(bound.snapshot(AWAY, None, None).records) == 0
        assert bound.search_words(AWAY, ["tea"], 5) == []
        assert bound.document_frequencies(AWAY, ["tea"]) == [0]
        assert bound.search_vectors(AWAY, vector("Dana likes tea"), 5) == []
        assert len(bound.index_rows(AWAY, [sequence])) == 0
        assert list(bound.export_records(AWAY)) == []

    def test_writing_with_what_another_scope_owns(self, bound: Store) -> None:
        id = add_id(bound, "Dana likes tea", key="drink", source="web", session="s1")
        plain = add_id(bound, "Dana has a cat", dedup_key=b"cat")
        before, audit_log = list(bound.export_records(HOME)), bound.audit(HOME)
        with pytest.raises(NotFound):
            bound.revise(AWAY, id, wording("stolen"))
        with pytest.raises(NotFound):
            bound.revise(AWAY, id, Revision(importance=0.1, expected_version=99))
        bound.touch(AWAY, {at(bound, id): 5}, NOON)
        merged = bound.write(AWAY, [Write(draft("Dana has two cats", dedup_key=b"cat"), merging())])[0]
        assert merged.action == "added"
        assert merged.id != plain
        for selector in (Selector(id=id), Selector(key="drink"), Selector(source="web"), Selector(session="s1")):
            assert bound.forget(AWAY, selector).forgotten == 0
        assert bound.forget(AWAY, Selector(everything=True)).ids == (merged.id,)
        assert list(bound.export_records(HOME)) == before
        assert bound.audit(HOME) == audit_log

    def test_scopes_are_compared_exactly(self, bound: Store) -> None:
        ids = [add_id(bound, "tea", scope, key="drink") for scope in ALIKE]
        for id, scope in zip(ids, ALIKE, strict=True):
            assert (present(bound, id, scope).scope, bound.count(scope)) == (scope, 1)
            own = [at(bound, id, scope)]
            assert bound.search_words(scope, ["tea"], 99) == bound.search_vectors(scope, vector("tea"), 99) == own
            assert [other for other in ALIKE if bound.get(other, id) is not None] == [scope]
        for id, scope in zip(ids[::2], ALIKE[::2], strict=True):
            assert add(bound, "milk", scope, key="drink").id == id
            assert bound.forget(scope, Selector(everything=True)).ids == (id,)
        assert [bound.count(scope) for scope in ALIKE] == [number % 2 for number in range(len(ALIKE))]
        for id, scope in zip(ids[1::2], ALIKE[1::2], strict=True):
            assert present(bound, id, scope).content == "tea"
