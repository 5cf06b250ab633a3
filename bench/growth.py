"""How every verb fares as one scope grows, in one file. Run with `python -m bench growth`. Times are printed, never judged.

The scope is filled with messages step by step. At each size the reading verbs are called by turns, then the writing ones; what
these add carries a session of its own and is forgotten again, so that the next step starts from the size it says. A new process
tells how long opening and the first recall take and how much memory it holds.
"""

from __future__ import annotations

import argparse
import json
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from bench import cold
from bench.measure import Times, progress, table
from bench.report.stamp import result_head
from bench.speed import size_of
from bench.texts import Text, messages, texts
from keepstone import Memory
from keepstone.embedders.registry import make_embedder
from keepstone.errors import NotFound
from keepstone.scope_index.mapped_index import MappedView

READING = ("recall", "context", "get", "list")
WRITING = ("remember", "update", "remember_many", "ingest", "forget")
MAINTENANCE: dict[str, Callable[[Memory], object]] = {  # called once, on as many facts in a file of their own; nothing changes
    "health": lambda memory: memory.upkeep.health(),
    "verify": lambda memory: memory.upkeep.verify(dry_run=True),
    "compact": lambda memory: memory.upkeep.compact(older_than=0, dry_run=True),
    "age": lambda memory: memory.upkeep.age(older_than=0, dry_run=True),
}
MOST_FACTS = 20_000
BATCHES = {"remember_many": 100, "ingest": 1000}  # items in a call; it is timed for fewer rounds
FEWER = {"remember_many": 20, "ingest": 40}
STEP = 1000  # messages a session that fills
TURN = 10  # calls of one verb before it is the next one's turn
LONGEST = 60.0  # seconds; a verb that has taken so long at one size is not called again there
EXTRA = "growth-extra"  # the session of what is added while measuring
TOP = 10
STARTS = 3  # new processes


