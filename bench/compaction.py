"""What compaction costs recall: questions asked before old memories are condensed, and after. Run with `python -m bench
compaction`.

Every turn of a user becomes a memory of its own, with its date and its speaker's name before it; then the questions that have
turns as their answer are asked, everything is compacted without a model, and they are asked again. A digest is a hit if the
turn is among its parents. A digest is longer than a memory, so hits alone flatter it: `within` counts the same for as many hits
as fit a budget of tokens.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any

from bench.datasets import OWN, READERS, Case, DatasetError, load
from bench.measure import progress, table
from keepstone import Hit, KeepstoneError, Memory
from keepstone.text.token_count import estimate_tokens

BUDGETS = (250, 500)  # tokens
_HITS = 40  # enough for the largest budget
Units = Mapping[str, frozenset[str]]  # of a record's id: the turns in it


@dataclass(slots=True)
class Counts:
    """How many questions found an answer; all of them, and of all that was asked."""

    asked: int = 0
    at5: int = 0
    at10: int = 0
    gated: int = 0  # among ten hits with the default threshold
    within: tuple[int, ...] = (0,) * len(BUDGETS)

    def __add__(self, other: Counts) -> Counts:
        within = tuple(one + two for one, two in zip(self.within, other.within, strict=True))
        return Counts(self.asked + other.asked, self.at5 + other.at5, self.at10 + other.at10, self.gated + other.gated, within)

    def shares(self, when: str) -> dict[str, float]:
        """The figures as shares of the questions."""
        found = {"any@5": self.at5, "any@10": self.at10, "default_any@10": self.gated}
        found |= {f"within_{room}_tokens": count for room, count in zip(BUDGETS, self.within, strict=True)}
        return {f"{name}_{when}": round(count / max(1, self.asked), 4) for name, count in found.items()}


def fill(memory: Memory, case: Case) -> dict[str, frozenset[str]]:
    """Remember every turn of a user. Which turns each record holds: a repetition goes into the first."""
    units: dict[str, frozenset[str]] = {}
    told = [(turn, session.when) for session in case.sessions for turn in session.turns if turn.role == "user"]
    told = sorted([each for each in told if each[0].text.strip()], key=lambda each: each[1])
    for at in range(0, len(told), 100):
        batch = told[at : at + 100]
        receipts = memory.remember_many(
            [{"content": f"{turn.name}: {turn.text}" if turn.name else turn.text, "occurred_at": when} for turn, when in batch]
        )
        for receipt, (turn, _) in zip(receipts, batch, strict=True):
            if receipt.id is not None:
                units[receipt.id] = units.get(receipt.id, frozenset()) | {turn.unit}
    return units


def ask(memory: Memory, case: Case, units: Units) -> Counts:
    """Ask every question of which a turn was remembered."""
    there = frozenset[str]().union(*units.values())
    counts = Counts()
    for question in case.questions:
        gold = question.gold & there
        if not gold or question.absent:
            continue
        recall = partial(memory.recall, question.text, asked_at=question.asked)
        many = recall(limit=_HITS, min_similarity=0)
        spent = list(accumulate(estimate_tokens(hit.content) for hit in many))
        fitting = [bisect_right(spent, room) for room in BUDGETS]
        free = _good(recall(limit=10, min_similarity=0), units, gold)
        gated = any(_good(recall(limit=10), units, gold))
        counts += Counts(1, any(free[:5]), any(free), gated, tuple(any(_good(many[:fit], units, gold)) for fit in fitting))
    return counts


def _good(hits: Sequence[Hit], units: Units, gold: frozenset[str]) -> list[bool]:
    """Which hits hold an answer."""
    return [bool(_units_of(hit, units) & gold) for hit in hits]


def _units_of(hit: Hit, units: Units) -> frozenset[str]:
    """The turns that a hit holds: its own, or those of what it was made of."""
    return units.get(hit.id) or frozenset[str]().union(*(units.get(parent, frozenset()) for parent in hit.record.parents))


def active(memory: Memory) -> Iterator[str]:
    """The texts of all memories that are listed."""
    cursor = None
    while True:
        page = memory.list(limit=100, cursor=cursor)
        yield from (record.content for record in page)
        cursor = page.cursor
        if cursor is None:
            return


def measure(cases: list[Case], embedder: str) -> dict[str, Any]:
    """Every case in a store of its own, before and after."""
    before, after = Counts(), Counts()
    memories, tokens = [0, 0], [0, 0]
    seconds = 0.0
    for number, case in enumerate(cases, 1):
        progress(f"{case.name} ({number} of {len(cases)})")
        with Memory.open(":memory:", embedder=embedder) as memory:
            units = fill(memory, case)
            sizes = [[estimate_tokens(text) for text in active(memory)]]
            before += ask(memory, case, units)
            begun = time.perf_counter()
            memory.upkeep.compact(older_than=0)
            seconds += time.perf_counter() - begun
            after += ask(memory, case, units)
            sizes.append([estimate_tokens(text) for text in active(memory)])
            memories = [count + len(each) for count, each in zip(memories, sizes, strict=True)]
            tokens = [count + sum(each) for count, each in zip(tokens, sizes, strict=True)]
    return {
        "questions": before.asked,
        "memories_before": memories[0],
        "memories_after": memories[1],
        "ratio": round(memories[1] / max(1, memories[0]), 4),
        "tokens_before": tokens[0],
        "tokens_after": tokens[1],
        **before.shares("before"),
        **after.shares("after"),
        "seconds": round(seconds, 2),
    }


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench compaction", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--data", type=Path, help="a LoCoMo file; without it the conversations in bench/data")
    parser.add_argument("--dataset", choices=list(READERS), help="the format of --data (default: locomo)")
    parser.add_argument("--embedder", default="auto", help='an embedder\'s name, such as "auto" or "none"')
    options = parser.parse_args(argv)
    dataset = options.dataset or ("own" if options.data is None else "locomo")
    try:
        cases = load(dataset, options.data or OWN)
        Memory.open(":memory:", embedder=options.embedder).close()  # a wrong name is told before the work begins
    except (DatasetError, KeepstoneError) as error:
        print(f"bench compaction: {error}", file=sys.stderr)
        return 2
    result = measure(cases, options.embedder)
    if not options.json:
        table(f"{dataset}: questions before and after compaction", result)
        print()
    print(json.dumps({"bench": "compaction", "dataset": dataset, "embedder": options.embedder, **result}))
    return 0
