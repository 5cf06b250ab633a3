"""The first look: words, related words, names and meaning of every record, on scopes small enough to reckon by hand."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from keepstone.recall.candidates import (
    _IDF_PSEUDO_COUNT,
    _KEYWORDS_ONLY,
    _PRIOR_RECORDS,
    _USUAL_DEVIATION,
    FirstPass,
    choose_candidates,
    first_pass,
)
from keepstone.recall.question import parse_question
from keepstone.recall.related import related_words
from keepstone.scope_index.columns import BM25_B, BM25_K1, ScopeIndex, View
from keepstone.text.times import instant
from keepstone.text.words import stem, term_hashes
from tests.recall.rows import Line, asked, changes, everywhere, said, told, unit, view

VOCABULARY = ("qtea", "qmilk", "qrom", "qoslo", "qcat", "qdog")  # no such words: they weigh 1 and have no relatives
texts = st.lists(st.sampled_from(VOCABULARY), max_size=8).map(tuple)
questions = st.lists(st.sampled_from((*VOCABULARY, "qnon")), min_size=1, max_size=4, unique=True)


def look(over: View, text: str, vector: tuple[float, ...] | None = None, **rest: object) -> FirstPass:
    given_vector = None if vector is None else np.array(vector, dtype=np.float32)
    return first_pass(over, asked(text, over), given_vector, everywhere(over), **rest)  # type: ignore[arg-type]


def rarity(held: int, live: int, weight: float = 1.0) -> float:
    return weight * math.log(1 + (_IDF_PSEUDO_COUNT + live - held + 0.5) / (held + 0.5))


# -- words -------------------------------------------------------------------------------------------------------------
def reference(lines: list[Line], words: list[str]) -> tuple[list[float], list[float]]:
    """BM25 as a share of the best possible, and the share of the question's rarity that a text holds, word by word."""
    live = [line for line in lines if line.active]
    average = max(1.0, sum(len(line.words) for line in live) / len(live)) if live else 1.0
    rare = {word: rarity(sum(word in line.words for line in live), len(live)) for word in words}
    total = sum(rare.values())
    scores, covered = [], []
    for line in lines:
        times = Counter(line.words if line.active else ())
        damp = BM25_K1 * (1 - BM25_B + BM25_B * len(line.words) / average)
        scores.append(sum(rare[word] * times[word] / (times[word] + damp) for word in words if times[word]) / total)
        covered.append(sum(rare[word] for word in words if times[word]) / total)
    return scores, covered


@given(st.lists(st.tuples(texts, st.booleans()), min_size=1, max_size=12), questions)
def test_words_and_coverage_equal_the_reference(given_lines: list[tuple[tuple[str, ...], bool]], words: list[str]) -> None:
    lines = [Line(n, held, active=active) for n, (held, active) in enumerate(given_lines, 1)]
    seen = look(view(*lines), " ".join(words))
    expected_words, expected_coverage = reference(lines, words)
    assert np.allclose(seen.keywords, expected_words, atol=1e-5)
    assert np.allclose(seen.coverage, expected_coverage, atol=1e-5)
    assert ((seen.keywords >= 0) & (seen.keywords < 1)).all()
    assert not seen.has_vector


def test_a_rare_word_says_more_than_a_common_one() -> None:
    seen = look(view(*(Line(n, ("qtea", other)) for n, other in enumerate(("qmilk", "qrom", "qcat"), 1))), "qtea qrom")
    assert seen.coverage[1] == pytest.approx(1)
    assert seen.coverage[0] == pytest.approx(rarity(3, 3) / (rarity(3, 3) + rarity(1, 3)))
    assert [each.rarity for each in seen.matches] == pytest.approx([rarity(3, 3), rarity(1, 3)])
    assert seen.total_rarity == pytest.approx(rarity(3, 3) + rarity(1, 3))