@dataclass(slots=True)
class Clocks:
    """The times of some verbs at one size, each called as often as was asked for or as fits."""

    times: dict[str, Times] = field(default_factory=dict)

    def take(self, verb: str, work: Callable[[], Any]) -> Any:
        """Call a verb and note how long it took."""
        return self.times.setdefault(verb, Times()).take(work)

    def enough(self, verb: str, rounds: int) -> bool:
        """Whether a verb has been called often or long enough."""
        walls = self.times.setdefault(verb, Times()).wall
        return len(walls) >= rounds or (len(walls) >= 3 and sum(walls) > LONGEST)

    def summary(self) -> dict[str, Any]:
        """Percentiles of each verb, and how often it was called."""
        return {verb: {**each.summary(), "calls": len(each.wall)} for verb, each in self.times.items() if each.wall}


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured: the file, the sizes, how many calls, which verbs."""

    path: Path
    sizes: Sequence[int]
    rounds: int
    verbs: Sequence[str]


def measure(plan: Plan) -> dict[str, Any]:
    """Every size, from the smallest on. A file that is kept goes on from where it stood; smaller sizes are left out."""
    wanted = texts(max(plan.sizes))
    found: dict[str, Any] = {}
    for size in sorted(plan.sizes):
        held = _stored_count(plan.path)
        if held > size:
            progress(f"the file holds {held} memories already: {size} is left out")
            continue
        filled = _fill(plan.path, wanted[:size], held)
        found[str(size)] = {**_time_verbs(plan, size, wanted[:size]), **filled, **_cost(plan.path, size, wanted[0].question)}
        if size <= MOST_FACTS:
            found[str(size)] |= _time_maintenance(plan, wanted[:size])
    return found


def _time_maintenance(plan: Plan, wanted: Sequence[Text]) -> dict[str, Any]:
    """The cost of maintenance, for the store and for each memory."""
    verbs = [verb for verb in MAINTENANCE if verb in plan.verbs]
    progress(f"maintenance of {len(wanted)} facts")
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(dir=plan.path.parent) as place, Memory.open(Path(place) / "facts.db") as memory:
        for at in range(0, len(wanted) if verbs else 0, 100):
            memory.remember_many([text.content for text in wanted[at : at + 100]])
        for verb in verbs:
            times = Times()
            times.take(lambda v=verb: MAINTENANCE[v](memory))
            found[verb] = {**times.summary(), "calls": 1}
            found[verb]["cpu_us_a_memory"] = round(found[verb]["cpu_p50_ms"] * 1e3 / len(wanted), 1)
    return found


def _fill(path: Path, wanted: Sequence[Text], held: int) -> dict[str, Any]:
    """Messages up to a size, a thousand a call."""
    progress(f"filling from {held} to {len(wanted)} memories")
    begun = time.perf_counter()
    with Memory.open(path) as memory:
        _clear(memory)
        for at in range(held, len(wanted), STEP):
            said = [{"role": "user", "content": each.content} for each in wanted[at : at + STEP]]
            memory.ingest(said, session=f"s{at}", extract=False)
            if at % 50_000 == 0 and at:
                progress(f"{at:,} memories")
    _note(path).write_text(str(len(wanted)), encoding="utf-8")
    seconds = time.perf_counter() - begun
    return {"filled": len(wanted) - held, "fill_s": round(seconds, 2)}


def _time_verbs(plan: Plan, size: int, held: Sequence[Text]) -> dict[str, Any]:
    """Every verb that is asked for, by turns."""
    progress(f"verbs at {size} memories")
    clocks, right = Clocks(), []
    asked = random.Random(size).choices(held, k=plan.rounds)
    with Memory.open(plan.path) as memory:
        first = Times()
        first.take(lambda: memory.recall(asked[0].question))
        while memory._engine.cache.making(memory.scope):  # of a very large scope, once
            time.sleep(0.2)
        ids = [hit.id for each in asked[:20] for hit in memory.recall(each.question)]
        reading = [verb for verb in READING if verb in plan.verbs]
        for start in range(0, plan.rounds, TURN):
            for verb in reading:
                for each in asked[start : start + TURN]:
                    if not clocks.enough(verb, plan.rounds):
                        given = clocks.take(verb, _read(memory, verb, each.question, ids[len(right) % len(ids)]))
                        if verb == "recall":
                            right.append(each.content in [hit.content for hit in given])
        _written(memory, plan, clocks, size)
        _clear(memory)
    found = {**clocks.summary(), "first_recall_here_ms": first.summary()["wall_p50_ms"]}
    if right:
        found["found_at_5"] = round(sum(right) / len(right), 3)
    return found


def _read(memory: Memory, verb: str, question: str, id: str) -> Callable[[], Any]:
    return {
        "recall": lambda: memory.recall(question),
        "context": lambda: memory.context(question),
        "get": lambda: memory.get(id),
        "list": lambda: memory.list(limit=20),
    }[verb]


def _written(memory: Memory, plan: Plan, clocks: Clocks, size: int) -> None:
    """The writing verbs: facts are remembered, changed and forgotten, batches go in beside them."""
    turns = range(0, plan.rounds, TURN)
    facts = iter(text.content for text in texts(len(turns) * (3 * TURN + BATCHES["remember_many"]), seed=size + 7))
    said = iter(messages(BATCHES["ingest"] * (plan.rounds // FEWER["ingest"] + 3), seed=size + 8))
    for _ in turns:
        ids: list[str] = []
        for _ in range(TURN):
            added = _write(clocks, plan, "remember", lambda: memory.remember(next(facts), session=EXTRA))
            ids.append((added or memory.remember(next(facts), session=EXTRA)).id or "")
        for id in ids:
            _write(clocks, plan, "update", lambda i=id: memory.update(i, next(facts)))
        batch = [{"content": next(facts), "session": EXTRA} for _ in range(BATCHES["remember_many"])]
        _write(clocks, plan, "remember_many", lambda b=batch: memory.remember_many(b))
        if "ingest" in plan.verbs and not clocks.enough("ingest", _rounds(plan, "ingest")):
            many = [next(said) for _ in range(BATCHES["ingest"])]
            _write(clocks, plan, "ingest", lambda m=many: memory.ingest(m, session=EXTRA))
        for id in ids:
            _write(clocks, plan, "forget", lambda i=id: memory.forget(i))


def _write(clocks: Clocks, plan: Plan, verb: str, work: Callable[[], Any]) -> Any:
    """Call a writing verb if it is asked for and has not been called enough; None if not."""
    if verb not in plan.verbs or clocks.enough(verb, _rounds(plan, verb)):
        return None
    return clocks.take(verb, work)


def _rounds(plan: Plan, verb: str) -> int:
    return max(3, plan.rounds // FEWER[verb]) if verb in FEWER else plan.rounds


def _clear(memory: Memory) -> None:
    """Forget what was added while measuring."""
    with suppress(NotFound):
        memory.forget(session=EXTRA)


def _cost(path: Path, size: int, question: str) -> dict[str, Any]:
    """A new process: what it waits for and what it holds; and the disk."""
    started = cold.measure(path, question, rounds=STARTS)
    there = cold.resident(path, question)
    beside = [*path.parent.glob(f"{path.name}*"), *path.parent.glob(f"{path.name}-index/*")]  # the log, codes of large scopes
    disk = sum(each.stat().st_size for each in beside if each.is_file() and each != _note(path))
    found = {
        "open_ms": started["open_ms"], "first_recall_ms": started["first_recall_ms"], "process_ms": started["process_ms"],
        "cli_recall_ms": started.get("cli_recall_ms"), "cli_recall_cpu_ms": started.get("cli_recall_cpu_ms"),
        "opened_mb": there["opened_mb"], "resident_mb": there["scope_loaded_mb"],
        "disk_mb": round(disk / 1e6, 1), "bytes_a_memory": round(disk / size),
    }  # fmt: skip
    agreed = agreement(path, [each.question for each in texts(200)])
    return found if agreed is None else {**found, "recall_at_10": agreed}


# -- how near the approximate search comes to the exact one ---------------------------------------------------------
def agreement(path: Path, questions: Sequence[str]) -> float | None:
    """The share of the ten nearest vectors that the scope's own search names too, over some questions. None where every vector is
    compared, so that there is nothing to agree with."""
    named = approximate(path, questions)
    if named is None:
        return None
    pairs = zip(named, exact(path, questions), strict=True)
    return round(sum(len(set(some) & set(best)) / max(1, len(best)) for some, best in pairs) / len(questions), 4)


def approximate(path: Path, questions: Sequence[str]) -> list[list[int]] | None:
    """The sequences of the ten nearest vectors by the codes of a large scope; None where it has none. It looks inside: no verb
    searches by meaning alone."""
    with Memory.open(path) as memory:
        memory.recall(questions[0])
        view = memory._engine.cache.view(memory.scope)
        if not isinstance(view, MappedView):
            return None
        embedder = memory._engine.recalling.embedder
        assert embedder is not None
        wanted = view.wanted(None, 0, lambda part: part.active)
        found = (view.nearest(embedder.embed([each], purpose="query")[0], TOP, wanted) for each in questions)
        return [view.sequences(np.sort(slots)).tolist() for slots in found]


def exact(path: Path, questions: Sequence[str]) -> list[list[int]]:
    """The sequences of the ten nearest vectors of the file to each question, all of them compared."""
    embedder = make_embedder("auto")
    assert embedder is not None
    asked = np.asarray(embedder.embed(list(questions), purpose="query"), dtype=np.float32)
    best = [(np.zeros(0, np.float32), np.zeros(0, np.int64)) for _ in questions]
    for sequences, vectors in _vectors(path):
        scores = vectors @ asked.T
        for at, (kept, of) in enumerate(best):
            all_scores, all_of = np.concatenate([kept, scores[:, at]]), np.concatenate([of, sequences])
            first = np.argsort(-all_scores, kind="stable")[:TOP]
            best[at] = (all_scores[first], all_of[first])
    return [[int(sequence) for sequence in of] for _, of in best]


def _vectors(path: Path, step: int = 20_000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sequences and vectors of a file, some at a time."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    cursor = db.execute("SELECT sequence, vector FROM vector WHERE vector IS NOT NULL ORDER BY sequence")
    while rows := list(islice(cursor, step)):
        yield np.array([row[0] for row in rows]), np.frombuffer(b"".join(row[1] for row in rows), "<f4").reshape(len(rows), -1)
    db.close()


# -- the command --------------------------------------------------------------------------------------------------
def _note(path: Path) -> Path:
    """Beside a file that is kept: how many memories it was filled with."""
    return path.with_suffix(".held")


def _stored_count(path: Path) -> int:
    return int(_note(path).read_text(encoding="utf-8")) if path.exists() and _note(path).exists() else 0


@contextmanager
def _place(folder: str | None, keep: bool) -> Iterator[Path]:
    """The file; with `keep` in the folder itself, where the next run finds it."""
    if keep:
        place = Path(folder or "growth")
        place.mkdir(parents=True, exist_ok=True)
        yield place / "growth.db"
        progress(f"kept: {place / 'growth.db'}")
        return
    with tempfile.TemporaryDirectory(prefix="keepstone-growth-", dir=folder) as place_:
        yield Path(place_) / "growth.db"


def main(argv: list[str]) -> int:
    """Print the tables (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench growth", description=__doc__)
    parser.add_argument("--sizes", default="1k,10k,100k,1m", help="memories in the scope, one after the other")
    parser.add_argument("--rounds", type=int, default=200, help="calls timed for each figure (default 200; batches fewer)")
    known = (*READING, *WRITING, *MAINTENANCE)
    parser.add_argument("--verbs", default=",".join(known), help="which verbs (default: all)")
    parser.add_argument("--folder", help="measure on the disk of this folder (default: the temporary folder's)")
    parser.add_argument("--keep", action="store_true", help="keep the file; the next run with --keep goes on from there")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    verbs = options.verbs.split(",")
    unknown = sorted(set(verbs) - set(known))
    if unknown:
        parser.error(f"--verbs has {unknown[0]!r}: use some of {', '.join(known)}")
    sizes = sorted({size_of(each) for each in options.sizes.split(",")})
    if options.rounds < 1 or min(sizes) < 1:
        parser.error("--rounds and --sizes must be 1 or more")
    with _place(options.folder, options.keep) as path:
        found = {
            **result_head("growth", argv),
            "rounds": options.rounds,
            "sizes": measure(Plan(path, sizes, options.rounds, verbs)),
        }
    if not options.json:
        table("machine", found["machine"])
        for size, figures in found["sizes"].items():
            table(f"{size} memories in one scope", figures)
    print(json.dumps(found))
    return 0
