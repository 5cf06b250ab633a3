"""The file of a large scope: whose it is, and what is left in it of what was forgotten."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np

from keepstone import Memory
from keepstone.scope_index.mapped_index import MappedIndex
from tests.scope_index.large import LEAST, facts, files, filled, held, large, opened, top, words_left


def test_the_folder_is_its_owners_alone(growing: Memory, path: Path) -> None:
    (file,) = files(path)
    assert stat.S_IMODE(os.stat(file.parent).st_mode) == 0o700
    assert stat.S_IMODE(os.stat(file).st_mode) == 0o600


def test_forgetting_overwrites_what_the_file_has(growing: Memory, path: Path) -> None:
    secret = "The safe opens with Vrontkelmix"
    id = filled(growing, [secret])[0]
    sequence = growing._engine.store.sequence_of(growing.scope, id) or 0
    growing._engine.cache._segments.make(growing.scope)  # type: ignore[union-attr]
    before = held(path)
    (slot,) = before.slots_of(np.array([sequence])).tolist()
    vector, total = before.arrays["vectors"][slot].tobytes(), int(before.arrays["sums"][slot])
    (file,) = files(path)
    assert vector in file.read_bytes()
    assert len(words_left(path, secret)) > 2
    assert growing.forget(id).erased
    after = held(path)
    assert not any(
        after.arrays[name][slot].any() for name in ("vectors", "scales", "lengths", "sums", "similarity_to_previous", "occurred")
    )
    assert not after.arrays["planes"][:, after.arrays["code_slots"] == slot].any()
    assert (after.arrays["sums"] != total).all()
    assert vector not in file.read_bytes()
    assert words_left(path, "Vrontkelmix safe opens") == []
    assert slot not in after.arrays["slots"][after.arrays["counts"] > 0]
    assert top(growing, facts(300)[0], limit=1) == [facts(300)[0]]


def test_the_words_of_others_stay_when_one_is_forgotten(growing: Memory, path: Path) -> None:
    ids = [hit.id for hit in growing.recall("violin", limit=10)]
    for id in ids[:5]:
        growing.forget(id)
    with opened(path) as memory:
        large(memory)
        found = {hit.id for hit in memory.recall("violin", limit=50, min_similarity=0)}
        assert set(ids[5:]) <= found
        assert not set(ids[:5]) & found


def test_forgetting_much_deletes_the_file(growing: Memory, path: Path) -> None:
    growing.forget(everything=True)
    assert files(path) == []


def test_an_index_is_the_size_of_its_tail(growing: Memory) -> None:
    entry = growing._engine.cache._entries[growing.scope]
    assert isinstance(entry.index, MappedIndex)
    assert entry.index.nbytes() < 1000 < entry.index.segment.arrays["vectors"].nbytes


def test_a_first_question_imports_no_masked_arrays(growing: Memory, path: Path) -> None:
    growing.close()
    code = (
        "import sys; from keepstone import Memory; "
        f"memory = Memory.open({str(path)!r}, settings={{'approximate_from': {LEAST}}}); "
        "assert memory.recall('Who sold a kettle in Rome?'); "
        "assert 'numpy.ma' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
