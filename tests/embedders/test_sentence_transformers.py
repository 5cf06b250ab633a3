"""SentenceTransformersEmbedder, with an object that has the `encode` of the package's models: the package itself brings torch
and is not installed here, so what its real models answer is not tested, only what is asked of them and made of it."""

from __future__ import annotations

import contextlib
import hashlib
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from keepstone import Memory
from keepstone.embedders.registry import make_embedder
from keepstone.embedders.sentence_transformers import SentenceTransformersEmbedder
from keepstone.errors import ConfigurationError, EmbedderError, EmbedderMismatch
from keepstone.testing.embedders import EmbedderContract

PACKAGE = "sentence_transformers"


class Model:
    """As far as the adapter sees it, a SentenceTransformer; it notes its calls, and with a `gate` whether two meet there."""

    def __init__(self, name: str = "", prompts: dict[str, str] | None = None) -> None:
        self.name, self.prompts = name, prompts or {}
        self.calls: list[dict[str, Any]] = []
        self.gate: threading.Barrier | None = None
        self.met = False
        self.returned: Any = None

    def encode(
        self,
        inputs: list[str],
        prompt_name: str | None = None,
        *,
        batch_size: int = 32,
        show_progress_bar: bool | None = None,
        convert_to_numpy: bool = True,
        normalize_embeddings: bool = False,
    ) -> Any:
        assert convert_to_numpy
        assert show_progress_bar is False
        if self.gate is not None:
            with contextlib.suppress(threading.BrokenBarrierError):
                self.gate.wait()
                self.met = True
        self.calls.append({"texts": inputs, "prompt": prompt_name})
        prompt = self.prompts[prompt_name] if prompt_name is not None else ""
        digests = [hashlib.sha256((prompt + text).encode()).digest() for text in inputs]
        rows: NDArray[np.float32] = np.array([[byte - 127.5 for byte in digest] for digest in digests], dtype=np.float32)
        if normalize_embeddings:
            rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        return rows if self.returned is None else self.returned


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> list[Model]:
    """The package as if it were installed; the models it has loaded."""
    loaded: list[Model] = []

    def load(name: str) -> Model:
        if name == "no/such-model":
            raise OSError("is not a local folder and is not a valid model identifier")
        loaded.append(Model(name))
        return loaded[-1]

    module = ModuleType(PACKAGE)
    module.SentenceTransformer = load  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, PACKAGE, module)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: module)
    return loaded


class TestSentenceTransformersEmbedder(EmbedderContract):
    @pytest.fixture
    def embedder(self) -> SentenceTransformersEmbedder:
        return SentenceTransformersEmbedder(Model(), id="hashes-32")


def test_a_name_is_loaded_with_the_first_text(package: list[Model]) -> None:
    embedder = make_embedder("sentence-transformers:acme/embed:v2")
    assert isinstance(embedder, SentenceTransformersEmbedder)
    assert (embedder.id, embedder.local, package) == ("sentence-transformers:acme/embed:v2", True, [])
    assert embedder.embed(["tea"]).shape == (1, 32)
    assert embedder.dimension == 32
    assert [(model.name, len(model.calls)) for model in package] == [("acme/embed:v2", 1)]


def test_all_texts_go_in_one_call_and_are_cut() -> None:
    model = Model()
    SentenceTransformersEmbedder(model, id="m").embed(["x" * 20_000, *map(str, range(200))])
    assert [len(call["texts"]) for call in model.calls] == [201]
    assert len(model.calls[0]["texts"][0]) == 16_384


@pytest.mark.parametrize(
    ("prompts", "query", "document"),
    [
        ({}, None, None),
        ({"query": "query: ", "passage": "passage: "}, "query", "passage"),
        ({"query": "Represent: "}, "query", None),
        ({"query": "", "document": "", "passage": "p"}, "query", "document"),
    ],
)
def test_prompts_are_used_where_the_model_defines_them(prompts: dict[str, str], query: str | None, document: str | None) -> None:
    model = Model(prompts=prompts)
    embedder = SentenceTransformersEmbedder(model, id="m")
    asked, told = embedder.embed(["tea"], purpose="query"), embedder.embed(["tea"])
    assert [call["prompt"] for call in model.calls] == [query, document]
    assert np.allclose(asked, told) == (prompts.get(query or "", "") == prompts.get(document or "", ""))


def test_calls_take_turns() -> None:
    model = Model()
    model.gate = threading.Barrier(2, timeout=0.3)
    embedder = SentenceTransformersEmbedder(model, id="m")
    threads = [threading.Thread(target=embedder.embed, args=([f"text {number}"],)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (len(model.calls), model.met) == (2, False)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (np.full((1, 32), np.nan), "m: .*zero or not finite"),
        (np.zeros((1, 32)), "m: .*zero or not finite"),
        (np.ones((2, 32)), r"m: .*shape \(2, 32\) for 1 text"),
        (np.ones((1, 31)), r"m: .*shape \(1, 31\)"),
        (np.ones(32), r"m: .*shape \(32,\)"),
        ("no", "m failed on 1 texts with ValueError"),
    ],
)
def test_unusable_vectors_are_refused(returned: Any, message: str) -> None:
    model = Model()
    embedder = SentenceTransformersEmbedder(model, id="m")
    assert embedder.dimension == 32
    model.returned = returned
    with pytest.raises(EmbedderError, match=message):
        embedder.embed(["tea"])


def test_the_package_is_asked_for_when_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match="pip install sentence-transformers"):
        make_embedder("sentence-transformers:acme/embed")


def test_a_model_that_cannot_be_loaded_is_told_by_name(package: list[Model]) -> None:
    with pytest.raises(EmbedderError, match=r"no/such-model cannot be loaded \(OSError: is not a local"):
        SentenceTransformersEmbedder("no/such-model").embed(["tea"])


@pytest.mark.parametrize("given", ["", Model(), Model, 5, None])
def test_what_is_no_model_or_has_no_id_is_refused(given: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"not the name of a model|needs an id|is not a model"):
        SentenceTransformersEmbedder(given)


@pytest.mark.parametrize("spec", ["sentence-transformers", "sentence-transformers:"])
def test_the_name_wants_a_model(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="give a folder or a model's name"):
        make_embedder(spec)


@pytest.mark.parametrize("texts", ["tea", ["tea", 5]])
def test_what_is_no_text_is_refused(texts: Any) -> None:
    with pytest.raises(EmbedderError, match=r"one string|not a string"):
        SentenceTransformersEmbedder(Model(), id="m").embed(texts)


def test_a_memory_keeps_to_the_model_it_was_filled_with(path: Path, package: list[Model]) -> None:
    with Memory.open(path, embedder="sentence-transformers:acme/one") as memory:
        receipt = memory.remember("Dana drinks tea.")
        record = memory.get(receipt.id or "")
        assert record is not None
        assert record.embedded
    with pytest.raises(EmbedderMismatch):
        Memory.open(path, embedder="sentence-transformers:acme/two")
    with Memory.open(path, embedder="sentence-transformers:acme/one") as memory:
        assert memory.recall("tea")[0].content == "Dana drinks tea."
