"""From signals to a score: bounded, monotonic, and sensible for stores with hardly anything in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.recall.flow import _best
from recollect.recall.fusion import chance, fused, score, similarity
from recollect.recall.signals import Signals

CLOSE = 1e-4
unit = st.floats(0, 1, width=32)
cosine = st.floats(-1, 1, width=32)
records = st.lists(st.tuples(cosine, unit, unit, st.booleans()), max_size=12)


def signals(lines: list[tuple[float, float, float, bool]], has_vector: bool = True, has_words: bool = True) -> Signals:
    """meaning, words, coverage, embedded of each record."""
    columns = list(zip(*lines, strict=True)) or [(), (), (), ()]
    meaning, words, coverage = (np.array(column, dtype=np.float32) for column in columns[:3])
    embedded = np.array(columns[3], dtype=np.bool_)
    return Signals(np.where(embedded, meaning, 0).astype(np.float32), words, coverage, embedded, has_vector, has_words)


def everything(measured: Signals) -> np.ndarray:
    return np.ones(len(measured.words), dtype=np.bool_)


@given(records, st.booleans(), st.booleans())
def test_scores_and_similarities_lie_between_0_and_1(
    lines: list[tuple[float, float, float, bool]], has_vector: bool, has_words: bool
) -> None:
    measured = signals(lines, has_vector, has_words)
    scores = score(fused(measured, everything(measured)))
    alike = similarity(measured)
    assert len(scores) == len(alike) == len(lines)
    for values in (scores, alike):
        assert np.isfinite(values).all()
        assert (values >= 0).all()
        assert (values <= 1).all()


@given(records.filter(bool), st.integers(0, 11), cosine, unit)
def test_more_likeness_never_lowers_the_score(
    lines: list[tuple[float, float, float, bool]], pick: int, meaning: float, words: float
) -> None:
    at = pick % len(lines)
    low, common, coverage, embedded = lines[at]
    better = [*lines]
    better[at] = (max(low, meaning), max(common, words), coverage, embedded)
    before, after = signals(lines), signals(better)
    assert score(fused(after, everything(after)))[at] >= score(fused(before, everything(before)))[at] - CLOSE
    assert similarity(after)[at] >= similarity(before)[at] - CLOSE


@given(st.lists(st.tuples(cosine, unit, unit, st.just(True)), min_size=2, max_size=12))
def test_what_is_better_in_every_part_comes_first(lines: list[tuple[float, float, float, bool]]) -> None:
    measured = signals(lines)
    scores = fused(measured, everything(measured))
    for left, one in enumerate(lines):
        for right, other in enumerate(lines):
            if one[0] >= other[0] and one[1] >= other[1]:
                assert scores[left] >= scores[right] - CLOSE


@given(unit, unit, unit)
def test_coverage_raises_similarity(meaning: float, low: float, high: float) -> None:
    low, high = sorted((low, high))
    alike = similarity(signals([(meaning, 0, low, True), (meaning, 0, high, True)]))
    assert alike[1] >= alike[0] - CLOSE
    assert alike[0] >= meaning - CLOSE


def test_a_negative_cosine_is_no_likeness() -> None:
    assert similarity(signals([(-0.9, 0, 0, True)])).tolist() == [0.0]


def test_a_store_without_records() -> None:
    measured = signals([])
    assert fused(measured, everything(measured)).shape == (0,)
    assert score(np.empty(0, dtype=np.float32)).shape == (0,)


@pytest.mark.parametrize("others", [[], [(0.1, 0.0, 0.0, True)] * 2])
def test_a_good_match_scores_well_among_few_and_a_bad_one_badly(others: list[tuple[float, float, float, bool]]) -> None:
    measured = signals([(0.8, 0.6, 1.0, True), *others])
    assert score(fused(measured, everything(measured)))[0] > 0.8
    measured = signals([(0.05, 0.0, 0.0, True), *others])
    assert score(fused(measured, everything(measured)))[0] < 0.25


def test_a_record_without_a_vector_is_judged_by_its_words() -> None:
    measured = signals([(0.0, 0.6, 1.0, False), (0.15, 0.0, 0.0, True), (0.1, 0.0, 0.0, True)])
    scores = score(fused(measured, everything(measured)))
    assert scores[0] > 0.5 > scores[1]
    assert similarity(measured)[0] == 1.0


def test_records_that_are_not_usable_do_not_move_the_others() -> None:
    lines = [(0.5, 0.3, 0.5, True), (0.2, 0.1, 0.1, True)]
    alone = signals(lines)
    crowd = signals([*lines, *[(0.95, 0.9, 1.0, True)] * 50])
    usable = np.array([True, True] + [False] * 50)
    assert np.allclose(fused(crowd, usable)[:2], fused(alone, everything(alone)), atol=CLOSE)


def test_a_query_without_words_is_ranked_by_meaning_and_one_without_a_vector_by_words() -> None:
    lines = [(0.9, 0.0, 0.0, True), (0.1, 0.9, 1.0, True)]
    by_meaning = signals(lines, has_words=False)
    by_words = replace(signals(lines), has_vector=False, embedded=np.zeros(2, dtype=np.bool_))
    assert np.argmax(fused(by_meaning, everything(by_meaning))) == 0
    assert np.argmax(fused(by_words, everything(by_words))) == 1
    assert np.allclose(similarity(by_words), [0.0, 1.0])


def test_a_query_without_anything_favours_nobody() -> None:
    measured = signals([(0.0, 0.0, 0.0, False)] * 3, has_vector=False, has_words=False)
    assert len(set(fused(measured, everything(measured)).tolist())) == 1


@given(st.integers(0, 10**7), st.integers(0, 10**7))
def test_chance_grows_with_the_store_and_is_held(left: int, right: int) -> None:
    low, high = sorted((left, right))
    assert 0 < chance(low) <= chance(high) < 0.5


@given(st.lists(st.integers(0, 5), max_size=60), st.integers(1, 10))
def test_the_best_are_those_that_sorting_all_would_give(values: list[int], limit: int) -> None:
    deviations = np.array(values, dtype=np.float32)
    slots = np.arange(len(values))
    expected = sorted(range(len(values)), key=lambda slot: (-values[slot], -slot))
    assert _best(slots, deviations, slots, limit)[:limit].tolist() == expected[:limit]
