"""What reading promises: pages, exact text, filters over metadata, and nothing of another scope."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.errors import EmbedderError, NotFound, ValidationError
from keepstone.ports import filters
from keepstone.ports.filters import All, AnyOf, Condition, Filter, HasText, Not, parse
from keepstone.ports.stores import Store
from keepstone.ports.values import ListQuery, Pending, Revision, Selector, Write
from keepstone.testing.builders import (
    ALIKE,
    ANY_ORDER,
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
# fmt: off
KEYS = ["a", "b", 'quo"te', "it's", "ключ", "a b", "$", "$.a", "0", "[0]", "[#-1]", "back\\slash", "%",
        "*", "🎉", "AND", ":n"]
TEXTS = ["", "a", "A", "ab", "b", "1", "true", "null", "it's", 'a"b', "é", "e\u0301", "ß", "日本", "🎉", "%",
         "_", "a\\b", "z\n"]
NUMBERS: list[int | float] = [0, 1, -1, 2, 1.0, 0.5, -0.0, 1e-9, 10**6, 2.0**53, 2**53, 2**53 - 1,
                              -(2**53), 1e300, -1e300]
_fresh = count()
scalars = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
ordered = st.one_of(st.sampled_from(NUMBERS), st.sampled_from(TEXTS))
keys = st.sampled_from(KEYS)
values: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=3)),
    max_leaves=6,
)
metadata = st.dictionaries(keys, values, max_size=4)
paths = st.lists(keys, min_size=1, max_size=3).map(tuple)
conditions = st.one_of(
    st.builds(Condition, paths, st.sampled_from(["eq", "ne", "contains", "not_contains"]), scalars),
    st.builds(Condition, paths, st.sampled_from(["gt", "gte", "lt", "lte"]), ordered),
    st.builds(Condition, paths, st.sampled_from(["in", "nin"]), st.lists(scalars, max_size=3).map(tuple)),
    st.builds(Condition, paths, st.just("exists"), st.booleans()),
    st.builds(HasText, st.sampled_from(["record", "1", "Record", "ecord 0", "%", "_", "é"])),
)
trees: st.SearchStrategy[Filter] = st.recursive(
    conditions,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: All(tuple(parts))),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: AnyOf(tuple(parts))),
        st.builds(Not, inner),
    ),
    max_leaves=5,
)

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

    def test_64_kilobytes(self, bound: Store) -> None:
        for text in ("x" * 65_536, "word " * 13_107, "字" * 21_845, "🎉" * 16_384):
            record = present(bound, add_id(bound, text))
            assert record.content == text

    @settings(ANY_ORDER, max_examples=60)
    @given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
    def test_any_text(self, bound: Store, text: str) -> None:
        made = draft(text, kind="message", metadata={text: text})
        id = bound.write(HOME, [Write(made)])[0].id
        record = present(bound, id)
        assert record.content == text
        assert record.metadata == {text: text}
        after = f"{text}!"
        bound.revise(HOME, record.id, wording(after))
        assert [version.content for version in past(bound, record.id)] == [text, after]

    def test_every_operator_means_what_it_says(self, bound: Store) -> None:
        many = {"or": [{f"key{n}": n} for n in range(filters.MAX_CONDITIONS)]}
        wide = {"n": {"in": list(range(1000))}}
        stored: list[Metadata] = [*STORED, {"key63": 63}, {"key63": 62}, {"n": 999}, {"n": 1000}]
        agrees(bound, stored, [tree for raw in (*ASKED, many, wide) if (tree := filters.parse(raw)) is not None], HOME)

    @settings(ANY_ORDER, max_examples=60)
    @given(stored=st.lists(metadata, min_size=1, max_size=8), asked=st.lists(trees, min_size=1, max_size=6))
    def test_any_filter_over_any_metadata(self, bound: Store, stored: list[Metadata], asked: list[Filter]) -> None:
        agrees(bound, stored, asked, Scope("local", "default", f"user-{next(_fresh)}"))

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

    def test_a_scope_that_was_rolled_back_is_not_remembered(self, bound: Store) -> None:
        new = Scope("local", "default", "never written")
        waiting = [Pending(new, 1, 1, "a"), Pending(new, 2, 1, "b")]  # the second look-up of the scope comes before the error
        with pytest.raises((ValidationError, EmbedderError)):
            bound.attach([(waiting[0], vector("a")), (waiting[1], vector("b") * 0)])
        add(bound, "secret", AWAY)
        assert (contents(bound, new), contents(bound, AWAY)) == ([], ["secret"])

    def test_a_failure_in_a_new_scope_opens_no_door_into_another(self, bound: Store) -> None:
        for turn in range(5):
            users = [Scope("local", "default", f"turn {turn} user {number}") for number in range(40)]

            def work(number: int, users: list[Scope] = users) -> None:
                if number % 2:
                    add(bound, f"secret {number}", users[number])
                else:
                    with pytest.raises(NotFound):
                        bound.revise(users[number], "no-such-id", Revision(importance=0.1))

            together(40, work)
            for number, scope in enumerate(users):
                assert contents(bound, scope) == ([f"secret {number}"] if number % 2 else [])
