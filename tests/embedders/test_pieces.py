"""Pieces: how text of many scripts is cut, and the mapped hash table."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from keepstone.embedders.pieces import UNKNOWN, Pieces, hash_table
from keepstone.embedders.static import MODEL_FOLDER

VOCABULARY = (MODEL_FOLDER / "pieces.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")


@pytest.fixture(scope="module")
def pieces() -> Pieces:
    return Pieces.map(MODEL_FOLDER)


def cut(pieces: Pieces, text: str) -> list[str]:
    return [VOCABULARY[id] for id in pieces.encode(text)]


def test_every_piece_is_found_by_its_text_and_no_other_text_is(pieces: Pieces) -> None:
    assert [pieces.find(piece) for piece in VOCABULARY] == list(range(len(VOCABULARY)))
    assert all(pieces.find(piece + "\u0416") == -1 for piece in VOCABULARY[::50])
    assert len(pieces) == len(VOCABULARY)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Green TEA!", ["green", "tea", "!"]),
        ("Straße", ["strasse"]),
        ("ŁÓDŹ", ["lodz"]),
        ("İstanbul ısı", ["istanbul", "isi"]),
        ("北京。", ["北京", "。"]),
        ("ＴＥＡ", ["tea"]),
        ("cafe\u0301", ["cafe"]),
        ("한국", ["한국"]),
        ("\u1112\u1161\u11ab\u1100\u116e\u11a8", ["한국"]),
        ("مُدَرِّسة", ["مدرسه"]),
        ("😀 tea", ["tea"]),
        ("हिन्दी tea", [UNKNOWN, "tea"]),
        ("ελληνικά", [UNKNOWN]),
        ("", []),
    ],
)
def test_case_accents_and_forms_do_not_count(pieces: Pieces, text: str, expected: list[str]) -> None:
    assert cut(pieces, text) == expected


def test_a_word_is_cut_into_its_longest_pieces() -> None:
    pieces = Pieces.of([UNKNOWN, "play", "##ing", "##i", "学", "学校", "校"])
    assert [pieces.encode(text) for text in ("playing", "plays", "学校学", "学生")] == [[1, 2], [0], [5, 4], [4, 0]]


def test_a_long_word_is_unknown_and_hostile_text_is_bounded(pieces: Pieces) -> None:
    assert cut(pieces, "a" * 101) == [UNKNOWN]
    assert len(pieces.encode("学" * 5000)) <= 2000


def test_equal_slots_are_told_apart() -> None:
    words = [UNKNOWN, *(f"word{number}" for number in range(3000))]
    pieces = Pieces.of(words)
    assert len(hash_table(words)) == 8192
    assert [pieces.find(word) for word in words] == list(range(len(words)))
    assert pieces.find("word3000") == -1


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=80))
def test_any_text_can_be_cut(text: str, pieces: Pieces) -> None:
    ids = pieces.encode(text)
    assert all(0 <= id < len(pieces) for id in ids)
    assert ids == Pieces.encode(pieces, text)
