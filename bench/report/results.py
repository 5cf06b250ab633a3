"""The saved results, as the benchmarks printed them.

`python -m bench NAME --json > docs/benchmarks/results/FILE.json` saves one; COMMANDS says which files the report knows and the
command that gives each.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COMMANDS = {
    "quality-longmemeval": "python -m bench quality --dataset longmemeval --data FILE",
    "quality-locomo": "python -m bench quality --dataset locomo --data FILE",
    "everyday-development": "python -m bench everyday",
    "everyday-test": "python -m bench everyday --split test",
    "everyday-reader": "python -m bench everyday --reader",
    "everyday-reader-test": "python -m bench everyday --split test --reader",
    "languages": "python -m bench languages",
    "languages-test": "python -m bench languages --split test",
    "growth": "python -m bench growth",
    "speed-peers": "python -m bench speed --peers all",
    "postgres": "python -m bench speed --store own --sizes 10k",
    "encryption": "python -m bench encryption",
    "torture": "python -m bench torture --kills 3000",
    "power": "python -m bench torture --rows power,power-postgres --faults 10000",
    "history": "python -m bench history",
    "failover": "python -m bench failover",
    "stall": "python -m bench stall --seconds 5",
    "soak": "python -m bench soak --minutes 60",
}


class ResultError(ValueError):
    """A saved result cannot be read; the message says which and what to do."""


@dataclass(frozen=True, slots=True)
class Results:
    """What was saved, by the name of its file."""

    saved: Mapping[str, dict[str, Any]] = field(default_factory=dict)

    def get(self, name: str) -> dict[str, Any] | None:
        """A result; None where it was not saved."""
        return self.saved.get(name)

    def command(self, name: str) -> str:
        """The command that printed a result, or the one that would."""
        found = self.saved.get(name, {})
        return str(found.get("command") or COMMANDS[name])

    def at(self, name: str, *path: str) -> Any:
        """A figure of a result by the names on the way to it; None where it is not there."""
        found: Any = self.saved.get(name)
        for step in path:
            if not isinstance(found, Mapping) or step not in found:
                return None
            found = found[step]
        return found


def read(folder: Path) -> Results:
    """Every result of a folder that the report knows. Raises ResultError for one that is no JSON object."""
    return Results({name: _read(folder / f"{name}.json") for name in COMMANDS if (folder / f"{name}.json").exists()})


def _read(path: Path) -> dict[str, Any]:
    """A file with the object alone, or with the tables above it."""
    text = path.read_text(encoding="utf-8").strip()
    try:
        found = json.loads(text if text.startswith("{") else text.splitlines()[-1])
    except (ValueError, IndexError) as error:
        raise ResultError(f"{path} is no result ({error}): save it anew with {COMMANDS[path.stem]} --json > {path}.") from None
    if not isinstance(found, dict):
        raise ResultError(f"{path} is {type(found).__name__}, not an object: save it anew with {COMMANDS[path.stem]} --json.")
    return found
