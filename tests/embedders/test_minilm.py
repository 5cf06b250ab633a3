"""The minilm embedder: the reference implementation's vectors, and what happens with weights that are not the model's."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import struct
from pathlib import Path

import numpy as np
import pytest

from keepstone import Memory
from keepstone.embedders import minilm
from keepstone.embedders.minilm import MiniLMEmbedder
from keepstone.embedders.registry import make_embedder
from keepstone.errors import ConfigurationError, EmbedderError, EmbedderMismatch
from tests.embedders.minilm_support import weights_folder
from tests.faults.support import run

REFERENCE = json.loads((Path(__file__).parent / "minilm_reference.json").read_text(encoding="utf-8"))["vectors"]


@pytest.fixture(scope="module")
def embedder() -> MiniLMEmbedder:
    return MiniLMEmbedder(str(weights_folder()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the weights that a test may damage."""
    shutil.copy(weights_folder() / "model.safetensors", tmp_path)
    return tmp_path


@pytest.mark.parametrize("entry", REFERENCE, ids=["plain", "short", "emoji", "cjk", "long"])
def test_gives_the_vectors_of_sentence_transformers(embedder: MiniLMEmbedder, entry: dict[str, object]) -> None:
    vector = embedder.embed([str(entry["text"])])[0]
    np.testing.assert_allclose(vector, np.array(entry["vector"]), atol=1e-4)


def test_gives_them_in_one_batch_too(embedder: MiniLMEmbedder) -> None:
    vectors = embedder.embed([entry["text"] for entry in REFERENCE])
    np.testing.assert_allclose(vectors, [entry["vector"] for entry in REFERENCE], atol=1e-4)


def test_the_id_is_part_of_every_store() -> None:
    assert (MiniLMEmbedder.id, MiniLMEmbedder.dimension, MiniLMEmbedder.local) == ("minilm-384-l6-v2", 384, True)


def test_more_texts_than_a_window_keep_their_order(embedder: MiniLMEmbedder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"number {n} " * (1 + n % 7) for n in range(50)]
    whole = embedder.embed(texts)
    monkeypatch.setattr(minilm, "WINDOW_TEXTS", 8)
    monkeypatch.setattr(minilm, "MAX_CALL_TOKENS", 40)
    np.testing.assert_allclose(embedder.embed(texts), whole, atol=1e-5)
    assert (whole @ whole.T).argmax(axis=1).tolist() == list(range(50))


def test_only_the_first_256_tokens_count(embedder: MiniLMEmbedder) -> None:
    shown = "tea " * 254
    first, second, third = embedder.embed([shown, shown + "and an engine", "tea " * 253 + "engine"])
    np.testing.assert_allclose(first, second, atol=1e-5)
    assert abs(first - third).max() > 1e-4


def test_one_string_is_refused(embedder: MiniLMEmbedder) -> None:
    with pytest.raises(EmbedderError, match=r"embed\(\[text\]\)"):
        embedder.embed("one string")


def test_a_text_that_is_no_string_is_named(embedder: MiniLMEmbedder) -> None:
    with pytest.raises(EmbedderError, match="Text 1 of 2 is a bytes"):
        embedder.embed(["a", b"b"])  # type: ignore[list-item]


def test_onnxruntime_waits_for_the_first_text() -> None:
    before, after = run(
        "import json, sys\n"
        "from keepstone.embedders.registry import make_embedder\n"
        "made = make_embedder('minilm:' + sys.argv[1])\n"
        "before = 'onnxruntime' in sys.modules\n"
        "made.embed(['a'])\n"
        "print(json.dumps([before, 'onnxruntime' in sys.modules]))",
        weights_folder(),
    )
    assert (before, after) == (False, True)


