"""A scope too large to be held in memory is ranked through the store's own searches, and answers nearly the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from keepstone.engine import Engine
from keepstone.open import open_engine
from keepstone.recall.query import RecallQuery
from keepstone.types import Scope
from keepstone.write.request import WriteRequest

SCOPE = Scope()
PEOPLE = ("Dana", "Erik", "Maria", "Tomas", "Aiko", "Lena", "Omar", "Ines")
VERBS = ("repaired", "painted", "sold", "photographed", "borrowed", "measured", "described", "collected")
THINGS = ("bicycle", "violin", "greenhouse", "telescope", "lighthouse", "kettle", "carpet", "sailboat", "microscope", "accordion")
PLACES = ("Rome", "Oslo", "Lisbon", "Kyoto", "Quito", "Nairobi", "Tallinn", "Dublin")


def facts(count: int) -> list[str]:
    chance = random.Random(11)
    every = [f"{who} {did} a {what} in {where}" for who in PEOPLE for did in VERBS for what in THINGS for where in PLACES]
    return chance.sample(every, count)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with more than a megabyte to rank in one scope."""
    place = tmp_path_factory.mktemp("large") / "memory.db"
    engine = open_engine(place, settings={"durable": False})
    requests = [WriteRequest(text, kind="message", session="s", role="user") for text in facts(1200)]
    requests.append(WriteRequest("Bruno keeps bees behind the old station", tag="rare", importance=0.9))
    engine.writing.remember(SCOPE, requests, bulk=True)
    engine.close()
    return place


@pytest.fixture
def bounded(path: Path) -> Iterator[Engine]:
    engine = open_engine(path, settings={"cache_mb": 1})
    assert engine.cache.view(SCOPE) is None
    yield engine
    engine.close()


@pytest.fixture
def whole(path: Path) -> Iterator[Engine]:
    engine = open_engine(path)
    assert engine.cache.view(SCOPE) is not None
    yield engine
    engine.close()


def top(engine: Engine, text: str, **options: object) -> list[str]:
    query = RecallQuery.parse(text, **options)  # type: ignore[arg-type]
    return [hit.content for hit in engine.recalling.recall(SCOPE, query)]


def test_the_best_hit_is_nearly_always_the_same(bounded: Engine, whole: Engine) -> None:
    asked = [text.replace(" a ", " the ") for text in facts(1200)[::100]]
    same = sum(top(bounded, text, limit=1) == top(whole, text, limit=1) for text in asked)
    assert len(asked) == 12
    assert same >= 11


def test_a_question_in_other_words_finds_its_answer(bounded: Engine) -> None:
    assert top(bounded, "Where are the bees of Bruno?")[:1] == ["Bruno keeps bees behind the old station"]


def test_scores_stay_in_bounds_and_nothing_is_held(bounded: Engine) -> None:
    found = bounded.recalling.recall(SCOPE, RecallQuery.parse("violin in Oslo", limit=100, min_similarity=0))
    assert len(found) == 100
    assert all(0 <= hit.score <= 1 for hit in found)
    assert [hit.score for hit in found] == sorted((hit.score for hit in found), reverse=True)
    assert bounded.cache.nbytes() == 0


def test_nonsense_finds_nothing(bounded: Engine) -> None:
    assert top(bounded, "") == []
    assert top(bounded, "qqqzzz xxyyxx") == []


def test_why_reaches_a_record_that_no_search_proposed(bounded: Engine) -> None:
    id = bounded.recalling.recall(SCOPE, RecallQuery.parse("Bruno bees station"))[0].id
    explanation = bounded.recalling.explain(SCOPE, "violin in Oslo", id, bounded.reading.sequence(SCOPE, id))
    assert not explanation.recalled
    assert explanation.signals["coverage"] == 0


def test_a_filter_finds_what_it_names_among_many(bounded: Engine, whole: Engine) -> None:
    expected = top(whole, "violin in Oslo", tag="rare", min_similarity=0)
    assert expected == ["Bruno keeps bees behind the old station"]
    assert top(bounded, "violin in Oslo", tag="rare", min_similarity=0) == expected


def test_expired_records_neither_crowd_out_nor_turn_the_words_round(tmp_path: Path) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    engine = open_engine(tmp_path / "memory.db", embedder="none", settings={"cache_mb": 1, "durable": False}, clock=lambda: now)
    try:
        old = [WriteRequest(f"violin lesson number {n}", kind="message", ttl=60) for n in range(3500)]
        engine.writing.remember(SCOPE, old, bulk=True)
        now += timedelta(days=1)
        fresh = ["my aunt's old violin is broken since last week and nobody here can mend it", "Oslo is cold"]
        engine.writing.remember(SCOPE, [WriteRequest(text, kind="message") for text in fresh])
        assert engine.cache.view(SCOPE) is None
        found = engine.recalling.recall(SCOPE, RecallQuery.parse("violin Oslo", min_similarity=0))
        assert {hit.content for hit in found} == set(fresh)
        assert all(0 <= hit.signals["coverage"] <= 1 for hit in found)
    finally:
        engine.close()
