"""An embedder that fails, lies or changes: the text is always stored, words answer, and vectors are caught up later."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest

from keepstone import Memory
from keepstone.embedders.function import FunctionEmbedder
from keepstone.errors import EmbedderMismatch
from tests.faults.support import everything, healthy

WIDTH = 1024
SAME = {"automobile": "car", "vehicle": "car", "physician": "doctor"}


def good(texts: list[str]) -> list[list[float]]:
    """Words as directions; some words share one, which is what this embedder knows of meaning."""
    rows = np.zeros((len(texts), WIDTH))
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().rstrip(".?").split():
            row[zlib.crc32(SAME.get(word, word).encode()) % WIDTH] += 1
    return [list(row) for row in rows + 1e-3]


class Switched:
    """An embedder that can be broken and mended."""

    def __init__(self, fault: Callable[[list[str]], Any] | None = None) -> None:
        self.fault = fault
        self.calls: list[list[str]] = []

    def __call__(self, texts: list[str]) -> Any:
        self.calls.append(list(texts))
        return good(texts) if self.fault is None else self.fault(texts)

    def embedder(self) -> FunctionEmbedder:
        return FunctionEmbedder(self, id="switched-1", dimension=WIDTH)


def _raise(error: Exception) -> Callable[[list[str]], Any]:
    def fault(texts: list[str]) -> Any:
        raise error

    return fault


FAULTS: dict[str, Callable[[list[str]], Any]] = {
    "an exception": _raise(RuntimeError("500 from the provider")),
    "a timeout": _raise(TimeoutError("no answer in 30 s")),
    "too few": lambda texts: good(texts)[:-1],
    "too many": lambda texts: good([*texts, "more"]),
    "another dimension": lambda texts: [row[:-3] for row in good(texts)],
    "not a number": lambda texts: [[float("nan")] * WIDTH for _ in texts],
    "infinite": lambda texts: [[float("inf")] * WIDTH for _ in texts],
    "zero": lambda texts: [[0.0] * WIDTH for _ in texts],
    "empty": lambda texts: [],
    "nothing": lambda texts: None,
    "text": lambda texts: ["no vector" for _ in texts],
    "ragged": lambda texts: [[1.0] * (WIDTH + at) for at, _ in enumerate([*texts, "x"])],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_text_is_stored_and_caught_up_when_the_embedder_fails(path: Path, fault: str) -> None:
    model = Switched(FAULTS[fault])
    with Memory.open(path, embedder=model.embedder()) as memory:
        receipt = memory.remember("My car is parked at the harbour.")
        assert receipt.action == "added"
        assert any("reembed" in reason for reason in receipt.reasons)
        many = memory.remember_many(["The doctor sees me on Monday.", "The plumber comes at noon."])
        said = memory.ingest([{"role": "user", "content": "I sold the piano."}], session="s")
        keyed = memory.remember("blue", key="front door colour")
        receipts = [receipt, *many, *said, keyed]
        assert [each.action for each in receipts] == ["added"] * 5
        assert all(each.reasons for each in receipts)
        for each in receipts:
            record = memory.get(each.id or "")
            assert record is not None
            assert not record.embedded
        found = memory.recall("Where is my car parked?")
        assert found[0].content == "My car is parked at the harbour."
        assert any("words only" in note for note in found.notes)
        report = memory.upkeep.reembed()
        assert (report.embedded, report.failed) == (0, 5)
        assert report.problem

        model.fault = None
        report = memory.upkeep.reembed()
        assert (report.embedded, report.failed, report.problem) == (5, 0, None)
        assert all(record.embedded for record in everything(memory))
        found = memory.recall("automobile", min_similarity=0)
        assert found[0].content == "My car is parked at the harbour."  # no word in common: found by meaning
        assert found.notes == ()
    assert healthy(path)


def test_an_update_whose_embedding_fails_keeps_the_new_text_and_no_stale_vector(path: Path) -> None:
    model = Switched()
    with Memory.open(path, embedder=model.embedder()) as memory:
        id = memory.remember("My car is red.").id or ""
        model.fault = FAULTS["a timeout"]
        receipt = memory.update(id, "The piano was sold.")
        assert receipt.action == "updated"
        assert any("reembed" in reason for reason in receipt.reasons)
        record = memory.get(id)
        assert record is not None
        assert (record.content, record.version, record.embedded) == ("The piano was sold.", 2, False)
        assert memory.recall("piano")[0].id == id
        model.fault = None
        assert not memory.recall("automobile")  # nothing of the old meaning is left
        assert memory.upkeep.reembed().embedded == 1
        assert memory.recall("piano")[0].id == id
    assert healthy(path)


def test_the_text_is_committed_before_the_function_is_called(path: Path) -> None:
    seen: list[list[str]] = []

    def looking(texts: list[str]) -> Any:
        other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        seen.append([row[0] for row in other.execute("SELECT content FROM record ORDER BY sequence")])
        other.close()
        return good(texts)

    with Memory.open(path, embedder=FunctionEmbedder(looking, id="looking", dimension=WIDTH)) as memory:
        assert seen == []  # opening costs no call
        memory.remember("First fact about the quay.")
        assert seen[-1] == ["First fact about the quay."]
        memory.ingest([{"role": "user", "content": "Second, said aloud."}], session="s")
        assert seen[-1] == ["First fact about the quay.", "Second, said aloud."]
        memory.update(memory.list(kind="fact")[0].id, "Third, a correction.")
        assert "Third, a correction." in seen[-1]
        assert all(record.embedded for record in everything(memory))


def test_a_function_that_writes_to_the_same_memory_does_not_block(path: Path) -> None:
    def noting(texts: list[str]) -> Any:
        if not any("noted" in text for text in texts):
            memory.remember(f"It was noted that {len(texts)} texts were embedded at desk {len(memory.list())}.")
        return good(texts)

    memory = Memory.open(path, embedder=FunctionEmbedder(noting, id="noting", dimension=WIDTH))
    memory.remember("The quay is closed.")
    assert len(memory.list()) == 2
    memory.close()


def test_one_bad_text_does_not_hold_up_the_others(path: Path) -> None:
    def picky(texts: list[str]) -> Any:
        if any("unlucky" in text for text in texts):
            raise ValueError("cannot embed this")
        return good(texts)

    model = Switched(_raise(RuntimeError("down")))
    with Memory.open(path, embedder=model.embedder()) as memory:
        memory.remember("A first fact about boats.")
        for number in range(10):
            memory.remember(f"Boat {number} is {'unlucky' if number == 4 else 'sound'} and has {number * 3} sails.")
        model.fault = picky
        report = memory.upkeep.reembed()
        assert (report.embedded, report.failed) == (10, 1)
        assert "cannot embed this" in (report.problem or "")


def test_the_first_record_may_be_the_bad_one(path: Path) -> None:
    model = Switched(_raise(RuntimeError("down")))
    with Memory.open(path, embedder=model.embedder()) as memory:
        memory.remember("This unlucky one comes first.")
        for number in range(5):
            memory.remember(f"Boat {number} has {number * 3} sails.")

        def picky(texts: list[str]) -> Any:
            if any("unlucky" in text for text in texts):
                raise ValueError("cannot embed this")
            return good(texts)

        model.fault = picky
        memory.upkeep.reembed()
        assert sum(record.embedded for record in everything(memory)) == 5


def test_a_query_that_cannot_be_embedded_is_answered_by_words_and_says_so(path: Path) -> None:
    model = Switched()
    with Memory.open(path, embedder=model.embedder()) as memory:
        memory.remember("My car is parked at the harbour.")
        for fault in FAULTS.values():
            model.fault = fault
            found = memory.recall("harbour")
            assert found[0].content == "My car is parked at the harbour."
            assert found.notes


def test_another_embedder_is_refused_and_the_way_out_works(path: Path) -> None:
    with Memory.open(path) as memory:
        memory.remember("My car is parked at the harbour.")
    with pytest.raises(EmbedderMismatch, match="reembed"):
        Memory.open(path, embedder=Switched().embedder())
    with pytest.raises(EmbedderMismatch):
        Memory.open(path, embedder=FunctionEmbedder(good, id="same-id", dimension=256))
    with Memory.open(path, embedder="none") as memory:
        assert memory.recall("harbour")[0].content == "My car is parked at the harbour."
        assert memory.remember("The bicycle is in the shed.").action == "added"
        report = memory.upkeep.reembed(embedder=Switched().embedder())
        assert (report.embedded, report.failed) == (2, 0)
        assert memory.recall("automobile", min_similarity=0)[0].content == "My car is parked at the harbour."
    with pytest.raises(EmbedderMismatch):
        Memory.open(path)
    with Memory.open(path, embedder=Switched().embedder()) as memory:
        assert memory.recall("vehicle", min_similarity=0)[0].content == "My car is parked at the harbour."
    assert healthy(path)


def test_without_an_embedder_words_do_it_all(path: Path) -> None:
    with Memory.open(path, embedder="none") as memory:
        receipt = memory.remember("My car is parked at the harbour.")
        assert (receipt.action, receipt.reasons) == ("added", ())
        found = memory.recall("Where is the car?")
        assert found[0].content == "My car is parked at the harbour."
        assert not found[0].record.embedded
    with Memory.open(path) as memory:
        assert memory.upkeep.reembed().embedded == 1
        assert all(record.embedded for record in memory.list())
    assert healthy(path)


def test_a_store_moved_to_another_embedder_under_a_live_memory(path: Path) -> None:
    """The old embedder's vectors are never compared with the new one's."""
    with Memory.open(path) as old:
        old.remember("My car is parked at the harbour.")
        assert old.recall("harbour car")
        with Memory.open(path, embedder="none") as mover:
            mover.upkeep.reembed(embedder=Switched().embedder())
        assert old.recall("harbour")[0].content == "My car is parked at the harbour."
        assert old.remember("The bicycle is in the shed.").action == "added"
        assert old.recall("bicycle")[0].content == "The bicycle is in the shed."
    with Memory.open(path, embedder=Switched().embedder()) as memory:
        memory.upkeep.reembed()
        assert memory.recall("vehicle", min_similarity=0)[0].content == "My car is parked at the harbour."
    assert healthy(path)
