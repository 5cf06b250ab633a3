"""Vectors as bits: what they propose holds what is nearest, whatever is left out; and vectors as bytes stay what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.scope_index import codes, segment_builder
from keepstone.scope_index.segment import BLOCK, quantise

SIZE, DIMENSION, TOP = 8000, 256, 10


def units(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def clustered(count: int, seed: int, dimension: int = DIMENSION) -> Any:
    """Vectors that gather around two hundred directions, most of what they say in a few dimensions, as with texts."""
    middles = np.random.default_rng(99).normal(size=(200, dimension))
    chance = np.random.default_rng(seed)
    spread = 0.9 * chance.normal(size=(count, dimension)) * np.linspace(1.6, 0.2, dimension)
    return units(middles[chance.integers(0, 200, count)] + spread)


def coded(vectors: Any, lists: int = 1) -> codes.Codes:
    centres = codes.find_centres(vectors[::2], lists)
    nearest = codes.assign_centres(vectors, centres)
    return codes.build_codes(*codes.encode_vectors(vectors, centres, nearest), nearest, centres)


@pytest.fixture(scope="module")
def vectors() -> Any:
    return clustered(SIZE, 1)


def share(made: codes.Codes, vectors: Any, wanted: int, mask: Any = None) -> float:
    """How many of the nearest are among what is proposed."""
    found = 0
    questions = clustered(60, 2)
    for asked in questions:
        likeness = vectors @ asked
        if mask is not None:
            likeness = np.where(mask, likeness, -2)
        proposed = made.search(asked, wanted, mask)
        assert len(set(proposed.tolist())) == len(proposed) <= wanted
        assert mask is None or mask[proposed].all()
        found += len(set(np.argsort(-likeness)[:TOP].tolist()) & set(proposed.tolist()))
    return found / (TOP * len(questions))


@pytest.mark.parametrize("lists", [1, 8])
def test_the_nearest_are_proposed(vectors: Any, lists: int) -> None:
    assert share(coded(vectors, lists), vectors, SIZE // 8) >= 0.97


@pytest.mark.parametrize("part", [0.5, 0.1, 0.01])
def test_a_mask_costs_nothing_in_quality(vectors: Any, part: float) -> None:
    mask = np.random.default_rng(3).random(SIZE) < part
    assert share(coded(vectors, 8), vectors, SIZE // 8, mask) >= 0.97


def test_with_room_for_all_every_one_is_proposed(vectors: Any) -> None:
    made = coded(vectors[:500])
    mask = np.arange(500) % 3 == 0
    assert sorted(made.search(vectors[0], 500).tolist()) == list(range(500))
    assert sorted(made.search(vectors[0], 500, mask).tolist()) == np.flatnonzero(mask).tolist()
    assert made.search(vectors[0], 500, np.zeros(500, dtype=np.bool_)).tolist() == []


def test_without_codes_nothing_is_proposed() -> None:
    none = codes.build_codes(
        np.zeros((3, 4), dtype=np.uint64), np.zeros(3, dtype=np.float32), np.full(3, -1), np.zeros((1, 8), dtype=np.float32)
    )
    assert none.search(np.ones(8, dtype=np.float32), 5).tolist() == []


def test_vectors_that_are_none_have_no_code(vectors: Any) -> None:
    some = vectors[:100]
    centres = codes.find_centres(some, 2)
    nearest = codes.assign_centres(some, centres)
    words, spreads = codes.encode_vectors(some, centres, nearest)
    nearest[::2] = -1
    made = codes.build_codes(words, spreads, nearest, centres)
    assert sorted(made.slots.tolist()) == list(range(1, 100, 2))
    assert made.starts[-1] == len(made.slots) == 50


def test_lists_hold_each_slot_once_the_widest_first(vectors: Any) -> None:
    made = coded(vectors, 8)
    assert sorted(made.slots.tolist()) == list(range(SIZE))
    for start, end in zip(made.starts[:-1], made.starts[1:], strict=True):
        assert end > start
        assert (np.diff(made.spreads[start:end]) <= 0).all()


def test_codes_are_the_same_everywhere_and_for_ever() -> None:
    """They are kept in files: with another turn those would be wrong without anybody seeing it."""
    turn = codes._turn(DIMENSION)
    assert turn.shape == (DIMENSION, 256)
    assert np.allclose(turn @ turn.T, np.eye(DIMENSION), atol=1e-5)
    signs = np.packbits(turn[0] > 0)[:4].tolist()
    assert signs == [2, 70, 198, 159]


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=200), st.integers(1, 200))
def test_highest_gives_the_highest(values: list[float], count: int) -> None:
    given_ = np.array([0.0 if abs(value) < 1e-6 else value for value in values], dtype=np.float32)
    found = codes.top_slots(np.arange(len(given_)), given_, count)
    assert len(set(found.tolist())) == len(found) == min(count, len(given_))
    left = np.delete(given_, found)
    assert not len(left) or left.max() <= given_[found].min() + 1e-6


def test_highest_among_very_many_equals() -> None:
    values = np.repeat(np.array([0.1, 0.5, 0.9], dtype=np.float32), [10, 5000, 10])
    found = codes.top_slots(np.arange(len(values)), values, 100)
    assert len(found) == 100
    assert set(range(5010, 5020)) <= set(found.tolist())
    assert (values[found] >= 0.5).all()


@pytest.mark.parametrize("dimension", [1, 3, 64, 65, 256, 384, 1536])
def test_a_byte_a_dimension_is_near_enough(dimension: int) -> None:
    vectors = units(np.random.default_rng(dimension).normal(size=(50, dimension)))
    whole, scales = quantise(vectors)
    blocks = -(-dimension // BLOCK)
    assert (whole.shape, scales.shape, whole.dtype) == ((50, blocks * BLOCK), (50, blocks), np.dtype(np.int8))
    back = (whole.astype(np.float32).reshape(50, blocks, BLOCK) * scales[:, :, None]).reshape(50, -1)
    assert (back[:, dimension:] == 0).all()
    bound = np.repeat(scales, BLOCK, axis=1) * 0.5 + 1e-6
    assert (np.abs(back[:, :dimension] - vectors) <= bound[:, :dimension]).all()
    assert np.abs(back[:, :dimension] @ vectors.T - vectors @ vectors.T).max() < 0.01


def test_a_vector_of_zeros_stays_one() -> None:
    whole, scales = quantise(np.zeros((2, 70), dtype=np.float32))
    assert not whole.any()
    assert not scales.any()


def test_the_centres_meet_texts_that_come_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two kinds that alternate, taking every second vector would meet only one."""
    monkeypatch.setattr(segment_builder, "_TRAINED", 2048)
    kinds = np.eye(8, dtype=np.float32)[[0, 1]]
    vectors = np.tile(kinds, (2048, 1)) + np.random.default_rng(1).normal(0, 0.02, (4096, 8)).astype(np.float32)
    whole, scales = quantise(vectors)
    arrays = {"embedded": np.ones(4096, dtype=np.bool_), "vectors": whole, "scales": scales}
    segment_builder._codes(arrays, 8)
    assert (kinds @ arrays["centres"].T).max(axis=1).min() > 0.9
