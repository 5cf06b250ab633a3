"""The contract of embedders, as a pytest class.

Test an adapter by a subclass with one fixture:

    class TestAcmeEmbedder(EmbedderContract):
        semantic = True

        @pytest.fixture
        def embedder(self):
            return AcmeEmbedder(...)
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import pytest

from keepstone.ports.stores import Embedder

TEXTS = (
    "Dana prefers green tea over coffee.",
    "The build server runs out of disk space every Friday night.",
    "Her sister moved to Lisbon in March.",
    "def area(radius): return 3.14159 * radius ** 2",
)
ODD_TEXTS = {
    "empty": "",
    "white space": " \t\r\n\u00a0\u3000 ",
    "emoji": "😀👩‍👩‍👧🇩🇪",
    "control characters": "\x01\x07\x0b\x1b\x7f\u0085\u200b\ufeff",
    "chinese, japanese, korean": "我喜欢绿茶。東京は日本の首都です。한국어 텍스트",
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u202e\u0645\u0631\u062d\u0628\u0627",
    "combining marks": "e\u0301\u0323\u0307" * 40,
    "one long word": "x" * 10_000,
    "64 KB": "the kettle is on and the tea is green. " * (65_536 // 39),
    "one character": "a",
    "punctuation": "?!...---",
}
PARAPHRASES = (
    ("I am allergic to peanuts.", "She cannot eat peanuts because of an allergy.", "The train leaves at nine."),
    ("How do I reset my password?", "I forgot my password and need a new one.", "The garden needs water in summer."),
    ("My dog is called Rex.", "What is the name of my dog?", "Interest rates rose again this quarter."),
)


class EmbedderContract:
    """Subclass it, give it an `embedder` fixture, and set `semantic` when the vectors carry meaning."""

    semantic: ClassVar[bool] = False

    def test_names_itself(self, embedder: Embedder) -> None:
        assert isinstance(embedder.id, str)
        assert embedder.id.strip() == embedder.id != ""
        assert type(embedder.dimension) is int
        assert embedder.dimension > 0
        assert type(embedder.local) is bool

    def test_returns_one_unit_vector_per_text(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS)
        assert isinstance(vectors, np.ndarray)
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        _assert_unit_vectors(vectors)

    def test_accepts_no_texts(self, embedder: Embedder) -> None:
        vectors = embedder.embed([])
        assert vectors.shape == (0, embedder.dimension)
        assert vectors.dtype == np.float32

    @pytest.mark.parametrize("name", ODD_TEXTS)
    def test_accepts_odd_texts(self, embedder: Embedder, name: str) -> None:
        _assert_unit_vectors(embedder.embed([ODD_TEXTS[name]]))
        _assert_unit_vectors(embedder.embed([TEXTS[0], ODD_TEXTS[name], TEXTS[1]]))

    def test_accepts_any_sequence(self, embedder: Embedder) -> None:
        np.testing.assert_allclose(embedder.embed(tuple(TEXTS)), embedder.embed(list(TEXTS)), atol=1e-5)

    def test_accepts_queries_too(self, embedder: Embedder) -> None:
        vectors = embedder.embed(TEXTS, purpose="query")
        assert vectors.shape == (len(TEXTS), embedder.dimension)
        _assert_unit_vectors(vectors)

    def test_is_deterministic(self, embedder: Embedder) -> None:
        np.testing.assert_allclose(embedder.embed(TEXTS), embedder.embed(TEXTS), atol=1e-5)

    def test_a_batch_equals_its_texts_one_by_one_in_order(self, embedder: Embedder) -> None:
        texts = [*TEXTS, *ODD_TEXTS.values(), *reversed(TEXTS)]
        alone = np.concatenate([embedder.embed([text]) for text in texts])
        np.testing.assert_allclose(embedder.embed(texts), alone, atol=1e-5)

    def test_different_texts_differ(self, embedder: Embedder) -> None:
        similarities = _similarities(embedder, TEXTS)
        assert similarities[~np.eye(len(TEXTS), dtype=bool)].max() < 0.999

    def test_id_and_dimension_stay(self, embedder: Embedder) -> None:
        before = (embedder.id, embedder.dimension, embedder.local)
        embedder.embed(TEXTS)
        embedder.embed(["another text"], purpose="query")
        assert (embedder.id, embedder.dimension, embedder.local) == before

    def test_returns_copies(self, embedder: Embedder) -> None:
        before = embedder.embed(TEXTS[:1]).copy()
        returned = embedder.embed(TEXTS[:1])
        returned *= -1
        np.testing.assert_allclose(embedder.embed(TEXTS[:1]), before, atol=1e-5)

    def test_serves_threads(self, embedder: Embedder) -> None:
        batches = [[f"{text} {number}" for text in TEXTS] for number in range(32)]
        alone = [embedder.embed(batch) for batch in batches]
        with ThreadPoolExecutor(8) as threads:
            for together, expected in zip(threads.map(embedder.embed, batches), alone, strict=True):
                np.testing.assert_allclose(together, expected, atol=1e-5)

    @pytest.mark.parametrize(("text", "near", "far"), PARAPHRASES)
    def test_a_paraphrase_is_nearer_than_another_subject(self, embedder: Embedder, text: str, near: str, far: str) -> None:
        if not self.semantic:
            pytest.skip("this embedder does not claim to carry meaning (semantic = False)")
        similarities = _similarities(embedder, (text, near, far))
        assert similarities[0, 1] > similarities[0, 2] + 0.05


def _assert_unit_vectors(vectors: np.ndarray[tuple[int, ...], np.dtype[np.float32]]) -> None:
    assert vectors.dtype == np.float32
    assert vectors.ndim == 2
    assert vectors.flags.c_contiguous
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)


def _similarities(embedder: Embedder, texts: tuple[str, ...]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    vectors = embedder.embed(texts)
    similarities: np.ndarray[tuple[int, ...], np.dtype[np.float32]] = vectors @ vectors.T
    return similarities
