"""Draw the plots of docs/benchmarks.md from the output of the benchmarks.

    python training/plot.py --recipes recipes.jsonl --quality quality.jsonl --curve curve.txt --out docs/benchmarks

`--recipes` is the file that `training/fit_fusion.py --ablate --out` writes. `--quality`, `--curve` and `--speed` are the output
of `python -m bench quality --json`, `bench quality --curve` and `bench speed --store … --json`, a JSON object a line.
The colours are legible on white and on black; text stays text.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

Line = dict[str, Any]
GREY = "#7d8590"
COLOURS = ("#2f81f7", "#d9822b", "#2da44e", "#c75ecf")
MARKS = ("o", "s", "D", "^")
SETS = {"LongMemEval dev": "LongMemEval, development", "dev pooled": "the same in one store", "own, crossed": "our own, crossed",
        "LoCoMo": "LoCoMo"}  # fmt: skip
DATASETS = {"locomo": "LoCoMo", "own": "our own", "longmemeval": "LongMemEval, development"}
EMBEDDERS = {"none": "words only", "auto": "static (default)", "static": "static (default)", "minilm": "MiniLM"}
STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "keepstone",
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": GREY,
    "axes.labelcolor": GREY,
    "axes.edgecolor": GREY,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": GREY,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
}


def read(path: Path) -> list[Line]:
    """The JSON objects of a file, one a line; other lines, such as tables, are passed over."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("{")]


def by_recipe(lines: list[Line]) -> Figure:
    """What each part of the ranking finds: a row a recipe, a mark a set."""
    lines = [line for line in lines if not line["recipe"].startswith("without ")]
    first = [line["recipe"] for line in lines if line["recipe"] == "all signals"][:1]
    names = [*dict.fromkeys(line["recipe"] for line in lines if line["recipe"] not in first), *first]
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.2), sharey=True, layout="constrained")
    for axes, metric in ((left, "any@5"), (right, "all@5")):
        for (name, shown), colour, mark in zip(SETS.items(), COLOURS, MARKS, strict=True):
            found = {line["recipe"]: line[metric] for line in lines if line["set"] == name}
            axes.plot([found[each] for each in names if each in found], [names.index(each) for each in names if each in found],
                      mark, color=colour, label=shown)  # fmt: skip
        axes.set_title(metric)
        axes.xaxis.set_major_formatter(PercentFormatter(1))
    left.set_yticks(range(len(names)), [f"… {name}" if name.startswith("and ") else name for name in names])
    left.invert_yaxis()
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def against_latency(lines: list[Line]) -> Figure:
    """Quality over the CPU time of one recall: a colour a dataset, a mark an embedder."""
    figure, axes = plt.subplots(figsize=(9, 3.8), layout="constrained")
    marks = dict(zip(dict.fromkeys(EMBEDDERS.values()), MARKS, strict=False))
    found = {(line["dataset"], EMBEDDERS[line["embedder"]]): line for line in lines if line["embedder"] in EMBEDDERS}
    for (dataset, shown), colour in zip(DATASETS.items(), COLOURS, strict=False):
        points = sorted((each["recall_cpu_ms"], each["any@5"], name) for (of, name), each in found.items() if of == dataset)
        axes.plot([at for at, _, _ in points], [value for _, value, _ in points], color=colour, label=shown)
        for at, value, name in points:
            axes.plot(at, value, marks[name], color=colour)
    for name, mark in marks.items():
        axes.plot([], [], mark, color=GREY, label=name)
    axes.set_xscale("log")
    axes.margins(x=0.15, y=0.15)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}" if f"{value:g}"[0] in "25" else ""))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.set_xlabel("CPU time of one recall of five hits, embedding the question included, ms (p50)")
    axes.set_ylabel("any@5")
    figure.legend(loc="outside right upper")
    return figure


