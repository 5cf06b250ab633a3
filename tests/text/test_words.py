"""Words as search sees them: the same on both sides, whatever the spelling, and bounded for hostile input."""

from __future__ import annotations

import unicodedata
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.text.words import MAX_TERMS, STOP_WORDS, index_text, record_terms, stem, term_hashes, terms, unique


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dana's top-down UIs", ["dana", "top", "down", "uis"]),
        ("She doesn't drink coffee", ["not", "drink", "coffee"]),
        ("She doesn’t drink coffee", ["not", "drink", "coffee"]),
        ("no, never, not", ["no", "never", "not"]),
        ("snail_mail_box", ["snail", "mail", "box"]),
        ("4x4 in 2026", ["4x4", "2026"]),
        ("", []),
        ("?! … --", []),
        ("Ünïcöd Straße", ["unicod", "strass"]),
        ("ＦＵＬＬ width", ["full", "width"]),
        ("東京都に", ["東", "京", "都", "東京", "京都", "都に"]),
        ("東", ["東"]),
        ("Python入門book", ["python", "入", "門", "入門", "book"]),
    ],
)
def test_terms_of_a_text(text: str, expected: list[str]) -> None:
    assert terms(text) == expected


def test_stop_words_stand_only_where_nothing_else_does() -> None:
    assert terms("the cat is on the mat") == ["cat", "mat"]
    assert terms("to be or not") == ["not"]
    assert terms("What is it?") == ["what", "is", "it"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("city", "cities"), "city"),
        (("prefer", "prefers", "preferred", "preferring"), "prefer"),
        (("run", "runs", "running"), "run"),
        (("box", "boxes"), "box"),
        (("arrive", "arrives", "arrived", "arriving"), "arriv"),
        (("quick", "quickly"), "quick"),
        (("glass",), "glass"),
        (("bus",), "bus"),
        (("sing",), "sing"),
        (("naïves",), "naïves"),
        (("v2s",), "v2s"),
    ],
)
def test_stems(words: tuple[str, ...], expected: str) -> None:
    assert {stem(word) for word in words} == {expected}


def test_the_number_and_the_length_of_terms_are_bounded() -> None:
    many = terms(" ".join(f"w{number}" for number in range(MAX_TERMS + 10)))
    assert len(many) == MAX_TERMS
    assert many[-1] == f"w{MAX_TERMS - 1}"
    assert terms("x" * 1000) == ["x" * 64]


@given(st.text())
def test_spelling_variants_of_unicode_give_the_same_terms(text: str) -> None:
    assert terms(unicodedata.normalize("NFD", text)) == terms(unicodedata.normalize("NFC", text))


@given(st.text(max_size=60))
def test_terms_hold_nothing_that_the_full_text_index_would_split(text: str) -> None:
    for term in terms(text):
        assert term
        assert not any(c.isascii() and not c.isalnum() for c in term)
        assert not any("A" <= c <= "Z" for c in term)


@given(st.text(alphabet="abcdefgh ", max_size=40))
def test_case_does_not_matter(text: str) -> None:
    assert terms(text.upper()) == terms(text)


def test_a_key_is_searched_as_words() -> None:
    assert index_text("dark mode", None) == "dark mode"
    assert index_text("dark mode", "ui.theme_2") == "ui theme 2: dark mode"
    assert record_terms("dark blue", "ui.color")[:3] == ("ui", "color", "dark")


def test_hashes_are_stable_and_in_order() -> None:
    found = term_hashes(["tea", "coffee", "tea"])
    assert found.dtype == np.uint32
    assert found.tolist() == [zlib.crc32(b"tea"), zlib.crc32(b"coffee"), zlib.crc32(b"tea")]
    assert term_hashes(["\ud800"]).shape == (1,)
    assert term_hashes([]).tolist() == []


def test_unique_keeps_the_first_of_each() -> None:
    assert unique(["b", "a", "b", "c", "a"]) == ["b", "a", "c"]


def test_stop_words_are_terms_as_the_splitter_gives_them() -> None:
    assert all(word.isascii() and word.isalpha() and word == word.lower() for word in STOP_WORDS)
    assert not STOP_WORDS & {"no", "not", "never"}


@pytest.mark.parametrize(
    "words", [("love", "loves", "loved", "loving"), ("like", "liked"), ("make", "making"), ("name", "named")]
)
def test_short_words_meet_their_own_forms(words: tuple[str, ...]) -> None:
    assert len({stem(word) for word in words}) == 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ありがとう", ["りが", "がと", "とう"]),
        ("ガイド", ["ガイ", "イド"]),
        ("हिन्दी", ["हिन्दी"]),
        ("தமிழ்", ["தமிழ்"]),
        ("ภาษาที่ดี", ["ภา", "าษ", "ษา", "าท", "ที", "ี่", "่ด", "ดี"]),
    ],
)
def test_scripts_whose_letters_carry_marks_stay_whole(text: str, expected: list[str]) -> None:
    assert terms(text) == expected
