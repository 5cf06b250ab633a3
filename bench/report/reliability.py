"""The page about reliability: kills, power cuts, faults, concurrent histories, failover, load."""

from __future__ import annotations

import re
from typing import Any

from bench.report import pages
from bench.report.charts import Strip, strips
from bench.report.figures import count, mb, ms, plain, times
from bench.report.results import Results

LEAD = """What keepstone does under kills, power cuts, faults and load. A test notes every acknowledged write and looks for it
afterwards. [Sources](#sources) lists the commands."""
ROWS = {
    "kill": "SIGKILL at a random instant of 32 verbs, and while opening or creating the store",
    "kill-postgres": "the same on PostgreSQL, next to another writer",
    "upkeep": "SIGKILL during every maintenance job, which must then complete",
    "upkeep-postgres": "the same on PostgreSQL",
    "power": "power cut: unsynced writes lost or torn at any byte (a recording VFS)",
    "power-postgres": "the same below every process of a PostgreSQL",
    "processes": "8 writers and 4 readers on one file",
    "processes-postgres": "the same on PostgreSQL",
    "threads": "50 threads write the same fact, key or idempotency key at once",
    "threads-postgres": "the same on PostgreSQL",
    "clock": "clocks that jump back by days and ahead by years",
    "upgrade": "SIGKILL during the migration of every released schema",
    "disk-full": "full disks and files that may not grow",
    "io-errors": "reads, writes and syncs that fail at random",
    "postgres-restarts": "the server stopped and killed under load",
    "redis": "Redis killed, paused and emptied",
    "providers": "embedders and models that time out, fail or answer nonsense",
    "damaged": "bits flipped, pages zeroed, swapped or cut off",
    "model-change": "SIGKILL while vectors are moved to another embedder",
    "random": "random operations compared with a dictionary",
    "http": "every HTTP operation with right and wrong input",
    "sync": "SIGKILL while two stores synchronise",
}
_SOAKED = {
    "resident_mb": ("memory of the server", mb), "handles": ("files and sockets", count), "threads": ("threads", count),
    "wal_mb": ("write-ahead log", mb), "store_mb": ("store on disk", mb), "p50_ms": ("median latency", ms),
    "live": ("live memories", count),
}  # fmt: skip
_FAILURES = {"lost": "lost", "drift": "inconsistent", "duplicates": "duplicates", "errors": "errors"}
_SUMMARY = {"kills": "kills", "acknowledged": "acknowledged writes", "lost": "lost", "drift": "inconsistent records"}
_COUNTED = re.compile(r"^(\d+) times ")
METHOD = """## Method

**Faults.** Each row runs on real stores. Afterwards the test looks for every acknowledged write by id, list, words and
vector. It checks that forgotten text is gone, that the interrupted call took effect completely or not at all, and that
`doctor` and the audit log find nothing. *Failures* counts lost writes, inconsistent records (text, words and vectors
disagree), duplicates and unexpected errors. `make test` runs every row with smaller numbers.

**Histories.** 8 processes write, read and forget the same five keys, on one file and through 3 servers on one PostgreSQL,
while processes or servers are killed. A checker (`bench/linearizable.py`, after Wing, Gong and Lowe) looks for an order of
the calls that explains every response. `--stale` plants a fault, which the checker finds.

**Failover.** Two PostgreSQL servers with synchronous replication. The primary is killed under four writers and a reader,
and the standby is promoted ([how to set it up](../operations/deployment.md#failover)).

**Stall.** One key opens expensive dashboard pages as fast as it can. Another user's requests are timed with and without it."""


def render(results: Results) -> dict[str, str]:
    """The page and its chart."""
    files: dict[str, str] = {}
    parts = ["## Faults", *_faults(results), "## Concurrent histories", *_history(results), "## Failover", *_failover(results)]
    parts += ["## One caller cannot stall another", *_stall(results), "## Under load", *_soak(results, files), METHOD]
    parts.append(pages.sources(results, ["torture", "power", "history", "failover", "stall", "soak"]))
    return {**files, "reliability.md": pages.page("Reliability", LEAD, parts)}


