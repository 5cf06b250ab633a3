"""What encryption at rest costs: the same work on a file in the clear and an encrypted one, by turns, in one process.

Run with `.venv-encrypted/bin/python -m bench encryption`: it needs apsw-sqlite3mc.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from bench.measure import Times, table
from bench.report.stamp import result_head
from keepstone import Memory

KEY = "8c" * 32
VERBS = ("open", "first recall", "remember", "recall", "get", "forget")


def main(argv: list[str]) -> int:
    """Print median milliseconds of each verb in the clear and encrypted, and their ratio; then the JSON object."""
    parser = argparse.ArgumentParser(prog="bench encryption", description=__doc__)
    parser.add_argument("--memories", type=int, default=2000, help="memories in each store (default 2000)")
    parser.add_argument("--rounds", type=int, default=40, help="how often each verb is measured (default 40)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    given = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        clear, encrypted = measure(Path(folder), given.memories, given.rounds)
    figures = {verb: _figures(clear[verb].wall, encrypted[verb].wall) for verb in VERBS}
    if not given.json:
        table("encryption", {verb: "  ".join(f"{name} {value}" for name, value in row.items()) for verb, row in figures.items()})
    print(json.dumps({**result_head("encryption", argv), "memories": given.memories, "rounds": given.rounds, "verbs": figures}))
    return 0


def _figures(clear: list[float], encrypted: list[float]) -> dict[str, float]:
    one, other = median(clear) * 1000, median(encrypted) * 1000
    return {"clear_ms": round(one, 3), "encrypted_ms": round(other, 3), "ratio": round(other / one, 2)}


def measure(folder: Path, memories: int, rounds: int) -> list[dict[str, Times]]:
    """The times of each verb, in the clear and encrypted."""
    stores: list[tuple[Path, dict[str, str]]] = [(folder / "clear.db", {}), (folder / "encrypted.db", {"encryption_key": KEY})]
    times = [{verb: Times() for verb in VERBS} for _ in stores]
    for path, settings in stores:
        with Memory.open(path, settings=settings) as memory:
            for at in range(0, memories, 100):
                memory.remember_many([{"content": _fact(number)} for number in range(at, at + 100)])
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            _round(*stores[which], number, times[which])
    return times


def _round(path: Path, settings: dict[str, str], number: int, times: dict[str, Times]) -> None:
    def time_call(verb: str, work: Callable[[], Any]) -> Any:
        return times[verb].take(work)

    with time_call("open", lambda: Memory.open(path, settings=settings)) as memory:
        time_call("first recall", lambda: memory.recall(f"Where did parcel {number * 7} go?"))
        receipt = time_call("remember", lambda: memory.remember(f"Courier {number} rides a blue bicycle."))
        time_call("recall", lambda: memory.recall(f"What does courier {number} ride?"))
        time_call("get", lambda: memory.get(receipt.id))
        time_call("forget", lambda: memory.forget(id=receipt.id))


def _fact(number: int) -> str:
    return f"Parcel {number} went to house {number * 37 % 1009} in the lane of the {number * 11 % 97}th mill."