def test_more_mentions_and_a_shorter_text_speak_for_a_record() -> None:
    seen = look(view(Line(1, ("qtea",)), Line(2, ("qtea", "a", "b", "c")), Line(3, ("qtea", "qtea", "qtea", "c"))), "qtea")
    assert seen.keywords[2] > seen.keywords[1]
    assert seen.keywords[0] > seen.keywords[1]
    assert seen.coverage.tolist() == [1.0, 1.0, 1.0]


def test_a_word_counts_by_how_much_it_says_in_english() -> None:
    seen = look(view(told(1, "nothing"), told(2, "of the kind")), "like cello")
    light, heavy = (related_words(word).weight for word in ("like", "cello"))
    assert [each.rarity for each in seen.matches] == pytest.approx([rarity(0, 2, light), rarity(0, 2, heavy)])


# -- related words -----------------------------------------------------------------------------------------------------
def test_a_related_word_counts_by_its_likeness_and_not_in_bm25() -> None:
    known = related_words("doctor")
    word = next(word for word in ("physician", "surgeon", "dentist") if int(term_hashes([stem(word)])[0]) in known.hashes)
    likeness = known.similarities[known.hashes.index(int(term_hashes([stem(word)])[0]))]
    seen = look(view(Line(1, (stem(word),)), Line(2, ("doctor",)), Line(3, ("doctor", stem(word))), Line(4, ("qcat",))), "doctor")
    assert seen.coverage.tolist() == pytest.approx([likeness, 1, 1, 0], abs=1e-6)
    assert seen.keywords[0] == seen.keywords[3] == 0
    assert seen.keywords[1] > 0


def test_of_two_related_words_the_nearer_counts_and_once() -> None:
    known = related_words("doctor")
    words = [stem(word) for word in ("physician", "surgeon", "nurse", "dentist", "patient", "medical")]
    by_hash = dict(zip(term_hashes(words).tolist(), words, strict=True))
    held = [(by_hash[hashed], value) for hashed, value in zip(known.hashes, known.similarities, strict=True) if hashed in by_hash]
    assert len(held) > 1
    seen = look(view(Line(1, tuple(word for word, _ in held)), Line(2, (held[-1][0],))), "doctor")
    assert seen.coverage.tolist() == pytest.approx([held[0][1], held[-1][1]], abs=1e-6)


def test_a_related_word_that_stands_nearly_everywhere_tells_nothing() -> None:
    related = next(
        word for word in ("physician", "surgeon") if int(term_hashes([stem(word)])[0]) in related_words("doctor").hashes
    )
    few = look(view(*(Line(n, (stem(related),)) for n in range(1, 1501))), "doctor")
    many = look(view(*(Line(n, (stem(related),)) for n in range(1, 2501))), "doctor")
    assert few.coverage.min() > 0
    assert many.coverage.max() == 0


# -- names -------------------------------------------------------------------------------------------------------------
def test_a_name_counts_for_what_its_bearer_says_and_for_records_nobody_says() -> None:
    over = view(
        said(1, "I drink tea", name="Dana"),
        said(2, "Hello Dana, I drink tea", name="Omar"),
        told(3, "Dana drinks tea"),
        said(4, "I drink milk", name="Omar"),
        told(5, "Erik drinks tea"),
    )
    seen = look(over, "Dana")
    assert seen.coverage.tolist() == pytest.approx([1, 0, 1, 0, 0])
    assert seen.matches[0].rarity == pytest.approx(rarity(2, 5, related_words("dana").weight))
    assert seen.keywords[2] > 0 == seen.keywords[0] == seen.keywords[1]


def test_a_name_of_nobody_who_speaks_here_is_a_word_like_others() -> None:
    over = view(said(1, "I drink tea", name="Omar"), said(2, "Hello Dana", name="Omar"), told(3, "Dana drinks tea"))
    assert look(over, "Dana").coverage.tolist() == pytest.approx([0, 1, 1])


