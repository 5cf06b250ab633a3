"""Groups of related rows: what belongs together, what stays alone, and the bounds of a group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keepstone.maintenance.clusters import MAX_MEMBERS, MIN_SIMILARITY, Matrix, features, groups, word_vectors
from keepstone.text.words import record_terms, term_hashes

COFFEE = ["Dana drinks two coffees a day.", "Dana takes her coffee without sugar.", "Coffee keeps Dana awake at night."]
SERVER = ["The build server runs Debian 12.", "The build server has 64 GB of memory."]
ALONE = "Violins need new strings every autumn."


def rows_of(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Hashed terms of texts with the ends of each, as a store gives them."""
    hashed = [term_hashes(record_terms(text, None)) for text in texts]
    return np.concatenate(hashed), np.cumsum([len(each) for each in hashed])


def by_words(texts: Sequence[str], days: Sequence[int] | None = None, **options: float) -> list[tuple[int, ...]]:
    """The groups of texts that have no vectors; each on a day of its own unless said otherwise."""
    terms, ends = rows_of(texts)
    when = np.array(list(range(len(texts))) if days is None else days, dtype=np.int64)
    made = features(np.zeros((len(texts), 8), np.float32), terms, ends, when)
    return groups(made, [0.1] * len(texts), room=1.0, **options)  # type: ignore[arg-type]


def around(centres: int, each: int, spread: float, seed: int = 3) -> Matrix:
    """Unit rows in clouds around some centres, one cloud after the other."""
    chance = np.random.default_rng(seed)
    middle = np.repeat(np.eye(64, dtype=np.float32)[:centres], each, axis=0)
    made = middle + spread * chance.normal(size=middle.shape).astype(np.float32) / 8
    unit: Matrix = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    return unit


def test_what_shares_words_is_grouped_and_a_stranger_stays_alone() -> None:
    texts = [COFFEE[0], SERVER[0], ALONE, COFFEE[1], SERVER[1], COFFEE[2]]
    assert by_words(texts) == [(0, 3, 5), (1, 4)]


def test_two_strangers_are_no_group() -> None:
    assert by_words([COFFEE[0], ALONE]) == []
    assert by_words([COFFEE[0], ALONE], days=[5, 5]) == []
    assert by_words([COFFEE[0]]) == []


def test_of_words_the_rare_ones_tell() -> None:
    terms, ends = rows_of(["Dana likes tea", "Dana likes Oslo", "Dana likes Oslo", "Dana likes rain", "Dana likes snow"])
    likeness = word_vectors(terms, ends) @ word_vectors(terms, ends).T
    assert likeness[1, 2] == pytest.approx(1)
    assert likeness[0, 3] < 0.5 < likeness[1, 2]


def test_a_row_without_words_or_vector_is_like_no_other() -> None:
    empty = np.zeros(0, np.uint32), np.zeros(3, np.int64)
    assert not word_vectors(*empty).any()
    assert groups(np.zeros((30, 8), np.float32), [0.1] * 30, room=1.0) == []


def test_clouds_are_found_by_their_vectors() -> None:
    rows = around(20, 3, 0.3)
    assert groups(rows, [0.1] * 60, room=1.0) == [(at, at + 1, at + 2) for at in range(0, 60, 3)]


def test_meaning_groups_what_shares_no_word() -> None:
    count = 30
    terms, ends = rows_of([f"word{number}" for number in range(count)])
    made = features(around(15, 2, 0.1), terms, ends, np.arange(count))
    assert groups(made, [0.1] * count, room=1.0) == list(pairwise(range(count)))[::2]


def test_no_chain_holds_strangers_together() -> None:
    turns = np.linspace(0, np.pi, 40)  # every row is like the next, the first and the last are opposites
    rows = np.stack([np.cos(turns), np.sin(turns)], axis=1).astype(np.float32)
    for group in groups(rows, [0.01] * 40, room=1.0, most=40):
        inside = rows[list(group)] @ rows[list(group)].T
        assert inside.mean() > MIN_SIMILARITY
        assert len(group) < 40


def test_of_rows_next_to_each_other_less_is_asked_but_no_strangers_are_joined() -> None:
    rows = np.zeros((40, 41), np.float32)
    rows[:, 40] = 0.2  # all are a little alike
    rows[np.arange(40), np.arange(40)] = np.sqrt(1 - 0.2**2)
    rows[7] = np.eye(41, dtype=np.float32)[7]  # but for this one
    far, near = np.arange(40) * 10, np.repeat(np.arange(10) * 20, 4) + np.tile(np.arange(4), 10)
    assert groups(rows, [0.1] * 40, room=1.0, places=far) == []
    found = groups(rows, [0.1] * 40, room=1.0, places=near)
    assert len(found) == 10
    assert all(max(group) // 4 == min(group) // 4 for group in found)
    assert all(7 not in group for group in found)


def test_the_nearest_are_joined_first_where_there_is_room_for_two() -> None:
    rows = np.array([[1, 0], [0.8, 0.6], [0.82, 0.57], [0, -1]], dtype=np.float32)
    assert groups(rows, [0.5] * 4, room=1.0) == [(1, 2)]
    assert groups(rows, [0.6] * 4, room=1.0) == []


@given(st.integers(2, 80), st.integers(1, 8), st.floats(0, 1), st.integers(0, 5), st.integers(2, 8))
def test_every_row_is_in_one_group_at_the_most_within_the_bounds(
    count: int, centres: int, spread: float, seed: int, most: int
) -> None:
    rows = around(centres, -(-count // centres), spread, seed)[:count]
    costs = np.random.default_rng(seed).uniform(0, 0.6, len(rows)).tolist()
    found = groups(rows, costs, room=1.0, most=most)
    assert found == groups(rows.copy(), list(costs), room=1.0, most=most) == sorted(found)
    assert all(2 <= len(group) <= most and list(group) == sorted(set(group)) for group in found)
    assert all(sum(costs[row] for row in group) <= 1.0 + 1e-9 for group in found)
    assert max(Counter(row for group in found for row in group).values(), default=0) <= 1


def test_many_rows_are_compared_in_blocks() -> None:
    rows = around(64, 30, 0.4)
    found = groups(rows, [0.01] * len(rows), room=1.0)
    assert all(len({row // 30 for row in group}) == 1 for group in found)
    assert sum(len(group) for group in found) > 0.9 * len(rows)
    assert max(map(len, found)) == MAX_MEMBERS


PLACES = """harbour market station tower bridge castle school library garden theatre museum bakery forest river lake
    airport office church stadium hotel hospital factory vineyard lighthouse""".split()


def test_a_day_decides_between_equals() -> None:
    texts = [f"Dana walked to the {place}." for place in PLACES]
    assert len(texts) == 24
    assert by_words(texts, days=[number % 12 for number in range(24)]) == [(at, at + 12) for at in range(12)]
