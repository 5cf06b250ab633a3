"""What once went wrong with large scopes: answers that failed or were worse, and files that were trusted."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone import Memory
from keepstone.scope_index import codes, segment
from keepstone.scope_index import mapped_index as large_scopes
from keepstone.scope_index.segment_builder import build_segment
from tests.recall.rows import Line, changes, rows, unit
from tests.scope_index.large import (
    Asker,
    facts,
    files,
    filled,
    held,
    large,
    opened,
    rewritten,
    top,
    vectors_of,
)
from tests.scope_index.large import asked_scope as asked_scope


# -- answers ------------------------------------------------------------------------------------------------------
def test_a_scope_without_vectors_is_answered_by_words(path: Path) -> None:
    with opened(path, embedder="none") as memory:
        filled(memory, facts(300))
        assert all("violin in Oslo" in each for each in top(memory, "violin in Oslo", limit=2))
        large(memory)


def test_a_filter_that_nothing_old_passes(memory: Memory) -> None:
    assert top(memory, "bees", tag="rare") == []
    filled(memory, ["Bruno keeps bees"], tag="rare")
    assert top(memory, "bees", tag="rare", min_similarity=0) == ["Bruno keeps bees"]


def test_after_everything_is_forgotten(memory: Memory) -> None:
    memory.forget(everything=True)
    assert top(memory, "violin", min_similarity=0) == []
    memory.remember("There is a new violin")
    assert top(memory, "violin", min_similarity=0) == ["There is a new violin"]


def test_a_segment_of_an_empty_scope(path: Path) -> None:
    with opened(path) as memory:
        memory._engine.cache._segments.make(memory.scope)  # type: ignore[union-attr]
        assert top(memory, "violin") == []
        memory.remember("There is a new violin")
        assert top(memory, "violin", min_similarity=0) == ["There is a new violin"]


@pytest.mark.parametrize("dimension", [3, 20, 64, 100, 128])
def test_short_vectors_are_proposed_too(dimension: int) -> None:
    vectors = _units(np.random.default_rng(5).normal(size=(4000, dimension)))
    made = _codes(vectors)
    for asked in vectors[:20]:
        nearest = set(np.argsort(-(vectors @ asked))[:5].tolist())
        assert len(nearest & set(made.search(asked, 800).tolist())) >= 4


@pytest.mark.parametrize("spread", [0.0, 0.001, 0.02])
def test_a_crowd_of_nearly_the_same_is_not_passed_over(spread: float) -> None:
    chance = np.random.default_rng(6)
    one = chance.normal(size=256)
    crowd = one + spread * np.linalg.norm(one) * chance.normal(size=(3000, 256)) / 16
    vectors = _units(np.concatenate([chance.normal(size=(5000, 256)), crowd]))
    found = _codes(vectors).search(_units(one[None])[0], 1000)
    assert len(found) == 1000
    assert (found >= 5000).all()


def test_the_highest_of_values_that_hardly_differ() -> None:
    values = np.array([0.0] * 9 + [1e-45], dtype=np.float32)
    assert len(codes.top_slots(np.arange(10), values, 3)) == 3


def test_why_tells_of_the_record_as_it_is(path: Path) -> None:
    """A message that was reworded stands in the segment as it was, and its neighbours there lead to it."""
    with opened(path) as memory:
        memory.ingest([{"role": "user", "content": text} for text in facts(90)], session="s")
        memory.ingest([{"role": "user", "content": text} for text in facts(60, seed=3)], session="s")
        large(memory)
        record = next(each for each in memory.list(limit=100) if "violin" in each.content)
        memory.update(record.id, "Bruno plays the violin behind the old station")
        why = memory.why("Who plays the violin behind the old station?", record.id)
        assert (why.recalled, why.rank) == (True, 1)


@pytest.mark.parametrize("wanted", [{"tag": "work"}, {"session": "talk 1"}, {"min_importance": 0.8}], ids=str)
def test_words_weigh_the_same_whatever_is_filtered(path: Path, wanted: dict[str, Any]) -> None:
    """How rare a word is depends on the scope, not on how many of its records are asked for."""
    texts = facts(1200)
    with opened(path, least=0) as memory:
        filled(memory, texts[:400], tag="work", importance=0.9)
        for number in range(8):
            said = [{"role": "user", "content": text} for text in texts[400 + number * 100 : 500 + number * 100]]
            memory.ingest(said, session=f"talk {number}")
        theirs = memory.recall("What did Dana sell?", limit=20, min_similarity=0, **wanted)
    with opened(path) as memory:
        ours = memory.recall("What did Dana sell?", limit=20, min_similarity=0, **wanted)
        large(memory)
    assert len({hit.id for hit in ours} & {hit.id for hit in theirs}) >= 18
    assert ours[0].signals["coverage"] == pytest.approx(theirs[0].signals["coverage"], abs=0.03)


def test_masks_are_of_the_filters_they_were_made_for(memory: Memory) -> None:
    for number in range(12):  # more than are remembered
        filled(memory, [f"Tagged note {number} about a violin"], tag=f"tag {number}")
    for _ in range(2):
        for number in range(12):
            found = top(memory, "violin", min_similarity=0, tag=f"tag {number}")
            assert found == [f"Tagged note {number} about a violin"]
        assert all("note" not in each for each in top(memory, "violin in Oslo", tag="general", min_similarity=0))


def test_another_process_goes_on_when_the_file_has_gone(memory: Memory, path: Path) -> None:
    with Asker(path) as other:
        assert other("ask", facts(300)[5]) == [other("ask", facts(300)[5])[0], 300]
        memory.forget(everything=True)
        assert files(path) == []
        memory.remember("Only this is left")
        assert other("ask", "left")[0] == ["Only this is left"]


def test_another_embedder_for_a_store_in_memory() -> None:
    with opened(":memory:", embedder=vectors_of(32)) as memory:
        filled(memory, facts(150))
        assert top(memory, "violin in Oslo")
        memory.upkeep.reembed(embedder=vectors_of(48))
        large(memory)
        assert large(memory)._segment.about["dimension"] == 48  # not what was made of the other's vectors
        found = memory.recall(facts(150)[7])
        assert found[0].content == facts(150)[7]
        assert found[0].signals["semantic"] > 0.5


def test_vectors_that_come_late_to_a_long_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_scopes, "_CODED", 16)
    lines = [Line(at, (f"w{at}",), unit(1, at % 7, dimension=256)) for at in range(1, 40)]
    index = large_scopes.MappedIndex(build_segment([rows(lines, 256)], {"latest": 39, "mark": None, "embedder": ["e", 256]}))
    late = [Line(at, (f"w{at}",)) for at in range(100, 140)]
    index.apply(changes(140, late, dimension=256))
    index.view()
    asked = unit(0, 0, 0, 1, dimension=256)
    index.apply(changes(141, [late[3].with_(vector=asked)], dimension=256))
    view = index.view()
    wanted = view.wanted(None, 0, lambda each: np.array(each.active))
    found = view.nearest(np.array(asked, dtype=np.float32), 5, wanted)
    assert 103 in view.sequences(np.sort(found)).tolist()


# -- files that do not fit ------------------------------------------------------------------------------------------
NAMES = ("slots", "code_slots", "before", "after", "last_slots", "last_sessions", "starts", "ends", "sessions", "names", "terms")


@pytest.mark.parametrize("name", NAMES)
def test_flipped_bytes_never_reach_the_caller(path: Path, name: str) -> None:
    with opened(path) as memory:
        memory.ingest([{"role": "user", "name": "Dana", "content": text} for text in facts(90)], session="s")
        memory.ingest([{"role": "user", "name": "Erik", "content": text} for text in facts(60, seed=3)], session="t")
        expected = top(memory, "violin in Oslo", limit=1)
        large(memory)

    def flip(array: Any) -> None:
        flat = array.reshape(-1).view(np.uint8)
        flat[3::8] ^= 0x55

    rewritten(path, name, flip)
    with opened(path) as memory:
        memory.ingest([{"role": "user", "content": "Bruno keeps bees"}], session="s")
        for asked in ("violin in Oslo", "What did Dana sell?", "bees"):
            top(memory, asked, min_similarity=0)
        if name in ("slots", "code_slots", "starts", "ends"):
            assert top(memory, "violin in Oslo", limit=1) == expected


def test_a_file_whose_arrays_are_too_short_is_made_anew(path: Path) -> None:
    with opened(path) as memory:
        memory.ingest([{"role": "user", "name": "Dana", "content": text} for text in facts(150)], session="s")
        expected = top(memory, "violin in Oslo", limit=1)
        large(memory)
    (file,) = files(path)
    whole = held(path)
    for name, array in whole.arrays.items():
        flat = array.T if name == "planes" else array
        for crafted in (flat[:-1], flat[:0], np.concatenate([flat, flat]), array.reshape(*array.shape, 1)):
            crafted = crafted.T if name == "planes" and crafted.ndim == 2 else crafted
            if crafted.shape != array.shape and name not in ("speakers", "terms"):
                segment.write_segment(file, whole.about, {**whole.arrays, name: np.ascontiguousarray(crafted)})
                assert segment.read_segment(file, {}) is None, name
    with opened(path) as memory:
        assert top(memory, "violin in Oslo", limit=1) == expected


def test_a_file_that_is_moved_there_while_another_is_read(memory: Memory, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (file,) = files(path)
    mapped = held(path)
    other = build_segment([rows([Line(1, ("tea",), unit(1))])], {**mapped.about})
    draft = file.with_suffix(".draft")
    segment.write_segment(draft, other.about, other.arrays)

    class Swapping:
        dumps = staticmethod(json.dumps)

        @staticmethod
        def loads(text: bytes) -> Any:
            os.replace(draft, file)
            return json.loads(text)

    monkeypatch.setattr(segment, "json", Swapping)
    read = segment.read_segment(file, {})
    assert read is not None
    assert read.size == mapped.size
    assert (read.arrays["sequences"] == mapped.arrays["sequences"]).all()


def test_once_the_disk_has_room_again_the_file_is_used(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "no space left on device")

    with opened(path) as memory:
        filled(memory, facts(150))
        with monkeypatch.context() as patched:
            patched.setattr(segment, "write_segment", full)
            assert top(memory, "violin in Oslo")
        segments = memory._engine.cache._segments
        assert segments is not None
        segments.make(memory.scope)
        found = segments.open(memory.scope)
        assert found is not None
        assert found.path is not None


def test_who_asks_while_another_closes_hears_of_the_closing(memory: Memory, path: Path) -> None:
    """Only that: not of a segment that was given up."""
    segments = memory._engine.cache._segments
    assert segments is not None
    segments.close()
    memory._engine.cache._entries.clear()
    files(path)[0].unlink()
    assert top(memory, "violin in Oslo")


def _units(vectors: Any) -> Any:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def _codes(vectors: Any) -> codes.Codes:
    centres = codes.find_centres(vectors[::4], 1)
    nearest = codes.assign_centres(vectors, centres)
    return codes.build_codes(*codes.encode_vectors(vectors, centres, nearest), nearest, centres)
