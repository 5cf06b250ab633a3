"""Several processes on one file: nothing lost, nothing twice, no error seen, every change seen by the next recall."""

from __future__ import annotations

from pathlib import Path

from bench.torture.processes import OWN, READERS, SHARED, WRITERS, rounds
from bench.torture.verdict import Verdict
from keepstone import Memory
from tests.faults.support import Remote, everything, healthy, run


def test_eight_writers_and_four_readers(tmp_path: Path, path: Path) -> None:
    verdict = Verdict("processes", "sqlite")
    rounds(str(path), tmp_path, verdict)
    assert verdict.problems == []
    assert (verdict.lost, verdict.duplicates, verdict.errors, verdict.drift) == (0, 0, 0, 0)
    assert verdict.acknowledged == WRITERS * (OWN + SHARED)
    assert verdict.figures["looks"] > READERS
    with Memory.open(path) as memory:
        assert len(everything(memory)) == WRITERS * OWN + SHARED
    assert healthy(path)


def test_a_change_by_one_process_is_seen_by_the_next_recall_of_another(path: Path) -> None:
    with Remote(path) as one, Remote(path) as other:
        for writer, reader in ((one, other), (other, one)):
            id = writer("remember", "Priya parks the van behind the bakery.")["id"]
            assert reader.contents("Where is the van parked?") == ["Priya parks the van behind the bakery."]
            writer("update", id, "Priya parks the van at the harbour.")
            assert reader.contents("Where is the van parked?") == ["Priya parks the van at the harbour."]
            assert reader("get", id)["version"] == 2
            writer("update", id, metadata={"level": 2})
            found = reader("recall", "van", filter={"level": 2})["hits"]
            assert [hit["record"]["id"] for hit in found] == [id]
            writer("remember", "Gate 4", key="gate")
            assert reader.contents("Which gate?")[0] == "Gate 4"
            writer("remember", "Gate 9", key="gate")
            assert reader.contents("Which gate?")[0] == "Gate 9"
            assert reader("value", "gate") == "Gate 9"
            writer("forget", id)
            assert reader.contents("Where is the van parked?") == []
            assert reader("get", id) is None
            writer("forget", key="gate")
            assert reader.contents("Which gate?") == []
            writer("ingest", [{"role": "user", "content": "My parcel is at the kiosk."}], session="s")
            assert reader.contents("Where is my parcel?") == ["My parcel is at the kiosk."]
            writer("forget", everything=True)
            assert reader("recall", "parcel", min_similarity=0)["hits"] == []
    assert healthy(path)


def test_many_changes_between_two_recalls(path: Path) -> None:
    """The reader's index has to drop, reword and add in one step, and be rebuilt on the way."""
    with Remote(path) as writer, Remote(path) as reader:
        ids = [writer("remember", f"Shelf {n} holds the crate tagged cr{n}x.")["id"] for n in range(200)]
        assert reader("recall", "crate cr7x")["considered"] == 200
        for n, id in enumerate(ids):
            if n % 3 == 0:
                writer("forget", id)
            elif n % 3 == 1:
                writer("update", id, f"Shelf {n} holds the barrel tagged ba{n}x.")
        assert reader("recall", "crate cr8x")["considered"] == 200 - 67
        for n in (1, 100, 199):
            assert reader.contents(f"barrel ba{n}x")[0].endswith(f"ba{n}x.")
        for n in (0, 3, 198):
            assert not any(f"cr{n}x" in content for content in reader.contents(f"crate cr{n}x"))
        for n in (2, 101, 197):
            assert reader.contents(f"crate cr{n}x")[0].endswith(f"cr{n}x.")


FORK = """
import json, os, sys
from keepstone import Memory
memory = Memory.open(sys.argv[1])
first = memory.remember("Before the fork, Noor had two cats.").id
memory.recall("cats")
out, into = os.pipe()
child = os.fork()
if not child:
    seen = [hit.content for hit in memory.recall("cats")]
    for number in range(20):
        memory.remember(f"In the child, locker {number} was painted with coat {number * 7}.")
    memory.update(first, "Noor has three cats now.")
    os.write(into, json.dumps(seen).encode())
    if sys.argv[2] == "close":
        memory.close()
    sys.exit(0)  # the interpreter is torn down as usual, inherited objects and all
for number in range(20):
    memory.remember(f"In the parent, window {number} faces street {number * 11}.")
_, status = os.waitpid(child, 0)
cats = [hit.content for hit in memory.recall("How many cats has Noor?", limit=1)]
after = memory.remember("After the fork, the parent still writes.").action
print(json.dumps([status, json.loads(os.read(out, 65536)), cats, after]))
memory.close()
"""


def test_a_memory_opened_before_a_fork_works_on_both_sides(path: Path) -> None:
    for ending in ("close", "leave"):
        status, seen, cats, after = run(FORK, path, ending)
        assert status == 0
        assert seen == ["Before the fork, Noor had two cats."]
        assert cats == ["Noor has three cats now."]
        assert after == "added"
        with Memory.open(path) as memory:
            assert len(everything(memory)) == 42
            memory.forget(everything=True)
        assert healthy(path)
