"""Why and why not: shares that add up, and words that name the cause."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone import Memory
from keepstone.engine import Engine
from keepstone.errors import NotFound
from keepstone.open import open_engine
from keepstone.recall.explain import GROUPS, explain_rank, explain_score, group_shares, hit_signals
from keepstone.recall.features import NAMES, Features
from keepstone.recall.fusion import measure_own_relevance, sum_features, weights
from keepstone.recall.question import parse_question
from keepstone.text.time_expressions import TimeHint
from keepstone.types import Explanation, Scope
from keepstone.write.request import WriteRequest

SCOPE = Scope()
NOW = datetime(2024, 3, 15, tzinfo=UTC)
SPEAKERS = {"dana": frozenset({4})}


def near(values: list[list[float]], measured: list[bool] | None = None) -> Features:
    table = np.array(values, dtype=np.float32).reshape(len(values), len(NAMES))
    return Features(np.arange(len(values)), table, np.array(measured or [True] * len(values), dtype=np.bool_))


def one(measured: bool = True, **signals: float) -> Features:
    return near([[float(signals.get(name, 0.0)) for name in NAMES]], [measured])


def sentences(text: str, measured: bool = True, happened: TimeHint | None = None, **signals: float) -> dict[str, str]:
    """What is said about each group."""
    question = replace(parse_question(text, SPEAKERS, NOW), event=happened)
    found = [line.split(": ", 1) for line in explain_score(one(measured, **signals), 0, question)]
    return {head.split()[0]: said for head, said in found}


# -- shares ------------------------------------------------------------------------------------------------------------
def test_every_signal_is_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(NAMES)


signals = st.lists(st.floats(-1, 1, width=32), min_size=len(NAMES), max_size=len(NAMES))


@given(st.lists(st.tuples(signals, st.booleans()), min_size=1, max_size=6))
def test_shares_add_up_to_the_sum(made: list[tuple[list[float], bool]]) -> None:
    measured = near([values for values, _ in made], [flag for _, flag in made])
    found = group_shares(measured, np.arange(len(made)))
    assert found.shape == (len(made), len(GROUPS))
    assert np.allclose(found.sum(axis=1), sum_features(measured), atol=1e-3)
    guessed = ~measured.measured
    assert (found[guessed, list(GROUPS).index("semantic")] == 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_signal_adds_to_its_own_group_alone(name: str) -> None:
    found = dict(zip(GROUPS, group_shares(one(**{name: 1.0}), np.array([0]))[0].tolist(), strict=True))
    for group, names in GROUPS.items():
        assert found[group] == pytest.approx(weights().by_name[name] if name in names else 0, abs=1e-5)


def test_hits_show_the_shares_and_the_numbers_that_say_most() -> None:
    measured = near([[0.5] * len(NAMES), [0.25] * len(NAMES)], [True, False])
    first, second = hit_signals(measured, np.array([0, 1]), np.array([0.9, 0.3], dtype=np.float32))
    assert list(first) == [*GROUPS, "cosine", "coverage", "similarity", "neighbours"]
    own = float(measure_own_relevance(measured)[0])
    shown = [first[name] for name in ("cosine", "coverage", "similarity", "neighbours")]
    assert shown == pytest.approx([0.5, 0.5, own, 0.9 - own], abs=1e-3)
    assert (second["cosine"], second["semantic"], second["coverage"]) == pytest.approx((0, 0, 0.25))
    assert sum(first[group] for group in GROUPS) == pytest.approx(float(sum_features(measured)[0]), abs=1e-2)


def test_parts_are_of_the_places_that_are_asked_for() -> None:
    measured = near([[0.1] * len(NAMES), [0.2] * len(NAMES), [0.3] * len(NAMES)])
    found = hit_signals(measured, np.array([2, 0]), np.array([0.7, 0.8, 0.9], dtype=np.float32))
    assert [each["cosine"] for each in found] == pytest.approx([0.3, 0.1])
    assert [each["similarity"] + each["neighbours"] for each in found] == pytest.approx([0.9, 0.7], abs=1e-3)


# -- sentences -----------------------------------------------------------------------------------------------------------
def test_meaning() -> None:
    assert sentences("tea", nearest=0.456, pair=0.4, previous=0.1)["semantic"] == "similarity 0.46"
    assert sentences("tea", nearest=0.456, pair=0.456)["semantic"] == "similarity 0.46"
    assert (
        sentences("tea", nearest=0.5, pair=0.5, previous=0.6)["semantic"] == "similarity 0.50 together with the message before it"
    )
    assert sentences("tea", measured=False, nearest=0.5)["semantic"] == "no vector yet: its keywords are used instead"


def test_words() -> None:
    assert sentences("tea", coverage=0.5)["keywords"] == "50% of the question's keywords match here or in a nearby message"


@pytest.mark.parametrize(
    ("text", "signals", "expected"),
    [
        ("What does Dana drink?", {"speaker": 1, "own_words": 1}, "the question names its speaker"),
        ("What does Dana drink?", {"own_words": 1}, "it counts as the user's own words"),
        ("What does Dana drink?", {}, "the question names another speaker"),
        ("What did you say?", {"of_assistant": 1}, "the question is about what the assistant said, and this is by the assistant"),
        (
            "What did you say?",
            {"own_words": 1},
            "the question is about what the assistant said, and this is not by the assistant",
        ),
        ("What do I drink?", {"of_user": 1, "own_words": 1}, "the question is about the user, and the user said this"),
        ("Which tea?", {}, "the assistant said this"),
        ("Which tea?", {"own_words": 1}, None),
    ],
)
def test_who(text: str, signals: dict[str, float], expected: str | None) -> None:
    assert sentences(text, **signals).get("speaker") == expected


@pytest.mark.parametrize(
    ("text", "signals", "expected"),
    [
        ("What did I do last month?", {"time": 0.75}, "its date matches 'last month' by 75%"),
        ("What is my current job?", {"latest": 0.4}, "'current' asks for the latest: its date matches by 40%"),
        ("What was the first song?", {"earliest": 1}, "'first' asks for the earliest: its date matches by 100%"),
        ("When was it?", {"tells_time": 1}, "the question asks for a time, and it names one"),
        ("When was it?", {}, None),
        ("What did I do before I met the queen?", {}, None),
        ("Which tea?", {}, None),
    ],
)
def test_time(text: str, signals: dict[str, float], expected: str | None) -> None:
    assert sentences(text, **signals).get("time") == expected


def test_the_time_of_an_event() -> None:
    moved = TimeHint(None, NOW, "before I moved", anchor="I moved", relation="before")
    said = sentences("What did I bake before I moved?", happened=moved, event=0.25)["time"]
    assert said == "its date matches before 'I moved' by 25%"


def test_form() -> None:
    assert sentences("tea", importance=0.5)["form"] == "length, importance 0.5"
    said = sentences("How many?", importance=1, asks=1, tells_number=1)["form"]
    assert said == "length, it is a question, the question asks for a number, and it has one, importance 1.0"


def test_the_largest_share_comes_first_with_its_points() -> None:
    question = parse_question("What do I drink?", {}, NOW)
    found = explain_score(one(nearest=1, pair=1, coverage=0.1, of_user=1, own_words=1), 0, question)
    points = [float(line.split()[1].rstrip(":")) for line in found]
    assert [abs(each) for each in points] == sorted((abs(each) for each in points), reverse=True)
    assert found[0].startswith("semantic +")
    negative = explain_score(one(previous=1, pair=0, own_words=1), 0, question)
    assert any(line.startswith("semantic -") for line in negative)


def test_a_place_says_whether_it_is_enough() -> None:
    assert explain_rank(2, 9, 5) == "rank 2 of 9 candidates: it is recalled"
    assert explain_rank(5, 9, 5).endswith("it is recalled")
    assert explain_rank(6, 9, 5) == "rank 6 of 9 candidates: only the first 5 are returned, raise limit"


# -- through Memory ----------------------------------------------------------------------------------------------------
def test_why_agrees_with_recall(memory: Memory) -> None:
    for text in ("Dana drinks green tea.", "Erik repairs old bicycles.", "The meeting is on Tuesday."):
        memory.remember(text)
    for place, hit in enumerate(memory.recall("What does Dana drink?", min_similarity=0), 1):
        explanation = memory.why("What does Dana drink?", hit.id)
        assert explanation.signals == hit.signals
        assert explanation.score == pytest.approx(hit.score, abs=1e-3)
        assert explanation.rank == (place if explanation.recalled else None)
        assert memory.why("What does Dana drink?", hit.id) == explanation
    best = memory.why("What does Dana drink?", memory.recall("What does Dana drink?")[0].id)
    assert best.recalled
    assert best.reasons[0].endswith("it is recalled")


def test_what_is_not_relevant_is_said_to_be_below_the_threshold(memory: Memory) -> None:
    memory.remember("Dana drinks green tea.")
    id = memory.remember("Photosynthesis needs chlorophyll.").id
    assert id is not None
    explanation = memory.why("What does Dana drink?", id)
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
    return engine.recalling.explain(SCOPE, text, id, engine.reading.sequence(SCOPE, id))


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
