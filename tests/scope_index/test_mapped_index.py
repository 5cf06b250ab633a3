"""A scope that is ranked through a segment answers as one that is held whole, and sees every change at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from keepstone import Memory
from keepstone.open import open_engine
from keepstone.recall.query import RecallQuery
from keepstone.scope_index import segment_builder, segments
from keepstone.scope_index.columns import View
from keepstone.scope_index.mapped_index import MappedView
from keepstone.types import Scope
from keepstone.write.request import WriteRequest
from tests.scope_index.large import EVERY, LEAST, facts, files, filled, held, large, opened, top, vectors_of

SIZE = 1500


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with facts and conversations of several kinds, which no test changes."""
    path = tmp_path_factory.mktemp("large") / "memory.db"
    with opened(path, least=0) as memory:
        texts = facts(SIZE)
        filled(memory, texts[:500], tag="work", importance=0.9)
        filled(memory, texts[500:1000], source="web:https://example.org", metadata={"colour": "green"})
        for number in range(5):
            said = [{"role": "user", "content": text} for text in texts[1000 + number * 100 : 1100 + number * 100]]
            memory.ingest(said, session=f"talk {number}")
    return path


@pytest.fixture
def whole(place: Path) -> Iterator[Memory]:
    with opened(place, least=0) as memory:
        assert isinstance(memory._engine.cache.view(memory.scope), View)
        yield memory


@pytest.fixture
def part(place: Path) -> Iterator[Memory]:
    with opened(place) as memory:
        large(memory)
        yield memory


# -- the same answers -------------------------------------------------------------------------------------------------
def test_the_answers_are_nearly_those_of_the_whole(part: Memory, whole: Memory) -> None:
    asked = [text.replace(" a ", " the ") for text in facts(SIZE)[::30]]
    asked += [f"Who did something with a {thing} in {place}?" for thing in ("violin", "kettle") for place in ("Rome", "Quito")]
    first, shared, every = 0, 0, 0
    for text in asked:
        ours, theirs = top(part, text, limit=10, min_similarity=0), top(whole, text, limit=10, min_similarity=0)
        first += ours[:1] == theirs[:1]
        shared += len(set(ours) & set(theirs))
        every += len(theirs)
    assert every >= 10 * 50
    assert first >= 0.95 * len(asked)
    assert shared >= 0.9 * every


@pytest.mark.parametrize(
    "wanted",
    [
        {"tag": "work"}, {"kinds": ["message"]}, {"kinds": ["fact"]}, {"session": "talk 3"}, {"min_importance": 0.8},
        {"min_trust": 0.8}, {"filter": {"colour": "green"}}, {"tag": "work", "kinds": ["fact"]},
        {"session": "talk 1", "kinds": ["message"]},
    ],
    ids=str,
)  # fmt: skip
def test_filters_give_only_what_they_should(part: Memory, whole: Memory, wanted: dict[str, Any]) -> None:
    for text in ("violin in Oslo", "What did Dana sell?"):
        ours, theirs = (
            part.recall(text, limit=20, min_similarity=0, **wanted),
            whole.recall(text, limit=20, min_similarity=0, **wanted),
        )
        assert len(ours) == len(theirs) == 20
        assert ours[0].content == theirs[0].content
        for record in (hit.record for hit in ours):
            assert "tag" not in wanted or record.tag == wanted["tag"]
            assert "kinds" not in wanted or record.kind in wanted["kinds"]
            assert "session" not in wanted or record.session == wanted["session"]
            assert record.importance >= wanted.get("min_importance", 0)
            assert record.trust >= wanted.get("min_trust", 0)
            assert "filter" not in wanted or record.metadata == wanted["filter"]


def test_the_past_is_asked_of_the_store(part: Memory, whole: Memory) -> None:
    now = datetime.now(UTC)
    for past in ({"as_of": now}, {"known_at": now}):
        assert top(part, "violin in Oslo", **past) == top(whole, "violin in Oslo", **past)
    assert top(part, "violin in Oslo", known_at=now - timedelta(days=400)) == []


def test_why_and_why_not(part: Memory, whole: Memory) -> None:
    for hit in whole.recall("violin in Oslo", limit=3):
        ours, theirs = part.why("violin in Oslo", hit.id), whole.why("violin in Oslo", hit.id)
        assert (ours.recalled, ours.rank) == (theirs.recalled, theirs.rank)
        assert ours.score == pytest.approx(theirs.score, abs=0.05)
    far = next(hit.id for hit in whole.recall("kettle in Quito", limit=1))
    assert not part.why("violin in Oslo", far).recalled


