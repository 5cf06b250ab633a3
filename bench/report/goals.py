"""The page of goals: what was set out to be reached, what was measured, and why where it falls short.

The causes of misses are written by hand, in causes.toml beside the pages: a goal's id and a few sentences. A goal is met or
missed by its figure alone.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bench.report import pages
from bench.report.beside import PEERS, against, named
from bench.report.figures import count, mb, memories, ms, share, times
from bench.report.floor import ADD_GOAL, RECALL_GOAL
from bench.report.results import Results

MET, MISSED, NOT_MEASURED = "met", "missed", "not measured"
VERDICTS = (MET, f"{MET} on dev", MISSED, f"{MISSED} on dev", NOT_MEASURED)
HELD_OUT = 450  # questions of LongMemEval that nothing was fitted on
_HOLDS: dict[str, Callable[[float, float], bool]] = {
    "≤": operator.le,
    "≥": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "=": operator.eq,
}
Figure = tuple[float, str]  # a figure, and the result that it is of
Finding = Callable[[Results], Figure | None]


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure to reach."""

    id: str
    what: str
    holds: str
    bound: float
    shown: Callable[[float], str]
    figure: Finding
    name: str  # the result that is missing where there is no figure
    note: Callable[[Results], str] = lambda results: ""
    held_out: bool = False  # it is about questions that nothing was fitted on

    def verdict(self, results: Results) -> str:
        """met, missed or not measured; "on dev" where the questions were not those that the goal is about."""
        found = self.figure(results)
        if found is None:
            return NOT_MEASURED
        return (MET if _HOLDS[self.holds](found[0], self.bound) else MISSED) + (
            " on dev" if self.held_out and _dev(results) else ""
        )


def _first(*ways: tuple[str, Sequence[str]]) -> Finding:
    """The first of some figures that is there."""

    def figure(results: Results) -> Figure | None:
        for name, path in ways:
            value = results.at(name, *path)
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                return float(value), name
        return None

    return figure


def _quality(dataset: str, metric: str) -> Finding:
    beside = ["peers", dataset, "keepstone", metric]
    return _first((f"quality-{dataset}", [metric]), (f"quality-peers-{dataset}", beside), ("quality-peers", beside))


def _dev(results: Results) -> str:
    """Whether the questions were held out, and if not, that they are few and fitted on."""
    questions = _quality("longmemeval", "questions")(results)
    if questions is None or questions[0] >= HELD_OUT:
        return ""
    return f"on {count(questions[0])} development questions, which the weights were fitted on; those held out are not here"


def _least(verb: str, size: str | None = None, way: str = "same", of: Sequence[str] = PEERS) -> Finding:
    """How many times ours goes into the best of the others."""

    def figure(results: Results) -> Figure | None:
        there = {name: x for name, x in against(results.at("speed-peers", "peers") or {}, verb, way, size).items() if name in of}
        return (min(there.values()), "speed-peers") if there else None

    return figure


def _who(verb: str, size: str | None = None) -> Callable[[Results], str]:
    def note(results: Results) -> str:
        found = against(results.at("speed-peers", "peers") or {}, verb, "same", size)
        there = {name: x for name, x in found.items() if name in PEERS}
        return f"the best of them is {named(min(there, key=lambda name: there[name]))}" if there else ""

    return note


def _row(row: str, *keys: str) -> Finding:
    """The sum of some counts of a row of the fault table."""

    def figure(results: Results) -> Figure | None:
        for each in results.at("torture", "rows") or ():
            if each["row"] == row and not each.get("skipped") and each.get("tries"):
                return float(sum(each[key] for key in keys)), "torture"
        return None

    return figure


def _killed(results: Results) -> str:
    return "" if results.get("torture") is None else f"{count(results.at('torture', 'acknowledged'))} acknowledged writes"


def _cpu(size: int) -> Callable[[Results], str]:
    def note(results: Results) -> str:
        found = results.at("floor", "recall", str(size), "cpu_ratio")
        return "" if found is None else f"{times(found)} in CPU time"

    return note


