"""Labelled sentences: one file per language, tab-separated, the held-out half behind a line that says so.

Rules are fixed on the first half only; the second half tells how well they do.
"""

from __future__ import annotations

from pathlib import Path

HELD_OUT = "# held-out"
HALVES = ("development", "held-out")


def read_labelled(kind: str, code: str, half: str) -> list[tuple[str, list[str]]]:
    """The sentences of one half with their labels."""
    text = (Path(__file__).parent / kind / f"{code}.txt").read_text(encoding="utf-8")
    lines = text.split(HELD_OUT)[HALVES.index(half)].splitlines()
    rows = [line.split("\t") for line in lines if line and not line.startswith("#")]
    return [(row[0], [label for label in row[1:] if label]) for row in rows]