def _faults(results: Results) -> list[str]:
    parts, rows, problems = [], [], []
    for name in ("torture", "power"):
        found = results.get(name) or {}
        for each in found.get("rows", []):
            title = [ROWS.get(each["row"], each["row"]), each["store"]]
            if each.get("skipped"):
                rows.append([*title, "", "", f"skipped: {each['skipped']}"])
                continue
            rows.append([*title, count(each["tries"]), count(each["acknowledged"]), _failures(each)])
        problems += [f"- {problem}" for problem in found.get("problems", [])]
    if (torture := results.get("torture")) is not None:
        said = [f"{count(torture[key])} {title}" for key, title in _SUMMARY.items()]
        parts.append(f"**{', '.join(said)}.**")
    if rows:
        parts.append(pages.table(["fault", "store", "times", "acknowledged writes", "failures"], rows))
    parts += ["\n".join(["Problems:", "", *problems])] if problems else []
    return [*parts, *pages.unmeasured(results, ["torture", "power"])]


def _failures(row: dict[str, Any]) -> str:
    """The counts of a row that are not zero, and whether the store was damaged."""
    counts = [f"{count(row[key])} {title}" for key, title in _FAILURES.items() if row[key]]
    counts += [] if row.get("whole") else ["not whole"]
    return f"**{', '.join(counts)}**" if counts else "none"


def _history(results: Results) -> list[str]:
    if (found := results.get("history")) is None:
        return [pages.missing("history")]
    rows = [
        [name, count(each["calls"]), count(each["kills"]), count(each["without_answer"]), count(len(each["problems"]))]
        for name in ("sqlite", "postgres") if (each := found.get(name))
    ]  # fmt: skip
    return [pages.table(["", "calls", "kills", "without an answer", "keys not linearizable"], rows)]


def _failover(results: Results) -> list[str]:
    if (found := results.get("failover")) is None:
        return [pages.missing("failover")]
    told = (
        f"{count(found['failovers'])} failovers, {count(found['acknowledged'])} acknowledged writes, {count(found['lost'])} "
        f"lost, {count(found['errors'])} errors; the longest pause {plain(found['pause_s']['max'])} s of "
        f"{plain(found['limit_s'])} s allowed. {count(found['recalls'])} recalls, {count(found['from_standby'])} of them from "
        f"the standby and at most {plain(found['staleness_s']['reported_max'])} s old; {count(found['too_old'])} older than "
        "reported."
    )
    return [told]


def _stall(results: Results) -> list[str]:
    if (found := results.get("stall")) is None:
        return [pages.missing("stall")]
    rows = [
        [title, ms(found[key]["quiet"]["ms"]["p95"]), ms(found[key]["attacked"]["ms"]["p95"]), times(found[key]["times"])]
        for key, title in (("me", "`GET /v1/me`"), ("recall", "recall")) if key in found
    ]  # fmt: skip
    return [pages.table(["p95 of another user", "quiet", "under attack", "×"], rows)]


def _soak(results: Results, files: dict[str, str]) -> list[str]:
    found: dict[str, Any] | None = results.get("soak")
    if found is None:
        return [pages.missing("soak")]
    samples, drawn = found.get("samples", []), []
    for key, (title, shown) in _SOAKED.items():
        points = tuple((each["at"] / 60, float(each[key])) for each in samples if key in each)
        drawn += [Strip(title, points, shown)] if len(points) > 1 else []
    parts = [
        f"{plain(found['minutes'])} minutes, {count(found['requests'])} requests, {count(found['errors'])} errors; the store is "
        f"{'undamaged' if found['whole'] else '**damaged**'}; memory, handles, log and latency are **{found['verdict']}**."
    ]
    if drawn:
        subtitle = f"Each measure from zero; {count(found['requests'])} requests, {count(found['errors'])} errors"
        files["soak.svg"] = strips(f"A server under load for {plain(found['minutes'])} minutes", subtitle, drawn)
        parts.append(pages.image("soak.svg", "Memory, handles, log and latency of a server under load"))
    problems = ["- " + _COUNTED.sub(r"\1 × ", problem) for problem in found.get("problems", [])]
    return [*parts, *(["\n".join(["The errors, and what the server logged:", "", *problems])] if problems else [])]
