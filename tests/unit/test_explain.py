"""Why and why not, in words that name the cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from recollect import Memory
from recollect.engine import Engine
from recollect.errors import NotFound
from recollect.open import open_engine
from recollect.recall.explain import placed, signal_lines
from recollect.types import Explanation, Scope
from recollect.write.request import WriteRequest

SCOPE = Scope()


def test_each_signal_is_a_sentence() -> None:
    lines = signal_lines({"meaning": 0.456, "words": 0.1, "something": 1})
    assert lines == ["likeness of meaning: 0.46", "shared words: 0.10", "something: 1.00"]


def test_a_place_says_whether_it_is_enough() -> None:
    assert placed(2, 9, 5) == "it is number 2 of 9 candidates, so it is recalled"
    assert placed(5, 9, 5).endswith("so it is recalled")
    assert placed(6, 9, 5) == "it is number 6 of 9 candidates and only the first 5 are returned: raise limit"


def test_every_signal_of_a_hit_has_a_sentence_of_its_own(memory: Memory) -> None:
    memory.remember("Dana drinks tea.")
    hit = memory.recall("tea")[0]
    assert not [
        line
        for line, name in zip(signal_lines(hit.signals), hit.signals, strict=True)
        if line.startswith(f"{name}: ") and name != "importance"
    ]


def test_why_agrees_with_recall(memory: Memory) -> None:
    for text in ("Dana drinks green tea.", "Erik repairs old bicycles.", "The meeting is on Tuesday."):
        memory.remember(text)
    for place, hit in enumerate(memory.recall("What does Dana drink?", min_similarity=0), 1):
        explanation = memory.why("What does Dana drink?", hit.id)
        assert explanation.signals == hit.signals
        assert explanation.score == pytest.approx(hit.score, abs=1e-3)
        assert explanation.rank == (place if explanation.recalled else None)
        assert memory.why_not("What does Dana drink?", hit.id) == explanation
    best = memory.why("What does Dana drink?", memory.recall("What does Dana drink?")[0].id)
    assert best.recalled
    assert best.reasons[0].endswith("so it is recalled")


def test_what_is_not_relevant_is_said_to_be_below_the_threshold(memory: Memory) -> None:
    memory.remember("Dana drinks green tea.")
    id = memory.remember("Photosynthesis needs chlorophyll.").id
    assert id is not None
    explanation = memory.why_not("What does Dana drink?", id)
    assert (explanation.recalled, explanation.rank) == (False, None)
    assert "is below the threshold" in explanation.reasons[0]
    assert "min_similarity=0" in explanation.reasons[0]


def test_what_comes_after_the_limit_is_said_to(memory: Memory) -> None:
    memory.ingest([{"role": "user", "content": f"Dana drinks tea, cup {n}"} for n in range(8)], session="s")
    explanations = [memory.why("Dana drinks tea", record.id) for record in memory.list()]
    assert sorted(each.rank or 0 for each in explanations) == list(range(1, 9))
    assert sum(each.recalled for each in explanations) == 5
    assert all("raise limit" in each.reasons[0] for each in explanations if not each.recalled)


def explain(engine: Engine, text: str, id: str | None) -> Explanation:
    assert id is not None
    return engine.recalling.explain(SCOPE, text, id)


def test_an_expired_record_and_one_that_waits_for_its_vector_are_said_to_be(path: Path) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC)
    engine = open_engine(path, embedder="none", clock=lambda: now)
    try:
        short, long = engine.writing.remember(SCOPE, [WriteRequest("Dana drinks tea", ttl=60), WriteRequest("Oslo is cold")])
        assert explain(engine, "tea", short.id).recalled
        now += timedelta(minutes=2)
        assert explain(engine, "tea", short.id).reasons[0] == "it has expired"
        assert any("it has no vector yet" in reason for reason in explain(engine, "tea", long.id).reasons)
        engine.writing.remember(SCOPE, [WriteRequest("Dana drinks tea")])
        assert explain(engine, "tea", short.id).reasons[0].startswith("it is not active")
    finally:
        engine.close()


def test_an_unknown_record_and_one_of_another_scope_are_not_found(memory: Memory) -> None:
    id = memory.remember("Dana drinks tea.").id
    assert id is not None
    with pytest.raises(NotFound, match="there is no record 'm_nothing' in this scope"):
        memory.why("tea", "m_nothing")
    with pytest.raises(NotFound):
        memory.with_scope(user="erik").why("tea", id)


def test_asking_why_is_no_read(memory: Memory) -> None:
    id = memory.remember("Dana drinks tea.").id
    assert id is not None
    memory.why("tea", id)
    record = memory.get(id)
    assert record is not None
    assert record.access_count == 0
