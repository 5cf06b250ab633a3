"""Any model of the sentence-transformers package."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.embedders.texts import MAX_CHARS, check_texts
from keepstone.errors import ConfigurationError, EmbedderError
from keepstone.ports.forks import reset_after_fork
from keepstone.ports.vectors import check_vectors

PACKAGE = "sentence_transformers"
PROBE = "keepstone"
# Names of prompts; the first that a model defines is used.
_PROMPT_NAMES = {"query": ("query",), "document": ("document", "passage", "corpus")}


class SentenceTransformersEmbedder:
    """A model of sentence-transformers: its name on the hub, a folder, or a loaded model together with an `id`.

    A named model is loaded when it is first needed, which may download it. Queries and documents get the prompts that the
    model defines for them. One thread at a time uses the model, since its tokenizer is not thread-safe.

    Example: `SentenceTransformersEmbedder("BAAI/bge-small-en-v1.5").embed(["likes green tea"])`.
    Raises ConfigurationError without the package, or for a loaded model without an id; EmbedderError when it fails.
    """

    local = True

    def __init__(self, name_or_model: Any, *, id: str | None = None) -> None:
        self._model: Any = None
        self._name = ""
        if isinstance(name_or_model, str):
            self._name = name_or_model.strip()
            if not self._name:
                raise ConfigurationError("'' is not the name of a model: give its name on the hub, or a folder.")
            if importlib.util.find_spec(PACKAGE) is None:
                raise ConfigurationError(
                    f"The embedder sentence-transformers:{self._name} needs a package that is not installed: "
                    "pip install sentence-transformers. The default embedder, 'static', needs nothing."
                )
        elif callable(getattr(name_or_model, "encode", None)) and not isinstance(name_or_model, type):
            if not id:  # a loaded model has no name, and vectors of two models must not mix in a store
                raise ConfigurationError("A loaded model needs an id that tells it from others: pass id='acme-embed-2'.")
            self._model = name_or_model
        else:
            raise ConfigurationError(
                f"A value of type {type(name_or_model).__name__} is not a model: give a name, a folder or a SentenceTransformer."
            )
        self.id = id or f"sentence-transformers:{self._name}"
        self._dimension: int | None = None
        self._reset()
        reset_after_fork(self._reset)

    def _reset(self) -> None:
        self._lock = threading.RLock()

    @property
    def dimension(self) -> int:
        """Numbers in one vector. Loads the model."""
        if self._dimension is None:
            self.embed([PROBE])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """One unit vector per text, in order, from one call of the model."""
        check_texts(texts)
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        with self._lock:
            vectors = self._encode([text[:MAX_CHARS] for text in texts], purpose)
        if vectors.ndim == 2 and vectors.shape[1] and self._dimension is None:
            self._dimension = vectors.shape[1]
        try:
            # A copy, since a model may keep its array.
            return check_vectors(vectors.copy(), len(texts), self._dimension or 0)
        except EmbedderError as error:
            raise EmbedderError(f"{self.id}: {error}") from None

    def _encode(self, texts: list[str], purpose: str) -> NDArray[np.float32]:
        model = self._load()
        prompts = getattr(model, "prompts", None) or {}
        prompt = next((name for name in _PROMPT_NAMES[purpose] if name in prompts), None)
        try:
            vectors = model.encode(
                texts, prompt_name=prompt, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=False
            )
            return np.asarray(vectors, dtype=np.float32)
        except Exception as error:  # torch and the model's own code may raise anything
            raise EmbedderError(
                f"{self.id} failed on {len(texts)} texts with {type(error).__name__}: check the model and the machine's memory."
            ) from error

    def _load(self) -> Any:
        if self._model is None:
            try:
                self._model = importlib.import_module(PACKAGE).SentenceTransformer(self._name)
            except Exception as error:  # the hub, torch and the model's own code may raise anything
                raise EmbedderError(
                    f"{self.id} cannot be loaded ({type(error).__name__}: {error}). Check its name or folder and the network."
                ) from error
        return self._model
