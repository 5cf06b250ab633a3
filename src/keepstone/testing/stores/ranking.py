"""What the reads of ranking promise: changes, searches, neighbours of messages and past views."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random

import numpy as np
import pytest

from keepstone.errors import EmbedderError, ValidationError
from keepstone.ports.filters import parse
from keepstone.ports.stores import Store
from keepstone.ports.values import Draft, Revision, SearchFilter, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    DIMENSION,
    HOME,
    LONG_AGO,
    NOON,
    NeedsStore,
    Row,
    add,
    add_id,
    at,
    draft,
    past,
    present,
    row_of,
    unpacked,
    vector,
    wording,
)
from keepstone.text.words import MARKS, record_terms, terms
from keepstone.types import Version


def live(store: Store, id: str, made: Draft) -> Row:
    """The row that a record written from this draft must have."""
    return row_of(present(store, id), made.terms, made.vector)


Placed = dict[int, tuple[str, str | None]]  # sequence -> kind and session


def around(placed: Placed, asked: list[int], reach: int) -> list[int]:
    """The rule, on plain values."""
    found: set[int] = set()
    for sequence in asked:
        kind, session = placed.get(sequence, ("", None))
        if kind != "message" or session is None:
            continue
        chain = sorted(other for other, place in placed.items() if place == ("message", session))
        place = chain.index(sequence)
        found.update(chain[max(0, place - reach) : place], chain[place + 1 : place + 1 + reach])
    return sorted(found)


TICK = timedelta(microseconds=1)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def seen(versions: list[Version], as_of: datetime | None, known_at: datetime | None) -> Version | None:
    """The rule, on a record's history."""
    fitting = [
        version
        for version in versions
        if (known_at is None or version.known_from <= known_at) and (as_of is None or version.valid_from <= as_of)
    ]
    return fitting[-1] if fitting else None


def view(store: Store, as_of: datetime | None = None, known_at: datetime | None = None) -> dict[str, str]:
    """Contents by id, after checking that records and ranking columns stand for each other."""
    snapshot = store.snapshot(HOME, as_of, known_at)
    assert snapshot.rows.sequences.tolist() == [at(store, record.id) for record in snapshot.records]
    rows = unpacked(snapshot.rows)
    for sequence, record in zip(snapshot.rows.sequences.tolist(), snapshot.records, strict=True):
        assert record.scope == HOME
        embedded = vector(record.content) if rows[sequence].vector is not None else None
        assert rows[sequence] == row_of(record, record_terms(record.content, record.key), embedded)
    return {record.id: record.content for record in snapshot.records}


