"""What a row of the fault table is given, and what it came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SHOWN = 20  # problems that a verdict writes out; the counts are of all


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How hard a row tries, and where."""

    kills: int = 200
    rounds: int = 20
    faults: int = 200  # power cuts
    seed: int = 1
    folder: Path
    seconds: float | None = None
    postgres: str | None = None  # URL of a server to use; None: a row starts its own


@dataclass(slots=True)
class Verdict:
    """What a row came to."""

    row: str
    store: str  # "sqlite", "postgres" or "both"
    tries: int = 0
    acknowledged: int = 0
    lost: int = 0
    drift: int = 0
    duplicates: int = 0
    errors: int = 0
    problems: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)
    skipped: str | None = None  # the reason
    seconds: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether nothing was lost, doubled, out of step, or told wrongly."""
        return not (self.lost or self.drift or self.duplicates or self.errors or self.problems)

    def as_json(self) -> dict[str, Any]:
        """The verdict as an object; of many problems the first ones."""
        return {
            "row": self.row, "store": self.store, "tries": self.tries, "acknowledged": self.acknowledged, "lost": self.lost,
            "drift": self.drift, "duplicates": self.duplicates, "errors": self.errors, "whole": self.whole,
            "problems": self.problems[:SHOWN], "figures": self.figures, "skipped": self.skipped,
            "seconds": round(self.seconds, 1),
        }  # fmt: skip
