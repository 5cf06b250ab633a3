"""Nothing of what was forgotten is left beside the store: what once was, and what happened to those who forgot."""

from __future__ import annotations

import errno
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keepstone import Memory
from keepstone.ports.values import ImportRow, RecordExport
from keepstone.scope_index import segment
from keepstone.scope_index.segment_builder import build_segment
from keepstone.text.words import record_terms, term_hashes
from tests.recall.rows import Line, rows
from tests.scope_index.large import asked_scope, facts, files, filled, growing_scope, large, opened, raw, top, words_left  # noqa: F401  (fixtures)

SECRET = "The safe opens with Vrontkelmix"


# -- traces ---------------------------------------------------------------------------------------------------------
def test_words_of_a_record_without_a_vector_are_overwritten(path: Path) -> None:
    with opened(path, embedder="none") as memory:
        filled(memory, facts(150))
        id = filled(memory, [SECRET])[0]
        large(memory)
        assert len(words_left(path, SECRET)) > 2
        memory.forget(id)
        assert words_left(path, SECRET) == []


@pytest.mark.parametrize("what", ["tag", "session", "name"])
def test_names_that_only_a_forgotten_record_had_are_overwritten(path: Path, what: str) -> None:
    with opened(path) as memory:
        filled(memory, facts(150), session="kept", tag="kept")
        ids = filled(memory, [SECRET, "The lamp is green"], **{what: "Vrontkelmix"}, kind="message" if what == "name" else "fact")
        large(memory)
        assert b"Vrontkelmix" in raw(path)
        for id in ids:
            memory.forget(id)
        assert b"Vrontkelmix" not in raw(path)
        assert b"kept" in raw(path)
    with opened(path) as memory:
        filled(memory, ["A new one of another"], session="later", tag="other")
        assert len(memory.recall("violin in Oslo", tag="kept", session="kept")) == 5
        assert top(memory, "new one", tag="other", min_similarity=0) == ["A new one of another"]
        large(memory)


@pytest.mark.parametrize("count", [1, 3])
def test_the_first_words_of_all_are_overwritten_like_others(tmp_path: Path, count: int) -> None:
    """Words that stand first in the file have no neighbour before them whose place they could take."""
    words = sorted((f"w{at}" for at in range(200)), key=lambda word: int(term_hashes([word])[0]))
    lines = [Line(at, (word,)) for at, word in enumerate(words[count:], 2)]
    made = build_segment([rows([Line(1, tuple(words[:count])), *lines])], {"latest": 1})
    segment.erase_slots(made, np.array([0]))
    gone, next_one = term_hashes(words[:count]), int(term_hashes([words[count]])[0])
    assert not np.isin(made.arrays["terms"], gone).any()
    assert made.find_all([next_one])[0][0].tolist() == [1]


def test_what_is_forgotten_while_a_segment_is_made_is_not_in_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as memory:
        filled(memory, facts(150))
        id = filled(memory, [SECRET])[0]
        write = segment.write_segment

        def late(*args: Any) -> None:
            memory.forget(id)
            write(*args)

        monkeypatch.setattr(segment, "write_segment", late)
        memory._engine.cache._segments.make(memory.scope)  # type: ignore[union-attr]
        assert words_left(path, "Vrontkelmix") == []


def test_a_redaction_that_was_killed_before_it_was_done(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(path) as memory:
        filled(memory, facts(150))
        id = filled(memory, [SECRET])[0]
        large(memory)
        raw_store = _raw(memory)
        monkeypatch.setattr(raw_store, "erased", lambda *args: True)
        (archive,) = raw_store.export_records(memory.scope, [id])
        record = archive.record.with_(content="The safe opens with [taken]")
        row = ImportRow(RecordExport(record, archive.versions), record_terms(record.content, None), None, None)
        assert raw_store.redact(memory.scope, row)
    assert words_left(path, "Vrontkelmix")
    with opened(path) as memory:
        assert top(memory, "safe", limit=1, min_similarity=0) == ["The safe opens with [taken]"]
        assert words_left(path, "Vrontkelmix") == []


def test_an_old_version_that_is_forgotten_leaves_the_index_too(path: Path) -> None:
    with opened(path) as memory:
        filled(memory, facts(150))
        memory.remember(SECRET, key="safe", session="first", source="user")
        large(memory)
        memory.remember("The safe opens with a key", key="safe", session="second", source="user")
        assert memory.forget(session="first").forgotten == 1
        assert words_left(path, "Vrontkelmix") == []
        assert top(memory, "How does the safe open?", limit=1) == ["The safe opens with a key"]


@pytest.mark.parametrize("ending", ["forget", "make"])
def test_drafts_of_killed_processes_are_swept_away(memory: Memory, path: Path, ending: str) -> None:
    (file,) = files(path)
    draft = file.with_name(f"{file.name}.abcd1234")
    draft.write_bytes(b"Vrontkelmix")
    if ending == "forget":
        memory.forget(memory.list(limit=1)[0].id)
    else:
        memory._engine.cache._segments.make(memory.scope)  # type: ignore[union-attr]
    assert files(path) == [file]


def test_a_process_that_wants_no_index_erases_in_those_of_others(memory: Memory, path: Path) -> None:
    id = filled(memory, [SECRET])[0]
    memory._engine.cache._segments.make(memory.scope)  # type: ignore[union-attr]
    assert words_left(path, "Vrontkelmix")
    with opened(path, least=0) as other:
        assert other.forget(id).erased
    assert not files(path) or words_left(path, "Vrontkelmix") == []


def test_a_folder_that_is_none(path: Path) -> None:
    path.with_name(f"{path.name}-index").write_text("not a folder")
    with opened(path) as memory:
        ids = filled(memory, facts(150))
        assert top(memory, "violin in Oslo")
        assert memory.forget(ids[0]).forgotten == 1
        assert memory.get(ids[0]) is None


def test_an_index_that_cannot_be_overwritten_is_said(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: object) -> None:
        raise OSError(errno.EROFS, "read-only file system")

    id = memory.list(limit=1)[0].id
    monkeypatch.setattr(segment, "erase_slots", failing)
    receipt = memory.forget(id)
    assert (receipt.forgotten, receipt.erased) == (1, False)
    assert "index" in receipt.reasons[0]
    assert memory.get(id) is None
    assert top(memory, "violin in Oslo")


def test_a_thread_that_a_fork_has_left_behind_is_not_waited_for(memory: Memory) -> None:
    segments = memory._engine.cache._segments
    assert segments is not None
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    segments._threads[memory.scope] = ended  # as a child finds it
    assert not segments.under_way(memory.scope)


def _raw(memory: Memory) -> Any:
    """The store itself, behind what stands before it."""
    store: Any = memory._engine.cache._segments._store  # type: ignore[union-attr]
    return store