def test_a_surname_is_of_all_who_have_it() -> None:
    over = view(said(1, "tea", name="Dana Smith"), said(2, "tea", name="Omar Smith"), said(3, "tea", name="Lee"))
    assert look(over, "Smith").coverage.tolist() == pytest.approx([1, 1, 0])
    assert look(over, "Omar Smith").coverage.tolist()[1] == pytest.approx(1)


# -- meaning -----------------------------------------------------------------------------------------------------------
def test_meaning_is_the_cosine_and_words_stand_in_where_there_is_no_vector() -> None:
    over = view(Line(1, vector=unit(1)), Line(2, ("qtea",)), Line(3, vector=unit(0, -1)), Line(4))
    seen = look(over, "qtea", (0.6, 0.8, 0.0, 0.0), deviation=_USUAL_DEVIATION)
    constant, share = _KEYWORDS_ONLY
    assert seen.similarity.tolist() == pytest.approx([0.6, constant + share, -0.8, constant], abs=1e-6)
    assert seen.has_vector


@pytest.mark.parametrize("vector", [None, (1.0, 0.0, 0.0), (1.0,) * 8])
def test_without_a_vector_that_fits_all_are_judged_by_words(vector: tuple[float, ...] | None) -> None:
    seen = look(view(Line(1, ("qtea",), unit(1)), Line(2, ("qcat",), unit(0, 1))), "qtea", vector)
    assert not seen.has_vector
    assert seen.similarity.tolist() == pytest.approx([sum(_KEYWORDS_ONLY), _KEYWORDS_ONLY[0]])


@pytest.mark.parametrize("deviation", [0.03, 0.12, 0.3])
def test_the_cosines_of_another_embedder_are_brought_to_the_usual_spread(deviation: float) -> None:
    over = view(Line(1, vector=unit(1)), Line(2, vector=unit(0.5, 1)))
    seen = look(over, "", unit(1), deviation=deviation)
    expected = np.array([1, 0.5 / math.sqrt(1.25)]) * _USUAL_DEVIATION / deviation
    assert seen.similarity.tolist() == pytest.approx(expected.tolist(), rel=1e-5)


def test_an_unknown_spread_is_measured_and_in_a_small_scope_taken_to_be_usual() -> None:
    chance = np.random.default_rng(5)
    raw = chance.normal(size=(2000, 64)) + 4  # all rather alike: cosines near 0.9, close together
    units = raw / np.linalg.norm(raw, axis=1, keepdims=True)
    question = tuple(units[0].tolist())
    lines = [Line(n, vector=tuple(row.tolist())) for n, row in enumerate(units, 1)]
    for count in (1, 5, 2000):
        over = view(*lines[1 : count + 1], dimension=64)
        cosines = units[1 : count + 1] @ units[0]
        size = len(cosines)
        spread = math.sqrt((size * cosines.var() + _PRIOR_RECORDS * _USUAL_DEVIATION**2) / (size + _PRIOR_RECORDS))
        seen = first_pass(over, asked(""), np.array(question, dtype=np.float32), everywhere(over))
        assert np.allclose(seen.similarity, cosines * _USUAL_DEVIATION / spread, atol=1e-3)
        assert seen.similarity.max() < 1.1 or count > 100


def test_records_that_may_not_be_used_do_not_count_for_the_spread() -> None:
    lines = [Line(n, vector=unit(1, n / 10)) for n in range(1, 40)]
    odd = [Line(100 + n, vector=unit(-1), active=False) for n in range(200)]
    vector = np.array(unit(1), dtype=np.float32)
    alone, crowd = view(*lines), view(*lines, *odd)
    one = first_pass(alone, asked(""), vector, everywhere(alone))
    other = first_pass(crowd, asked(""), vector, everywhere(crowd))
    assert np.allclose(other.similarity[: len(lines)], one.similarity, atol=1e-6)


