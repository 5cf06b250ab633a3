"""What every page has: its head, tables, where its figures come from, what is not measured yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.report.figures import plain
from bench.report.results import COMMANDS, Results

MADE = "<!-- made by `python -m bench report` from the files in results/: do not edit -->"
_MACHINE = ("cpu", "cores", "memory_gb", "disk", "system", "python", "sqlite", "numpy", "load")
_NAMES = {"cores": "{} cores", "memory_gb": "{} GB of memory", "python": "Python {}", "sqlite": "SQLite {}", "numpy": "numpy {}",
          "load": "load {} at the start"}  # fmt: skip


def page(title: str, lead: str, parts: Iterable[str]) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", MADE, lead, *(part for part in parts if part)]) + "\n"


def source(results: Results, name: str) -> str:
    """Where figures come from: the command, the machine, the versions, the commit, the day."""
    found = results.get(name)
    if found is None:
        return missing(name)
    machine: Mapping[str, Any] = found.get("machine", {})
    there = [_NAMES.get(key, "{}").format(plain(machine[key])) for key in _MACHINE if machine.get(key) not in (None, "")]
    versions = ", ".join(f"{each} {version}" for each, version in (machine.get("versions") or {}).items())
    told = f"keepstone {machine['keepstone']}" if "keepstone" in machine else "keepstone"
    said = [f"{told} at commit `{machine['commit']}`" if machine.get("commit") else f"{told}, at a commit that was not saved"]
    said += [f"on {machine['date']}"] if machine.get("date") else ["on a day that was not saved"]
    lines = [f"Printed by `{results.command(name)}` ([results/{name}.json](results/{name}.json)): {', '.join(said)}."]
    lines += [f"Machine: {', '.join(there)}."] if there else []
    lines += [f"Versions: {versions}."] if versions else []
    return "> " + "  \n> ".join(lines)


def missing(name: str) -> str:
    """The text shown where no figures are saved."""
    return (
        f"*Not measured yet: run `{COMMANDS[name]} --json > docs/benchmarks/results/{name}.json`, then `python -m bench report`.*"
    )


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table whose first column is words and whose others are figures."""
    lines = [f"| {' | '.join(heads)} |", f"|---|{'---:|' * (len(heads) - 1)}"]
    lines += [f"| {' | '.join(each.replace('|', '∣') for each in row)} |" for row in rows]
    return "\n".join(lines)


def words(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of words."""
    return table(heads, rows).replace("---:|", "---|", len(heads))


def image(name: str, says: str) -> str:
    """A chart of the same folder."""
    return f"![{says}]({name})"
