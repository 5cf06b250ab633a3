"""The page of the floor: what the parts cost alone, and ours beside their sum."""

from __future__ import annotations

from typing import Any

from bench.report import pages
from bench.report.charts import Stack, stacks
from bench.report.figures import memories, ms, times
from bench.report.results import Results

ADD_GOAL, RECALL_GOAL = 1.5, 2.0
LEAN_ADD = "A leaner sum has no look at the vectors, since ours finds near-duplicates by an index"
LEAN_RECALL = 'A leaner sum has the FTS5 query without words such as "the"'
PARTS = {
    "fsync_append": "append 4 KB to a file and fsync",
    "fsync_overwrite": "write 4 KB over and fdatasync",
    "commit_one_row": "commit one row of text through bare SQLite (WAL, synchronous=FULL)",
    "commit_same_rows": "commit the very rows that ours writes through bare SQLite",
    "embed": "embed the text",
    "guard": "scan the text for sensitive data",
    "look_up": "compare with every vector of the scope",
    "matrix": "compare with every vector of the scope, take the best 10",
    "fts5": "FTS5 query for any of the question's words, bm25, the best 10",
    "fts5_lean": 'the same without words such as "the"',
    "fetch": "fetch 10 records by id",
}
_TONES = {
    "commit_same_rows": "gold",
    "embed": "blue",
    "guard": "rust",
    "look_up": "violet",
    "matrix": "violet",
    "fts5": "gold",
    "fts5_lean": "gold",
    "fetch": "olive",
}
_SHORT = {
    "commit_same_rows": "commit of the same rows",
    "embed": "embedding",
    "guard": "guard",
    "look_up": "look-up",
    "matrix": "matrix product",
    "fts5": "FTS5 query",
    "fetch": "fetch by id",
}


def made(results: Results) -> dict[str, str]:
    """The page and its charts."""
    found = results.get("floor") or {}
    lead = (
        "What the parts of an add and of a recall cost alone, each called through the bare library by turns with ours in "
        "one run. The sum is made round by round over the parts marked *in the sum*, and its median is compared with ours; "
        "what ours does besides (reading a text into terms, hashes, checks, the trail's chain, twenty signals and their "
        "ranking) is in no part."
    )
    files: dict[str, str] = {}
    parts = [pages.source(results, "floor")]
    if "add" in found:
        files["floor-add.svg"] = stacks(
            "A durable add and its parts", f"Median wall time, a scope of {memories(found['add']['held'])} memories",
            [_stack("one memory", found["add"], ADD_GOAL)], _legend([found["add"]]),
        )  # fmt: skip
        fsync = found["add"]["ratio_to_fsync"]
        said = f"Ours is {times(fsync)} one raw fsync (append 4 KB and fsync) in the same run."
        parts += [
            "## add",
            pages.image("floor-add.svg", "A durable add and its parts"),
            _compared(found["add"], ADD_GOAL),
            _lean(found["add"], LEAN_ADD),
            said,
            _table(found["add"]),
        ]
    if found.get("recall"):
        sizes = found["recall"]
        files["floor-recall.svg"] = stacks(
            "A recall and its parts", "Median wall time, ten hits; every size on its own scale",
            [_stack(f"{memories(size)} memories", each, RECALL_GOAL) for size, each in sizes.items()],
            _legend(list(sizes.values())),
        )  # fmt: skip
        parts += ["## recall", pages.image("floor-recall.svg", "A recall and its parts")]
        for size, each in sizes.items():
            parts += [f"### {memories(size)} memories", _compared(each, RECALL_GOAL), _lean(each, LEAN_RECALL), _table(each)]
    return {**files, "floor.md": pages.page("Beside its parts", lead, parts)}


def _stack(title: str, found: dict[str, Any], goal: float) -> Stack:
    drawn = tuple((_SHORT[name], float(found["parts"][name]["wall_p50_ms"])) for name in found["in_sum"])
    return Stack(title, drawn, found["sum_ms"], found["ours"]["wall_p50_ms"], goal)


def _legend(found: list[dict[str, Any]]) -> dict[str, str]:
    return {_SHORT[name]: _TONES[name] for each in found for name in each["in_sum"]}


def _compared(found: dict[str, Any], goal: float) -> str:
    verdict = "within" if found["ratio"] <= goal else "beyond"
    return (
        f"Sum of the parts {ms(found['sum_ms'])}, ours {ms(found['ours']['wall_p50_ms'])}: **{times(found['ratio'])}** in wall "
        f"time, {verdict} the goal of {goal:g}×; {times(found['cpu_ratio'])} in CPU time."
    )


def _lean(found: dict[str, Any], what: str) -> str:
    if "lean_sum" not in found:
        return ""
    return (
        f"{what}: beside that sum ({ms(found['lean_sum']['wall_p50_ms'])}) ours is {times(found['lean_ratio'])} in wall time and "
        f"{times(found['lean_cpu_ratio'])} in CPU time."
    )


def _table(found: dict[str, Any]) -> str:
    rows = [_row(PARTS.get(name, name), each, "yes" if name in found["in_sum"] else "") for name, each in found["parts"].items()]
    rows += [_row("**sum**", found["sum"], ""), _row("**ours**", found["ours"], "")]
    return pages.table(["part", "wall p50", "p95", "p99", "CPU p50", "in the sum"], rows)


def _row(name: str, found: dict[str, float], last: str) -> list[str]:
    return [name, *(ms(found[key]) for key in ("wall_p50_ms", "wall_p95_ms", "wall_p99_ms", "cpu_p50_ms")), last]
