"""The page of faults: every row of the fault table, and the server under load for a long time."""

from __future__ import annotations

from typing import Any

from bench.report import pages
from bench.report.charts import Strip, strips
from bench.report.figures import count, mb, ms, plain
from bench.report.results import Results

_SOAKED = {
    "resident_mb": ("memory of the server", mb), "handles": ("files and sockets", count), "threads": ("threads", count),
    "wal_mb": ("write-ahead log", mb), "store_mb": ("store on disk", mb), "p50_ms": ("median latency", ms),
    "p99_ms": ("p99 of latency", ms), "cpu_ms": ("CPU a request", ms), "live": ("live memories", count),
}  # fmt: skip
_DRAWN = ("resident_mb", "handles", "threads", "wal_mb", "store_mb", "live", "p50_ms")


def made(results: Results) -> dict[str, str]:
    """The page and its charts."""
    files: dict[str, str] = {}
    lead = (
        "What happens when things go wrong. Each row of the first table does one kind of harm to real stores, again and "
        "again, with a ledger of every write that was acknowledged: *lost* counts those that are gone afterwards, *drift* "
        "the places where text, words and vectors disagree, *doubled* what is there twice, *errors* what a caller should "
        "not have been told."
    )
    parts = ["## Harm", pages.source(results, "torture"), *_torture(results.get("torture"))]
    for name, title in (("soak", "A long time under load"), ("soak-postgres", "The same on PostgreSQL")):
        parts += [f"## {title}", pages.source(results, name), *_soak(name, results.get(name), files)]
    return {**files, "faults.md": pages.page("Faults", lead, parts)}


def _torture(found: dict[str, Any] | None) -> list[str]:
    if found is None:
        return []
    reopen = found.get("reopen_ms", {})
    said = [
        f"**{count(found['kills'])} kills, {count(found['acknowledged'])} acknowledged writes, {count(found['lost'])} lost, "
        f"{count(found['drift'])} drift.**"
    ]
    if reopen:
        said.append(f"Opening after a kill took {ms(reopen['p50'])} in the median and {ms(reopen['max'])} at the most.")
    rows = []
    for each in found.get("rows", []):
        if each.get("skipped"):
            rows.append([each["row"], each["store"], *[""] * 6, f"skipped: {each['skipped']}"])
            continue
        counts = [count(each[key]) for key in ("tries", "acknowledged", "lost", "drift", "duplicates", "errors")]
        rows.append([each["row"], each["store"], *counts, "whole" if each.get("whole") else "**not whole**"])
    heads = ["what is done", "store", "times", "acknowledged", "lost", "drift", "doubled", "errors", "verdict"]
    problems = [f"- {problem}" for problem in found.get("problems", [])]
    killed = ", ".join(f"{verb} {count(number)}" for verb, number in found.get("killed_in", {}).items())
    return [
        " ".join(said), pages.table(heads, rows) if rows else "", f"Killed in: {killed}." if killed else "",
        "\n".join(["What was wrong:", "", *problems]) if problems else "",
    ]  # fmt: skip


def _soak(name: str, found: dict[str, Any] | None, files: dict[str, str]) -> list[str]:
    if found is None:
        return []
    samples = found.get("samples", [])
    drawn = []
    for key in _DRAWN:
        points = tuple((each["at"] / 60, float(each[key])) for each in samples if key in each)
        drawn += [Strip(_SOAKED[key][0], points, _SOAKED[key][1])] if len(points) > 1 else []
    parts = [
        f"{plain(found['minutes'])} minutes, {count(found['requests'])} requests, {count(found['errors'])} errors; the store is "
        f"{'whole' if found['whole'] else '**not whole**'}; verdict: **{found['verdict']}**."
    ]
    if drawn:
        subtitle = f"Every measure from zero; {count(found['requests'])} requests, {count(found['errors'])} errors"
        files[f"{name}.svg"] = strips(f"A server under load for {plain(found['minutes'])} minutes", subtitle, drawn)
        parts.append(pages.image(f"{name}.svg", "Memory, handles, log and latency over time"))
    rows = []
    for key, each in found.get("slopes", {}).items():
        what, shown = _SOAKED.get(key, (key, plain))
        told = [shown(each[third]) for third in ("first", "middle", "last")]
        rows.append([what, *told, shown(each["tolerance"]), "**grows**" if each["grows"] else "steady"])
    if rows:
        said = "Medians of the three thirds of the second half; a measure grows that rises in both steps by more than is allowed."
        parts += [said, pages.table(["", "first", "middle", "last", "allowed rise", "verdict"], rows)]
    problems = [f"- {problem}" for problem in found.get("problems", [])]
    return [*parts, *(["\n".join(problems)] if problems else [])]
