"""Vectors are checked before they get near the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.errors import EmbedderError
from keepstone.ports.vectors import check_vectors, embed_texts

numbers = st.floats(-1e6, 1e6, width=32)


@given(st.lists(st.lists(numbers, min_size=3, max_size=3), max_size=5))
def test_what_passes_is_of_unit_length_and_points_the_same_way(rows: list[list[float]]) -> None:
    raw = np.array(rows, dtype=np.float32).reshape(len(rows), 3)
    lengths = np.linalg.norm(raw.astype(np.float64), axis=1)
    if (lengths < 1e-6).any():
        return
    matrix = check_vectors(rows if rows else raw, len(rows), 3)
    assert matrix.dtype == np.float32
    assert matrix.flags.c_contiguous
    assert np.allclose(np.linalg.norm(matrix, axis=1), 1, atol=2e-4)
    assert np.allclose(matrix, raw / lengths[:, None], atol=2e-4)


def test_unit_vectors_come_through_untouched() -> None:
    unit = np.eye(3, dtype=np.float32)
    assert check_vectors(unit, 3, 3) is unit


def test_the_callers_array_is_not_changed() -> None:
    raw = np.full((1, 4), 2, dtype=np.float32)
    assert check_vectors(raw, 1, 4).tolist() == [[0.5] * 4]
    assert raw.tolist() == [[2.0] * 4]


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        ([[1.0, 0.0]], r"an array of shape \(1, 2\) for 1 text\(s\) of 3 dimensions"),
        ([[1.0, 0.0, 0.0]] * 2, r"an array of shape \(2, 3\) for 1"),
        ([1.0, 0.0, 0.0], r"an array of shape \(3,\)"),
        ([], "an array of shape"),
        (None, "an array of shape|not an array of numbers"),
        ("abc", "not an array of numbers"),
        ([[1.0, 0.0], [1.0]], "not an array of numbers"),
        ([[1.0, "x", 0.0]], "not an array of numbers"),
        ([[0.0, 0.0, 0.0]], "vector for text number 0 is zero or not finite"),
        ([[float("nan"), 0.0, 1.0]], "zero or not finite"),
        ([[float("inf"), 0.0, 1.0]], "zero or not finite"),
    ],
)
def test_what_is_refused(vectors: Any, message: str) -> None:
    with pytest.raises(EmbedderError, match=message):
        check_vectors(vectors, 1, 3)


def test_the_bad_one_of_many_is_named() -> None:
    rows = np.eye(4, dtype=np.float32)
    rows[2] = 0
    with pytest.raises(EmbedderError, match="text number 2 "):
        check_vectors(rows, 4, 4)


class Embedder:
    """Gives what it is told to give, or raises it."""

    id, dimension, local = "told-2", 2, True

    def __init__(self, result: Any) -> None:
        self.result = result

    def embed(self, texts: Sequence[str], *, purpose: str = "document") -> Any:
        if isinstance(self.result, Exception):
            raise self.result
        return self.result


def test_what_an_embedder_gives_is_checked_and_scaled() -> None:
    assert embed_texts(Embedder([[0.0, 3.0]]), ["tea"]).tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize("result", [[[1.0, 0.0]] * 2, [[1.0]], None, "text", OSError("down"), TimeoutError()])
def test_whatever_goes_wrong_in_an_embedder_is_one_error(result: Any) -> None:
    with pytest.raises(EmbedderError):
        embed_texts(Embedder(result), ["tea"])


def test_long_but_finite_vectors_are_scaled() -> None:
    assert check_vectors([[1e30, 0.0, 0.0]], 1, 3).tolist() == [[1.0, 0.0, 0.0]]
