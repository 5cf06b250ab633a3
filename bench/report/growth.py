"""The page of growth: one chart a verb, from the smallest scope to the largest."""

from __future__ import annotations

from typing import Any

from bench.report import pages
from bench.report.charts import Series, lines
from bench.report.figures import count, mb, memories, ms, share
from bench.report.results import Results

VERBS = {
    "recall": "one question, five hits",
    "context": "a block for a prompt, within 1,500 tokens",
    "get": "one memory by its id",
    "list": "a page of 20, newest first",
    "remember": "one memory, on disk when it returns",
    "update": "new content for one memory",
    "forget": "one memory, with every byte of it",
    "remember_many": "a batch of 100",
    "ingest": "1,000 messages, plain facts looked for",
}
_SINGLE = {
    "get": "grey",
    "list": "olive",
    "recall": "ours",
    "context": "blue",
    "remember": "gold",
    "update": "violet",
    "forget": "rust",
}
_SPREAD = (("p50", "wall_p50_ms", "ours", False), ("p95", "wall_p95_ms", "blue", False), ("p99", "wall_p99_ms", "violet", False),
           ("p50 of CPU", "cpu_p50_ms", "gold", True))  # fmt: skip
_COSTS = (
    ("open_ms", "open, in a new process", ms), ("first_recall_ms", "the first recall there", ms),
    ("cli_recall_ms", "`keepstone recall`, all of it", ms), ("resident_mb", "memory of the process", mb),
    ("disk_mb", "disk", mb), ("bytes_a_memory", "bytes a memory", count), ("found_at_5", "found among the first 5", share),
    ("recall_at_10", "of the exact 10 nearest, found by the index", share),
    ("fill_s", "seconds to fill from the size before", count),
)  # fmt: skip


def made(results: Results) -> dict[str, str]:
    """The page and its charts."""
    sizes: dict[str, dict[str, Any]] = results.at("growth", "sizes") or {}
    verbs = [verb for verb in VERBS if any(verb in figures for figures in sizes.values())]
    files = {f"growth-{verb}.svg": _chart(verb, sizes) for verb in verbs}
    if any(verb in _SINGLE for verb in verbs):
        files["growth.svg"] = _all(sizes, verbs)
    if any("resident_mb" in figures for figures in sizes.values()):
        files["growth-cost.svg"] = _cost(sizes)
    lead = (
        "One scope in one file, filled step by step; at each size every verb is called by turns with the others. Times are "
        "wall time and CPU time of the whole process, in the median (p50) and among the slowest (p95, p99)."
    )
    parts = [pages.source(results, "growth")]
    if sizes:
        shown = [pages.image("growth.svg", "Time of each verb over the size of the scope")] if "growth.svg" in files else []
        parts += [*shown, "## What a size costs", _costs(sizes)]
        parts += [pages.image("growth-cost.svg", "Memory and disk over the size")] if "growth-cost.svg" in files else []
        parts += [part for verb in verbs for part in _verb(verb, sizes)]
    return {**files, "growth.md": pages.page("How it grows", lead, parts)}


def _series(name: str, verb: str, key: str, sizes: dict[str, dict[str, Any]], tone: str, dashed: bool = False) -> Series | None:
    points = tuple((float(size), float(each[verb][key])) for size, each in sizes.items() if verb in each)
    return Series(name, points, tone, dashed) if points else None


def _chart(verb: str, sizes: dict[str, dict[str, Any]]) -> str:
    drawn = [_series(name, verb, key, sizes, tone, dashed) for name, key, tone, dashed in _SPREAD]
    marks = [(1e6, 10.0, "goal: p50 of CPU")] if verb == "recall" and "1000000" in sizes else []
    return lines(f"{verb}: {VERBS[verb]}", "Time of one call as the scope grows", [each for each in drawn if each], marks=marks)


def _all(sizes: dict[str, dict[str, Any]], verbs: list[str]) -> str:
    drawn = [_series(verb, verb, "wall_p50_ms", sizes, _SINGLE[verb]) for verb in verbs if verb in _SINGLE]
    return lines("As one scope grows", "Median wall time of one call, one scope in one file", [each for each in drawn if each])


def _cost(sizes: dict[str, dict[str, Any]]) -> str:
    drawn = []
    for name, key, tone in (("memory", "resident_mb", "ours"), ("disk", "disk_mb", "gold")):
        points = tuple((float(size), float(each[key])) for size, each in sizes.items() if each.get(key))
        drawn += [Series(name, points, tone)] if points else []
    return lines("What a scope costs", "Resident memory of a process that has asked it, and the store on disk", drawn, shown=mb)


def _costs(sizes: dict[str, dict[str, Any]]) -> str:
    rows = []
    for key, name, shown in _COSTS:
        if any(isinstance(each.get(key), (int, float)) for each in sizes.values()):
            rows.append(
                [name, *(shown(each[key]) if isinstance(each.get(key), (int, float)) else "–" for each in sizes.values())]
            )
    return pages.table(["", *(memories(size) for size in sizes)], rows)


def _verb(verb: str, sizes: dict[str, dict[str, Any]]) -> list[str]:
    there = {size: each[verb] for size, each in sizes.items() if verb in each}
    rows = [
        [memories(size), *(ms(each[f"{clock}_{name}_ms"]) for clock in ("wall", "cpu") for name in ("p50", "p95", "p99"))]
        for size, each in there.items()
    ]
    heads = ["memories", "wall p50", "p95", "p99", "CPU p50", "p95", "p99"]
    said = f"{VERBS[verb][0].upper()}{VERBS[verb][1:]}."
    return [f"## {verb}", said, pages.image(f"growth-{verb}.svg", f"{verb} over the size"), pages.table(heads, rows)]
