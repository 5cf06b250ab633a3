"""all-MiniLM-L6-v2 on ONNX Runtime: 384 dimensions, English first.

The vectors are those of the sentence-transformers package, without that package, transformers or torch: WordPiece, at most 256
tokens with [CLS] and [SEP], the mean of the last layer over the tokens, length 1.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.distribution import install_command
from keepstone.embedders import minilm_weights
from keepstone.embedders.minilm_graph import graph
from keepstone.embedders.static import ENGLISH_FOLDER
from keepstone.embedders.texts import MAX_CHARS, check_texts
from keepstone.embedders.wordpiece import WordPiece
from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.ports.forks import reset_after_fork

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

MAX_TOKENS = 256  # the limit of the model, with [CLS] and [SEP]
CLS, SEP = 101, 102
MAX_CALL_TOKENS = 2_048  # in one call, with padding: larger calls are not faster and need more memory
WINDOW_TEXTS = 1_024  # sorted by length at once
PROBE = "a known text, to check that these are the weights of all-MiniLM-L6-v2"
PROBE_VECTOR = (0.0038, 0.0183, -0.0245, 0.0444, 0.0487, 0.0568, -0.0424, 0.0209, -0.0335, -0.0407, 0.0748, -0.0055)


class MiniLMEmbedder:
    """Embeds text with all-MiniLM-L6-v2. `where` is what `minilm_weights.find` takes: nothing, a folder or an address.

    The weights are found, or downloaded, when the embedder is made; they are loaded with the first text, and checked: a
    folder with another model's weights is refused, since vectors of the same id must be comparable.

    Example: `MiniLMEmbedder().embed(["likes green tea"])` gives an array of shape (1, 384).
    Raises ConfigurationError without onnxruntime or with a wrong folder; EmbedderError when weights cannot be had or read.
    """

    local = True
    deviation = 0.11  # of the cosine between a question and texts it is not about
    dimension = 384
    id = "minilm-384-l6-v2"

    def __init__(self, where: str = "", *, cache: Path | None = None) -> None:
        if importlib.util.find_spec("onnxruntime") is None:
            raise ConfigurationError(
                f"embedder='minilm' needs onnxruntime, which is not installed: {install_command('minilm')}. "
                "The default embedder, 'static', needs nothing."
            )
        self._weights = minilm_weights.find(where, cache)
        self._tokenizer = WordPiece((ENGLISH_FOLDER / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n"))
        self._lock = threading.Lock()
        self._loaded: InferenceSession | None = None
        reset_after_fork(self._reset)

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """One unit vector per text, in order. Documents and queries are embedded alike."""
        check_texts(texts)
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for first in range(0, len(texts), WINDOW_TEXTS):
            window = texts[first : first + WINDOW_TEXTS]
            self._embed_into(out[first : first + len(window)], [self._tokens(text) for text in window], self._session())
        return out

    def _tokens(self, text: str) -> list[int]:
        return [CLS, *self._tokenizer.encode(text[:MAX_CHARS])[: MAX_TOKENS - 2], SEP]

    def _embed_into(self, out: NDArray[np.float32], tokens: list[list[int]], session: InferenceSession) -> None:
        """Embed texts of similar length together, so that there is little padding."""
        order = sorted(range(len(tokens)), key=lambda index: -len(tokens[index]))
        while order:
            longest = len(tokens[order[0]])
            count = max(1, MAX_CALL_TOKENS // longest)
            batch, order = order[:count], order[count:]
            ids = np.zeros((len(batch), longest), dtype=np.int32)
            mask = np.zeros_like(ids)
            for row, index in enumerate(batch):
                ids[row, : len(tokens[index])] = tokens[index]
                mask[row, : len(tokens[index])] = 1
            (sums,) = session.run(["sums"], {"ids": ids, "types": np.zeros_like(ids), "mask": mask})
            # The sum has the direction of the mean, and the vectors are normalised.
            vectors = sums[:, 0]
            out[batch] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    def _session(self) -> InferenceSession:
        """The loaded model."""
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            return self._loaded

    def _reset(self) -> None:
        """Leave the parent's session in a forked child, where its worker threads do not exist.

        It must never be freed, not even at exit: its destructor would wait for those threads forever.
        """
        if self._loaded is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._loaded))
        self._loaded, self._lock = None, threading.Lock()

    def _load(self) -> InferenceSession:
        model = graph(self._weights)
        # ONNX Runtime 1.29 and later sends telemetry, from a thread that also keeps forked children from ending. This is its
        # documented switch, which must be set before the first import.
        os.putenv("ORT_DISABLE_TELEMETRY", "1")
        try:
            from onnxruntime import InferenceSession, SessionOptions

            options = SessionOptions()
            options.log_severity_level = 3  # errors; they are raised as well
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(self._weights.parent))
            options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # idle threads sleep
            session = InferenceSession(model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises types of its own without a common base
            raise EmbedderError(
                f"ONNX Runtime cannot load {self._weights} ({error}). Update it: {install_command('minilm', upgrade=True)}."
            ) from error
        vector = np.empty((1, self.dimension), dtype=np.float32)
        self._embed_into(vector, [self._tokens(PROBE)], session)
        if not np.allclose(vector[0, : len(PROBE_VECTOR)], PROBE_VECTOR, atol=2e-3):
            raise EmbedderError(
                f"{self._weights} does not hold the weights of all-MiniLM-L6-v2: a known text got another vector. "
                "Remove the file and fetch it again; another model can be used as a function."
            )
        return session
