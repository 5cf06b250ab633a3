"""Every embedder of the package against the contract, and the contract against embedders that break it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from keepstone.embedders.function import FunctionEmbedder
from keepstone.embedders.minilm import MiniLMEmbedder
from keepstone.embedders.static import StaticEmbedder
from keepstone.testing.embedders import EmbedderContract
from tests.embedders.minilm_support import weights_folder


def hashed(texts: list[str]) -> list[list[float]]:
    """Vectors without meaning: 32 bytes of a digest, never all zero."""
    return [[byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()] for text in texts]


class TestStaticEmbedder(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self) -> StaticEmbedder:
        return StaticEmbedder()


@pytest.fixture(scope="module")
def minilm() -> MiniLMEmbedder:
    """Loaded once: its weights are 90 MB."""
    return MiniLMEmbedder(str(weights_folder()))


class TestMiniLMEmbedder(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self, minilm: MiniLMEmbedder) -> MiniLMEmbedder:
        return minilm


class TestFunctionEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> FunctionEmbedder:
        return FunctionEmbedder(hashed)


class Broken:
    """A sound embedder until one fault is switched on."""

    id = "broken"
    dimension = 32
    local = True

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.calls = 0
        self.kept: dict[tuple[str, ...], NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str], *, purpose: str = "document") -> NDArray[np.float32]:
        self.calls += 1
        vectors = FunctionEmbedder(hashed, dimension=32).embed(list(texts))
        match self.fault:
            case "double" if len(texts):
                return vectors.astype(np.float64)  # type: ignore[return-value]
            case "long":
                return vectors * 2
            case "order":
                return np.ascontiguousarray(vectors[::-1])
            case "short":
                return np.ascontiguousarray(vectors[:, :31])
            case "flat" if not len(texts):
                return np.empty(0, dtype=np.float32)
            case "empty is nan":
                return np.where(np.array([[not text] for text in texts], dtype=bool).reshape(-1, 1), np.nan, vectors)
            case "drifts":
                vectors[:, 0] += self.calls
                return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            case "one for all":
                return np.full_like(vectors, 32**-0.5)
            case "renames":
                self.id = f"broken-{self.calls}"
            case "shared":
                return self.kept.setdefault(tuple(texts), vectors)
            case "columns first":
                return np.asfortranarray(vectors)
        return vectors


@pytest.mark.parametrize(
    ("fault", "test"),
    [
        ("double", EmbedderContract.test_returns_one_unit_vector_per_text),
        ("long", EmbedderContract.test_returns_one_unit_vector_per_text),
        ("short", EmbedderContract.test_returns_one_unit_vector_per_text),
        ("columns first", EmbedderContract.test_returns_one_unit_vector_per_text),
        ("flat", EmbedderContract.test_accepts_no_texts),
        ("order", EmbedderContract.test_a_batch_equals_its_texts_one_by_one_in_order),
        ("drifts", EmbedderContract.test_is_deterministic),
        ("drifts", EmbedderContract.test_serves_threads),
        ("one for all", EmbedderContract.test_different_texts_differ),
        ("renames", EmbedderContract.test_id_and_dimension_stay),
        ("shared", EmbedderContract.test_returns_copies),
    ],
)
def test_the_contract_catches(fault: str, test) -> None:  # type: ignore[no-untyped-def]
    test(EmbedderContract(), Broken("none"))
    with pytest.raises(AssertionError):
        test(EmbedderContract(), Broken(fault))


def test_the_contract_catches_a_bad_odd_text() -> None:
    EmbedderContract().test_accepts_odd_texts(Broken("none"), "empty")
    with pytest.raises(AssertionError):
        EmbedderContract().test_accepts_odd_texts(Broken("empty is nan"), "empty")


def test_the_contract_catches_vectors_without_meaning() -> None:
    class Claims(EmbedderContract):
        semantic = True

    with pytest.raises(AssertionError):
        Claims().test_a_paraphrase_is_nearer_than_another_subject(Broken("one for all"), "a cat", "one cat", "tax law")
