"""The tables of related words: whole, in order, and right about words that everybody knows."""

from __future__ import annotations

import math

import numpy as np
import pytest

from keepstone.recall.related import _MAX_WEIGHT, RelatedWords, _Tables, _tables, related_words
from keepstone.text.words import STOP_WORDS, stem, term_hashes


@pytest.fixture(scope="module")
def tables() -> _Tables:
    return _tables()


def hashed(word: str) -> int:
    return int(term_hashes([stem(word)])[0])


def test_the_files_agree(tables: _Tables) -> None:
    words = [word for word in tables.words if word]
    assert len(words) > 10_000
    assert tables.words in (words, [*words, ""])
    assert len(set(words)) == len(words)
    assert len(tables.related) == len(tables.similarity) == len(tables.weights) == len(words)
    assert tables.related.shape == tables.similarity.shape
    assert (tables.similarity.dtype, tables.weights.dtype) == (np.uint8, np.uint8)
    assert int(tables.related.max()) < len(words)


def test_words_are_what_a_question_may_hold(tables: _Tables) -> None:
    for word in tables.words[:-1]:
        assert word == word.lower().strip()
        assert word.isalpha()
        assert word not in STOP_WORDS


def test_likeness_falls(tables: _Tables) -> None:
    likeness = tables.similarity.astype(int)
    assert (np.diff(likeness, axis=1) <= 0).all()
    assert (likeness > 0).any(axis=1).mean() > 0.3, "hardly any word has relatives"


def test_no_word_is_its_own_relative_and_none_comes_twice(tables: _Tables) -> None:
    stems = [stem(word) for word in tables.words]
    for place in range(len(tables.weights)):
        kept = tables.related[place][tables.similarity[place] > 0].tolist()
        found = [stems[other] for other in kept]
        assert place not in kept
        assert stems[place] not in found, tables.words[place]
        assert len(set(found)) == len(found), tables.words[place]


def test_weights_are_of_use(tables: _Tables) -> None:
    assert int(tables.weights.max()) == 255
    assert 0.5 < _MAX_WEIGHT * float(np.median(tables.weights)) / 255 < 1.3
    assert len(np.unique(tables.weights)) > 50


@pytest.mark.parametrize(
    ("word", "other"),
    [
        ("doctor", "physician"), ("car", "vehicle"), ("movie", "film"), ("dog", "puppy"), ("wife", "husband"), ("city", "town"),
        ("job", "employment"), ("kitchen", "cooking"), ("purchase", "bought"), ("guitar", "bass"),
         ("mother", "mom"), ("happy", "glad"),
    ],
)  # fmt: skip
def test_known_pairs(word: str, other: str) -> None:
    assert hashed(other) in related_words(word).hashes or hashed(word) in related_words(other).hashes


@pytest.mark.parametrize(("word", "other"), [("doctor", "banana"), ("guitar", "mortgage"), ("monday", "cat"), ("tea", "engine")])
def test_words_that_have_nothing_in_common(word: str, other: str) -> None:
    assert hashed(other) not in related_words(word).hashes
    assert hashed(word) not in related_words(other).hashes


@pytest.mark.parametrize(("light", "heavy"), [("like", "cello"), ("really", "saffron"), ("thing", "dentist"), ("get", "opera")])
def test_words_that_say_little_weigh_little(light: str, heavy: str) -> None:
    assert related_words(light).weight < related_words(heavy).weight


@pytest.mark.parametrize("word", ["", "qqqzzz", "4x4", "東京", "Doctor", "doctor ", "\n", "a" * 1000])
def test_an_unknown_word_counts_in_full_and_has_no_relatives(word: str) -> None:
    assert related_words(word) == RelatedWords(1.0, (), ())


def test_relatives_are_terms_with_their_likeness_best_first(tables: _Tables) -> None:
    found = related_words("doctor")
    assert len(found.hashes) == len(found.similarities) > 3
    assert all(0 < value <= 1 for value in found.similarities)
    assert list(found.similarities) == sorted(found.similarities, reverse=True)
    place = tables.places["doctor"]
    first = tables.words[int(tables.related[place, 0])]
    assert found.hashes[0] == hashed(first)
    assert found.similarities[0] == pytest.approx(int(tables.similarity[place, 0]) / 255)
    assert math.isclose(found.weight, _MAX_WEIGHT * int(tables.weights[place]) / 255)


def test_a_relative_never_is_the_term_itself(tables: _Tables) -> None:
    for word in tables.words[:-1:37]:
        assert hashed(word) not in related_words(word).hashes, word
