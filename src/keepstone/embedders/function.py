"""An embedder made of a function, also an async one, from texts to vectors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import EmbedderError, KeepstoneError
from keepstone.ports.coroutines import run_in_lasting_loop

Function = Callable[[list[str]], Any]
PROBE = "keepstone"


class FunctionEmbedder:
    """Wraps a function that takes a list of texts and returns one vector for each, as lists, tuples or arrays. An async function
    runs in the event loop of the caller of AsyncMemory, or in a loop of keepstone's own.

    The id names the model in the store: give one when the function's name does not say which model it calls. The
    dimension is learned from the first vectors when it is not given. Vectors are checked and brought to length one.

    Example: `FunctionEmbedder(lambda texts: client.embed(texts), id="acme-embed-2", dimension=1024)`.
    Raises EmbedderError when the function fails or returns something other than one usable vector per text.
    """

    local = False

    def __init__(self, function: Function, *, id: str | None = None, dimension: int | None = None) -> None:
        if not callable(function):
            raise EmbedderError(
                f"FunctionEmbedder needs a function and got {_shorten(function)}. "
                "Pass a callable that takes a list of texts and returns one vector for each."
            )
        if dimension is not None and (isinstance(dimension, bool) or not isinstance(dimension, int) or dimension < 1):
            raise EmbedderError(f"The dimension {dimension!r} is not a whole number above zero. Leave it out to have it learned.")
        self._function = function
        self.id = id or f"function:{_qualified_name(function)}"
        self._dimension = dimension

    @property
    def dimension(self) -> int:
        """Numbers in one vector. Calls the function once if that is not known yet."""
        if self._dimension is None:
            self._call([PROBE])
        assert self._dimension is not None
        return self._dimension

    def embed(self, texts: Sequence[str], *, purpose: Literal["document", "query"] = "document") -> NDArray[np.float32]:
        """One unit vector per text, in order. The function does not get the purpose."""
        if isinstance(texts, str):
            raise EmbedderError("embed() takes a sequence of texts and got one string. Put it into a list: embed([text]).")
        if not len(texts):
            return np.empty((0, self.dimension), dtype=np.float32)
        return self._call(list(texts))

    def _call(self, texts: list[str]) -> NDArray[np.float32]:
        try:
            returned = self._function(texts)
            if inspect.isawaitable(returned):
                returned = run_in_lasting_loop(returned)
        except KeepstoneError:
            raise
        except Exception as error:
            raise EmbedderError(
                f"{self.id} failed on {len(texts)} texts with {type(error).__name__}: {error}. "
                "Check the function, its key and its service, then try again."
            ) from error
        vectors = self._to_array(returned, len(texts))
        if self._dimension is None:
            self._dimension = vectors.shape[1]
        elif vectors.shape[1] != self._dimension:
            raise EmbedderError(
                f"{self.id} returned vectors of {vectors.shape[1]} numbers and {self._dimension} were expected. "
                "Use the model that the store was filled with, or re-embed the store."
            )
        return self._normalise(vectors, texts)

    def _to_array(self, returned: Any, count: int) -> NDArray[np.float64]:
        """The returned vectors, one row per text."""
        try:
            vectors = np.asarray(returned if hasattr(returned, "__array__") else list(returned), dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise EmbedderError(
                f"{self.id} returned {_shorten(returned)} for {count} texts, which is not a list of equally long lists "
                f"of numbers ({error}). Return one vector of numbers for each text."
            ) from error
        if vectors.ndim == 1 and vectors.size and count == 1:
            raise EmbedderError(
                f"{self.id} returned one flat vector of {vectors.size} numbers for a list of one text. "
                "Return a list of vectors, one for each text: [vector]."
            )
        if vectors.ndim != 2 or not vectors.shape[1]:
            raise EmbedderError(
                f"{self.id} returned an array of shape {vectors.shape} for {count} texts. "
                "Return one vector of numbers for each text."
            )
        if vectors.shape[0] != count:
            raise EmbedderError(
                f"{self.id} returned {vectors.shape[0]} vectors for {count} texts. Return one for each, in order."
            )
        return vectors

    def _normalise(self, vectors: NDArray[np.float64], texts: list[str]) -> NDArray[np.float32]:
        invalid = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if invalid.size:
            value = vectors[invalid[0]][~np.isfinite(vectors[invalid[0]])][0]
            raise EmbedderError(
                f"{self.id} returned {value} inside the vector of text {invalid[0]} ({_shorten(texts[invalid[0]])}). "
                "Vectors must be finite: check the model, or leave that text out."
            )
        # Divide by the largest number first: squares of very large or small ones would leave the range of a float.
        peaks = np.abs(vectors).max(axis=1, keepdims=True)
        zero = np.flatnonzero(peaks[:, 0] == 0)
        if zero.size:
            raise EmbedderError(
                f"{self.id} returned a vector of zeros for text {zero[0]} ({_shorten(texts[zero[0]])}). "
                "A zero vector has no direction to compare: check the model, or leave that text out."
            )
        scaled = vectors / peaks
        return np.ascontiguousarray(scaled / np.linalg.norm(scaled, axis=1, keepdims=True), dtype=np.float32)


def _qualified_name(function: Function) -> str:
    named = function if hasattr(function, "__qualname__") else type(function)
    return f"{named.__module__}.{named.__qualname__}"


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
