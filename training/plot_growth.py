"""Draws how a shared store's costs grow, from what `python -m bench speed --store … --json` has printed; measures nothing itself.

python training/plot_growth.py --speed speed.jsonl --out docs/benchmarks
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.figure import Figure
from plot_quality import COLOURS, MARKS, STYLE, Line, read, save

WAYS = {
    "recall first": "recall, scope not in memory yet",
    "recall": "recall",
    "floor": "one bare SQL query",
    "add": "durable add",
}


def growth(line: Line) -> Figure:
    """p50 of each way by the number of memories in the database, a hundred a scope."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    sizes = {int(name.split(" ")[0]): figures for name, figures in line["shared"].items()}
    for (way, label), colour, mark in zip(WAYS.items(), COLOURS, MARKS, strict=True):
        axes.plot(list(sizes), [each[way]["wall_p50_ms"] for each in sizes.values()], color=colour, marker=mark, label=label)
    axes.set_xscale("log")
    axes.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 1.35 * max(each["recall first"]["wall_p50_ms"] for each in sizes.values()))  # room for the legend
    axes.set_xlabel("memories in the database, 100 in each scope")
    axes.set_ylabel("ms, wall, p50")
    axes.set_title("PostgreSQL: what a call costs as the database grows")
    axes.legend(loc="upper left", ncols=2)
    return figure


def main() -> None:
    """Read what the benchmark printed last and write the plot."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with plt.rc_context(STYLE):
        save(growth(read(options.speed)[-1]), options.out / "shared_store.svg")


if __name__ == "__main__":
    main()