_MILLION = ("sizes", "1000000")
GOALS: tuple[Goal, ...] = (
    Goal(
        "longmemeval-any5",
        "LongMemEval-S, sessions, any@5",
        "≥",
        0.995,
        share,
        _quality("longmemeval", "any@5"),
        "quality-longmemeval",
        _dev,
        held_out=True,
    ),
    Goal(
        "longmemeval-all5",
        "LongMemEval-S, sessions, all@5",
        "≥",
        0.96,
        share,
        _quality("longmemeval", "all@5"),
        "quality-longmemeval",
        _dev,
        held_out=True,
    ),
    Goal(
        "longmemeval-all10",
        "LongMemEval-S, sessions, all@10",
        "≥",
        0.985,
        share,
        _quality("longmemeval", "all@10"),
        "quality-longmemeval",
        _dev,
        held_out=True,
    ),
    Goal("locomo-any10", "LoCoMo, turns, any@10", "≥", 0.90, share, _quality("locomo", "any@10"), "quality-locomo"),
    Goal("locomo-frac10", "LoCoMo, turns, frac@10", "≥", 0.85, share, _quality("locomo", "frac@10"), "quality-locomo"),
    Goal(
        "recall-10k",
        "recall from 10,000 memories, p50 of CPU",
        "≤",
        2,
        ms,
        _first(("speed", ["recall", "10000", "recall", "cpu_p50_ms"]), ("growth", ["sizes", "10000", "recall", "cpu_p50_ms"])),
        "speed",
    ),
    Goal(
        "recall-10k-chroma",
        "the same, times faster than Chroma with MiniLM",
        "≥",
        10,
        times,
        _least("recall", "10000", "usual", ("chroma",)),
        "speed-peers",
    ),
    Goal(
        "recall-1m-p50",
        "recall from 1 million in one scope, p50 of CPU",
        "≤",
        10,
        ms,
        _first(("growth", [*_MILLION, "recall", "cpu_p50_ms"])),
        "growth",
    ),
    Goal("recall-1m-p95", "the same, p95 of CPU", "≤", 25, ms, _first(("growth", [*_MILLION, "recall", "cpu_p95_ms"])), "growth"),
    Goal(
        "resident-1m", "the same, memory of the process", "<", 1000, mb, _first(("growth", [*_MILLION, "resident_mb"])), "growth"
    ),
    Goal(
        "agreement-1m",
        "the same, the ten nearest by codes among the exact ten",
        "≥",
        0.97,
        share,
        _first(("growth", [*_MILLION, "recall_at_10"])),
        "growth",
    ),
    Goal("open-1m", "the same, opening the store", "≤", 1000, ms, _first(("growth", [*_MILLION, "open_ms"])), "growth"),
    Goal(
        "add-fsync",
        "durable add, embedding included, times one raw fsync",
        "≤",
        1.5,
        times,
        _first(("speed", ["write", "durable_add", "ratio_to_fsync"]), ("floor", ["add", "ratio_to_fsync"])),
        "speed",
    ),
    Goal("import", "`from keepstone import Memory`", "≤", 150, ms, _first(("speed", ["start", "import_ms"])), "speed"),
    Goal("cold-recall", "`keepstone recall`, cold", "≤", 600, ms, _first(("speed", ["start", "cli_recall_ms"])), "speed"),
    Goal("kills", "kill -9 in the middle of work, times", "≥", 3000, count, _first(("torture", ["kills"])), "torture", _killed),
    Goal("kills-lost", "acknowledged writes lost, over all harm done", "=", 0, count, _first(("torture", ["lost"])), "torture"),
    Goal(
        "kills-drift",
        "drift of text, words and vectors, over all harm done",
        "=",
        0,
        count,
        _first(("torture", ["drift"])),
        "torture",
    ),
    Goal(
        "processes",
        "8 writers and 4 readers on one file: lost, doubled, told of a lock",
        "=",
        0,
        count,
        _row("processes", "lost", "duplicates", "errors"),
        "torture",
    ),
    Goal(
        "peers-10k",
        "recall from 10,000, times faster than the best peer, same embedder",
        "≥",
        8,
        times,
        _least("recall", "10000"),
        "speed-peers",
        _who("recall", "10000"),
    ),
    Goal(
        "peers-100k",
        "recall from 100,000, times faster than the best peer, same embedder",
        "≥",
        15,
        times,
        _least("recall", "100000"),
        "speed-peers",
        _who("recall", "100000"),
    ),
    Goal(
        "peers-add",
        "durable add, times faster than the best peer, same embedder",
        ">",
        1,
        times,
        _least("add"),
        "speed-peers",
        _who("add"),
    ),
    Goal(
        "floor-add", "durable add, times the sum of its parts", "≤", ADD_GOAL, times, _first(("floor", ["add", "ratio"])), "floor"
    ),
    *(
        Goal(
            f"floor-recall-{size}",
            f"recall from {memories(size)}, times the sum of its parts",
            "≤",
            RECALL_GOAL,
            times,
            _first(("floor", ["recall", str(size), "ratio"])),
            "floor",
            _cpu(size),
        )
        for size in (1_000, 10_000, 100_000)
    ),
)


