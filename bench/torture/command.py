"""`python -m bench torture`: run rows of the fault table and say what they came to."""

from __future__ import annotations

import argparse
import contextlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench.measure import progress
from bench.torture.rows import ROWS
from bench.torture.verdict import SHOWN, Options, Verdict

SHARES = {"kill": 16, "kill-postgres": 4, "upkeep": 2, "upkeep-postgres": 1, "upgrade": 1}  # of the kills


def main(argv: list[str]) -> int:
    """Print a line for each row and the JSON object (with --json only that); exit status 1 if anything is wrong."""
    given = _parser().parse_args(argv)
    names = _names(given.rows)
    shared = share_out(given.kills, names)
    shared_faults = share_faults(given.faults, names)
    verdicts = []
    begun = time.monotonic()
    with _folder(given.folder) as folder:
        for name in names:
            progress(f"{name} …")
            inside = folder / name
            inside.mkdir(parents=True, exist_ok=True)
            options = Options(
                kills=shared.get(name, given.kills), faults=shared_faults.get(name, given.faults), rounds=given.rounds,
                seed=given.seed, folder=inside, seconds=given.seconds,
                postgres=given.postgres,
            )  # fmt: skip
            verdicts.append(_run(name, options))
    found = totals(verdicts, time.monotonic() - begun, argv)
    if not given.json:
        print("\n".join(lines(verdicts)))
    print(json.dumps(found))
    return 1 if any(not verdict.whole for verdict in verdicts) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench torture", description=__doc__)
    parser.add_argument("--rows", default="all", help=f"all, or some of {', '.join(ROWS)} (default all)")
    parser.add_argument("--kills", type=int, default=200, help="how many kills over all rows (default 200)")
    parser.add_argument("--faults", type=int, default=200, help="how many power cuts over the rows of them (default 200)")
    parser.add_argument("--rounds", type=int, default=20, help="how often what is not a kill is done (default 20)")
    parser.add_argument("--seconds", type=float, help="each row stops after this time at the latest")
    parser.add_argument("--seed", type=int, default=1, help="another seed breaks things at other instants")
    parser.add_argument("--folder", help="where the files go (default: a temporary folder)")
    parser.add_argument("--postgres", metavar="URL", help="a server to use (default: rows start their own)")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    return parser


def _names(given: str) -> list[str]:
    names = list(ROWS) if given == "all" else [name.strip() for name in given.split(",")]
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise SystemExit(f"there is no row {unknown[0]!r}: take some of {', '.join(ROWS)}.")
    return names


def share_out(kills: int, names: list[str]) -> dict[str, int]:
    """The kills of each row that kills: of 3,000 over all of them 2,000 (and 30 for those that come too late), 500, 250, 125 and
    125."""
    parts = {name: SHARES[name] for name in names if name in SHARES}
    whole, given, shared = sum(parts.values()), 0, {}
    for name, part in parts.items():
        shared[name] = kills * (given + part) // whole - kills * given // whole
        given += part
    if "kill" in shared and len(shared) > 1:
        shared["kill"] += kills // 100  # some jobs of upkeep are done before they can be killed
    return shared


def share_faults(faults: int, names: list[str]) -> dict[str, int]:
    """The power cuts of each row of them: one of twenty is a PostgreSQL, which takes a hundred times as long to start again."""
    if "power" not in names or "power-postgres" not in names:
        return {}
    return {"power": faults - faults // 20, "power-postgres": faults // 20}


def _run(name: str, options: Options) -> Verdict:
    """A row's verdict. A row that breaks down is a problem of its own and keeps none of the others from running."""
    begun = time.monotonic()
    try:
        verdict = ROWS[name](options)
    except Exception as error:
        verdict = Verdict(name, "both", errors=1, problems=[f"the row broke down: {type(error).__name__}: {error}"])
    return replace(verdict, row=name, seconds=verdict.seconds or time.monotonic() - begun)


def lines(verdicts: list[Verdict]) -> list[str]:
    """The table: one line a row, and below a row what was wrong."""
    shown = [f"{'row':<20}{'store':<10}{'tries':>7}{'acknowledged':>14}{'lost':>6}{'drift':>7}{'seconds':>9}  verdict"]
    for each in verdicts:
        counts = f"{each.tries:>7}{each.acknowledged:>14}{each.lost:>6}{each.drift:>7}{each.seconds:>9.1f}"
        said = "whole" if each.whole else f"{max(1, len(each.problems))} problems"
        shown.append(f"{each.row:<20}{each.store:<10}{counts}  {f'skipped: {each.skipped}' if each.skipped else said}")
        shown += [f"    {problem}" for problem in each.problems[:SHOWN]]
    return shown


def totals(verdicts: list[Verdict], seconds: float, argv: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON object: sums over the rows, and every verdict."""
    from bench.report.stamp import result_head  # with all that it measures

    sums = {
        name: sum(getattr(each, name) for each in verdicts) for name in ("acknowledged", "lost", "drift", "duplicates", "errors")
    }
    kills = sum(int(each.figures.get("kills", 0)) for each in verdicts)
    return {
        **result_head("torture", argv), "kills": kills, **sums, "seconds": round(seconds, 1), "reopen_ms": _reopened(verdicts),
        "killed_in": _counted(verdicts, "killed_in"), "instants": _counted(verdicts, "instants"),
        "rows": [each.as_json() for each in verdicts],
        "problems": [f"{each.row}: {problem}" for each in verdicts for problem in each.problems][:SHOWN],
    }  # fmt: skip


def _counted(verdicts: list[Verdict], figure: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for each in verdicts:
        counts.update(each.figures.get(figure, {}))
    return dict(counts.most_common())


def _reopened(verdicts: list[Verdict]) -> dict[str, float]:
    """How long opening after a kill took: the slowest row's median, and the slowest of all."""
    figures = [each.figures["reopen_ms"] for each in verdicts if "reopen_ms" in each.figures]
    return {share: max((float(each[share]) for each in figures), default=0.0) for share in ("p50", "max")}


@contextlib.contextmanager
def _folder(given: str | None) -> Iterator[Path]:
    if given is not None:
        yield Path(given)
        return
    with tempfile.TemporaryDirectory(prefix="keepstone-torture-") as folder:
        yield Path(folder)
