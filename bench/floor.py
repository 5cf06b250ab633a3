"""What the parts of an add and of a recall cost alone, by turns with ours. Run with `python -m bench floor`.

An add: one commit of the very rows that `remember` writes (record, words, vector, line of the trail and its chain) through bare
apsw, fsync included; one embedding of the text; one scan of it for sensitive data; one look at every vector of the scope for
near-duplicates. A recall: one embedding of the question; one product with the scope's matrix and the best ten of it; one FTS5
query (bm25) for any of the question's words; one fetch of ten records by id. The sum of these is what ours is compared with:
the sums are made round by round, with the same text or question, and their p50 is taken. Not in a sum are the bare fsyncs and
the commit of one row, which are in the commit already. A second, leaner sum leaves out what ours saves itself:
near-duplicates, which it finds by an index and not by their vectors, and words such as "the" in the FTS5 query. Reading a
text into terms, its hash and gist, and the ranking are in no part: they are ours. Products run on one thread (numpy's einsum,
as ours do): BLAS is quicker in a small matrix and slower in a large one, and its threads spin on in whatever has the next
turn.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from bench import reading
from bench.measure import Times, progress, ratio, table
from bench.report.stamp import stamped
from bench.speed import size_of
from bench.texts import Text, texts
from keepstone import Memory
from keepstone.embedders.registry import make_embedder
from keepstone.guard.sensitive import find_sensitive
from keepstone.text.words import STOP_WORDS, record_terms

HELD = 1000  # memories in the scope that is added to
HITS = 10
TURN = 20  # calls of one way before it is the next one's turn
PAGE = b"x" * 4096
ADD_SUM = ("commit_same_rows", "embed", "guard", "look_up")
RECALL_SUM = ("embed", "matrix", "fts5", "fetch")
LEAN_ADD_SUM = ("commit_same_rows", "embed", "guard")
LEAN_RECALL_SUM = ("embed", "matrix", "fts5_lean", "fetch")
Way = Callable[[int], Any]


@dataclass(slots=True)
class Turns:
    """Ways of doing something, each called with the same numbers, a few calls at a time."""

    ways: dict[str, Way]
    times: dict[str, Times] = field(init=False)
    last: dict[str, Any] = field(default_factory=dict)

    def run(self, rounds: int) -> Turns:
        """Every way, by turns."""
        self.times = {name: Times() for name in self.ways}
        for start in range(0, rounds, TURN):
            for name, way in self.ways.items():
                for at in range(start, min(start + TURN, rounds)):
                    self.last[name] = self.times[name].take(lambda w=way, a=at: w(a))
        return self

    def sum(self, names: Sequence[str]) -> Times:
        """What some ways take together, round by round."""
        wall, cpu = ([getattr(self.times[name], clock) for name in names] for clock in ("wall", "cpu"))
        return Times([sum(each) for each in zip(*wall, strict=True)], [sum(each) for each in zip(*cpu, strict=True)])

    def compared(self, names: Sequence[str], lean: Sequence[str]) -> dict[str, Any]:
        """The parts, their sum, ours, and how many times the sum goes into ours; the same with a leaner sum."""
        whole, less, ours = self.sum(names).summary(), self.sum(lean).summary(), self.times["ours"].summary()
        return {
            "parts": {name: each.summary() for name, each in self.times.items() if name != "ours"},
            "in_sum": list(names), "sum": whole, "sum_ms": whole["wall_p50_ms"], "ours": ours,
            "ratio": ratio(ours["wall_p50_ms"], whole["wall_p50_ms"]),
            "cpu_ratio": ratio(ours["cpu_p50_ms"], whole["cpu_p50_ms"]),
            "lean_in_sum": list(lean), "lean_sum": less,
            "lean_ratio": ratio(ours["wall_p50_ms"], less["wall_p50_ms"]),
            "lean_cpu_ratio": ratio(ours["cpu_p50_ms"], less["cpu_p50_ms"]),
        }  # fmt: skip


def measure(folder: Path, sizes: Sequence[int], rounds: int) -> dict[str, Any]:
    """Both verbs: adding to a small scope, recalling from scopes of each size."""
    found: dict[str, Any] = {"rounds": rounds, "add": add(folder, rounds)}
    found["recall"] = {str(size): recall(folder, size, rounds) for size in sizes}
    return found


# -- add ----------------------------------------------------------------------------------------------------------
def add(folder: Path, rounds: int) -> dict[str, Any]:
    """remember() beside its parts."""
    progress(f"an add and its parts, {rounds} rounds")
    facts = [text.content for text in texts(HELD + rounds, seed=3)]
    rows = _rows(folder / "model.db", facts)
    held = _embedded(facts[:HELD])
    embedder = make_embedder("auto")
    assert embedder is not None
    fresh = _embedded(facts[HELD:])
    with Memory.open(folder / "bare.db") as memory:
        _remember(memory, facts[:HELD])
    with Memory.open(folder / "ours.db") as memory, _durable(folder / "bare.db") as bare, _files(folder) as (grown, placed), \
            _durable(folder / "row.db") as single:  # fmt: skip
        _remember(memory, facts[:HELD])
        single.execute("CREATE TABLE fact (content TEXT)")
        turns = Turns({
            "fsync_append": lambda at: (os.write(grown, PAGE), os.fsync(grown)),
            "fsync_overwrite": lambda at: (os.pwrite(placed, PAGE, at % 256 * 4096), os.fdatasync(placed)),
            "commit_one_row": lambda at: single.execute("INSERT INTO fact VALUES (?)", (facts[HELD + at],)),
            "commit_same_rows": lambda at: _commit(bare, rows[at]),
            "embed": lambda at: embedder.embed([facts[HELD + at]]),
            "guard": lambda at: find_sensitive(facts[HELD + at]),
            "ours": lambda at: memory.remember(facts[HELD + at]),
            "look_up": lambda at: _nearest(held, fresh[at]),
        }).run(rounds)  # fmt: skip
        stored = len(memory.recall(facts[-1], limit=1))
    fsync = turns.times["fsync_append"].summary()["wall_p50_ms"]
    found = turns.compared(ADD_SUM, LEAN_ADD_SUM)
    return {"held": HELD, **found, "ratio_to_fsync": ratio(found["ours"]["wall_p50_ms"], fsync), "found": stored}


def _remember(memory: Memory, facts: Sequence[str]) -> None:
    for at in range(0, len(facts), 100):
        memory.remember_many(facts[at : at + 100])


def _rows(path: Path, facts: Sequence[str]) -> list[list[tuple[str, tuple[Any, ...]]]]:
    """The statements that store each fact after the first ones, read from a store that holds them all."""
    with Memory.open(path) as memory:
        _remember(memory, facts)
    db = apsw.Connection(str(path))
    found = []
    for at in range(HELD + 1, len(facts) + 1):
        (content,) = db.execute("SELECT content FROM record WHERE sequence = ?", (at,)).fetchall()[0]
        statements = []
        for name, key in (("audit", "number"), ("record", "sequence"), ("vector", "sequence")):
            row = db.execute(f"SELECT * FROM {name} WHERE {key} = ?", (at,)).fetchall()[0]
            statements.append((f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row))
        words = (at, "s1", " ".join(record_terms(content, None)))
        statements.append(("INSERT INTO words (rowid, scope, text) VALUES (?, ?, ?)", words))
        statements.append(("UPDATE chain SET rows = ?, head = ?", (at, os.urandom(32))))
        found.append(statements)
    db.close()
    return found


def _commit(db: apsw.Connection, statements: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
    db.execute("BEGIN IMMEDIATE")
    for statement, values in statements:
        db.execute(statement, values)
    db.execute("COMMIT")


@contextmanager
def _durable(path: Path) -> Iterator[apsw.Connection]:
    """A bare connection that writes as durably as a store."""
    db = apsw.Connection(str(path))
    db.pragma("journal_mode", "wal")
    db.pragma("synchronous", "FULL")
    try:
        yield db
    finally:
        db.close()


@contextmanager
def _files(folder: Path) -> Iterator[tuple[int, int]]:
    """A file that grows, and one that is written over."""
    grown = os.open(folder / "grown", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    placed = os.open(folder / "placed", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(placed, PAGE * 256)
        os.fsync(placed)
        yield grown, placed
    finally:
        os.close(grown)
        os.close(placed)


# -- recall -------------------------------------------------------------------------------------------------------
def recall(folder: Path, size: int, rounds: int) -> dict[str, Any]:
    """recall() of ten hits beside its parts, in a scope of one size."""
    progress(f"a recall and its parts, {size} memories")
    held = texts(size)
    asked = [each.question for each in random.Random(4).choices(held, k=rounds)]
    embedder = make_embedder("auto")
    assert embedder is not None
    vectors = embedder.embed(asked, purpose="query")
    matrix = _embedded([each.content for each in held])
    path = folder / f"recall{size}.db"
    with Memory.open(path) as memory:
        reading.fill(memory, held)
    with Memory.open(path) as memory, _facts(folder / f"facts{size}.db", held) as db:
        memory.recall(asked[0])
        ids = [[f"m{number}" for number in _nearest(matrix, vector)] for vector in vectors]
        turns = Turns({
            "embed": lambda at: embedder.embed([asked[at]], purpose="query"),
            "fts5": lambda at: _search(db, re.findall(r"\w+", asked[at].lower())),
            "fts5_lean": lambda at: _search(db, [w for w in re.findall(r"\w+", asked[at].lower()) if w not in STOP_WORDS]),
            "fetch": lambda at: db.execute(_FETCH, ids[at]).fetchall(),
            "matrix": lambda at: _nearest(matrix, vectors[at]),
            "ours": lambda at: memory.recall(asked[at], limit=HITS),
        }).run(rounds)  # fmt: skip
    return turns.compared(RECALL_SUM, LEAN_RECALL_SUM)


_FETCH = f"SELECT id, content, metadata, at FROM fact WHERE id IN ({', '.join('?' * HITS)})"


@contextmanager
def _facts(path: Path, held: Sequence[Text]) -> Iterator[apsw.Connection]:
    """The texts in a plain table with an index on the id, and in a full-text index without a copy of them."""
    with _durable(path) as db:
        db.execute("CREATE TABLE fact (number INTEGER PRIMARY KEY, id TEXT UNIQUE, content TEXT, metadata TEXT, at INTEGER)")
        db.execute("CREATE VIRTUAL TABLE word USING fts5 (text, content = '', tokenize = 'porter')")
        with db:
            rows = ((number, f"m{number}", each.content, "{}", number) for number, each in enumerate(held))
            db.executemany("INSERT INTO fact VALUES (?, ?, ?, ?, ?)", rows)
            db.executemany("INSERT INTO word (rowid, text) VALUES (?, ?)", enumerate(each.content for each in held))
        yield db


def _search(db: apsw.Connection, words: Sequence[str]) -> list[Any]:
    match = " OR ".join(f'"{word}"' for word in dict.fromkeys(words))
    return db.execute("SELECT rowid FROM word WHERE word MATCH ? ORDER BY bm25(word) LIMIT ?", (match, HITS)).fetchall()


def _nearest(matrix: np.ndarray, vector: np.ndarray) -> list[int]:
    scores = np.einsum("ij,j->i", matrix, vector)
    best = np.argpartition(scores, -HITS)[-HITS:]
    return [int(number) for number in best[np.argsort(-scores[best])]]


def _embedded(contents: Sequence[str]) -> np.ndarray:
    embedder = make_embedder("auto")
    assert embedder is not None
    return np.concatenate([embedder.embed(contents[at : at + 1000]) for at in range(0, len(contents), 1000)])


def main(argv: list[str]) -> int:
    """Print the tables (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench floor", description=__doc__)
    parser.add_argument("--sizes", default="1k,10k,100k", help="memories in the scopes that are recalled from")
    parser.add_argument("--rounds", type=int, default=200, help="calls timed for each figure (default 200)")
    parser.add_argument("--folder", help="measure on the disk of this folder (default: the temporary folder's)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    sizes = [size_of(each) for each in options.sizes.split(",")]
    if options.rounds < 1 or min(sizes) < HITS:
        parser.error(f"--rounds must be 1 or more and each of --sizes {HITS} or more")
    with tempfile.TemporaryDirectory(prefix="keepstone-floor-", dir=options.folder) as folder:
        found = {**stamped("floor", argv), **measure(Path(folder), sizes, options.rounds)}
    if not options.json:
        table("machine", found["machine"])
        table(f"add to {HELD} memories", found["add"])
        for size, figures in found["recall"].items():
            table(f"recall from {size} memories", figures)
    print(json.dumps(found))
    return 0
