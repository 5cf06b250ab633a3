"""What the file holds of upkeep beside records: no row without its record, no byte of what went, and clocks that run ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apsw
import pytest

from keepstone.ports.maintenance import Age, Flag
from keepstone.ports.values import ImportRow, Limit, RecordExport, Revision, Selector, Write
from keepstone.stores.sqlite.store import SqliteStore
from keepstone.testing.builders import (
    DIMENSION,
    EMBEDDER,
    HOME,
    add,
    add_id,
    at,
    compacted,
    contents,
    draft,
    healthy,
    learned,
    message,
    present,
    vector,
    wording,
)
from keepstone.text.words import record_terms
from keepstone.types import Scope

START = datetime(2030, 1, 1, tzinfo=UTC)
SECRET = "zanzibar"
WIDE, WIDTH = "wide-16", 16


class Clock:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "memory.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(path: Path, clock: Clock) -> Iterator[SqliteStore]:
    store = SqliteStore.open(str(path), clock=clock)
    store.bind_embedder(EMBEDDER, DIMENSION)
    yield store
    store.close()


def rows(path: Path, statement: str) -> list[tuple[object, ...]]:
    db = apsw.Connection(str(path))
    try:
        return list(db.execute(statement))
    finally:
        db.close()


def whole(path: Path, store: SqliteStore) -> None:
    """Every row of upkeep has its record, and what is expired says since when."""
    healthy(store)
    versions = "SELECT sequence, version FROM record UNION SELECT sequence, version FROM history"
    assert rows(path, f"SELECT * FROM lineage WHERE (sequence, version) NOT IN ({versions})") == []
    for table in ("review", "vector_next", "access"):
        assert rows(path, f"SELECT * FROM {table} WHERE sequence NOT IN (SELECT sequence FROM record)") == [], table
    assert rows(path, "SELECT id FROM record WHERE (status = 'archived') <> (aside_at IS NOT NULL AND ticket IS NOT NULL)") == []
    assert store.audit_log.verify(HOME.tenant).whole


def redacted(store: SqliteStore, id: str, text: str) -> ImportRow:
    (found,) = store.export_records(HOME, [id])
    versions = tuple(replace(each, content=text, metadata={}) for each in found.versions)
    return ImportRow(RecordExport(found.record.with_(content=text, metadata={}), versions), record_terms(text, None), None)


# -- no row without its record ------------------------------------------------------------------------------------------
def _forget(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.forget(HOME, Selector(id=said))


def _session(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.forget(HOME, Selector(session="s1"))


def _source(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.forget(HOME, Selector(source="tool"))


def _keep_facts(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.forget(HOME, Selector(id=said, keep_facts=True))


def _everything(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.forget(HOME, Selector(everything=True))


def _undo(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    assert store.retention.undo(HOME, at(store, digest))


def _archive(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.retention.archive(HOME, [fact, digest])
    store.retention.restore(HOME, [fact])


def _redact(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    assert store.redact(HOME, redacted(store, said, "nothing"))


def _move(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    store.change_embedder(WIDE, WIDTH)


def _release(store: SqliteStore, said: str, fact: str, digest: str) -> None:
    held = add(store, "of Rome", key="city", status="quarantined", parents=(said,)).id or ""
    assert store.reviews.release(HOME, held)


Step = Callable[[SqliteStore, str, str, str], None]
STEPS: tuple[Step, ...] = (_forget, _session, _source, _keep_facts, _everything, _undo, _archive, _redact, _move, _release)


@pytest.mark.parametrize("last", STEPS)
@pytest.mark.parametrize("first", STEPS)
def test_no_row_is_left_without_its_record(store: SqliteStore, path: Path, first: Step, last: Step) -> None:
    def fill(number: int) -> tuple[str, str, str]:
        said = message(store, f"said {number}", "s1")
        fact = learned(store, f"fact {number}", said, session="s1", vector=None)
        learned(store, f"fact {number}", message(store, "said again", "s2"), session="s2", source="tool:x", vector=None)
        add(store, f"Rome {number}", key="city", vector=None)
        learned(store, f"Oslo {number}", fact, key="city", source="tool:x", vector=None)
        one = add_id(store, f"one {number}", vector=None)
        digest, _ = compacted(store, f"digest {number}", [one, learned(store, f"two {number}", fact, vector=None)], vector=None)
        store.revise(HOME, fact, Revision(importance=0.9))
        store.reviews.add(HOME, [Flag(fact, "stale", "r"), Flag(digest, "unsupported", "r", (one,))])
        store.touch(HOME, {at(store, fact): 1, at(store, digest): 2}, START)
        return said, fact, digest

    first(store, *fill(1))
    whole(path, store)
    if store.embedder() != (WIDE, WIDTH):
        store.prepare_embedder(WIDE, WIDTH)
        store.attach([(each, vector(each.content, WIDTH)) for each in store.pending(99, next=True)], next=True)
        last(store, *fill(2))
        whole(path, store)


def test_no_byte_of_what_was_derived_stays(store: SqliteStore, path: Path) -> None:
    said = message(store, f"the word is {SECRET}", "s1")
    summary = learned(store, f"summary {SECRET}", said, kind="summary", session="s1")
    learned(store, f"fact {SECRET}", summary, metadata={"word": SECRET})
    city = add_id(store, "Rome", key="city")
    learned(store, f"Oslo {SECRET}", said, key="city", metadata={"m": SECRET})
    store.revise(HOME, city, wording("Bern", "city", metadata={}))
    receipt = store.forget(HOME, Selector(id=said))
    assert receipt.erased
    assert present(store, city).content == "Rome"
    for file in path.parent.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file.name
    whole(path, store)


def test_no_byte_of_what_was_redacted_stays(store: SqliteStore, path: Path) -> None:
    blocks = f'[{{"type": "text", "text": "{SECRET}"}}]'
    id = message(store, f"the word is {SECRET}", "s1", metadata={"word": SECRET}, blocks=blocks)
    store.revise(HOME, id, wording(f"no, {SECRET} it is"))
    store.states.put(HOME, "summary", f"about {SECRET}", session="s1")
    assert store.redact(HOME, redacted(store, id, "the word is out"))
    for file in path.parent.iterdir():
        assert SECRET.encode() not in file.read_bytes(), file.name


# -- other processes ----------------------------------------------------------------------------------------------------
def test_a_process_with_the_old_embedder_writes_what_waits(store: SqliteStore, path: Path) -> None:
    other = SqliteStore.open(str(path))
    other.bind_embedder(EMBEDDER, DIMENSION)
    add(store, "tea")
    store.prepare_embedder(WIDE, WIDTH)
    store.attach([(each, vector(each.content, WIDTH)) for each in store.pending(9, next=True)], next=True)
    asked = list(other.pending(9))
    assert store.change_embedder(WIDE, WIDTH) == 0
    assert add(other, "milk").action == "added"
    assert [each.content for each in store.pending(9)] == ["milk"], "a vector of the old embedder is of no use"
    assert other.search_vectors(HOME, vector("tea"), 9) == []
    assert other.attach([(each, vector(each.content)) for each in (*asked, *other.pending(9))]) == 0
    assert store.attach([(each, vector(each.content, WIDTH)) for each in store.pending(9)]) == 1
    whole(path, store)
    other.close()


def test_a_move_goes_on_in_another_process(store: SqliteStore, path: Path) -> None:
    for number in range(3):
        add(store, f"fact {number}")
    store.prepare_embedder(WIDE, WIDTH)
    store.attach([(each, vector(each.content, WIDTH)) for each in store.pending(2, next=True)], next=True)
    other = SqliteStore.open(str(path))
    assert other.next_embedder() == (WIDE, WIDTH)
    assert [each.content for each in other.pending(9, next=True)] == ["fact 2"]
    assert other.change_embedder(WIDE, WIDTH) == 1
    other.close()
    assert store.next_embedder() is None


def test_processes_share_buckets_and_leases(store: SqliteStore, path: Path, clock: Clock) -> None:
    other = SqliteStore.open(str(path), clock=clock)
    limits = (Limit("all writes", 1.0, 1 / 60),)
    assert store.write(HOME, [Write(draft("one", vector=None), limits=limits)])[0].action == "added"
    refused = other.write(HOME, [Write(draft("two", vector=None), limits=limits)])[0]
    assert (refused.action, refused.retry_after) == ("refused", pytest.approx(60.0))
    clock.now += timedelta(seconds=60)
    assert other.write(HOME, [Write(draft("two", vector=None), limits=limits)])[0].action == "added"
    assert store.leases.acquire("upkeep", "a", timedelta(minutes=5))
    assert not other.leases.acquire("upkeep", "b", timedelta(minutes=5))
    clock.now += timedelta(minutes=5)
    assert other.leases.acquire("upkeep", "b", timedelta(minutes=5))
    other.close()


# -- clocks -------------------------------------------------------------------------------------------------------------
def test_a_bucket_fills_as_time_passes(store: SqliteStore, clock: Clock) -> None:
    limits = (Limit("all writes", 3.0, 1.0, 0.5),)

    def write(text: str) -> str:
        return store.write(HOME, [Write(draft(text), limits=limits)])[0].action

    actions = []
    for number in range(8):
        actions.append(write(f"fact {number}"))
        clock.now += timedelta(seconds=0.5)
    assert actions == ["added"] * 5 + ["refused", "added", "refused"]
    clock.now += timedelta(days=1)
    for number in range(4):
        clock.now += timedelta(seconds=0.5)
        assert write(f"later {number}") == "added", "a day fills no more than the burst, which is enough for these"


def test_a_lease_of_a_clock_that_ran_far_ahead_is_not_waited_for(store: SqliteStore, clock: Clock) -> None:
    clock.now += timedelta(days=400)
    assert store.leases.acquire("upkeep", "a", timedelta(minutes=5))
    clock.now = START
    assert store.leases.acquire("upkeep", "b", timedelta(minutes=5))
    assert not store.leases.acquire("upkeep", "c", timedelta(minutes=5))


def test_what_a_clock_ahead_has_written_is_not_old(store: SqliteStore, clock: Clock) -> None:
    clock.now += timedelta(days=400)
    add(store, "ahead", importance=0.1)
    clock.now = START
    add(store, "now", importance=0.1)
    later = START + timedelta(days=1)
    assert [record.content for record in store.retention.old(HOME, Age(later))] == ["now"]
    assert [record.content for record in store.retention.faded(HOME, 0.3, 0, later)] == ["now"]


def test_days_are_told_once_each(store: SqliteStore, clock: Clock) -> None:
    for hours in (0, 1, 23, 24, 49, 50, 200):
        clock.now = START + timedelta(hours=hours)
        add(store, f"fact {hours}")
    told = [day - START for day in store.audit_log.days(HOME, START)]
    assert told == [timedelta(hours=hours) for hours in (0, 24, 49, 200)]
    assert len(store.audit_log.days(HOME, START + timedelta(hours=24))) == 3
    assert store.audit_log.days(Scope("local", "default", "nobody"), START) == []


def test_what_lapses_is_hidden_then_listed_then_aside(store: SqliteStore, clock: Clock) -> None:
    id = add_id(store, "tea", expires_at=START + timedelta(hours=1))
    assert store.retention.lapsed(HOME) == []
    clock.now += timedelta(hours=1)
    assert contents(store) == []
    assert [record.id for record in store.retention.lapsed(HOME)] == [id]
    _, ticket = store.retention.archive(HOME, [id], "expired")
    assert store.retention.archived(HOME)[0].at == clock.now
    assert store.retention.archived(HOME, before=clock.now) == []
    assert store.retention.undo(HOME, ticket) == [id]
    assert contents(store) == ["tea"]
