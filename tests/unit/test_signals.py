"""BM25 and coverage against a plain reference, and the cosine of every record."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.recall.signals import _BACKGROUND, K1, B, measure
from tests.unit.rows import Line, view

VOCABULARY = ("tea", "milk", "rome", "oslo", "cat", "dog")
texts = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(tuple)
questions = st.lists(st.sampled_from((*VOCABULARY, "nowhere")), min_size=1, max_size=4, unique=True)


def reference(lines: list[Line], asked: list[str]) -> tuple[list[float], list[float]]:
    """BM25 as a share of the best possible, and the share of the query's rarity that a text holds, word by word."""
    live = [line for line in lines if line.active]
    average = max(1.0, sum(len(line.words) for line in live) / len(live)) if live else 1.0
    rarity = {}
    for word in asked:
        held = sum(word in line.words for line in live)
        rarity[word] = math.log(1 + (_BACKGROUND + len(live) - held + 0.5) / (held + 0.5))
    total = sum(rarity.values())
    scores, covered = [], []
    for line in lines:
        times = Counter(line.words)
        damp = K1 * (1 - B + B * len(line.words) / average)
        scores.append(sum(rarity[word] * times[word] / (times[word] + damp) for word in asked if times[word]) / total)
        covered.append(sum(rarity[word] for word in asked if times[word]) / total)
    return scores, covered


@given(st.lists(st.tuples(texts, st.booleans()), min_size=1, max_size=12), questions)
def test_words_and_coverage_equal_the_reference(given_lines: list[tuple[tuple[str, ...], bool]], asked: list[str]) -> None:
    lines = [Line(n, words, active=active) for n, (words, active) in enumerate(given_lines, 1)]
    signals = measure(view(*lines), asked, None)
    words, coverage = reference(lines, asked)
    assert np.allclose(signals.words, words, atol=1e-5)
    assert np.allclose(signals.coverage, coverage, atol=1e-5)
    assert (signals.words >= 0).all()
    assert (signals.words < 1).all()
    assert (signals.coverage <= 1 + 1e-6).all()
    assert signals.has_words
    assert not signals.has_vector


def test_a_part_of_a_scope_is_measured_by_the_numbers_of_the_whole() -> None:
    lines = [Line(n, words) for n, words in enumerate([("tea", "milk"), ("tea",), ("cat",), ("rome", "cat")], 1)]
    asked = ["tea", "rome"]
    whole = measure(view(*lines), asked, None)
    part = measure(view(lines[0], lines[3]), asked, None, frequencies=[2, 1], population=4)
    assert np.allclose(part.coverage, whole.coverage[[0, 3]], atol=1e-6)


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    signals = measure(view(Line(1, ("tea", "milk")), Line(2, ("tea", "rome")), Line(3, ("tea", "cat"))), ["tea", "rome"], None)
    assert signals.coverage[1] == pytest.approx(1)
    assert signals.coverage[0] < 0.5
    assert signals.words[1] > signals.words[0] > 0


def test_more_mentions_and_a_shorter_text_speak_for_a_record() -> None:
    signals = measure(
        view(Line(1, ("tea",)), Line(2, ("tea", "cat", "dog", "oslo")), Line(3, ("tea", "tea", "tea", "oslo"))), ["tea"], None
    )
    assert signals.words[2] > signals.words[1]
    assert signals.words[0] > signals.words[1]


def test_meaning_is_the_cosine_where_there_is_a_vector() -> None:
    lines = (Line(1, vector=(1.0, 0.0, 0.0, 0.0)), Line(2), Line(3, vector=(0.0, -1.0, 0.0, 0.0)))
    signals = measure(view(*lines), [], np.array([0.6, 0.8, 0, 0], dtype=np.float32))
    assert np.allclose(signals.meaning, [0.6, 0.0, -0.8])
    assert signals.embedded.tolist() == [True, False, True]
    assert (signals.has_vector, signals.has_words) == (True, False)
    assert signals.words.tolist() == signals.coverage.tolist() == [0.0] * 3


def test_a_vector_of_another_dimension_is_not_used() -> None:
    signals = measure(view(Line(1, ("tea",), (1.0, 0.0, 0.0, 0.0))), ["tea"], np.ones(3, dtype=np.float32))
    assert not signals.has_vector
    assert signals.embedded.tolist() == [False]
    assert signals.meaning.tolist() == [0.0]


def test_an_empty_scope() -> None:
    signals = measure(view(), ["tea"], np.ones(4, dtype=np.float32))
    assert all(len(column) == 0 for column in (signals.meaning, signals.words, signals.coverage, signals.embedded))


def test_a_scope_in_which_nothing_is_active() -> None:
    signals = measure(view(Line(1, ("tea",), active=False)), ["tea"], None)
    assert np.isfinite(signals.words).all()


def test_numbers_of_the_whole_that_do_not_agree_stay_in_bounds() -> None:
    lines = (Line(1, ("tea", "milk")), Line(2, ("rome",)))
    signals = measure(view(*lines), ["tea", "rome"], None, frequencies=[3500, 1], population=2)
    assert ((signals.coverage >= 0) & (signals.coverage <= 1)).all()