def false_recall(line: Line) -> Figure:
    """What thresholds let through, and where the default one comes from."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), width_ratios=(3, 2), layout="constrained")
    usual, points = line["default_gate"], line["curve"]
    shown = {"absent_recalled": "absent: something comes back", "unrelated_recalled": "unrelated: something comes back",
             "any@5": "answerable: any@5"}  # fmt: skip
    for (name, label), colour, mark in zip(shown.items(), COLOURS, MARKS, strict=False):
        left.plot([point["threshold"] for point in points], [point[name] for point in points], color=colour, label=label)
        left.plot(usual["threshold"], usual[name], mark, color=colour)
    left.axvline(usual["threshold"], color=GREY, linestyle=":", linewidth=1)
    left.text(usual["threshold"] + 0.01, 1.02, "the default, measured", fontsize=8.5)
    left.set_xlabel("relevance that the best of five hits must reach")
    left.set_title("What a threshold lets through", pad=14)
    left.yaxis.set_major_formatter(PercentFormatter(1))
    left.legend(loc="lower left", fontsize=9)
    _chance(right, line["by_size"])
    return figure


def _chance(axes: Axes, sizes: list[Line]) -> None:
    turns = [row["turns"] for row in sizes]
    axes.fill_between(turns, [row["median"] for row in sizes], [row["p75"] for row in sizes], color=COLOURS[1], alpha=0.3,
                      linewidth=0, label="unrelated: median to 75 %")  # fmt: skip
    axes.plot(turns, [row["chance"] for row in sizes], "o-", color=GREY, label="default threshold")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.set_ylim(bottom=0)
    axes.set_xlabel("turns in the store")
    axes.set_title("Best relevance by chance", pad=14)
    axes.legend(loc="lower right", fontsize=9)


OPERATIONS = {
    "recall first": "recall, scope not in memory yet",
    "recall": "recall",
    "floor": "one bare SQL query",
    "add": "durable add",
}


def growth(line: Line) -> Figure:
    """p50 of each operation by the number of memories in the database, a hundred a scope."""
    figure, axes = plt.subplots(figsize=(7.2, 3.6))
    sizes = {int(name.split(" ")[0]): figures for name, figures in line["shared"].items()}
    for (operation, label), colour, mark in zip(OPERATIONS.items(), COLOURS, MARKS, strict=True):
        axes.plot(
            list(sizes), [figures[operation]["wall_p50_ms"] for figures in sizes.values()], color=colour, marker=mark, label=label
        )
    axes.set_xscale("log")
    axes.set_xticks(list(sizes), [f"{size:,}" for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 1.35 * max(figures["recall first"]["wall_p50_ms"] for figures in sizes.values()))  # room for the legend
    axes.set_xlabel("memories in the database, 100 in each scope")
    axes.set_ylabel("ms, wall, p50")
    axes.set_title("PostgreSQL: what a call costs as the database grows")
    axes.legend(loc="upper left", ncols=2)
    return figure


def save(figure: Figure, path: Path) -> None:
    """As SVG, the same bytes for the same figures."""
    figure.savefig(path, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    plt.close(figure)
    print(f"{path} {path.stat().st_size / 1024:.0f} KB")


def main() -> None:
    """Draw what there are figures for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--recipes", type=Path, help="JSON lines of fit_fusion.py --ablate --out")
    parser.add_argument("--quality", type=Path, help="JSON lines of python -m bench quality --json")
    parser.add_argument("--curve", type=Path, help="what python -m bench quality --curve printed")
    parser.add_argument("--speed", type=Path, help="JSON lines of python -m bench speed --store … --json")
    parser.add_argument("--out", type=Path, required=True, help="the folder for the plots")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    plt.rcParams.update(STYLE)
    if options.recipes is not None:
        save(by_recipe(read(options.recipes)), options.out / "quality_by_recipe.svg")
    if options.quality is not None:
        save(against_latency(read(options.quality)), options.out / "quality_against_latency.svg")
    if options.curve is not None:
        save(false_recall(read(options.curve)[-1]), options.out / "false_recall.svg")
    if options.speed is not None:
        save(growth(read(options.speed)[-1]), options.out / "shared_store.svg")


if __name__ == "__main__":
    main()