class RankingContract(NeedsStore):
    def test_the_columns_are_right(self, bound: Store) -> None:
        drafts = [
            draft("Dana likes green tea", key="drink", importance=0.3, trust=0.6, occurred_at=LONG_AGO),
            draft("hi there", kind="message", session="s1", role="user", name="Dana", tag="talk"),
            draft("no vector yet", vector=None, expires_at=NOON),
            draft("held back", status="quarantined"),
            draft("?!", terms=()),
        ]
        receipts = bound.write(HOME, [Write(each) for each in drafts])
        rows = unpacked(bound.changes(HOME, 0).rows)
        assert rows == {
            at(bound, receipt.id or ""): live(bound, receipt.id or "", made)
            for receipt, made in zip(receipts, drafts, strict=True)
        }
        assert unpacked(bound.index_rows(HOME, [*rows, 10**12])) == rows
        assert len(bound.index_rows(HOME, [])) == 0

    def test_words_of_every_script_are_found(self, bound: Store) -> None:
        texts = (
            "Meine Bücher über Segelflugzeuge stehen im Keller", "家里的金鱼今年三岁了",
            "우리 고양이는 세 살이에요",
            "うちの犬はポチといいます", "ابني يدرس في مَدْرَسَة قريبة", "Книги лежат в шкафу",
            "שָׁלוֹם לכל הילדים", "แมวของฉันชื่อส้ม", "ភាសាខ្មែរ", "हिन्दी की किताब",
        )  # fmt: skip
        stored = {at(bound, add_id(bound, text)): set(record_terms(text, None)) - MARKS for text in texts}
        for term in sorted(set().union(*stored.values())):
            holders = [sequence for sequence, found in stored.items() if term in found]
            assert sorted(bound.search_words(HOME, [term], 100)) == holders, term
            assert bound.document_frequencies(HOME, [term]) == [len(holders)], term

    def test_each_kind_of_change_is_reported_once_and_changes_the_stamp(self, bound: Store) -> None:
        stamps = [bound.stamp(HOME)]
        assert bound.stamp(HOME) == stamps[0], "reading must not look like a change"
        theirs = add_id(bound, "elsewhere", AWAY)
        id = add_id(bound, "tea")
        sequence = at(bound, id)
        seen = bound.changes(HOME, 0)
        assert unpacked(seen.rows) == {sequence: live(bound, id, draft("tea"))}
        assert seen.removed == ()
        bound.forget(AWAY, Selector(id=theirs))
        idle = bound.changes(HOME, seen.latest)
        assert (len(idle.rows), idle.removed) == (0, ()), "another scope's changes are not reported"
        stamps.append(bound.stamp(HOME))
        changes: list[tuple[Callable[[], object], Draft | None]] = [
            (lambda: bound.revise(HOME, id, wording("milk", vector=None)), draft("milk", vector=None)),
            (lambda: bound.attach([(bound.pending(1)[0], vector("milk"))]), draft("milk")),
            (lambda: bound.forget(HOME, Selector(id=id)), None),
        ]
        first = seen.latest
        for change, made in changes:
            change()
            told = bound.changes(HOME, seen.latest)
            assert unpacked(told.rows) == ({} if made is None else {sequence: live(bound, id, made)})
            assert told.removed == ((sequence,) if made is None else ())
            assert told.latest > seen.latest
            seen = told
            stamps.append(bound.stamp(HOME))
        bound.change_embedder("other-8", 8)
        stamps.append(bound.stamp(HOME))
        assert len(set(stamps)) == len(stamps)
        assert sequence in bound.changes(HOME, first).removed
        assert len(bound.changes(HOME, 0).rows) == 0

    def test_words_and_vectors_agree_with_a_scan(self, bound: Store) -> None:
        random = Random(7)
        vocabulary = [f"word{n}" for n in range(30)] + ["not", "near", "null", "日本", "über", "ключ", "running", "x1"]
        texts: dict[str, str] = {}
        for scope in (HOME, AWAY):
            for number in range(60):
                text = " ".join(random.choices(vocabulary, k=random.randint(1, 8))) + f" n{number}"
                id = add_id(bound, text, scope)
                if scope is HOME:
                    texts[id] = text
        for id in random.sample(list(texts), 10):
            texts[id] = f"{random.choice(vocabulary)} changed {texts[id].split()[-1]}"
            bound.revise(HOME, id, wording(texts[id]))
        for id in random.sample(list(texts), 10):
            bound.forget(HOME, Selector(id=id))
            del texts[id]

        add(bound, "waits", vector=None)
        by_sequence = {at(bound, id): text for id, text in texts.items()}
        stored = {sequence: record_terms(text, None) for sequence, text in by_sequence.items()}
        asked = [*terms(" ".join(vocabulary)), "chang", "n3", "absent", "word"]
        holders = [[sequence for sequence, found in stored.items() if term in found] for term in asked]
        assert bound.document_frequencies(HOME, asked) == [len(found) for found in holders]
        for term, found in zip(asked, holders, strict=True):
            assert sorted(bound.search_words(HOME, [term], 1000)) == sorted(found), term
        pair = asked[0:2]
        assert set(bound.search_words(HOME, pair, 1000)) == {*holders[0], *holders[1]}
        assert len(bound.search_words(HOME, asked, 7)) == 7

        for probe in ("word1 word2", "changed", "nothing like it"):
            query = vector(probe)
            scores = {sequence: float(vector(text) @ query) for sequence, text in by_sequence.items()}
            best = sorted(scores.values(), reverse=True)
            nearest = [scores[sequence] for sequence in bound.search_vectors(HOME, query, 10)]
            assert np.allclose(nearest, best[:10], atol=1e-5)
            assert set(bound.search_vectors(HOME, query, 1000)) == set(by_sequence)

    def test_the_better_match_comes_first(self, bound: Store) -> None:
        for number in range(10):
            add(bound, f"Dana drinks tea on day {number}")
        best = add_id(bound, "Dana grows saffron on the balcony")
        add(bound, "Dana painted the balcony")
        assert bound.search_words(HOME, ["dana", "saffron", "balcony"], 3)[0] == at(bound, best)

    def test_no_term_is_syntax_and_a_thousand_are_no_problem(self, bound: Store) -> None:
        id = add_id(bound, "tea and milk")
        for term in ('"', 'hello"', "AND", "*", "a:b", "(", "NEAR(", "", "'", "-", "^a", "a*", "{a b}: c"):
            assert bound.search_words(HOME, [term], 10) == [], term
            assert bound.document_frequencies(HOME, [term]) == [0], term
            assert bound.search_words(HOME, [term, "tea", "tea"], 10) == [at(bound, id)], term
        assert bound.search_words(HOME, [], 10) == bound.document_frequencies(HOME, []) == []
        asked = [f"absent{n}" for n in range(1000)] + ["tea"]
        assert bound.search_words(HOME, asked, 10) == [at(bound, id)]
        assert bound.document_frequencies(HOME, asked) == [0] * 1000 + [1]

    def test_a_query_vector_that_cannot_be_compared_is_refused(self, bound: Store) -> None:
        add(bound, "tea")
        for bad in ([1.0], [0.0] * DIMENSION, [float("nan")] * DIMENSION, [float("inf")] * DIMENSION):
            with pytest.raises((ValidationError, EmbedderError)):
                bound.search_vectors(HOME, np.array(bad, dtype=np.float32), 5)

    @pytest.mark.parametrize(
        ("search_filter", "expected"),
        [
            (SearchFilter(), [0, 1, 2, 3]),
            (SearchFilter(tag="work"), [1]),
            (SearchFilter(kinds=("note", "message")), [2]),
            (SearchFilter(kinds=()), []),
            (SearchFilter(session="s1"), [2]),
            (SearchFilter(min_importance=0.6), [1]),
            (SearchFilter(min_trust=0.6), [0, 1, 3]),
            (SearchFilter(filter=parse({"n": {"gte": 2}})), [3]),
            (SearchFilter(tag="general", filter=parse({"n": 1})), [0]),
            (SearchFilter(tag="'; drop table record; --"), []),
        ],
    )
    def test_searches_return_only_what_is_wanted(self, bound: Store, search_filter: SearchFilter, expected: list[int]) -> None:
        drafts = [
            draft("tea one", metadata={"n": 1}),
            draft("tea two", tag="work", importance=0.9),
            draft("tea three", kind="note", session="s1", trust=0.2),
            draft("tea four", metadata={"n": 2}),
            draft("tea gone", expires_at=LONG_AGO),
            draft("tea held", status="quarantined"),
        ]
        ids = [receipt.id or "" for receipt in bound.write(HOME, [Write(each) for each in drafts])]
        add(bound, "tea away", AWAY)
        sequences = [at(bound, id) for id in ids]
        wanted = [sequences[number] for number in expected]
        assert sorted(bound.search_words(HOME, ["tea"], 9, search_filter)) == wanted
        assert sorted(bound.search_vectors(HOME, vector("tea one"), 9, search_filter)) == wanted
        assert bound.search_recent(HOME, 9, search_filter) == wanted[::-1]
        assert bound.search_recent(HOME, 1, search_filter) == wanted[::-1][:1]

    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_neighbours_agree_with_a_scan(self, bound: Store, seed: int) -> None:
        chance = Random(seed)
        placed: Placed = {}
        for number in range(60):
            kind = chance.choice(("message", "message", "fact"))
            session = chance.choice(("a", "b", "long name ' ; --", None))
            status = chance.choice(("active", "active", "quarantined"))
            receipt = add(bound, f"text {number}", kind=kind, session=session, status=status)
            placed[at(bound, receipt.id or "")] = (kind, session)
            add(bound, f"text {number}", AWAY, kind=kind, session=session)
        for sequence in chance.sample(sorted(placed), 30):
            record = bound.fetch(HOME, [sequence])[0]
            if record is not None and sequence % 2:
                bound.forget(HOME, Selector(id=record.id))
                del placed[sequence]
            elif record is not None:
                bound.revise(HOME, record.id, wording(f"other words {sequence}"))  # it stays where it is
        for reach in (0, 1, 2, 5, 100):
            for size in (0, 1, 3, len(placed)):
                asked = [*chance.sample(sorted(placed), size), 10**12, 0, -1]
                assert bound.neighbours(HOME, asked, reach) == around(placed, asked, reach), (reach, asked)
        assert bound.neighbours(AWAY, sorted(placed), 5) == []

    def test_without_times_it_is_the_present(self, bound: Store) -> None:
        ids = [add_id(bound, text) for text in ("one", "two")]
        ids.append(add_id(bound, "planned", occurred_at=year(9000)))  # None sets no bound, also not "until now"
        add(bound, "three", AWAY)
        snapshot = bound.snapshot(HOME, None, None)
        assert [record.id for record in snapshot.records] == ids
        for record in snapshot.records:
            now = present(bound, record.id)
            assert (record.content, record.version, record.metadata) == (now.content, now.version, now.metadata)
        assert unpacked(snapshot.rows) == unpacked(bound.changes(HOME, 0).rows)

    def test_what_was_forgotten_is_in_no_view(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city", occurred_at=year(2020))
        add(bound, "Oslo", key="city", occurred_at=year(2022))
        known = past(bound, id)[0].known_from
        bound.forget(HOME, Selector(id=id))
        assert view(bound) == view(bound, as_of=year(2021)) == view(bound, known_at=known) == {}

    def test_every_view_follows_the_rule(self, bound: Store) -> None:
        bound.write(HOME, [Write(draft(f"note {n}", occurred_at=year(2010 + n))) for n in range(5)])
        for number, when in enumerate((2012, 2018, 2015, 2011, 2020)):
            add(bound, f"value {number}", key="k", occurred_at=year(when), metadata={"n": number})
            add(bound, f"other {number}", key="l", occurred_at=year(2030 - when + 2000), importance=number / 10)
        keyed = bound.by_key(HOME, "k")
        assert keyed is not None
        bound.revise(HOME, keyed.id, wording("revised", "k"))
        bound.revise(HOME, keyed.id, Revision(metadata={"n": "last"}, importance=0.9))

        histories = {archive.record.id: past(bound, archive.record.id) for archive in bound.export_records(HOME)}
        valid = {version.valid_from for versions in histories.values() for version in versions}
        known = {version.known_from for versions in histories.values() for version in versions}
        for as_of in [None, *sorted(valid), min(valid) - TICK]:
            for known_at in [None, *sorted(known), min(known) - TICK]:
                expected = {id: version for id, each in histories.items() if (version := seen(each, as_of, known_at))}
                assert view(bound, as_of, known_at) == {id: version.content for id, version in expected.items()}
                for record in bound.snapshot(HOME, as_of, known_at).records:
                    version = expected[record.id]
                    assert (record.version, record.metadata, record.importance, record.valid_from) == (
                        version.version,
                        version.metadata,
                        version.importance,
                        version.valid_from,
                    )
