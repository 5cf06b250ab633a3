"""Validation of embedder results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from keepstone.errors import EmbedderError
from keepstone.ports.stores import Embedder
from keepstone.ports.values import Matrix


def check_vectors(vectors: Any, count: int, dimension: int) -> NDArray[np.float32]:
    """Return unit vectors as float32 rows, one for each text. Raises EmbedderError if the result is invalid."""
    try:
        matrix = np.ascontiguousarray(vectors, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise EmbedderError(f"the embedder's result is not an array of numbers ({error}).") from None
    if matrix.shape != (count, dimension):
        raise EmbedderError(
            f"the embedder gave an array of shape {matrix.shape} for {count} text(s) of {dimension} dimensions: "
            "it must give one vector of the declared dimension a text."
        )
    if count == 1 and abs(float(np.vdot(matrix, matrix)) - 1) < 1e-4:
        return matrix  # fast path for a single unit vector
    norms = np.sqrt(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64))
    good = (norms > 1e-12) & (norms < np.inf)
    if not good.all():
        bad = np.flatnonzero(~good)
        raise EmbedderError(f"the embedder's vector for text number {int(bad[0])} is zero or not finite: it cannot be used.")
    if float(abs(norms - 1).max(initial=0)) < 1e-4:
        return matrix
    scaled: NDArray[np.float32] = (matrix / norms[:, None]).astype(np.float32)
    return scaled


def embed_texts(embedder: Embedder, texts: Sequence[str], purpose: Literal["document", "query"] = "document") -> Matrix:
    """Embed texts and validate the result. Every failure is raised as EmbedderError."""
    try:
        return check_vectors(embedder.embed(list(texts), purpose=purpose), len(texts), embedder.dimension)
    except EmbedderError:
        raise
    except Exception as error:  # a custom embedder may raise anything
        raise EmbedderError(f"the embedder failed: {type(error).__name__}: {error}") from error
