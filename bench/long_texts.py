"""What long texts cost: time, memory and disk of one text of several sizes. Run with `python -m bench long_texts`.

A log of words from a fixed seed with one other sentence in the middle, in a store and a process of its own: remember it, recall
the sentence cold and warm, forget it.

With `--data` of LongMemEval the long turns of its conversations are looked for: a sentence that stands after the first 1,500
characters of a turn is the question, the turn the answer, once with passages and once with every turn as one.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from bench.datasets import load
from bench.measure import table
from keepstone import Memory, Message
from keepstone.recall import flow
from keepstone.stores.common import writes
from keepstone.text import sentences
from keepstone.text.sentences import split_passages, split_sentences

SIZES = (2_000, 64_000, 1_000_000, 8_000_000)  # characters
CHARS = sentences.MAX_PASSAGE_CHARS
ANSWER = "The vault certificate expired on Tuesday, so the password rotation failed."
QUESTION = "Why did the password rotation fail?"


def make_text(size: int, seed: int = 7) -> str:
    """A log of about this many characters."""
    random = Random(seed)
    words = ["".join(random.choices("aeioubcdfglmnprst", k=random.randint(3, 9))) for _ in range(20_000)]
    lines, length = [], 0
    while length < size - len(ANSWER):
        lines.append(f"INFO worker {random.randint(1, 99)} {' '.join(random.choices(words, k=9))}")
        length += len(lines[-1]) + 1
    lines.insert(len(lines) // 2, ANSWER)
    return "\n".join(lines)[:size]


def measure(size: int) -> dict[str, Any]:
    """The figures of one size."""
    text = make_text(size)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "memory.db"
        with Memory.open(path) as memory:
            memory.remember("Dana likes tea.")
            memory.recall("tea")
            before, empty = _peak_mb(), path.stat().st_size
            remember, receipt = _timed(lambda: memory.remember(text))
            cold, _ = _timed(lambda: memory.recall(QUESTION))
            warm, recall = _timed(lambda: memory.recall(QUESTION))
            found = bool(len(recall)) and ANSWER in recall[0].content
            peak = _peak_mb() - before
            memory.backup(Path(folder) / "copy.db")
            disk = (Path(folder) / "copy.db").stat().st_size - empty
            forget, _ = _timed(lambda: memory.forget(receipt.id))
    figures = {"characters": len(text), "passages": sum(1 for _ in split_passages(text)), "found": found}
    seconds = {"remember_s": remember, "first_recall_s": cold, "recall_s": warm, "forget_s": forget}
    return {**figures, **seconds, "memory_mb": round(peak, 1), "disk_mb": round(disk / 1e6, 2)}


def probe(path: Path, cases: int, passages: bool) -> dict[str, Any]:
    """How often a sentence of a long turn finds the turn among one and five hits."""
    random, asked, first, five = Random(7), 0, 0, 0
    for module in (sentences, writes, flow):
        module.MAX_PASSAGE_CHARS = CHARS if passages else 2**31  # type: ignore[attr-defined]
    for case in load("longmemeval", path)[:cases]:
        with Memory.open(":memory:") as memory:
            ids: dict[str, str | None] = {}
            for session in case.sessions:
                turns = [turn for turn in session.turns if turn.text.strip()]
                messages = [Message(turn.role, turn.text, turn.name, session.when) for turn in turns]
                receipts = memory.ingest(messages, session=session.unit, extract=False)
                ids |= {turn.text: receipt.id for turn, receipt in zip(turns, receipts, strict=True)}
            long = sorted(text for text in ids if len(text) > CHARS)
            for text in random.sample(long, min(20, len(long))):
                late = [sentence.strip() for sentence in split_sentences(text[1500:])]
                late = [sentence for sentence in late if 6 <= len(sentence.split()) <= 25]
                if late:
                    found = [hit.id for hit in memory.recall(random.choice(late)[:200], limit=5, min_similarity=0)]
                    asked, five, first = asked + 1, five + (ids[text] in found), first + (found[:1] == [ids[text]])
    return {"asked": asked, "first": round(first / max(1, asked), 4), "five": round(five / max(1, asked), 4)}


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = call()
    return round(time.process_time() - start, 4), result


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench long_texts", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print only the JSON object")
    parser.add_argument("--data", type=Path, help="LongMemEval: look for sentences of its long turns instead")
    parser.add_argument("--cases", type=int, default=10, help="conversations of it")
    parser.add_argument("--size", type=int, help="measure one size in this process")
    options = parser.parse_args(argv)
    if options.size is not None:
        print(json.dumps(measure(options.size)))
        return 0
    if options.data is not None:
        found = {name: probe(options.data, options.cases, name == "passages") for name in ("one", "passages")}
        table("long turns found by one of their sentences", found)
        print(json.dumps({"bench": "long_texts", "probe": found}))
        return 0
    results = []
    for size in SIZES:
        command = [sys.executable, "-m", "bench", "long_texts", "--size", str(size)]
        results.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    if not options.json:
        for result in results:
            table(f"a text of {result['characters']:,} characters", result)
    print(json.dumps({"bench": "long_texts", "sizes": results}))
    return 0
