"""What `snapshot` promises: the records as they were.

The rule: of a record's versions known by `known_at` and valid from `as_of` or earlier, the last; where there is none,
nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from keepstone.ports.stores import Store
from keepstone.ports.values import Revision, Selector, Write
from keepstone.testing.builders import (
    AWAY,
    HOME,
    NeedsStore,
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
from keepstone.text.words import record_terms
from keepstone.types import Version

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


class PastContract(NeedsStore):
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

    def test_as_of_asks_what_held_then(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city", occurred_at=year(2020))
        add(bound, "Oslo", key="city", occurred_at=year(2022))
        assert view(bound, as_of=year(2020) - TICK) == {}
        assert view(bound, as_of=year(2020)) == {id: "Rome"}
        assert view(bound, as_of=year(2022) - TICK) == {id: "Rome"}
        assert view(bound, as_of=year(2022)) == {id: "Oslo"} == view(bound)

    def test_known_at_asks_what_the_store_knew_then(self, bound: Store) -> None:
        id = add_id(bound, "Rome", key="city", occurred_at=year(2020))
        add(bound, "Oslo", key="city", occurred_at=year(2022))
        first, second = (version.known_from for version in past(bound, id))
        assert view(bound, known_at=first - TICK) == {}
        assert view(bound, known_at=second) == {id: "Oslo"}
        if first < second:  # a coarse clock may give both the same time
            assert view(bound, known_at=first) == {id: "Rome"} == view(bound, year(2023), first)

    def test_a_correction_recorded_later_about_earlier(self, bound: Store) -> None:
        id = add_id(bound, "Oslo", key="city", occurred_at=year(2022))
        add(bound, "Rome", key="city", occurred_at=year(2020))
        first, second = (version.known_from for version in past(bound, id))
        assert view(bound, as_of=year(2021)) == {id: "Rome"}
        assert view(bound, as_of=year(2023)) == {id: "Rome"}, "what was recorded last is believed"
        if first < second:
            assert view(bound, as_of=year(2021), known_at=first) == {}
            assert view(bound, as_of=year(2023), known_at=first) == {id: "Oslo"}

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