def test_onnxruntime_reports_to_nobody(tmp_path: Path) -> None:
    """Its telemetry, where it has one, begins with an identifier and a queue in the user's folder."""
    names = run(
        "import json, os, sys\n"
        "os.environ.pop('XDG_CACHE_HOME', None)\n"
        "os.environ.update(HOME=sys.argv[2], USERPROFILE=sys.argv[2])\n"
        "from keepstone.embedders.minilm import MiniLMEmbedder\n"
        "MiniLMEmbedder(sys.argv[1]).embed(['a'])\n"
        "print(json.dumps(os.listdir(sys.argv[2])))",
        weights_folder(),
        tmp_path,
    )
    assert names == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.parametrize("used", [True, False])
def test_a_forked_child_embeds_the_same_and_ends(used: bool) -> None:
    """The child has none of the parent's worker threads; an ordinary exit must not wait for them."""
    ended = run(
        "import json, os, signal, sys\n"
        "from keepstone.embedders.minilm import MiniLMEmbedder\n"
        "made = MiniLMEmbedder(sys.argv[1])\n"
        "texts = ['a text', 'another text'] * 20\n"
        "vectors = made.embed(texts)\n"
        "child = os.fork()\n"
        "if not child:\n"
        "    signal.alarm(60)\n"  # a child that waits for ever is ended, and the test fails
        "    again = made.embed(texts) if sys.argv[2] == 'True' else vectors\n"
        "    sys.exit(0 if abs(again - vectors).max() < 1e-5 else 3)\n"
        "print(json.dumps(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])))",
        weights_folder(),
        str(used),
    )
    assert ended == 0


def test_memory_recalls_with_it(path: Path) -> None:
    named = f"minilm:{weights_folder()}"
    with Memory.open(path, embedder=named) as memory:
        memory.remember("Dana is allergic to peanuts.")
        memory.remember("The train to Lisbon leaves at nine.")
        hits = memory.recall("Which foods make her ill?", limit=1, min_similarity=0.0).hits
        assert [hit.record.content for hit in hits] == ["Dana is allergic to peanuts."]
    with pytest.raises(EmbedderMismatch):
        Memory.open(path)


def test_without_onnxruntime_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "onnxruntime" else real(name))
    with pytest.raises(ConfigurationError, match=r"pip install .*\[minilm\]'"):
        make_embedder("minilm")


def test_the_weights_of_another_model_are_refused(folder: Path) -> None:
    with (folder / "model.safetensors").open("r+b") as file:
        file.seek(-40_000_000, os.SEEK_END)
        file.write(np.full(500_000, 0.1, dtype="<f4").tobytes())
    with pytest.raises(EmbedderError, match="does not hold the weights of all-MiniLM-L6-v2"):
        MiniLMEmbedder(str(folder)).embed(["a"])


def test_another_shape_is_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    with path.open("r+b") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = file.read(length)
        file.seek(8)
        file.write(header.replace(b"[384,1536]", b"[1536,384]", 1))
    with pytest.raises(EmbedderError, match=r"is not all-MiniLM-L6-v2: .*output\.dense\.weight has the shape \(1536, 384\)"):
        MiniLMEmbedder(str(folder)).embed(["a"])


@pytest.mark.parametrize(("size", "said"), [(0, "cannot be read"), (5_000, "cannot be read"), (50_000_000, "it ends before")])
def test_a_cut_file_is_refused(folder: Path, size: int, said: str) -> None:
    os.truncate(folder / "model.safetensors", size)
    with pytest.raises(EmbedderError, match=f"{said}.*[Ff]etch it again"):
        MiniLMEmbedder(str(folder)).embed(["a"])


def test_a_header_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2**62) + b"{}")
    with pytest.raises(EmbedderError, match="its header is longer than the file"):
        MiniLMEmbedder(str(tmp_path)).embed(["a"])


def test_a_file_without_the_tensors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(struct.pack("<Q", 2) + b"{}")
    with pytest.raises(EmbedderError, match=r"word_embeddings\.weight is missing"):
        MiniLMEmbedder(str(tmp_path)).embed(["a"])
