"""`python -m bench report`: writes the pages and charts, or says which are out of date."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from bench.report import quality, reliability, speed
from bench.report.results import COMMANDS, ResultError, Results, read

_DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def render_all(results: Results) -> dict[str, str]:
    """Every file by its name."""
    return {**quality.render(results), **speed.render(results), **reliability.render(results)}


def main(argv: list[str]) -> int:
    """Write the files and print what was written; the last line is one JSON object."""
    parser = argparse.ArgumentParser(prog="bench report", description="Pages and charts from the saved results.")
    parser.add_argument("--results", type=Path, default=_DOCS / "results", help="where the results are (docs/benchmarks/results)")
    parser.add_argument("--out", type=Path, default=_DOCS, help="where the pages go (docs/benchmarks)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file is out of date")
    parser.add_argument("--json", action="store_true", help="print the JSON object only")
    options = parser.parse_args(argv)
    try:
        results = read(options.results)
        files = render_all(results)
    except ResultError as error:
        print(f"bench report: {error}", file=sys.stderr)
        return 2
    stale = [name for name, text in files.items() if not _is_current(options.out / name, text)]
    if not options.check:
        options.out.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (options.out / name).write_text(files[name], encoding="utf-8")
    if not options.json:
        for name in stale:
            print(f"{'out of date' if options.check else 'written'}: {options.out / name}")
    missing = [name for name in COMMANDS if results.get(name) is None]
    print(json.dumps({"bench": "report", "files": sorted(files), "written": sorted(stale), "missing": missing}))
    return 1 if options.check and stale else 0


def _is_current(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
