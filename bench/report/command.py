"""`python -m bench report`: writes the pages and charts, or says which are out of date."""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections import Counter
from pathlib import Path

from bench.report import beside, everyday, faults, floor, goals, growth, languages
from bench.report.results import COMMANDS, ResultError, Results, read

_DOCS = Path(__file__).parents[2] / "docs" / "benchmarks"


def rendered(results: Results, causes: dict[str, str]) -> dict[str, str]:
    """Every file by its name."""
    files: dict[str, str] = {}
    for made in (beside.made, everyday.made, growth.made, floor.made, languages.made, faults.made):
        files |= made(results)
    return files | goals.made(results, causes)


def causes_of(path: Path) -> dict[str, str]:
    """The hand-written causes of misses; none where the file is not there. Raises ResultError for what is no text."""
    if not path.exists():
        return {}
    found = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {goal.id for goal in goals.GOALS}
    for id, cause in found.items():
        if id not in known or not isinstance(cause, str):
            raise ResultError(f"{path} has {id!r}, which is no goal's id with a text: use one of {', '.join(sorted(known))}.")
    return {id: " ".join(cause.split()) for id, cause in found.items()}


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
        files = rendered(results, causes_of(options.out / "causes.toml"))
    except (ResultError, tomllib.TOMLDecodeError) as error:
        print(f"bench report: {error}", file=sys.stderr)
        return 2
    stale = [name for name, text in files.items() if not _same(options.out / name, text)]
    if not options.check:
        options.out.mkdir(parents=True, exist_ok=True)
        for name in stale:
            (options.out / name).write_text(files[name], encoding="utf-8")
    verdicts = {goal.id: goal.verdict(results) for goal in goals.GOALS}
    if not options.json:
        for name in stale:
            print(f"{'out of date' if options.check else 'written'}: {options.out / name}")
        counts = Counter(verdicts.values())
        print(f"goals: {', '.join(f'{counts[word]} {word}' for word in goals.VERDICTS if counts[word])}")
    missing = [name for name in COMMANDS if results.get(name) is None]
    print(
        json.dumps({"bench": "report", "files": sorted(files), "written": sorted(stale), "missing": missing, "goals": verdicts})
    )
    return 1 if options.check and stale else 0


def _same(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text
