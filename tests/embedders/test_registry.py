"""make_embedder: names, functions and objects."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from keepstone.embedders.function import FunctionEmbedder
from keepstone.embedders.registry import make_embedder, names
from keepstone.embedders.static import StaticEmbedder
from keepstone.errors import ConfigurationError


class Acme:
    """An embedder whose dimension costs a call to its provider."""

    id = "acme-1"
    local = False

    def __init__(self) -> None:
        self.asked = 0

    @property
    def dimension(self) -> int:
        self.asked += 1
        return 2

    def embed(self, texts: Sequence[str], *, purpose: str = "document") -> NDArray[np.float32]:
        return np.ones((len(texts), 2), dtype=np.float32)


@pytest.mark.parametrize("name", ["auto", "static", " Static "])
def test_the_default_is_the_static_model(name: str) -> None:
    assert isinstance(make_embedder(name), StaticEmbedder)


@pytest.mark.parametrize("spec", [None, "none"])
def test_none_means_words_only(spec: object) -> None:
    assert make_embedder(spec) is None


def test_an_embedder_is_returned_as_it_is_and_not_asked_anything() -> None:
    acme = Acme()
    assert make_embedder(acme) is acme
    assert acme.asked == 0


def test_an_embedder_that_can_be_called_is_still_an_embedder() -> None:
    class Callable(Acme):
        def __call__(self, texts: list[str]) -> list[list[float]]:
            raise AssertionError("the embedder's own embed() must be used")

    called = Callable()
    assert make_embedder(called) is called


def test_a_function_is_wrapped() -> None:
    embedder = make_embedder(lambda texts: [[1.0, 0.0] for _ in texts])
    assert isinstance(embedder, FunctionEmbedder)
    assert embedder.embed(["a"]).tolist() == [[1.0, 0.0]]


@pytest.mark.parametrize(("name", "near"), [("statik", "static"), ("aut", "auto"), ("non", "none")])
def test_an_unknown_name_gets_the_nearest_one(name: str, near: str) -> None:
    with pytest.raises(ConfigurationError, match=f"no embedder named '{name}'. Did you mean '{near}'") as caught:
        make_embedder(name)
    for known in names():
        assert known in str(caught.value)


def test_a_name_like_no_other_gets_no_guess() -> None:
    with pytest.raises(ConfigurationError) as caught:
        make_embedder("xyzzy")
    assert "Did you mean" not in str(caught.value)
    assert "auto, minilm, multilingual, none, static" in str(caught.value)


def test_a_class_is_not_an_instance() -> None:
    with pytest.raises(ConfigurationError, match=r"is a class. Pass an instance: StaticEmbedder\("):
        make_embedder(StaticEmbedder)


@pytest.mark.parametrize("spec", [5, object(), ["auto"]])
def test_what_cannot_embed_is_refused(spec: object) -> None:
    with pytest.raises(ConfigurationError, match="cannot be used as an embedder"):
        make_embedder(spec)