def test_nonsense_finds_nothing_and_considered_is_the_whole(part: Memory, whole: Memory) -> None:
    assert top(part, "") == top(part, "qqqzzz xxyyxx") == []
    assert part.recall("violin").considered == whole.recall("violin").considered == SIZE


@pytest.mark.parametrize("dimension", [200, 384, 1536])
def test_vectors_of_other_lengths(path: Path, dimension: int) -> None:
    with opened(path, embedder=vectors_of(dimension)) as memory:
        filled(memory, facts(300))
        found = [top(memory, text, limit=1) for text in facts(300)[::20]]
        assert found == [[text] for text in facts(300)[::20]]
        assert large(memory)._segment.about["dimension"] == dimension


def test_a_store_in_memory_has_no_file() -> None:
    with opened(":memory:") as memory:
        filled(memory, facts(200))
        assert top(memory, facts(200)[3], limit=1) == [facts(200)[3]]
        assert large(memory)._segment.path is None


# -- changes ----------------------------------------------------------------------------------------------------------
def test_what_is_new_updated_and_forgotten_is_seen_at_once(growing: Memory) -> None:
    id = growing.remember("Bruno keeps bees behind the old station").id or ""
    assert top(growing, "Where are Bruno's bees?", limit=1) == ["Bruno keeps bees behind the old station"]
    growing.update(id, "Bruno keeps goats behind the old station")
    assert top(growing, "What does Bruno keep?", limit=1) == ["Bruno keeps goats behind the old station"]
    old = next(hit.record for hit in growing.recall("violin in Oslo"))
    growing.update(old.id, "Nobody has a sword in Paris")
    assert old.content not in top(growing, "violin in Oslo", limit=50, min_similarity=0)
    assert top(growing, "sword in Paris", limit=1) == ["Nobody has a sword in Paris"]
    other = next(hit.record for hit in growing.recall("kettle in Rome"))
    growing.forget(other.id)
    assert other.id not in [hit.id for hit in growing.recall("kettle in Rome", limit=50, min_similarity=0)]
    growing.forget(id)
    assert "Bruno" not in "".join(top(growing, "What does Bruno keep?", limit=50, min_similarity=0))


def test_a_change_of_a_record_moves_it_to_the_tail_once(growing: Memory) -> None:
    record = next(hit.record for hit in growing.recall("violin in Oslo"))
    for importance in (0.95, 0.1, 0.95):
        growing.update(record.id, importance=importance)
    found = [hit.record for hit in growing.recall("violin in Oslo", limit=50, min_similarity=0) if hit.id == record.id]
    assert [each.importance for each in found] == [0.95]
    assert growing.recall("violin").considered == 300


def test_what_is_put_aside_goes_and_comes_back(growing: Memory) -> None:
    ids = [hit.id for hit in growing.recall("violin in Oslo", limit=3)]
    _, ticket = growing._engine.store.retention.archive(growing.scope, ids)
    assert not set(ids) & {hit.id for hit in growing.recall("violin in Oslo", limit=50, min_similarity=0)}
    growing.upkeep.undo(ticket)
    assert [hit.id for hit in growing.recall("violin in Oslo", limit=3)] == ids


def test_what_expires_goes_though_nothing_was_written(path: Path) -> None:
    """Which records may answer is remembered; not beyond the next end of one."""
    now = datetime(2026, 3, 1, tzinfo=UTC)
    scope = Scope()
    engine = open_engine(path, settings={"durable": False, "approximate_from": LEAST}, clock=lambda: now)
    try:
        requests = [WriteRequest(text, ttl=3600 if "violin" in text else None) for text in facts(300)]
        engine.writing.remember(scope, requests, bulk=True)

        def asked(**wanted: Any) -> int:
            query = RecallQuery.parse("violin in Oslo", limit=100, min_similarity=0, **wanted)
            return sum("violin" in hit.content for hit in engine.recalling.recall(scope, query))

        lasting = sum("violin" in text for text in facts(300))
        assert isinstance(engine.cache.view(scope), MappedView)
        assert asked() == asked(kinds=["fact"]) >= lasting - 5
        now += timedelta(hours=2)
        assert asked() == asked(kinds=["fact"]) == 0
    finally:
        engine.close()