def made(results: Results, causes: Mapping[str, str]) -> dict[str, str]:
    """The page. `causes` are the hand-written ones, by the goal's id."""
    verdicts = [goal.verdict(results) for goal in GOALS]
    lead = (
        "What was set out to be reached, and what was measured. Each figure is read from a saved result; the benchmarks "
        "print times and never judge them, this page does."
    )
    tally = ", ".join(f"{verdicts.count(word)} {word}" for word in VERDICTS if word in verdicts)
    rows = [_line(goal, verdict, results) for goal, verdict in zip(GOALS, verdicts, strict=True)]
    used = dict.fromkeys(goal.name for goal in GOALS) | dict.fromkeys(f[1] for goal in GOALS if (f := goal.figure(results)))
    parts = [
        f"**{tally}.**", pages.words(["goal", "to reach", "measured", "verdict", "remark"], rows), *_misses(results, causes),
        "## Where the figures come from", *(pages.source(results, name) for name in used),
    ]  # fmt: skip
    return {"goals.md": pages.page("Goals", lead, parts)}


def _near(value: float) -> str:
    """A time with three digits: near a bound the third one matters."""
    return f"{value:.3g} ms"


def _line(goal: Goal, verdict: str, results: Results) -> list[str]:
    found = goal.figure(results)
    measured = "–" if found is None else _near(found[0]) if goal.shown is ms and found[0] < 1000 else goal.shown(found[0])
    note = f"run `{results.command(goal.name)}`" if found is None else goal.note(results)
    sign = f"✓ {verdict}" if verdict.startswith(MET) else f"✗ **{verdict}**" if verdict.startswith(MISSED) else verdict
    bound = f"{goal.holds} {_bound(goal)}"
    return [goal.what, *(each.replace(" ", "\N{NO-BREAK SPACE}") for each in (bound, measured, sign)), note]


def _bound(goal: Goal) -> str:
    """The bound as people say it: 2 ms, 1.5×."""
    return (
        f"{goal.bound:g}×"
        if goal.shown is times
        else goal.shown(goal.bound).replace(".0 ms", " ms").replace(".0 s", " s").replace(".0 GB", " GB")
    )


def _misses(results: Results, causes: Mapping[str, Any]) -> list[str]:
    missed = [goal for goal in GOALS if goal.verdict(results).startswith(MISSED)]
    if not missed:
        return []
    told = [
        f"- **{goal.what}**: {causes.get(goal.id, f'no cause is written down yet: add `{goal.id}` to causes.toml.')}"
        for goal in missed
    ]
    return ["## What falls short, and why", "\n".join(told)]
