"""The contract of vector indexes, as a pytest class.

Test an adapter by a subclass with one fixture, or two if its entries persist:

    class TestAcmeIndex(PersistentIndexContract):
        @pytest.fixture
        def index(self, tmp_path):
            index = AcmeIndex(tmp_path / "acme")
            yield index
            index.close()

        @pytest.fixture
        def again(self, tmp_path):
            return lambda: AcmeIndex(tmp_path / "acme")
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from keepstone.errors import IndexUnavailable
from keepstone.ports.caches import Entry, VectorIndex
from keepstone.ports.values import Matrix, SearchFilter, Vector
from keepstone.testing.builders import ALIKE
from keepstone.text.passages import passage_number
from keepstone.types import Scope

WIDTH = 8
HOME, AWAY = Scope("acme", "helper", "dana"), Scope("acme", "helper", "eli")
LARGE = (2**31, 2**53 + 1, 2**53 + 2, 2**61 + 3, 2**62 - 1, 2**62)  # beyond what a float can tell apart


def opened(index: VectorIndex, dimension: int = WIDTH) -> str:
    """Open a new space; returns its name."""
    space = f"space-{uuid.uuid4().hex}"
    index.open(space, dimension)
    return space


def vectors(count: int, dimension: int = WIDTH, seed: int = 7) -> Matrix:
    """Unit vectors that are the same in every run."""
    rows = np.random.default_rng(seed).normal(size=(count, dimension))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)


def entry(
    sequence: int, vector: Vector, vector_hash: str = "", kind: str = "fact", tag: str = "", session: str | None = None
) -> Entry:
    """An entry; the default hash is made of its sequence."""
    return Entry(sequence, vector, vector_hash or f"p{sequence}", kind, tag, session)


def entries(rows: Matrix, start: int = 1) -> list[Entry]:
    """One entry per row, numbered from `start`."""
    return [entry(start + at, row) for at, row in enumerate(rows)]


def nearest(rows: Matrix, vector: Vector, start: int = 1) -> list[int]:
    """All sequences of `entries(rows)`, nearest first, by brute force."""
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(vector)
    return [start + int(at) for at in np.argsort(-(rows @ vector) / lengths, kind="stable")]


def there(index: VectorIndex, scope: Scope, sequences: Sequence[int]) -> list[int]:
    """Which of these entries an index has, by lookup and by listing."""
    held = index.existing(scope, sequences)
    assert held == {sequence for sequence, _ in index.vector_hashes(scope)} & set(sequences)
    return sorted(held)


class IndexContract:
    """Subclass it and give it an `index` fixture: an index that is not open yet, closed afterwards."""

    def test_names_itself(self, index: VectorIndex) -> None:
        assert isinstance(index.name, str)
        assert index.name.strip() == index.name != ""

    def test_is_of_no_use_before_it_is_open_and_after_it_is_closed(self, index: VectorIndex) -> None:
        with pytest.raises(IndexUnavailable, match="open"):
            index.existing(HOME, [1])
        opened(index)
        index.close()
        with pytest.raises(IndexUnavailable, match="open"):
            index.search(HOME, vectors(1)[0], 3)
        index.close()

    def test_an_empty_space_answers(self, index: VectorIndex) -> None:
        opened(index)
        assert index.search(HOME, vectors(1)[0], 5) == []
        assert index.existing(HOME, [1, 2]) == set()
        assert index.existing(HOME, []) == set()
        assert list(index.vector_hashes(HOME)) == []
        index.put(HOME, [])
        index.drop(HOME, [])
        index.drop(HOME, [1, 2])
        index.clear(HOME)
        assert list(index.vector_hashes(HOME)) == []

    def test_gives_the_nearest_first_by_cosine(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(40) * np.linspace(0.5, 2.0, 40, dtype=np.float32)[:, None]  # lengths must not matter
        index.put(HOME, entries(rows))
        assert there(index, HOME, range(1, 100)) == list(range(1, 41))
        for vector in vectors(5, seed=8):
            assert index.search(HOME, vector, 40) == nearest(rows, vector)
            assert index.search(HOME, vector, 7) == nearest(rows, vector)[:7]
            assert index.search(HOME, vector, 1000) == nearest(rows, vector)
        assert index.search(HOME, rows[0], 0) == []

    def test_finds_nine_of_ten_among_many(self, index: VectorIndex) -> None:
        opened(index, 64)
        rows = vectors(500, 64)
        index.put(HOME, entries(rows))
        found = [set(index.search(HOME, vector, 10)) & set(nearest(rows, vector)[:10]) for vector in vectors(20, 64, seed=9)]
        assert sum(map(len, found)) >= 0.9 * 10 * len(found)

    def test_putting_again_replaces(self, index: VectorIndex) -> None:
        opened(index)
        old, new, other = vectors(3)
        index.put(HOME, [entry(1, old, "old", "fact", "red", "s1"), entry(2, other, "first"), entry(2, other, "second")])
        index.put(HOME, [entry(1, new, "new", "note", "blue", "s2")])
        assert sorted(index.vector_hashes(HOME)) == [(1, "new"), (2, "second")]
        assert index.search(HOME, new, 1) == [1]
        assert index.search(HOME, old, 9, SearchFilter(kinds=("fact",), tag="red")) == []
        assert index.search(HOME, old, 9, SearchFilter(session="s1")) == []
        assert index.search(HOME, old, 9, SearchFilter(kinds=("note",), tag="blue", session="s2")) == [1]
        index.put(HOME, [entry(1, new, session=None)])
        assert index.search(HOME, new, 9, SearchFilter(session="s2")) == []
        assert index.search(HOME, new, 1) == [1]

    def test_dropping_takes_out_and_nothing_else(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(6)
        index.put(HOME, entries(rows))
        index.drop(HOME, [2, 5, 5, 99])
        assert there(index, HOME, range(1, 100)) == [1, 3, 4, 6]
        assert sorted(index.search(HOME, rows[1], 9)) == [1, 3, 4, 6]
        index.drop(HOME, [2, 5])
        index.put(HOME, [entry(2, rows[1], "back")])
        assert index.search(HOME, rows[1], 1) == [2]

    def test_clearing_empties_one_scope(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(4)
        index.put(HOME, entries(rows))
        index.put(AWAY, entries(rows))
        index.clear(HOME)
        assert list(index.vector_hashes(HOME)) == []
        assert index.search(HOME, rows[0], 5) == []
        assert there(index, AWAY, [1, 2, 3, 4]) == [1, 2, 3, 4]
        index.put(HOME, entries(rows[:1]))
        assert index.search(HOME, rows[0], 5) == [1]

    def test_scopes_are_apart(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(len(ALIKE) * 2)
        for at, scope in enumerate(ALIKE):
            index.put(scope, [entry(1, rows[at], f"print-{at}"), entry(2 + at, rows[len(ALIKE) + at])])
        for at, scope in enumerate(ALIKE):
            assert dict(index.vector_hashes(scope)) == {1: f"print-{at}", 2 + at: f"p{2 + at}"}
            assert sorted(index.search(scope, rows[0], 20)) == [1, 2 + at]
            assert there(index, scope, range(1, 99)) == [1, 2 + at]
        index.drop(ALIKE[0], range(1, 10))
        assert [len(list(index.vector_hashes(scope))) for scope in ALIKE] == [0] + [2] * (len(ALIKE) - 1)

    def test_a_scope_among_many_gets_as_many_as_it_asks_for(self, index: VectorIndex) -> None:
        opened(index, 16)
        rows = vectors(20 * 30, 16).reshape(20, 30, 16)
        for at in range(20):
            index.put(Scope(user=f"user {at}"), entries(rows[at]))
        for at in (0, 7, 19):
            found = index.search(Scope(user=f"user {at}"), rows[(at + 1) % 20][0], 25)
            assert len(found) == len(set(found)) == 25
            assert len(set(found) & set(nearest(rows[at], rows[(at + 1) % 20][0])[:25])) >= 22

    def test_narrows_by_kind_tag_and_session(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(6)
        index.put(
            HOME,
            [
                entry(1, rows[0], kind="fact", tag="red", session="s1"),
                entry(2, rows[1], kind="fact", tag="blue", session="s2"),
                entry(3, rows[2], kind="message", tag="red", session="s2"),
                entry(4, rows[3], kind="message", tag=""),
                entry(5, rows[4], kind="note", tag="red", session="s1"),
            ],
        )

        def found(**among: object) -> list[int]:
            return sorted(index.search(HOME, rows[5], 20, SearchFilter(**among)))  # type: ignore[arg-type]

        assert found() == [1, 2, 3, 4, 5]
        assert found(kinds=("fact",)) == [1, 2]
        assert found(kinds=("fact", "note")) == [1, 2, 5]
        assert found(kinds=()) == []
        assert found(kinds=("nothing",)) == []
        assert found(tag="red") == [1, 3, 5]
        assert found(tag="") == [4]
        assert found(session="s2") == [2, 3]
        assert found(kinds=("message", "note"), tag="red", session="s2") == [3]
        assert found(session="nobody's") == []

    @pytest.mark.parametrize(
        "word", ["café ☕", "日本語", "שלום", "a'b\"c\\d", "$eq", "{x}", "😀", "x" * 256], ids=lambda word: f"{ord(word[0])}"
    )
    def test_takes_any_tag_and_session(self, index: VectorIndex, word: str) -> None:
        opened(index)
        rows = vectors(2)
        index.put(HOME, [entry(1, rows[0], tag=word), entry(2, rows[1], session=word)])
        assert index.search(HOME, rows[0], 5, SearchFilter(tag=word)) == [1]
        assert index.search(HOME, rows[0], 5, SearchFilter(session=word)) == [2]
        assert index.search(HOME, rows[0], 5, SearchFilter(tag=word, session=word)) == []

    def test_tells_large_sequences_apart(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(len(LARGE))
        index.put(HOME, [entry(sequence, row) for sequence, row in zip(LARGE, rows, strict=True)])
        assert there(index, HOME, [*LARGE, 2**62 - 2, 2**53]) == sorted(LARGE)
        assert [index.search(HOME, row, 1) for row in rows] == [[sequence] for sequence in LARGE]
        index.drop(HOME, [2**62])
        assert there(index, HOME, LARGE) == sorted(LARGE)[:-1]

    def test_takes_the_negative_numbers_of_passages(self, index: VectorIndex) -> None:
        opened(index)
        numbers, rows = [7, passage_number(7, 1), passage_number(7, 2), passage_number(2**40, 9)], vectors(4)
        index.put(HOME, [entry(number, row) for number, row in zip(numbers, rows, strict=True)])
        assert sorted(number for number, _ in index.vector_hashes(HOME)) == sorted(numbers)
        assert [index.search(HOME, row, 1) for row in rows] == [[number] for number in numbers]
        index.drop(HOME, numbers[1:3])
        assert there(index, HOME, numbers) == sorted([numbers[0], numbers[3]])

    def test_takes_more_than_one_batch(self, index: VectorIndex) -> None:
        opened(index, 4)
        rows = vectors(1003, 4)
        index.put(HOME, entries(rows))
        assert index.existing(HOME, range(1, 1101)) == set(range(1, 1004))
        assert sorted(index.vector_hashes(HOME)) == sorted((number, f"p{number}") for number in range(1, 1004))
        index.drop(HOME, range(2, 1004))
        assert there(index, HOME, range(1, 1004)) == [1]

    def test_another_space_sees_nothing_of_the_first(self, index: VectorIndex) -> None:
        rows, wide = vectors(3), vectors(2, WIDTH * 2)
        first = opened(index)
        index.put(HOME, entries(rows))
        for dimension, others in ((WIDTH, rows), (WIDTH * 2, wide)):
            opened(index, dimension)
            assert index.search(HOME, others[0], 5) == []
            assert list(index.vector_hashes(HOME)) == []
            index.put(HOME, [entry(1, others[1], "other")])
            assert index.search(HOME, others[0], 5) == [1]
        for _ in range(2):
            index.open(first, WIDTH)
            assert sorted(index.vector_hashes(HOME)) == [(1, "p1"), (2, "p2"), (3, "p3")]
            assert index.search(HOME, rows[0], 1) == [1]

    def test_refuses_vectors_of_another_width(self, index: VectorIndex) -> None:
        opened(index)
        with pytest.raises(IndexUnavailable):
            index.put(HOME, entries(vectors(1, WIDTH + 1)))
        with pytest.raises(IndexUnavailable):
            index.search(HOME, vectors(1, WIDTH - 1)[0], 3)
        assert list(index.vector_hashes(HOME)) == []

    def test_serves_threads(self, index: VectorIndex) -> None:
        opened(index)
        rows = vectors(24)

        def work(at: int) -> list[int]:
            scope = Scope(user=f"thread {at}")
            index.put(scope, entries(rows[at : at + 4]))
            index.drop(scope, [4])
            return index.search(scope, rows[at], 9)

        with ThreadPoolExecutor(6) as threads:
            found = list(threads.map(work, range(18)))
        assert [each[0] for each in found] == [1] * 18
        assert [sorted(each) for each in found] == [[1, 2, 3]] * 18


class PersistentIndexContract(IndexContract):
    """For an index whose entries persist. `again` opens the same index after the first was closed."""

    def test_reopening_finds_what_was_put(self, index: VectorIndex, again: Callable[[], VectorIndex]) -> None:
        space, rows = opened(index), vectors(3)
        index.put(HOME, [entry(2**62 - at, row, session="s") for at, row in enumerate(rows)])
        index.drop(HOME, [2**62])
        index.close()
        other = again()
        try:
            other.open(space, WIDTH)
            assert there(other, HOME, [2**62, 2**62 - 1, 2**62 - 2]) == [2**62 - 2, 2**62 - 1]
            assert other.search(HOME, rows[2], 1, SearchFilter(session="s")) == [2**62 - 2]
            assert list(other.vector_hashes(AWAY)) == []
        finally:
            other.close()
