"""How well near-duplicates collapse, and whether different facts ever do. Run with `python -m bench dedupe`."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from keepstone.text.near_duplicates import Verdict, compare, gist
from keepstone.text.parsed_memory import read

DATA = Path(__file__).parent / "data" / "near_duplicates.tsv"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two memories and whether they state the same fact."""

    split: str
    same: bool
    type: str
    new: str
    old: str


def load(path: Path = DATA) -> list[Pair]:
    """Every labelled pair, in the order of the file."""
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return [Pair(split, label == "same", kind, new, old) for split, label, kind, new, old in rows]


def wilson(wrong: int, count: int) -> tuple[float, float]:
    """The 95 % interval of a rate, by Wilson's score."""
    if not count:
        return 0.0, 1.0
    z = 1.96
    middle = (wrong + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(wrong * (count - wrong) / count + z * z / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def judge(pair: Pair) -> Verdict:
    """What a store does with the pair: only records of one gist are compared at all."""
    if gist(pair.new) != gist(pair.old):
        return Verdict(False, False, "has another gist")
    return compare(pair.new, pair.old)


def measure(path: Path) -> dict[str, Any]:
    """Rates by split and by type, errors, and the CPU time of one first comparison."""
    pairs = load(path)
    read.cache_clear()
    begun = time.process_time()
    verdicts = [judge(pair) for pair in pairs]
    spent = time.process_time() - begun
    judged = list(zip(pairs, verdicts, strict=True))
    return {
        "cpu_us_per_pair": round(spent / len(pairs) * 1e6, 1),
        **{split: _rates([(p, v) for p, v in judged if p.split == split]) for split in ("dev", "test")},
    }


def _rates(judged: list[tuple[Pair, Verdict]]) -> dict[str, Any]:
    wrong = [(pair, verdict) for pair, verdict in judged if pair.same != verdict.same]
    totals = Counter(pair.type for pair, _ in judged)
    misses = Counter(pair.type for pair, _ in wrong)
    return {
        "pairs": len(judged),
        "false_collapses": _rate([pair for pair, _ in wrong if not pair.same], [p for p, _ in judged if not p.same]),
        "missed_collapses": _rate([pair for pair, _ in wrong if pair.same], [p for p, _ in judged if p.same]),
        "types": {kind: {"pairs": count, "wrong": misses[kind]} for kind, count in totals.items()},
        "errors": [
            {"expected": "same" if pair.same else "different", "type": pair.type, "new": pair.new, "old": pair.old,
             "reason": verdict.reason}
            for pair, verdict in wrong
        ],
    }  # fmt: skip


def _rate(wrong: list[Pair], among: list[Pair]) -> dict[str, Any]:
    low, high = wilson(len(wrong), len(among))
    return {"wrong": len(wrong), "of": len(among), "rate": round(len(wrong) / max(1, len(among)), 4),
            "low": round(low, 4), "high": round(high, 4)}  # fmt: skip


def _print(result: dict[str, Any], splits: list[str], errors: bool) -> None:
    print(f"{result['cpu_us_per_pair']} us CPU a pair")
    print(f"{'split':<6}{'pairs':>6}  {'false collapses':<32}missed collapses")
    for split in splits:
        found = result[split]
        shown = [
            f"{r['wrong']} of {r['of']}: {r['rate']:.1%} ({r['low']:.1%} to {r['high']:.1%})"
            for r in (found["false_collapses"], found["missed_collapses"])
        ]
        print(f"{split:<6}{found['pairs']:>6}  {shown[0]:<32}{shown[1]}")
    for kind in result[splits[0]]["types"]:
        counts = [result[split]["types"].get(kind, {"pairs": 0, "wrong": 0}) for split in splits]
        print(f"  {kind:<20}" + "   ".join(f"{s} {c['wrong']}/{c['pairs']}" for s, c in zip(splits, counts, strict=True)))
    for error in [error for split in splits for error in result[split]["errors"]] if errors else []:
        print(f"  {error['type']}: {error['new']!r} / {error['old']!r}: should be {error['expected']}; {error['reason']}")


def main(argv: list[str]) -> int:
    """Print the table (or with --json only the object); the last line is always one JSON object."""
    parser = argparse.ArgumentParser(prog="bench dedupe", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    parser.add_argument("--split", choices=["dev", "test"], help="only this split")
    parser.add_argument("--errors", action="store_true", help="print every wrong pair")
    options = parser.parse_args(argv)
    splits = [options.split] if options.split else ["dev", "test"]
    result = measure(DATA)
    if not options.json:
        _print(result, splits, options.errors)
        print()
    for split in ("dev", "test"):
        if split not in splits:
            del result[split]
        elif not options.errors:
            del result[split]["errors"]
    print(json.dumps({"bench": "dedupe", **result}))
    return 0