# -- the numbers of the whole --------------------------------------------------------------------------------------------
def test_a_part_of_a_scope_is_measured_by_the_numbers_of_the_whole() -> None:
    lines = [Line(n, words) for n, words in enumerate([("qtea", "qmilk"), ("qtea",), ("qcat",), ("qrom", "qcat")], 1)]
    whole = look(view(*lines), "qtea qrom")
    part = look(view(lines[0], lines[3]), "qtea qrom", frequencies=[2, 1], population=4)
    assert np.allclose(part.coverage, whole.coverage[[0, 3]], atol=1e-6)


def test_numbers_of_the_whole_that_do_not_agree_stay_in_bounds() -> None:
    seen = look(view(Line(1, ("qtea", "qmilk")), Line(2, ("qrom",))), "qtea qrom", frequencies=[3500, 1], population=2)
    assert ((seen.coverage >= 0) & (seen.coverage <= 1)).all()
    assert all(each.rarity > 0 for each in seen.matches)


@pytest.mark.parametrize("text", ["", "qtea", "who are you?"])
def test_scopes_with_nothing_in_them(text: str) -> None:
    assert len(look(view(), text, unit(1)).similarity) == 0
    seen = look(view(Line(1, ("qtea",), active=False)), text, unit(1))
    assert np.isfinite(seen.similarity).all()
    assert np.isfinite(seen.keywords).all()


def test_slots_that_are_gone_leave_no_trace() -> None:
    """A scope in which much was changed is measured as one that was just read."""
    lines = [said(n, f"qtea number{n}", name="Dana" if n % 2 else None, vector=unit(1, n)) for n in range(1, 9)]
    index = ScopeIndex(0)
    index.apply(changes(1, [line.with_(words=("qtea", "qmilk", *map(str, range(60)))) for line in lines]))
    index.apply(changes(2, lines))
    index.apply(changes(3, [], [1, 2]))
    warm, fresh = index.view(), view(*lines[2:])
    assert warm.size > fresh.size
    slots = [int(np.flatnonzero(warm.sequences == line.sequence)[0]) for line in lines[2:]]
    for text in ("qtea", "qmilk", "Dana qtea", "number5"):
        one, other = look(warm, text, unit(1)), look(fresh, text, unit(1))
        assert np.allclose(one.keywords[slots], other.keywords, atol=1e-6), text
        assert np.allclose(one.coverage[slots], other.coverage, atol=1e-6), text
        assert np.allclose(one.similarity[slots], other.similarity, atol=1e-6), text


# -- choosing ------------------------------------------------------------------------------------------------------------
@given(st.lists(st.tuples(st.integers(0, 1), st.booleans()), max_size=80), st.integers(1, 6), st.none() | st.integers(0, 79))
@example([(0, True)] * 50 + [(1, True)], 3, None)  # most promise the same, and the best is the newest
def test_the_most_promising_are_always_chosen(given_slots: list[tuple[int, bool]], wanted: int, also: int | None) -> None:
    promise = np.array([value for value, _ in given_slots], dtype=np.float32)
    usable = np.array([flag for _, flag in given_slots], dtype=np.bool_)
    also = None if also is None or also >= len(given_slots) else also
    chosen = choose_candidates(promise, usable, wanted, also).tolist()
    allowed = np.flatnonzero(usable).tolist()
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= {*allowed, *([] if also is None else [also])}
    assert also is None or also in chosen
    assert len(chosen) <= 2 * wanted + 1
    if len(allowed) <= 2 * wanted:
        assert set(allowed) <= set(chosen)
    else:
        values = sorted((promise[slot] for slot in allowed), reverse=True)
        best = [slot for slot in allowed if promise[slot] > values[wanted - 1]]
        assert set(best) <= set(chosen), "one that promises more than others was left out"
        assert len([slot for slot in chosen if slot in allowed]) >= wanted


def test_the_speakers_of_a_question_are_those_of_the_view() -> None:
    over = view(said(1, "tea", name="Dana"))
    assert parse_question("Dana?", over.speakers, instant(0)).names == {over.code("Dana")}