def test_messages_that_go_on_in_the_tail_have_their_neighbours(path: Path) -> None:
    with opened(path) as memory:
        memory.ingest([{"role": "user", "content": text} for text in facts(99)], session="talk")
        filled(memory, facts(50, seed=4))
        large(memory)
        memory.ingest([{"role": "user", "content": "Zebras like quinces"}], session="talk")
        memory.ingest([{"role": "user", "content": "That is what the keeper says"}], session="talk")
        view = large(memory)
        last = view.slot_of(memory._engine.store.sequence_of(memory.scope, memory.recall("zebras quinces")[0].id) or 0)
        around = view.view(view.with_neighbours(last), [], [])
        assert around.size == 4  # two before, in the segment, and one after
        there = [memory._engine.store.fetch(memory.scope, [int(each)])[0] for each in around.sequences]
        said = [record.content for record in there if record is not None]
        assert said == [*facts(99)[-2:], "Zebras like quinces", "That is what the keeper says"]
        assert around.before.tolist() == [-1, 0, 1, 2]


# -- segments made anew ---------------------------------------------------------------------------------------------
def test_a_long_tail_becomes_a_new_segment(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstone.scope_index.mapped_index._CODED", 64)
    with opened(path) as memory:
        filled(memory, facts(300))
        assert large(memory)._segment.size == 300
        more = [text for text in EVERY if text not in set(facts(300))][:200]
        for start in range(0, 200, 40):
            filled(memory, more[start : start + 40])
            assert top(memory, more[start + 7], limit=1) == [more[start + 7]]
        eventually(lambda: large(memory)._segment.size > 300)
        assert top(memory, more[3], limit=1) == [more[3]]
        assert memory.recall("violin").considered == 500
        eventually(lambda: not memory._engine.cache._segments.under_way(memory.scope))  # type: ignore[union-attr]
        assert held(path).size > 300


def test_a_small_scope_that_grows_gets_one(path: Path) -> None:
    with opened(path) as memory:
        filled(memory, facts(LEAST - 1))
        assert isinstance(memory._engine.cache.view(memory.scope), View)
        more = facts(LEAST + 50, seed=5)
        filled(memory, more)
        assert top(memory, more[9], limit=1) == [more[9]]
        eventually(lambda: isinstance(memory._engine.cache.view(memory.scope), MappedView))
        assert top(memory, more[9], limit=1) == [more[9]]


def test_until_a_segment_is_there_the_store_answers(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstone.scope_index.cache.AT_ONCE", 10)
    held_up = threading.Event()
    build = segment_builder.build_segment

    def waiting(*args: Any) -> Any:
        assert held_up.wait(30)
        return build(*args)

    monkeypatch.setattr(segments, "build_segment", waiting)
    with opened(path) as memory:
        filled(memory, facts(300))
        assert top(memory, facts(300)[5], limit=1) == [facts(300)[5]]
        assert memory._engine.cache.view(memory.scope) is None
        held_up.set()
        eventually(lambda: isinstance(memory._engine.cache.view(memory.scope), MappedView))
        assert top(memory, facts(300)[5], limit=1) == [facts(300)[5]]


def test_closing_stops_what_is_being_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "_PAGE", 10)
    monkeypatch.setattr("keepstone.scope_index.cache.AT_ONCE", 10)
    begun, pages = threading.Event(), []
    memory = opened(path)
    filled(memory, facts(300))
    made = memory._engine.cache._segments
    assert made is not None
    read = made._store.index_page

    def slowly(*args: Any) -> Any:
        pages.append(args)
        begun.set()
        assert made._stop.wait(30) or len(pages) < 3
        return read(*args)

    monkeypatch.setattr(made._store, "index_page", slowly)
    made.make_later(memory.scope)
    assert begun.wait(30)
    memory.close()
    assert not made.under_way(memory.scope)
    assert len(pages) < 10
    assert files(path) == []


def test_many_threads_ask_while_segments_are_made(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("keepstone.scope_index.mapped_index._CODED", 16)
    wrong: list[object] = []
    with opened(path) as memory:
        texts = facts(600)
        filled(memory, texts[:200])
        done = threading.Event()

        def ask(number: int) -> None:
            at = number
            while not done.is_set():
                at = (at + 7) % 200
                try:
                    found = top(memory, texts[at], limit=1)
                except Exception as error:
                    wrong.append(error)
                    return
                if found != [texts[at]]:
                    wrong.append((texts[at], found))

        threads = [threading.Thread(target=ask, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for start in range(200, 600, 50):
            filled(memory, texts[start : start + 50])
        done.set()
        for thread in threads:
            thread.join()
    assert wrong == []
