"""From signals to a score: bounded, monotonic, and a gate that keeps out what chance alone brings."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.recall import fusion
from keepstone.recall.candidates import first_pass
from keepstone.recall.confidence import Confidence
from keepstone.recall.features import NAMES, Features, score_candidates
from keepstone.recall.fusion import (
    RelevanceThreshold,
    chance_relevance,
    estimate_scores,
    measure_relevance,
    order_candidates,
    sum_features,
    weights,
)
from keepstone.scope_index.columns import View
from tests.recall.rows import asked, everywhere, said, told, unit, view

share = st.floats(0, 1, width=32)
one_row = st.lists(share, min_size=len(NAMES), max_size=len(NAMES))
rows_of_signals = st.lists(one_row, max_size=8)


def near(values: list[list[float]]) -> Features:
    table = np.array(values, dtype=np.float32).reshape(len(values), len(NAMES))
    return Features(np.arange(len(values)), table, np.ones(len(values), dtype=np.bool_))


def row(**signals: float) -> list[float]:
    return [float(signals.get(name, 0.0)) for name in NAMES]


# -- weights -----------------------------------------------------------------------------------------------------------
def test_every_signal_has_a_weight_and_every_weight_a_signal() -> None:
    document = json.loads((Path(fusion.__file__).parent / "weights.json").read_text(encoding="utf-8"))
    assert set(document["weights"]) == set(NAMES)
    assert weights().by_name == document["weights"]
    assert np.isfinite(weights().vector).all()


def test_a_missing_weight_is_not_passed_over(tmp_path: Path) -> None:
    document = {"version": 1, "half": 1, "steepness": 1, "weights": dict.fromkeys(NAMES[1:], 1.0)}
    path = tmp_path / "weights.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(KeyError, match=NAMES[0]):
        fusion.Weights(path)


@pytest.mark.parametrize("name", ["nearest", "pair", "words", "coverage", "speaker", "of_user", "of_assistant", "time", "latest"])
def test_what_speaks_for_a_record_counts_for_it(name: str) -> None:
    assert weights().by_name[name] > 0


@given(rows_of_signals)
def test_the_sum_is_that_of_the_weighted_signals(values: list[list[float]]) -> None:
    expected = [sum(weights().by_name[name] * value for name, value in zip(NAMES, each, strict=True)) for each in values]
    assert np.allclose(sum_features(near(values)), expected, atol=1e-3)


# -- score -------------------------------------------------------------------------------------------------------------
@given(st.lists(st.floats(-300, 300, width=32), max_size=20))
def test_a_score_lies_between_0_and_1_and_grows_with_the_sum(sums: list[float]) -> None:
    ordered = np.array(sorted(sums), dtype=np.float32)
    scores = Confidence(0.5, 0.0, 16.0, 0.4).scores(ordered)
    assert len(scores) == len(sums)
    assert np.isfinite(scores).all()
    assert ((scores >= 0) & (scores <= 1)).all()
    assert (np.diff(scores) >= 0).all()


# -- promise -----------------------------------------------------------------------------------------------------------
def facts(cosines: list[float], texts: list[str]) -> View:
    vectors = [unit(cosine, (1 - cosine**2) ** 0.5) for cosine in cosines]
    return view(*(told(n, text, vector=vector) for n, (text, vector) in enumerate(zip(texts, vectors, strict=True), 1)))


@given(
    st.lists(st.tuples(st.integers(-9, 9), st.sampled_from(["qx qx", "qtea qx", "qtea qcat"])), min_size=2, max_size=10),
    st.sampled_from(["qtea qcat", "qtea", "What is my qtea?", "What did you say about qcat?"]),
)
def test_promise_agrees_with_the_sum_where_nothing_stands_beside(given_lines: list[tuple[int, str]], text: str) -> None:
    over = facts([cosine / 10 for cosine, _ in given_lines], [words for _, words in given_lines])
    question = asked(text, over)
    seen = first_pass(over, question, np.array(unit(1), dtype=np.float32), everywhere(over), 0.09)
    hoped = estimate_scores(over, question, seen)
    sums = sum_features(score_candidates(over, question, seen, everywhere(over), hoped, 5, None))
    parts = np.stack([seen.similarity, seen.coverage, seen.keywords], axis=1)
    for one in range(len(given_lines)):
        for other in range(len(given_lines)):
            if (parts[one] >= parts[other]).all():
                assert hoped[one] >= hoped[other] - 1e-4
                assert sums[one] >= sums[other] - 1e-4


def test_promise_knows_who_spoke_and_when() -> None:
    over = view(
        said(1, "qx", session="a", name="Dana", role="user", vector=unit(1)),
        said(2, "qx", session="b", name="Omar", role="user", vector=unit(1)),
        said(3, "qx", session="c", name="Bot", role="assistant", vector=unit(1)),
    )
    vector = np.array(unit(1), dtype=np.float32)

    def order(text: str) -> list[int]:
        question = asked(text, over)
        seen = first_pass(over, question, vector, everywhere(over), 0.09)
        hoped = estimate_scores(over, question, seen)
        sums = sum_features(score_candidates(over, question, seen, everywhere(over), hoped, 5, None))
        assert int(hoped.argmax()) == int(sums.argmax()), text
        return np.argsort(-hoped, kind="stable").tolist()

    assert order("What does Dana say?")[0] == 0
    assert order("What does Omar say?")[0] == 1
    assert order("What is my name?")[-1] == 2
    assert order("What did you recommend?")[0] == 2


# -- similarity and the gate -------------------------------------------------------------------------------------------
@given(rows_of_signals)
def test_relevance_lies_between_0_and_1(values: list[list[float]]) -> None:
    found = measure_relevance(near(values))
    assert ((found >= 0) & (found <= 1 + 1e-6)).all()


@given(one_row, st.sampled_from(["nearest", "coverage", "speaker", "time"]), share)
def test_more_of_a_part_is_never_less_relevant(values: list[float], name: str, more: float) -> None:
    better = [*values]
    better[NAMES.index(name)] = max(values[NAMES.index(name)], more)
    low, high = measure_relevance(near([values, better]))
    assert high >= low - 1e-6


def test_relevance_by_hand() -> None:
    meant = [row(nearest=0.4), row(nearest=0.4, pair=0.1), row(nearest=-0.5, pair=-0.9)]
    values = [*meant, row(coverage=1), row(nearest=0.4, coverage=0.5), row(nearest=1.7)]
    assert measure_relevance(near(values)).tolist() == pytest.approx([0.4, 0.4, 0, 0.75, 1 - 0.6 * (1 - 0.375), 1], abs=1e-6)


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_chance_grows_with_the_scope_and_is_held(left: int, right: int) -> None:
    low, high = sorted((left, right))
    assert 0 < chance_relevance(low) <= chance_relevance(high) < 0.6


def test_chance_tells_scopes_of_different_size_apart() -> None:
    assert chance_relevance(0) == chance_relevance(1) < chance_relevance(10) < chance_relevance(100) < chance_relevance(1000)


def passed(gate: RelevanceThreshold, likeness: list[float], limit: int = 5) -> list[int]:
    return gate.select(np.arange(len(likeness)), np.array(likeness, dtype=np.float32), limit).tolist()


@given(st.lists(share, max_size=12), share, st.integers(1, 12))
def test_a_threshold_of_the_callers_own_is_asked_of_every_record(likeness: list[float], wanted: float, limit: int) -> None:
    kept = passed(RelevanceThreshold(wanted), likeness, limit)
    assert kept == [at for at, value in enumerate(likeness) if np.float32(value) >= wanted]


def test_a_threshold_of_zero_keeps_everything() -> None:
    assert passed(RelevanceThreshold(0), [0.0, 0.001, 0.0]) == [0, 1, 2]


@pytest.mark.parametrize("size", [1, 10, 300, 10_000])
def test_without_a_threshold_nothing_comes_where_the_best_is_no_better_than_chance(size: int) -> None:
    gate = RelevanceThreshold.of(size)
    assert passed(gate, [chance_relevance(size) - 0.01, 0.05]) == []
    assert passed(
        gate, [chance_relevance(size) + 0.01, chance_relevance(size) / 2 + 0.01, chance_relevance(size) / 2 - 0.01]
    ) == [0, 1]
    assert gate.best_required == chance_relevance(size)


def test_beside_a_very_good_one_a_record_needs_more() -> None:
    gate = RelevanceThreshold.of(1)
    assert passed(gate, [0.2, 0.1]) == [0, 1]
    assert passed(gate, [1.0, 0.1]) == [0]
    assert gate.required(1.0) > gate.required(0.2)


def test_the_best_is_looked_for_among_those_that_would_be_returned() -> None:
    gate = RelevanceThreshold.of(100)
    likeness = [0.1, 0.1, 0.9]
    assert passed(gate, likeness, limit=2) == []
    assert passed(gate, likeness, limit=3) == [2]


def test_no_candidates() -> None:
    assert passed(RelevanceThreshold.of(10), []) == []
    assert passed(RelevanceThreshold(0.5), []) == []


@given(st.lists(st.integers(0, 3), max_size=40), st.randoms())
def test_of_equals_the_newer_comes_first(values: list[int], chance_of: object) -> None:
    sequences = np.arange(len(values)) + 10
    chance_of.shuffle(sequences)  # type: ignore[attr-defined]
    order = order_candidates(np.arange(len(values)), np.array(values, dtype=np.float32), sequences).tolist()
    assert order == sorted(range(len(values)), key=lambda at: (-values[at], -sequences[at]))


def test_names_the_scope_has_never_heard_lower_the_relevance_and_not_the_score() -> None:
    known = near([row(nearest=0.4), row(coverage=1.0)])
    strange = Features(known.slots, known.values, known.measured, unknown_names=1.0)
    assert measure_relevance(strange).tolist() == pytest.approx([each * 0.7 for each in measure_relevance(known).tolist()])
    assert sum_features(strange).tolist() == sum_features(known).tolist()
