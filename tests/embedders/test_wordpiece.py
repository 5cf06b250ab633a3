"""WordPiece: equal to the reference tokenizer for every character, for written text and for generated text."""

from __future__ import annotations

import os
import random
import string
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece as ReferenceModel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer

from keepstone.embedders import wordpiece
from keepstone.embedders.wordpiece import WordPiece

VOCABULARY = (Path(wordpiece.__file__).parent / "static_model" / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
UNKNOWN = VOCABULARY.index("[UNK]")

WRITTEN = [
    "",
    " \t\r\n ",
    "Hello, World! It's 5 o'clock -- isn't it?",
    "don't_stop-me/now: a@b.example $4.50 50% #1 [x] {y} <z> ~`^|\\",
    "Café NAÏVE Ångström façade ÉCOLE résumé",
    "Ελλάδα ΟΔΥΣΣΕΥΣ Σ σς", "Привет, МИР! Ёлка", "İstanbul DIŞ ılık", "Straße ẞ", "ﬁne ﬂow ½ ² ™ ①",
    "東京は日本の首都です", "中文abc字符", "한국어 텍스트", "ภาษาไทย", "हिन्दी भाषा", "العَرَبِيَّة", "עִבְרִית",
    "emoji 😀 👩‍👩‍👧 🇩🇪 x😀y", "“quotes” ‘single’ — dash … ellipsis", "a\u00a0b\u2003c\u3000d\u2028e\u2029f",
    "ctrl\x00a\x07b\x0bc\x0cd\x1be\x7ff\u0085g\u200bh\ufeffi\ufffdj\u00adk",
    "re\u0301sume\u0301 a\u0323\u0307b a\u0307\u0323b", "\u037e \u2126 \u212b \u0344 \u1fc1 \u0958",
    "豈更車 \U0002f800", "\U00020000\U0002b740", "tag\U000e0041ged \ue000private\U000f0000",
    "a" * 100, "a" * 101, "é" * 100, "é" * 101, "x" * 5000, "e\u0301" * 100, "antidisestablishmentarianism" * 3,
    "unaffable supercalifragilistic", "https://example.org/a?b=c&d=e#f", "def f(x): return x**2",
]  # fmt: skip


@pytest.fixture(scope="module")
def reference() -> Tokenizer:
    ids = {piece: index for index, piece in enumerate(VOCABULARY)}
    tokenizer = Tokenizer(ReferenceModel(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer


@pytest.fixture(scope="module")
def ours() -> WordPiece:
    return WordPiece(VOCABULARY)


@pytest.mark.parametrize("text", WRITTEN, ids=lambda text: ascii(text[:24]))
def test_written_text_is_cut_as_the_reference_cuts_it(text: str, reference: Tokenizer, ours: WordPiece) -> None:
    assert ours.encode(text) == reference.encode(text).ids


@pytest.mark.parametrize("plane", range(17))
def test_every_character_is_cut_as_the_reference_cuts_it(plane: int, reference: Tokenizer, ours: WordPiece) -> None:
    # Planes past the second hold one script or nothing: their beginnings, and one in sixteen of the rest.
    fine = plane < 2 or os.environ.get("HYPOTHESIS_PROFILE") == "explore"
    first = plane << 16
    codes = [code for code in range(first, first + 0x10000) if fine or code < first + 0x300 or code % 16 == 0]
    codes = [code for code in codes if not 0xD800 <= code < 0xE000]
    # Alone, inside a word and at a word's end: a removed, splitting or unknown character shows in one of them.
    texts = [f"{chr(code)} a{chr(code)}b play{chr(code)}" for code in codes]
    expected = [encoding.ids for encoding in reference.encode_batch(texts)]
    wrong = [hex(code) for code, text, ids in zip(codes, texts, expected, strict=True) if ours.encode(text) != ids]
    assert wrong == []


def test_thousands_of_mixed_texts_are_cut_as_the_reference_cuts_them(reference: Tokenizer, ours: WordPiece) -> None:
    chance = random.Random(7)
    alphabets = [string.ascii_letters + "   ", string.printable, "".join(WRITTEN), "éÈñüß ØåΣσςЖж中日한ก😀\u0301\u200d"]
    pieces = [piece.removeprefix("##") for piece in VOCABULARY]
    texts = ["".join(chance.choices(chance.choice(alphabets), k=chance.randint(0, 80))) for _ in range(5000)]
    texts += [chance.choice(["", " ", "-"]).join(chance.choices(pieces, k=chance.randint(1, 12))) for _ in range(5000)]
    for text, encoding in zip(texts, reference.encode_batch(texts), strict=True):
        assert ours.encode(text) == encoding.ids, ascii(text)


@settings(max_examples=500, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=120))
def test_generated_text_is_cut_as_the_reference_cuts_it(text: str, reference: Tokenizer, ours: WordPiece) -> None:
    assert ours.encode(text) == reference.encode(text).ids


@settings(max_examples=500, deadline=None)
@given(text=st.text(st.characters(max_codepoint=127), max_size=200))
def test_generated_ascii_is_cut_as_the_reference_cuts_it(text: str, reference: Tokenizer, ours: WordPiece) -> None:
    assert ours.encode(text) == reference.encode(text).ids


def test_a_special_token_written_in_a_text_is_ordinary_text(ours: WordPiece) -> None:
    special = {VOCABULARY.index(name) for name in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")}
    assert not special & set(ours.encode("[PAD] [UNK] [CLS] [SEP] [MASK]"))


def test_half_a_surrogate_pair_is_dropped(ours: WordPiece) -> None:
    assert ours.encode("pla\ud800y") == [VOCABULARY.index("play")]


def test_the_caches_stay_bounded_and_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wordpiece, "MAX_CACHED_WORDS", 5)
    monkeypatch.setattr(wordpiece, "MAX_CACHED_CHARACTERS", 5)
    small = WordPiece(VOCABULARY)
    words = ["playing", "café", "naïve", "über", "señor", "ångström", "w" * 40, "running", "x1", "x2", "x3"]
    first = [small.encode(word) for word in words]
    assert [small.encode(word) for word in words] == first
    assert len(small._cache) <= 5
    assert len(small._normal) <= 5
    assert first[0] == [VOCABULARY.index("playing")]
    assert first[1] == [VOCABULARY.index("cafe")]


def test_a_word_without_pieces_is_one_unknown() -> None:
    tiny = WordPiece(["[UNK]", "play", "##ing"])
    assert tiny.encode("Playing! playful") == [1, 2, 0, 0]
