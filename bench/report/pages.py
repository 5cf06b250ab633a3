"""Parts of every page: its head, tables, the sources of its figures, what is not measured yet. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.report.figures import plain
from bench.report.results import COMMANDS, Results

GENERATED = "<!-- made by `python -m bench report` from the files in results/: do not edit -->"
_MACHINE = ("cpu", "cores", "memory_gb", "disk", "system", "python", "sqlite", "numpy")
_NAMES = {"cores": "{} cores", "memory_gb": "{} GB of memory", "python": "Python {}", "sqlite": "SQLite {}", "numpy": "numpy {}"}


def page(title: str, lead: str, parts: Iterable[str]) -> str:
    """A whole page."""
    return "\n\n".join([f"# {title}", GENERATED, lead, *(part for part in parts if part)]) + "\n"


def sources(results: Results, names: Iterable[str]) -> str:
    """The last section of a page: the command, commit and day of every result, and the machines."""
    saved = {name: found.get("machine", {}) for name in names if (found := results.get(name)) is not None}
    machines = list(dict.fromkeys(text for machine in saved.values() if (text := _machine(machine))))
    lines = [
        f"- `{results.command(name)}` ([saved]({f'results/{name}.json'})): {_origin(machine)}."
        + (f" Machine {machines.index(_machine(machine)) + 1}." if len(machines) > 1 and _machine(machine) else "")
        for name, machine in saved.items()
    ]
    described = [
        f"{'Machine' if len(machines) == 1 else f'Machine {number}'}: {text}." for number, text in enumerate(machines, start=1)
    ]
    return "\n\n".join(["## Sources", "\n".join(lines), *described]) if lines else ""


def _machine(machine: Mapping[str, Any]) -> str:
    return ", ".join(_NAMES.get(key, "{}").format(plain(machine[key])) for key in _MACHINE if machine.get(key) not in (None, ""))


def _origin(machine: Mapping[str, Any]) -> str:
    """Commit, day, load, and the versions of other systems."""
    parts = [f"commit `{machine['commit']}`" if machine.get("commit") else "unknown commit"]
    parts += [machine["date"]] if machine.get("date") else ["unknown day"]
    parts += [f"load {plain(machine['load'])}"] if machine.get("load") not in (None, "") else []
    others = {name: each for name, each in (machine.get("versions") or {}).items() if name != "keepstone"}
    return ", ".join([*parts, *(f"{name} {each}" for name, each in others.items())])


def unmeasured(results: Results, names: Iterable[str]) -> list[str]:
    """The text shown for each result that is not saved."""
    return [missing(name) for name in names if results.get(name) is None]


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
