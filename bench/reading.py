"""How fast memories are recalled, beside plain full-text search and plain vectors over the same texts."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import numpy as np

from bench.measure import Times, progress, ratio
from bench.texts import Text, texts
from keepstone import Memory
from keepstone.embedders.registry import make_embedder

TOP = 5
BLOCK = 20  # questions to one way before it is the next one's turn
FACTS = 2000  # up to here a store is filled with facts, near-duplicate check and all; above, with messages


def measure(folder: Path, sizes: list[int], rounds: int) -> dict[str, Any]:
    """Every figure about reading: a scope of each size, then many small scopes."""
    found: dict[str, Any] = {f"{size}": one_scope(folder / f"scope{size}.db", size, rounds) for size in sizes}
    if max(sizes) >= 100_000:
        found["100000 over 1000 scopes"] = many_scopes(folder / "scopes.db", 1000, 100, rounds)
    return found


def fill(memory: Memory, wanted: list[Text]) -> dict[str, Any]:
    """Store the texts; how long it took and how many did not become a record of their own."""
    begun = time.perf_counter()
    contents = [text.content for text in wanted]
    if len(contents) <= FACTS:
        actions = [each.action for at in range(0, len(contents), 100) for each in memory.remember_many(contents[at : at + 100])]
    else:
        said = [{"role": "user", "content": content} for content in contents]
        actions = [
            each.action for at in range(0, len(said), 1000) for each in memory.ingest(said[at : at + 1000], session=f"s{at}")
        ]
    return {"fill_s": round(time.perf_counter() - begun, 2), "false_collapses": sum(action != "added" for action in actions)}


def one_scope(path: Path, size: int, rounds: int) -> dict[str, Any]:
    """recall() in a scope of one size, with the two plain ways beside it, by turns."""
    progress(f"{size} memories in one scope")
    wanted = texts(size)
    with Memory.open(path) as memory:
        filled = fill(memory, wanted)
    stored = path.stat().st_size
    asked = random.Random(4).sample(wanted, min(rounds, size))
    with Memory.open(path) as memory:
        first = Times()
        first.take(lambda: memory.recall(asked[0].question))
        ways: dict[str, Callable[[str], list[str]]] = {
            "recall": lambda question: [hit.content for hit in memory.recall(question)],
            "fts5": _fts5(path.with_suffix(".fts"), [wanted]),
            "numpy": _numpy(wanted),
        }
        times = {name: Times() for name in ways}
        right = dict.fromkeys(ways, 0)
        for at in range(0, len(asked), BLOCK):
            for name, way in ways.items():
                time.sleep(0.4)  # threads of a matrix product spin up to a third of a second after it and would be counted here
                for text in asked[at : at + BLOCK]:
                    right[name] += text.content in times[name].take(lambda w=way, t=text: w(t.question))
    cpu = {name: each.summary()["cpu_p50_ms"] for name, each in times.items()}
    return {
        **{name: each.summary() for name, each in times.items()},
        "first_recall_ms": first.summary()["wall_p50_ms"],
        "found_at_5": {name: round(count / len(asked), 3) for name, count in right.items()},
        "cpu_ratio_to_fts5": ratio(cpu["recall"], cpu["fts5"]),
        "cpu_ratio_to_numpy": ratio(cpu["recall"], cpu["numpy"]),
        "bytes_a_memory": round(stored / size),
        **filled,
    }


def many_scopes(path: Path, scopes: int, each: int, rounds: int) -> dict[str, Any]:
    """recall() in small scopes of one file: the first in a scope, and the next."""
    progress(f"{scopes * each} memories over {scopes} scopes")
    wanted = texts(scopes * each)
    shares = [wanted[at * each : (at + 1) * each] for at in range(scopes)]
    with Memory.open(path) as memory:
        begun = time.perf_counter()
        for number, share in enumerate(shares):
            memory.with_scope(user=f"user{number}").ingest(
                [{"role": "user", "content": text.content} for text in share], session="s"
            )
        filled = time.perf_counter() - begun
    chosen = random.Random(6).sample(range(scopes), min(rounds, scopes))
    first, warm, plain = Times(), Times(), Times()
    with Memory.open(path) as memory:
        memory.with_scope(user="nobody").recall("warm the embedder")
        search = _fts5(path.with_suffix(".fts"), shares)
        for number in chosen:
            mine = memory.with_scope(user=f"user{number}")
            questions = [text.question for text in shares[number][:3]]
            first.take(lambda m=mine, q=questions: m.recall(q[0]))
            warm.take(lambda m=mine, q=questions: m.recall(q[1]))
            plain.take(lambda q=questions, n=number: search(q[2], n))
    return {
        "first_touch": first.summary(), "warm": warm.summary(), "fts5": plain.summary(),
        "bytes_a_memory": round(path.stat().st_size / len(wanted)), "fill_s": round(filled, 2),
    }  # fmt: skip


def _fts5(path: Path, shares: list[list[Text]]) -> Callable[..., list[str]]:
    """SQLite's own full-text search with the scope as a column and bm25."""
    db = apsw.Connection(str(path))
    db.execute("CREATE VIRTUAL TABLE fact USING fts5 (scope, content, tokenize = 'porter')")
    with db:
        rows = ((f"s{number}", text.content) for number, share in enumerate(shares) for text in share)
        db.executemany("INSERT INTO fact VALUES (?, ?)", rows)

    def search(question: str, scope: int = 0) -> list[str]:
        words = " OR ".join(f'"{word}"' for word in dict.fromkeys(re.findall(r"\w+", question.lower())))
        match = f'scope : "s{scope}" AND content : ({words})'
        found = db.execute("SELECT content FROM fact WHERE fact MATCH ? ORDER BY bm25(fact, 0.0, 1.0) LIMIT ?", (match, TOP))
        return [row[0] for row in found.fetchall()]

    return search


def _numpy(wanted: list[Text]) -> Callable[[str], list[str]]:
    """The same embedder's vectors in one matrix, multiplied whole."""
    embedder = make_embedder("auto")
    assert embedder is not None
    contents = [text.content for text in wanted]
    matrix = np.concatenate([embedder.embed(contents[at : at + 1000]) for at in range(0, len(contents), 1000)])

    def search(question: str) -> list[str]:
        scores = matrix @ embedder.embed([question], purpose="query")[0]
        best = np.argpartition(scores, -TOP)[-TOP:]
        return [contents[slot] for slot in best[np.argsort(-scores[best])]]

    return search
